"""Conditions that are tensors of the device: whether a test is one, and how it is written as a tensor
expression.
"""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import walk
from perfmod.transforms.facts.value import Device, DType, Kind

_LONGEST_QUOTE = 60
_TIGHT = (cst.Name, cst.Attribute, cst.Subscript, cst.Call, cst.Integer, cst.Float)
# Functions that give a value for every tensor, empty ones and those of any type included.
_TOTAL = frozenset(
    {
        "isnan",
        "isinf",
        "isfinite",
        "any",
        "all",
        "abs",
        "sum",
        "numel",
        "count_nonzero",
        "logical_not",
        "detach",
    }
)


class CannotSelect(Exception):
    """A branch that cannot become `torch.where`, with the reason in one line."""


def tests_device(file: FileFacts, test: cst.BaseExpression) -> bool:
    """Whether the truth of `test` is read off a tensor that is not known to live on the CPU."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return tests_device(file, test.expression)
    if isinstance(test, cst.BooleanOperation):
        return tests_device(file, test.left) or tests_device(file, test.right)
    value = file.value(_read_back(file, test) or test)
    return value.is_tensor and value.device is not Device.CPU


def condition(file: FileFacts, test: cst.BaseExpression) -> str:
    """The code of `test` as a boolean tensor without dimensions.

    `not` becomes `~`, never another comparison, which NaN would answer differently; `and` and `or` become
    `&` and `|` where evaluating both sides cannot raise.

    Raises:
        CannotSelect: it is not shown to be boolean, or without dimensions, or the host decides a part of it.
    """
    code, quoted = file.code(test), shown(file, test)
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return "~" + _operand(file, test.expression)
    if isinstance(test, cst.BooleanOperation):
        if not is_total(file, test.right):
            raise CannotSelect(f"{shown(file, test.right)} is evaluated only if the condition before it allows it")
        operator = "&" if isinstance(test.operator, cst.And) else "|"
        return f"{_operand(file, test.left)} {operator} {_operand(file, test.right)}"
    read = _read_back(file, test)
    if read is not None:
        return condition(file, read)
    value = file.value(test)
    if not value.is_tensor or value.device is Device.CPU:
        raise CannotSelect(f"{quoted} is evaluated in Python")
    if value.dtype is not DType.BOOL:
        raise CannotSelect(f"{quoted} is not known to be a boolean tensor")
    if value.rank != 0:
        raise CannotSelect(f"{quoted} may have dimensions, and `torch.where` would broadcast it")
    if any(isinstance(node, (cst.NamedExpr, cst.Await, cst.Yield)) for node in walk(test)):
        raise CannotSelect(f"{quoted} does more than compute a condition")
    return code


def is_total(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether evaluating a condition has no effect and raises for no tensor."""
    for part in walk(node):
        if isinstance(part, (cst.Subscript, cst.NamedExpr, cst.Await, cst.Yield, cst.Lambda, cst.BaseComp)):
            return False
        if isinstance(part, cst.Call):
            name = file.qualified(part)
            if name is None and isinstance(part.func, cst.Attribute) and file.value(part.func.value).is_tensor:
                name = f"torch.{part.func.attr.value}"
            if name is None or not name.startswith("torch.") or name.rpartition(".")[2] not in _TOTAL:
                return False
        if isinstance(part, cst.Comparison):
            sides = (part.left, *(target.comparator for target in part.comparisons))
            shaped = [side for side in sides if file.value(side).kind is not Kind.NUMBER and file.value(side).rank != 0]
            if len(shaped) > 1:
                return False
    return True


def shown(file: FileFacts, node: cst.CSTNode) -> str:
    """The code of a node as a reason quotes it: on one line, and not too long for it."""
    # An empty tuple is all parentheses, which do not count.
    code = " ".join(file.code(node).split()) or "()"
    return f"`{code}`" if len(code) <= _LONGEST_QUOTE else f"`{code[: _LONGEST_QUOTE - 3]}...`"


def tight(node: cst.BaseExpression, code: str) -> str:
    """`code`, which stands for `node`, in parentheses unless it binds tighter than every operator."""
    return code if isinstance(node, _TIGHT) else f"({code})"


def _operand(file: FileFacts, node: cst.BaseExpression) -> str:
    return tight(_read_back(file, node) or node, condition(file, node))


def _read_back(file: FileFacts, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The boolean tensor behind `bool(c)` and `c.item()`."""
    if not isinstance(node, cst.Call):
        return None
    inner: cst.BaseExpression | None = None
    if file.qualified(node) == "builtins.bool" and len(node.args) == 1:
        inner = node.args[0].value
    elif isinstance(node.func, cst.Attribute) and node.func.attr.value == "item" and not node.args:
        inner = node.func.value
    value = file.value(inner) if inner is not None else None
    return inner if value is not None and value.is_tensor and value.dtype is DType.BOOL else None
