"""How the shape of a mask relates to that of the tensor it indexes, as far as the code shows."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts import torch_api
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Read
from perfmod.transforms.facts.ranks import has_dim, is_minus_one, keyword, positional
from perfmod.transforms.facts.value import Kind

_CASTS = torch_api.CASTS | {"type_as"}
_RESHAPES = frozenset(
    {"view", "reshape", "flatten", "ravel", "permute", "transpose", "t", "unsqueeze", "squeeze", "expand"}
)
_SELECTS = frozenset({"masked_select", "index_select", "gather", "take", "take_along_dim", "unique", "topk", "narrow"})


def covers(file: FileFacts, mask: cst.BaseExpression, target: cst.BaseExpression) -> bool:
    """Whether a mask that indexes `target` has its shape, so that it selects single elements.

    Such a mask matches the leading dimensions. It has all of them where both have equally many, or where it
    was computed element by element from something of the target's shape, because a result never has fewer
    dimensions than an operand.
    """
    rank = file.value(mask).rank
    if rank is not None and rank == file.value(target).rank:
        return True
    parts = shaping_parts(file, mask, set())
    return file.shapes.same(mask, target) or any(file.shapes.same(part, target) for part in parts)


def least_rank(file: FileFacts, node: cst.BaseExpression) -> int:
    """How many dimensions an element-wise expression has at least, by the uses of its variables."""
    names = [part for part in shaping_parts(file, node, set()) if isinstance(part, cst.Name)]
    uses = [use for name in names for d in file.flow.definitions(name) for use in file.flow.uses(d)]
    return max((_needed_rank(file, use) for use in uses), default=0)


def _needed_rank(file: FileFacts, use: Read) -> int:
    """The number of dimensions that `x[:, 0]`, `x.max(dim=1)`, `x.shape[1]` or `x.size(1)` needs."""
    around = file.tree.parent(use)
    if isinstance(around, cst.Subscript) and around.value is use:
        return sum(isinstance(e.slice, cst.Slice) or _number(e.slice) is not None for e in around.slice)
    if isinstance(around, cst.Attribute):
        outer = file.tree.parent(around)
        if isinstance(outer, cst.Subscript) and outer.value is around and around.attr.value == "shape":
            return 1 + (_number(outer.slice[0].slice) or 0)
        if isinstance(outer, cst.Call) and outer.func is around:
            given = positional(outer.args[:1]) if around.attr.value in torch_api.REDUCTIONS | {"size"} else []
            return _dimensions_of(keyword(outer.args, "dim", "axis") or next(iter(given), None))
    call = file.tree.parent(around) if isinstance(around, cst.Arg) else None
    if isinstance(call, cst.Call) and call.args[0] is around:
        return _dimensions_of(keyword(call.args, "dim", "axis"))
    return 0


def _number(part: cst.CSTNode) -> int | None:
    node = part.value if isinstance(part, cst.Index) else part
    return node.evaluated_value if isinstance(node, cst.Integer) else None


def _dimensions_of(dim: cst.CSTNode | None) -> int:
    """The least number of dimensions of what has a dimension `dim`."""
    number = _number(dim) if dim is not None else None
    return 1 + number if number is not None else 0


def shape_objection(file: FileFacts, condition: cst.BaseExpression, target: cst.BaseExpression) -> str | None:
    """Why a condition visibly has not the shape of `target`'s leading dimensions; `None` where it may have.

    An index only has to stay inside of its target; a mask has to match it.
    """
    if file.shapes.same(condition, target):
        return None
    ranks = file.value(condition).rank, file.value(target).rank
    if ranks[0] is not None and ranks[1] is not None and ranks[0] > ranks[1]:
        return f"the condition has {ranks[0]} dimensions and what it indexes {ranks[1]}"
    for part in shaping_parts(file, condition, set()):
        if not file.shapes.same(part, target) and _is_reshaped(file, part, target):
            code = " ".join(file.code(part).split())
            return f"the condition has the shape of `{code}`, which is not shown to be that of what it indexes"
    return None


def shaping_parts(file: FileFacts, node: cst.BaseExpression, seen: set[cst.CSTNode]) -> list[cst.BaseExpression]:
    """The expressions that an element-wise expression takes its shape from."""
    if node in seen:
        return []
    seen.add(node)
    inner: list[cst.BaseExpression] = []
    if isinstance(node, cst.Comparison):
        inner = [node.left, *(target.comparator for target in node.comparisons)]
    elif isinstance(node, cst.UnaryOperation):
        inner = [node.expression]
    elif isinstance(node, cst.BinaryOperation):
        inner = [node.left, node.right]
    elif isinstance(node, cst.Name):
        definitions = file.flow.definitions(node)
        if len(definitions) == 1 and definitions[0].binding is Binding.ASSIGNED and not definitions[0].path:
            inner = [definitions[0].value] if definitions[0].value is not None else []
    elif isinstance(node, cst.Call):
        operation = _operation(file, node)
        if operation is not None and operation[0] in torch_api.ELEMENTWISE:
            others = [] if operation[0] in _CASTS else positional(operation[2])
            inner = [operation[1], *(other for other in others if file.value(other).is_tensor)]
    return [part for below in inner for part in shaping_parts(file, below, seen)] if inner else [node]


def _is_reshaped(file: FileFacts, part: cst.BaseExpression, target: cst.BaseExpression) -> bool:
    """Whether `part` is cut out of a tensor, or made of `target` without keeping its leading dimensions."""
    if isinstance(part, cst.Subscript):
        first = part.slice[0].slice
        if isinstance(first, cst.Slice) and not is_everything(first):
            return True
        if isinstance(first, cst.Index) and file.value(first.value).kind in (
            Kind.TENSOR,
            Kind.ARRAY,
            Kind.SEQUENCE,
        ):
            return True
        return file.shapes.same(part.value, target) and not _drops_last(part)
    operation = _operation(file, part) if isinstance(part, cst.Call) else None
    if operation is None:
        return False
    short, subject, rest = operation
    if short in _SELECTS:
        return True
    if not file.shapes.same(subject, target):
        return False
    if short in torch_api.REDUCTIONS:
        return has_dim(rest) and not _reduces_last(rest, file.value(subject).rank)
    return short in _RESHAPES


def _operation(file: FileFacts, call: cst.Call) -> tuple[str, cst.BaseExpression, list[cst.Arg]] | None:
    """Short name, subject and other arguments of `torch.short(subject, ...)` or `subject.short(...)`."""
    name = file.qualified(call)
    if name is not None:
        short = name.removeprefix("torch.nn.functional.").removeprefix("torch.")
        return (short, call.args[0].value, list(call.args[1:])) if name.startswith("torch.") and call.args else None
    if isinstance(call.func, cst.Attribute):
        return call.func.attr.value, call.func.value, list(call.args)
    return None


def is_everything(part: cst.BaseSlice) -> bool:
    """Whether part of an index is `:` or `...`."""
    if isinstance(part, cst.Slice):
        return part.lower is None and part.upper is None and part.step is None
    return isinstance(part, cst.Index) and isinstance(part.value, cst.Ellipsis)


def _drops_last(node: cst.Subscript) -> bool:
    """Whether an index such as `[:, 0]` or `[..., 1, 2]` only takes one element along the last dimensions."""
    parts = [element.slice for element in node.slice]
    kept = [part for part in parts if is_everything(part)]
    numbers = parts[len(kept) :]
    whole = bool(kept) and all(is_everything(part) for part in parts[: len(kept)])
    return whole and all(
        isinstance(part, cst.Index) and isinstance(part.value, (cst.Integer, cst.UnaryOperation)) for part in numbers
    )


def _reduces_last(arguments: list[cst.Arg], rank: int | None) -> bool:
    """Whether a reduction removes the last dimension; where the rank is unknown, that of a matrix."""
    given = positional(arguments)
    dim = keyword(arguments, "dim", "axis") or (given[0] if given else None)
    if dim is None or len(given) > 1 or keyword(arguments, "keepdim") is not None:
        return False
    if is_minus_one(dim):
        return True
    return isinstance(dim, cst.Integer) and dim.value == str((rank or 2) - 1)
