"""Boolean gathers: `x[mask]` in its spellings, and the variables it passes through on the way to a consumer."""

from __future__ import annotations

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition
from perfmod.transforms.facts.masks import is_unchanged, may_be_mask
from perfmod.transforms.facts.ranks import is_minus_one, positional
from perfmod.transforms.facts.value import Device, Kind

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
class Kept:
    """A gather that has to stay: the code that selects, and the reason."""

    selection: cst.BaseExpression
    reason: str


def gather(file: FileFacts, node: cst.BaseExpression) -> Gather | Kept | None:
    """The gather behind an argument, followed through variables; `Kept` where it is one that cannot be taken apart."""
    statements: list[cst.Assign] = []
    outermost: cst.BaseExpression | None = None
    casts = ""
    is_reshaped = False
    current = node
    while True:
        if isinstance(current, cst.Name):
            definition = sole_definition(file, current)
            value = definition.part if definition is not None else None
            assignment = assignment_of(file, definition) if definition is not None else None
            if definition is None or value is None or assignment is None:
                return None
            others = [use for use in file.flow.uses(definition) if use is not current]
            # Of a statement that assigns several names none can go: it has to be the last one of the way.
            is_shared = bool(statements and definition.path)
            if others or is_shared or (is_reshaped and not statements):
                inner_gather = gather(file, value)
                if inner_gather is None:
                    return None
                used = "is reshaped afterwards"
                if others or is_shared:
                    used = f"is used again on line {file.line(others[0] if others else statements[-1])}"
                return Kept(inner_gather.selection, f"`{current.value}`, the selected elements, {used}")
            statements.append(assignment)
            outermost = outermost or value
            current = value
            continue
        func = current.func if isinstance(current, cst.Call) else None
        if isinstance(current, cst.Call) and isinstance(func, cst.Attribute):
            method, sizes = func.attr.value, positional(current.args)
            if method in _CASTS and not current.args:
                casts = f".{method}()" + casts
                current = func.value
                continue
            if method in ("view", "reshape") and len(sizes) == len(current.args) == 2 and is_minus_one(sizes[0]):
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
    if len(statements) > 1 and not _can_move(file, current, statements):
        return Kept(current, "the selection would have to move past other code, which could change its result")
    return Gather(
        base, current, inner or mask, inner is not None, outermost or node, casts, tuple(reversed(statements))
    )


def assignment_of(file: FileFacts, definition: Definition) -> cst.Assign | None:
    """The statement `name = ...` or `name, other = ..., ...` that makes a definition."""
    target = file.tree.parent(definition.node)
    if isinstance(target, cst.Element) and len(definition.path) == 1:
        target = file.tree.parent(file.tree.parent(target) or target)
    statement = file.tree.parent(target) if isinstance(target, cst.AssignTarget) else None
    return statement if isinstance(statement, cst.Assign) and len(statement.targets) == 1 else None


def _can_move(file: FileFacts, selection: cst.BaseExpression, statements: list[cst.Assign]) -> bool:
    """Whether a selection may be made in the last statement of its way (`statements` begin with that) instead."""
    blocks = {file.tree.parent(file.tree.line(statement)) for statement in statements}
    return len(blocks) == 1 and is_unchanged(file, selection, statements[0].value, besides=statements[1:])


def sole_definition(file: FileFacts, name: cst.Name) -> Definition | None:
    """The one plain assignment that a name can come from, in its own scope and in the same round of all loops."""
    definitions = file.flow.definitions(name)
    if len(definitions) != 1 or definitions[0].binding is not Binding.ASSIGNED or definitions[0].part is None:
        return None
    if file.flow.from_earlier_rounds(name):
        return None
    return definitions[0] if definitions[0].scope is file.tree.scope(name) else None


def _selection(file: FileFacts, node: cst.BaseExpression) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """`(x, m)` of `x[m]`, `x.masked_select(m)` and `torch.masked_select(x, m)` where `m` may be a boolean mask."""
    base: cst.BaseExpression | None = None
    mask: cst.BaseExpression | None = None
    if isinstance(node, cst.Subscript):
        base, mask = node.value, sole_index(node)
    elif isinstance(node, cst.Call) and file.qualified(node) == "torch.masked_select":
        base, mask = argument(node, "input", 0), argument(node, "mask", 1)
    elif (
        isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "masked_select"
    ):
        base, mask = node.func.value, argument(node, "mask", 0)
    if base is None or mask is None:
        return None
    value = file.value(base)
    if value.kind not in (Kind.TENSOR, Kind.UNKNOWN) or value.device is Device.CPU:
        return None
    is_mask = not isinstance(node, cst.Subscript) or may_be_mask(file, mask, value.is_tensor)
    return (base, mask) if is_mask else None


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
    code = file.code(node)
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
