"""Tensors in the size, of the type and on the device of another: `torch.zeros_like(x)`."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.devices import is_beside
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.layout import SHOW_LAYOUT, is_row_by_row
from perfmod.transforms.facts.value import DType, Kind
from perfmod.transforms.feeding._births import Birth, Target

_LIKE = frozenset({"zeros", "ones", "full", "empty"})
_FLOATS = frozenset({"torch.zeros", "torch.ones", "torch.rand", "torch.randn"})


def like(file: FileFacts, move: cst.Call, birth: Birth, where: Target) -> str:
    """`torch.zeros_like(x)` for a `torch.zeros(x.shape)` that goes where `x` lies; empty where that is another tensor.

    The type is the same where `dtype=x.dtype` says so, or where both are of the type that the files use for floats.
    """
    assert isinstance(move.func, cst.Attribute)
    made = birth.call
    given = argument(made, "size", 0)
    owner = _owner(file, given) if given is not None else None
    if birth.name not in _LIKE or birth.is_random or birth.legacy_dtype or owner is None or made.lpar:
        return ""
    if move.func.value is not made or not is_beside(file, owner, where.device):
        return ""
    if not is_row_by_row(file, owner) or _asks_for_layout(file, move):
        return ""
    filled = argument(made, "fill_value", 1) if birth.name == "full" else None
    known = [given, filled, argument(made, "dtype")]
    if any(arg.star or arg.value not in known for arg in made.args) or (filled is None) is (birth.name == "full"):
        return ""
    dtype = where.dtype if where.dtype is not None else argument(made, "dtype")
    if dtype is not None and file.code(dtype) != f"{file.code(owner)}.dtype":
        return ""
    is_float = filled is None or file.value(filled).dtype is DType.FLOATING
    is_same = file.value(owner).dtype is DType.FLOATING and file.values.uses_one_float()
    if dtype is None and not (is_float and (is_same or _is_of_default_type(file, owner))):
        return ""
    fill = f", {file.code(filled)}" if filled is not None else ""
    return f"{file.code(made.func)}_like({file.code(owner)}{fill})"


def _owner(file: FileFacts, size: cst.BaseExpression) -> cst.BaseExpression | None:
    """The tensor whose size an expression is: `x` of `x.shape`, `x.size()`, or `len(x)` where it has one dimension."""
    owner: cst.BaseExpression | None = None
    if isinstance(size, cst.Attribute) and size.attr.value == "shape":
        owner = size.value
    elif isinstance(size, cst.Call) and file.qualified(size) == "builtins.len" and len(size.args) == 1:
        owner = size.args[0].value
        owner = owner if file.value(owner).rank == 1 else None
    elif isinstance(size, cst.Call) and isinstance(size.func, cst.Attribute) and size.func.attr.value == "size":
        owner = size.func.value if not size.args else None
    return owner if owner is not None and dotted(owner) and file.value(owner).kind is Kind.TENSOR else None


def _is_of_default_type(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether a tensor is made of `torch.ones(n)` and the like, which have the type that other floats have by default,
    and of numbers: `0.5 * torch.ones(n).to(device)`.
    """
    if isinstance(node, cst.Name):
        parts = file.values.assigned_to(node)
        return bool(parts) and all(not isinstance(each, cst.Name) and _is_of_default_type(file, each) for each in parts)
    if isinstance(node, cst.BinaryOperation):
        sides = (node.left, node.right)
        return any(_is_of_default_type(file, side) for side in sides) and all(
            file.value(side).kind is Kind.NUMBER or _is_of_default_type(file, side) for side in sides
        )
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    if node.func.attr.value in ("to", "cuda") and file.qualified(node) is None:
        is_move = not any(file.values.placement.is_dtype(arg.value) for arg in node.args) and len(node.args) <= 1
        moved = [file.value(arg.value).kind is Kind.TENSOR for arg in node.args]
        return is_move and not any(moved) and _is_of_default_type(file, node.func.value)
    return file.qualified(node) in _FLOATS and argument(node, "dtype") is None


def _asks_for_layout(file: FileFacts, move: cst.Call) -> bool:
    uses = (file.tree.parent(use.node) for use in file.handing.uses(move))
    return any(isinstance(each, cst.Attribute) and each.attr.value in SHOW_LAYOUT for each in uses)
