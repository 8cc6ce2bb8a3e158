"""Whether a number of the device is only shown."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition
from perfmod.transforms.facts.value import Kind

_REPORTS = frozenset(
    {"add_scalar", "add_scalars", "set_postfix", "set_description", "set_postfix_str", "set_description_str", "log",
     "info", "debug", "warning", "log_metrics", "log_metric", "write", "log_dict", "report_scalar", "print", "format"}
)  # fmt: skip
# What shows figures, and what computes others from them.
_SHOWING = ("matplotlib.", "logging.", "wandb.log", "mlflow.log_metric", "tqdm.")
_COMPUTING = ("math.", "numpy.", "statistics.", "torch.")
_SMOOTH = frozenset(
    {"array", "as_tensor", "asarray", "average", "exp", "fmean", "fsum", "log", "log10", "log1p", "log2", "max", "mean",
     "median", "min", "pow", "sqrt", "stack", "sum", "tensor"}
)  # fmt: skip
"""What of it shows a rounding as a rounding; `math.floor` may show the next number."""
_OF_NUMBERS = frozenset({"float", "round", "abs", "min", "max", "sum", "len", "list"})
# A variance of two sums, the step from 28 to 29: here a rounding shows in more than the last digit.
_MAGNIFIES = (cst.Subtract, cst.SubtractAssign, cst.FloorDivide)
_TEXTS = frozenset({"builtins.print", "builtins.str", "builtins.repr", "builtins.format"})
_PARTS = (
    cst.Call, cst.Attribute, cst.Arg, cst.BinaryOperation, cst.UnaryOperation, cst.IfExp, cst.Subscript, cst.Element,
    cst.DictElement, cst.Tuple, cst.List, cst.Dict,
)  # fmt: skip


def is_only_shown(file: FileFacts, node: cst.CSTNode, seen: frozenset[object] = frozenset()) -> bool:
    """Whether all that is made of a number ends in texts, logs and plots, so that its last digit decides nothing."""
    child, index = node, None
    for parent in file.tree.ancestors(node):
        if isinstance(parent, (cst.FormattedStringExpression, cst.Expr)):
            return True
        if isinstance(parent, cst.BinaryOperation) and isinstance(parent.operator, cst.Modulo):
            return child is parent.right and file.value(parent.left).kind is Kind.TEXT
        if isinstance(getattr(parent, "operator", None), _MAGNIFIES):
            return False
        if isinstance(parent, cst.Call) and child is not parent.func:
            name, func = file.qualified(parent) or "", parent.func
            method = func.attr.value if isinstance(func, cst.Attribute) else ""
            if name in _TEXTS or name.startswith(_SHOWING) or (not name and method in _REPORTS):
                return True
            if method == "append" and isinstance(func, cst.Attribute) and isinstance(func.value, cst.Name):
                return _are_shown(file, file.flow.definitions(func.value), seen)
            is_smooth = name.startswith(_COMPUTING) and name.rpartition(".")[2] in _SMOOTH
            if not (is_smooth or name.removeprefix("builtins.") in _OF_NUMBERS):
                return False
        elif isinstance(parent, cst.Return):
            function = file.tree.function(parent)
            if function is None or not file.values.calls.is_only_called(function):
                return False
            callers = file.values.calls.callers(function)
            if function in seen:
                return True
            return bool(callers) and all(_is_result_shown(file, call, index, seen | {function}) for call in callers)
        elif isinstance(parent, (cst.Assign, cst.AnnAssign, cst.AugAssign)):
            targets = [each.target for each in parent.targets] if isinstance(parent, cst.Assign) else [parent.target]
            return all(_is_target_shown(file, target, seen) for target in targets)
        elif not isinstance(parent, _PARTS) or child is getattr(parent, "test", None):
            return False
        index = list(parent.elements).index(child) if isinstance(parent, cst.Tuple) else None  # type: ignore[arg-type]
        child = parent
    return False


def _is_result_shown(file: FileFacts, call: cst.Call, index: int | None, seen: frozenset[object]) -> bool:
    """Whether what a call returns, or the part of it with that index, is only shown."""
    assigned = file.tree.parent(call)
    target = assigned.targets[0].target if isinstance(assigned, cst.Assign) and len(assigned.targets) == 1 else None
    if index is not None and isinstance(target, cst.Tuple) and index < len(target.elements):
        return _is_target_shown(file, target.elements[index].value, seen)
    return is_only_shown(file, call, seen)


def _is_target_shown(file: FileFacts, target: cst.BaseExpression, seen: frozenset[object]) -> bool:
    if isinstance(target, (cst.Tuple, cst.List)):
        return all(_is_target_shown(file, element.value, seen) for element in target.elements)
    return isinstance(target, cst.Name) and _are_shown(file, file.flow.defined(target), seen)


def _are_shown(file: FileFacts, definitions: Iterable[Definition], seen: frozenset[object]) -> bool:
    """Whether every use of some variables only shows them, apart from what adds to them."""
    new = [each for each in definitions if each not in seen]
    return all(is_only_shown(file, use, seen.union(new)) for each in new for use in file.flow.uses(each))
