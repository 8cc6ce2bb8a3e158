"""Boolean gathers: `x[mask]` in its spellings, the variables it passes through, how the mask fits what it selects."""

from __future__ import annotations

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition, dotted
from perfmod.transforms.facts.ranks import is_minus_one, positional
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import DType, Kind

# Attributes that PyTorch Geometric and DGL document as boolean.
_BOOLEAN_BY_CONVENTION = frozenset({"train_mask", "val_mask", "test_mask"})
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


def may_be_mask(file: FileFacts, index: cst.BaseExpression, of_tensor: bool = True) -> bool:
    """Whether an index is a boolean mask as far as the code shows: by its type, or by the name of an unknown one.

    Of a tensor, any unknown index may be one that is not called an index.
    """
    value = file.value(index)
    if value.dtype is not None and value.kind is Kind.TENSOR:
        return value.dtype is DType.BOOL
    if not isinstance(index, (cst.Name, cst.Attribute, cst.Subscript, cst.Call)):
        return False
    if value.kind not in (Kind.TENSOR, Kind.UNKNOWN, Kind.OBJECT):
        return False
    return is_mask_name(index) or (of_tensor and value.is_tensor and not _is_index_name(index))


def is_mask(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether an expression is a boolean tensor: by its type, or by a name that graph libraries document as a mask."""
    value = file.value(node)
    if isinstance(node, cst.Attribute) and value.dtype is None and node.attr.value in _BOOLEAN_BY_CONVENTION:
        return True
    return value.is_tensor and value.dtype is DType.BOOL


def is_mask_name(node: cst.BaseExpression) -> bool:
    """Whether a mask is called one: `pad_mask`, `data.train_mask`, `g.ndata["train_mask"]`."""
    if isinstance(node, cst.Name):
        return "mask" in node.value.lower()
    if isinstance(node, cst.Attribute):
        return "mask" in node.attr.value.lower()
    if isinstance(node, cst.Subscript):
        index = node.slice[0].slice
        key = index.value if isinstance(index, cst.Index) else None
        return isinstance(key, cst.SimpleString) and "mask" in key.value
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return is_mask_name(node.func.value)
    return False


def _is_index_name(node: cst.BaseExpression) -> bool:
    words = dotted(node).lower()
    hints = ("idx", "ind", "perm", "order", "ids", "pos")
    return any(word in words for word in hints) or len(words.rpartition(".")[2]) == 1


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


def selects_all_of(file: FileFacts, mask: cst.BaseExpression, base: cst.BaseExpression) -> bool:
    """Whether the mask has provably the shape of what it indexes.

    A mask that indexes a tensor matches its leading dimensions, so an equal number of dimensions is enough.
    """
    if file.shapes.same(mask, base):
        return True
    rank = file.value(mask).rank
    return rank is not None and rank == file.value(base).rank


def same_mask(file: FileFacts, left: cst.BaseExpression, right: cst.BaseExpression) -> bool:
    """Whether two expressions are the same mask: the same code over the same definitions, not written in between."""
    if file.source.code(left) != file.source.code(right):
        return False
    first, last = sorted((file.source.span(left), file.source.span(right)))
    for here, there in zip(names(file, left), names(file, right), strict=True):
        if file.flow.definitions(here) != file.flow.definitions(there):
            return False
        for definition in file.flow.definitions(here):
            if any(first[1] < file.source.span(use)[0] < last[0] for use in file.aliasing.mutations(definition)):
                return False
    return True


def names(file: FileFacts, node: cst.CSTNode) -> list[cst.Name]:
    """The variables that an expression reads, in order."""
    return [name for name in find_all(node, cst.Name) if file.flow.is_read(name)]


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
