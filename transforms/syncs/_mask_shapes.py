"""How the shape of a mask relates to that of the tensor it indexes, as far as the code shows."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts import torch_api
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding
from perfmod.transforms.facts.ranks import is_minus_one, positional

_CASTS = torch_api.CASTS | {"type_as"}


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


def shape_objection(file: FileFacts, condition: cst.BaseExpression, target: cst.BaseExpression) -> str:
    """Why a condition visibly has not the shape of `target`'s leading dimensions; empty where it may have."""
    ranks = file.value(condition).rank, file.value(target).rank
    if ranks[0] is not None and ranks[1] is not None and ranks[0] > ranks[1]:
        return f"the condition has {ranks[0]} dimensions and the tensor it indexes {ranks[1]}"
    for part in shaping_parts(file, condition, set()):
        operation = _operation(file, part) if isinstance(part, cst.Call) else None
        cut = part.value if isinstance(part, cst.Subscript) else operation[1] if operation is not None else None
        if cut is None or file.shapes.same(part, target) or not file.shapes.same(cut, target):
            continue
        is_last = operation is not None and operation[0] in torch_api.REDUCTIONS
        is_last = is_last and [is_minus_one(arg.value) for arg in (operation or ("", part, []))[2]] == [True]
        if not is_last and not (isinstance(part, cst.Subscript) and _drops_last(part)):
            code = " ".join(file.code(part).split())
            return f"the condition has the shape of `{code}`, which is not known to be that of the tensor it indexes"
    return ""


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
