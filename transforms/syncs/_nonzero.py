"""Indices made by `nonzero`, one-argument `where` and `argwhere`: spellings, variables, assignments."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import argument, has_star
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition, Read, target_names
from perfmod.transforms.facts.ranks import is_minus_one
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.syncs._mask_shapes import is_everything


class Form(enum.Enum):
    """What an index holds of the places where its condition is true."""

    COORDINATES = "a tuple with one tensor per dimension"
    FIRST = "the first coordinates of the elements"
    COLUMN = "the first column of the coordinates"
    FLAT = "coordinates squeezed into one dimension"
    ROWS = "one row of coordinates per element"


@frozen
class NonzeroIndex:
    """An expression such as `torch.nonzero(c, as_tuple=True)` or `c.nonzero().squeeze(1)`.

    Attributes:
        node: the whole expression.
        condition: `c`.
        form: what it evaluates to; all are the same for a condition of one dimension, in other shapes.
    """

    node: cst.BaseExpression
    condition: cst.BaseExpression
    form: Form


def nonzero_index(file: FileFacts, call: cst.Call) -> NonzeroIndex | None:
    """The index that a call makes together with what is done to it at once; `None` for other calls."""
    found = _condition(file, call)
    if found is None:
        return None
    condition, as_tuple = found
    node: cst.BaseExpression = call
    parent = file.tree.parent(node)
    if as_tuple:
        if isinstance(parent, cst.Subscript) and parent.value is node and _is_integer(parent, "0"):
            return NonzeroIndex(parent, condition, Form.FIRST)
        return NonzeroIndex(node, condition, Form.COORDINATES)
    if isinstance(parent, cst.Subscript) and parent.value is node and _is_first_column(parent):
        return NonzeroIndex(parent, condition, Form.COLUMN)
    if isinstance(parent, cst.Attribute) and parent.value is node:
        outer = file.tree.parent(parent)
        if isinstance(outer, cst.Call) and outer.func is parent and _squeezes(outer, parent.attr.value):
            return NonzeroIndex(outer, condition, Form.FLAT)
        return None
    return NonzeroIndex(node, condition, Form.ROWS)


def _condition(file: FileFacts, call: cst.Call) -> tuple[cst.BaseExpression, bool] | None:
    """The condition of a call of nonzero and its relatives, and whether the result is a tuple."""
    name = file.qualified(call)
    if has_star(call) or argument(call, "out") is not None:
        return None
    if name in ("torch.nonzero", "torch.argwhere", "torch.where"):
        short, given = name.removeprefix("torch."), list(call.args)
        condition = argument(call, "condition" if short == "where" else "input", 0)
        given = [arg for arg in given if arg.value is not condition]
    elif name is None and isinstance(call.func, cst.Attribute) and call.func.attr.value in ("nonzero", "argwhere"):
        short, given, condition = call.func.attr.value, list(call.args), call.func.value
        value = file.value(condition)
        if not value.is_tensor and not (value.kind is Kind.UNKNOWN and argument(call, "as_tuple") is not None):
            return None
    else:
        return None
    if condition is None:
        return None
    if not given:
        return condition, short == "where"
    flag = argument(call, "as_tuple")
    if short == "nonzero" and len(given) == 1 and isinstance(flag, cst.Name) and flag.value in ("True", "False"):
        return condition, flag.value == "True"
    return None


def _is_integer(node: cst.Subscript, code: str) -> bool:
    if len(node.slice) != 1 or not isinstance(node.slice[0].slice, cst.Index):
        return False
    index = node.slice[0].slice.value
    return isinstance(index, cst.Integer) and index.value == code


def _is_first_column(node: cst.Subscript) -> bool:
    """Whether a subscript is `[:, 0]`."""
    if len(node.slice) != 2:
        return False
    rows, column = (element.slice for element in node.slice)
    first = isinstance(column, cst.Index) and isinstance(column.value, cst.Integer) and column.value.value == "0"
    return first and is_everything(rows)


def _squeezes(call: cst.Call, method: str) -> bool:
    """Whether a method makes the one column of a condition of one dimension a vector."""
    dim = argument(call, "dim", 0)
    if method in ("flatten", "ravel"):
        return not call.args
    if method in ("view", "reshape"):
        return len(call.args) == 1 and dim is not None and is_minus_one(dim)
    if method == "squeeze":
        return dim is None or is_minus_one(dim) or (isinstance(dim, cst.Integer) and dim.value == "1")
    return False


@frozen
class Write:
    """An assignment `target = ...` or `target op= ...` to the places of an index."""

    statement: cst.Assign | cst.AugAssign
    target: cst.Subscript


@frozen
class Bound:
    """The variables that an index is bound to.

    Attributes:
        definitions: one, or one per dimension where the tuple is unpacked.
        statement: the assignment.
        target: what is assigned to.
        uses: every read of them, in order of the file.
    """

    definitions: tuple[Definition, ...]
    statement: cst.Assign
    target: cst.BaseAssignTargetExpression
    uses: tuple[Read, ...]

    @property
    def is_unpacked(self) -> bool:
        """Whether there is one variable per dimension."""
        return bool(self.definitions[0].path)


def bound(file: FileFacts, index: NonzeroIndex) -> Bound | None:
    """The variables behind `i = <index>` and `i, j = <index>`; `None` for an index that stands elsewhere."""
    assignment = file.tree.parent(index.node)
    if not isinstance(assignment, cst.Assign) or len(assignment.targets) != 1:
        return None
    target = assignment.targets[0].target
    if isinstance(target, (cst.Tuple, cst.List)):
        names = [element.value for element in target.elements if isinstance(element, cst.Element)]
        if index.form is not Form.COORDINATES or len(names) != len(target.elements):
            return None
    else:
        names = [target]
    scope = file.tree.scope(assignment)
    found = [d for name in target_names(target) for d in file.flow.bound(scope, name.value) if d.node is name]
    if not found or len(found) != len(names) or isinstance(scope, cst.ClassDef):
        return None
    uses = {use: None for definition in found for use in file.flow.uses(definition)}
    return Bound(tuple(found), assignment, target, tuple(sorted(uses, key=file.tree.place)))


def writes(file: FileFacts, nodes: Iterable[cst.BaseExpression]) -> list[Write]:
    """The assignments to subscripts that have one of `nodes` as an index."""
    found: dict[cst.Subscript, Write] = {}
    for node in nodes:
        index = file.tree.parent(node)
        element = file.tree.parent(index) if isinstance(index, cst.Index) else None
        subscript = file.tree.parent(element) if isinstance(element, cst.SubscriptElement) else None
        if not isinstance(subscript, cst.Subscript) or isinstance(file.tree.parent(subscript), cst.Del):
            continue
        around = file.tree.parent(subscript)
        statement = file.tree.parent(around) if isinstance(around, cst.AssignTarget) else around
        if isinstance(statement, (cst.Assign, cst.AugAssign)) and statement.value is not subscript:
            found[subscript] = Write(statement, subscript)
    return list(found.values())


def is_whole(node: cst.Subscript, names: Sequence[str]) -> bool:
    """Whether a subscript has these variables, in this order, and nothing else as its index."""
    values = [element.slice.value for element in node.slice if isinstance(element.slice, cst.Index)]
    found = [value.value for value in values if isinstance(value, cst.Name)]
    return len(found) == len(node.slice) and found == list(names)
