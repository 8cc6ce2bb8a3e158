"""Boolean gathers: `x[mask]` in its spellings, the variables it passes through, how the mask fits what it selects."""

from __future__ import annotations

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition
from perfmod.transforms.facts.ranks import is_minus_one, positional
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.syncs._masks import may_be_mask

_CASTS = frozenset({"float", "double", "half", "long", "int"})


@frozen
class Gather:
    """`base[mask]`, possibly reshaped to rows and cast, as it reaches a consumer.

    Attributes:
        base: what is gathered from.
        selection: the code that selects: `base[mask]`, or a call of `masked_select`.
        mask: the boolean mask; for `x[m.unsqueeze(-1).expand_as(x)].view(-1, n)` it is `m`.
        by_rows: whether the selection was reshaped to rows, with or without a mask expanded over the last dimension.
        node: the expression that the consumer, or the last variable on the way, is given.
        casts: what was called on the gathered tensor, such as `.long()`.
        statements: assignments on the way whose variables nothing else reads, innermost first; the last holds `node`.
    """

    base: cst.BaseExpression
    selection: cst.BaseExpression
    mask: cst.BaseExpression
    by_rows: bool
    node: cst.BaseExpression
    casts: str
    statements: tuple[cst.Assign, ...]


@frozen
class Shared:
    """A gather that other code reads too, so that its shape is needed."""

    name: str
    line: int


def gather(file: FileFacts, node: cst.BaseExpression) -> Gather | Shared | None:
    """The gather behind an argument, followed through variables; `Shared` where such a variable is read elsewhere."""
    statements: list[cst.Assign] = []
    outermost: cst.BaseExpression | None = None
    casts = ""
    is_reshaped = False
    current = node
    while True:
        if isinstance(current, cst.Name):
            definition = sole_definition(file, current)
            if definition is None or definition.value is None:
                return None
            assignment = file.tree.statement(definition.node)
            if not isinstance(assignment, cst.Assign) or len(assignment.targets) > 1:
                return None
            others = [use for use in file.flow.uses(definition) if use is not current]
            if others and _gathers_below(file, definition.value):
                return Shared(current.value, file.source.line(others[0]))
            if others:
                return None
            statements.append(assignment)
            outermost = outermost or definition.value
            current = definition.value
            continue
        func = current.func if isinstance(current, cst.Call) else None
        if isinstance(current, cst.Call) and isinstance(func, cst.Attribute):
            method, sizes = func.attr.value, positional(current.args)
            if method in _CASTS and not current.args:
                casts = f".{method}()" + casts
                current = func.value
                continue
            if method in ("view", "reshape") and len(sizes) == 2 and is_minus_one(sizes[0]):
                is_reshaped = True
                current = func.value
                continue
        break
    selected = _selection(file, current)
    if selected is None:
        return None
    base, mask = selected
    inner = _expanded(mask)
    if inner is not None and not is_reshaped:
        return None
    return Gather(
        base, current, inner or mask, inner is not None, outermost or node, casts, tuple(reversed(statements))
    )


def _gathers_below(file: FileFacts, node: cst.BaseExpression) -> bool:
    found = gather(file, node)
    return isinstance(found, (Gather, Shared))


def sole_definition(file: FileFacts, name: cst.Name) -> Definition | None:
    """The one plain assignment that a name can come from, in its own scope."""
    definitions = file.flow.definitions(name)
    if len(definitions) != 1 or definitions[0].binding is not Binding.ASSIGNED or definitions[0].path:
        return None
    return definitions[0] if definitions[0].scope is file.tree.scope(name) else None


def resolved(file: FileFacts, node: cst.BaseExpression) -> cst.BaseExpression:
    """The expression behind a variable that is assigned once; other expressions as they are."""
    while isinstance(node, cst.Name):
        definition = sole_definition(file, node)
        if definition is None or definition.value is None:
            break
        node = definition.value
    return node


def _selection(file: FileFacts, node: cst.BaseExpression) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """`(x, m)` of `x[m]`, `x.masked_select(m)` and `torch.masked_select(x, m)` where `m` may be a boolean mask."""
    if isinstance(node, cst.Subscript):
        index, base = sole_index(node), file.value(node.value)
        is_tensor, is_unknown = base.is_tensor, base.kind is Kind.UNKNOWN
        if index is not None and (is_tensor or is_unknown) and may_be_mask(file, index, is_tensor):
            return node.value, index
        return None
    if isinstance(node, cst.Call):
        name = file.qualified(node)
        if name == "torch.masked_select" and len(node.args) == 2:
            return node.args[0].value, node.args[1].value
        if (
            name is None
            and isinstance(node.func, cst.Attribute)
            and node.func.attr.value == "masked_select"
            and node.args
        ):
            return node.func.value, node.args[0].value
    return None


def sole_index(node: cst.Subscript) -> cst.BaseExpression | None:
    """`i` of `x[i]`; `None` for slices and several indices."""
    index = node.slice[0].slice
    return index.value if len(node.slice) == 1 and isinstance(index, cst.Index) else None


def _expanded(mask: cst.BaseExpression) -> cst.BaseExpression | None:
    """`m` of `m.unsqueeze(-1).expand(-1, ..., n)`, `m.unsqueeze(-1).expand_as(x)` and `m[..., None].expand_as(x)`."""
    if not (isinstance(mask, cst.Call) and isinstance(mask.func, cst.Attribute)):
        return None
    method, inner = mask.func.attr.value, mask.func.value
    if method == "expand":
        sizes = positional(mask.args)
        if not all(is_minus_one(size) for size in sizes[:-1]):
            return None
    elif method != "expand_as":
        return None
    if isinstance(inner, cst.Call) and isinstance(inner.func, cst.Attribute) and inner.func.attr.value == "unsqueeze":
        dim = argument(inner, "dim", 0)
        return inner.func.value if dim is not None and is_minus_one(dim) else None
    return None


def postfix(file: FileFacts, node: cst.BaseExpression) -> str:
    """The code of an expression, in parentheses where something behind it would bind to its last operand only."""
    code = file.source.code(node)
    return code if isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) else f"({code})"


def is_selection_read(file: FileFacts, selection: cst.Subscript) -> bool:
    """Whether a selection is read, and not by a masked assignment, which is another rule's."""
    if isinstance(file.tree.parent(selection), (cst.AssignTarget, cst.AugAssign, cst.Del)):
        return False
    statement = file.tree.statement(selection)
    targets: list[cst.BaseExpression] = []
    if isinstance(statement, cst.Assign):
        targets = [target.target for target in statement.targets]
    elif isinstance(statement, cst.AugAssign):
        targets = [statement.target]
    return not any(isinstance(target, cst.Subscript) for target in targets)
