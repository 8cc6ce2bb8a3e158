"""Whether class labels can hold a negative number: losses take them as bytes too, and those have no -100."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.masks import same_mask
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.syncs._gathers import Gather

# What gives integers of 64 bits, and what leaves types as they are.
_INT64 = frozenset({"long", "argmax", "argmin", "argsort", "randint", "randperm"})
_SAME_TYPE = frozenset(
    {"cuda", "view", "reshape", "flatten", "squeeze", "unsqueeze", "permute", "transpose", "contiguous", "clone"}
)


def holds_negatives(file: FileFacts, target: Gather) -> bool:
    """Whether labels are shown to be of 64 bits: by what makes them, or by a mask that asks for negative ones."""
    if target.casts:
        return target.casts.endswith(".long()")
    return _is_int64(file, target.base) or _asks_for_negatives(file, target.mask, target.base)


def _is_int64(file: FileFacts, node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.Name):
        parts = [definition.part for definition in file.flow.definitions(node)]
        is_later = file.flow.from_earlier_rounds(node)
        return bool(parts) and not is_later and all(part is not None and _is_int64(file, part) for part in parts)
    if not isinstance(node, cst.Call):
        return False
    name = (file.qualified(node) or "").rpartition(".")[2]
    if isinstance(node.func, cst.Attribute) and not name:
        name = node.func.attr.value
        if name in _SAME_TYPE:
            return _is_int64(file, node.func.value)
    return name in _INT64 and not any(arg.keyword is not None and arg.keyword.value == "dtype" for arg in node.args)


def _asks_for_negatives(file: FileFacts, mask: cst.BaseExpression, labels: cst.BaseExpression) -> bool:
    """Whether a mask compares the labels with what bytes never are: `y != -100`, `y >= 0`, `y > -1`."""
    if isinstance(mask, cst.Name):
        definitions = file.flow.definitions(mask)
        part = definitions[0].part if len(definitions) == 1 else None
        return part is not None and _asks_for_negatives(file, part, labels)
    if isinstance(mask, cst.BinaryOperation):
        return any(_asks_for_negatives(file, side, labels) for side in (mask.left, mask.right))
    for comparison in find_all(mask, cst.Comparison):
        right = comparison.comparisons[0].comparator
        is_order = isinstance(comparison.comparisons[0].operator, (cst.GreaterThanEqual, cst.LessThan))
        if (
            len(comparison.comparisons) == 1
            and _is_negative(right, is_order)
            and same_mask(file, comparison.left, labels)
        ):
            return True
    for call in find_all(mask, cst.Call):
        func = call.func
        if (
            isinstance(func, cst.Attribute)
            and len(call.args) == 1
            and func.attr.value in ("ne", "ge", "gt", "eq", "lt")
        ):
            is_order = func.attr.value in ("ge", "lt")
            if _is_negative(call.args[0].value, is_order) and same_mask(file, func.value, labels):
                return True
    return False


def _is_negative(node: cst.BaseExpression, or_zero: bool) -> bool:
    if isinstance(node, cst.Integer):
        return or_zero and node.evaluated_value == 0
    if not isinstance(node, cst.UnaryOperation) or not isinstance(node.operator, cst.Minus):
        return False
    return isinstance(node.expression, cst.Integer)
