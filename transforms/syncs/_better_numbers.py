"""Where a number of Python does what a tensor that is filled with it does, and is the better line."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.constants import Constant
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.old_torch import in_variable
from perfmod.transforms.facts.value import DType
from perfmod.transforms.syncs._filling import constant_of, is_written_into
from perfmod.transforms.syncs._made_on_device import Made

_BY_MATH = frozenset(f"torch.{name}" for name in ("log", "log2", "log10", "exp", "sqrt", "sin", "cos", "tanh"))
_DIVIDES = frozenset({"torch.div", "torch.divide", "torch.true_divide"})


def better_line(file: FileFacts, made: Made, number: cst.BaseExpression | None) -> str:
    """What is better written than a tensor that is filled with a number; empty where nothing is."""
    if in_variable(file, made.node):
        return "`Variable` does nothing since torch 0.4: remove it first"
    if number is None:
        return ""
    if _is_repeated(file, made.whole):
        return "the list holds one tensor many times: write `[None] * n` if every element is assigned later"
    is_assigned = is_written_into(file, made, number)
    uses = [use.node for use in file.handing.uses(made.whole)]
    if (
        (uses and all(use is not made.whole and _takes_number(file, use) for use in uses))
        or (_is_under_mask(file, made.whole) and not is_assigned)
        or _is_computed_with(file, made.whole, constant_of(file, number))
    ):
        return f"`{file.code(number)}` needs no tensor here: use the Python number, or a function of `math`"
    if _needs_type(file, made, number) and not is_assigned:
        return "a filled tensor would have to spell out its type, and the copy of one number costs little"
    return ""


def _needs_type(file: FileFacts, made: Made, number: cst.BaseExpression) -> bool:
    """Whether a single number makes a tensor of integers or of bool, which `torch.zeros` does not by itself."""
    several = isinstance(made.data, cst.BinaryOperation)
    is_single = not several and (not isinstance(made.data, (cst.List, cst.Tuple)) or len(made.data.elements) == 1)
    constant = constant_of(file, number)
    is_integer = isinstance(constant, int) and constant in (0, 1)  # bool, too
    return is_single and is_integer and made.dtype is None and made.like is None and not made.is_float


def _is_repeated(file: FileFacts, made: cst.BaseExpression) -> bool:
    """Whether a tensor stands in `[tensor] * n`."""
    element = file.tree.parent(made)
    parent = file.tree.parent(element) if isinstance(element, cst.Element) else None
    around = file.tree.parent(parent) if isinstance(parent, cst.List) else None
    return isinstance(around, cst.BinaryOperation) and isinstance(around.operator, cst.Multiply)


def _is_under_mask(file: FileFacts, made: cst.BaseExpression) -> bool:
    """Whether a tensor is assigned to `x[mask]`."""
    parent = file.tree.parent(made)
    target = parent.targets[0].target if isinstance(parent, cst.Assign) else None
    index = target.slice[0].slice if isinstance(target, cst.Subscript) and len(target.slice) == 1 else None
    return isinstance(index, cst.Index) and (
        isinstance(index.value, cst.Comparison) or file.value(index.value).dtype is DType.BOOL
    )


def _takes_number(file: FileFacts, use: cst.BaseExpression) -> bool:
    """Whether something is divided by a tensor, or a function that `math` has as well is applied to it."""
    parent = file.tree.parent(use)
    if isinstance(parent, cst.BinaryOperation):
        return isinstance(parent.operator, cst.Divide) and parent.right is use
    call = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
    if not isinstance(call, cst.Call):
        return False
    name = file.qualified(call) or ""
    is_method = isinstance(call.func, cst.Attribute) and call.func.attr.value in ("div", "div_", "true_divide")
    divides = (name in _DIVIDES and len(call.args) > 1 and call.args[1] is parent) or (not name and is_method)
    return divides or (name in _BY_MATH and len(call.args) == 1)


def _is_computed_with(file: FileFacts, made: cst.BaseExpression, constant: Constant | None) -> bool:
    """Whether a tensor stands in arithmetic or a plain operation, other than in `loss + torch.tensor(0.0)`."""
    parent = file.tree.parent(made)
    around = file.tree.parent(parent) if isinstance(parent, cst.Arg) else parent
    if isinstance(around, cst.BinaryOperation):
        return not (isinstance(around.operator, cst.Add) and constant == 0)
    is_plain = isinstance(around, cst.Call) and _computes(file, around)
    return is_plain or isinstance(around, (cst.Comparison, cst.UnaryOperation))


def _computes(file: FileFacts, call: cst.Call) -> bool:
    """Whether a call is a plain operation, `torch.max(x, y)` or `x.max(y)`, and no layer, loss or collective."""
    package, _, _ = (file.qualified(call) or "").rpartition(".")
    is_method = isinstance(call.func, cst.Attribute) and call.func.attr.value != "backward"
    return package == "torch" or (
        is_method and isinstance(call.func, cst.Attribute) and file.value(call.func.value).is_tensor
    )
