"""What the host needs a number of the device for, in the words of a message."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition
from perfmod.transforms.facts.rounds import is_late
from perfmod.transforms.facts.value import Kind

SHOWN = "it is reported in every step: report it every N steps to save the wait"
_REPORTS = frozenset(
    {"add_scalar", "add_scalars", "set_postfix", "set_description", "set_postfix_str", "set_description_str", "log",
     "info", "debug", "warning", "log_metrics", "log_metric", "write", "log_dict", "report_scalar", "print", "format"}
)  # fmt: skip
# What shows figures, and what computes others from them.
_SHOWING = ("matplotlib.", "logging.", "wandb.log", "mlflow.log_metric", "tqdm.")
_COMPUTING = ("math.", "numpy.", "statistics.", "torch.tensor", "torch.as_tensor")
_OF_NUMBERS = frozenset({"float", "round", "abs", "min", "max", "sum", "len", "list"})
# A variance of two sums, the step from 28 to 29: here a rounding shows in more than the last digit.
_MAGNIFIES = (cst.Subtract, cst.SubtractAssign, cst.FloorDivide)
_TEXTS = frozenset({"builtins.print", "builtins.str", "builtins.repr", "builtins.format"})
_PARTS = (
    cst.Call, cst.Attribute, cst.Arg, cst.BinaryOperation, cst.UnaryOperation, cst.IfExp, cst.Subscript, cst.Element,
    cst.DictElement, cst.Tuple, cst.List, cst.Dict,
)  # fmt: skip
_COLLECTS = frozenset({"append", "appendleft", "extend", "insert", "add"})


def why_needed(file: FileFacts, node: cst.CSTNode, *, through_names: bool = True) -> str | None:
    """Why a number is read, where the statement around shows it or the uses of the variable that gets it."""
    line, child = file.line(node), node
    for parent in file.tree.ancestors(node):
        if isinstance(parent, (cst.If, cst.While, cst.Assert, cst.IfExp)) and child is parent.test:
            return f"the condition on line {line} needs the value"
        if isinstance(parent, cst.FormattedStringExpression) or _is_percent(file, parent):
            return SHOWN
        is_conversion = isinstance(parent, cst.Call) and file.qualified(parent) in ("builtins.float", "builtins.int")
        if isinstance(parent, cst.Call) and child is not parent.func and not is_conversion:
            return _taken(file, parent)
        if isinstance(parent, cst.Return):
            return f"the value is returned in every step on line {line}, and callers may need it on the CPU"
        if isinstance(parent, (cst.Assign, cst.AnnAssign)):
            return _assigned(file, parent, node) if through_names else None
        if isinstance(parent, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
            return None
        child = parent
    return None


def is_only_shown(file: FileFacts, node: cst.CSTNode, seen: frozenset[object] = frozenset()) -> bool:
    """Whether all that is made of a number ends in texts, logs and plots, so that its last digit decides nothing."""
    child, index = node, None
    for parent in file.tree.ancestors(node):
        if isinstance(parent, (cst.FormattedStringExpression, cst.Expr)):
            return True
        if isinstance(getattr(parent, "operator", None), _MAGNIFIES):
            return False
        if isinstance(parent, cst.Call) and child is not parent.func:
            name, func = file.qualified(parent) or "", parent.func
            method = func.attr.value if isinstance(func, cst.Attribute) else ""
            if name in _TEXTS or name.startswith(_SHOWING) or (not name and method in _REPORTS):
                return True
            if method == "append" and isinstance(func, cst.Attribute) and isinstance(func.value, cst.Name):
                return _are_shown(file, file.flow.definitions(func.value), seen)
            if not (name.startswith(_COMPUTING) or name.removeprefix("builtins.") in _OF_NUMBERS):
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


def _is_percent(file: FileFacts, node: cst.CSTNode) -> bool:
    is_modulo = isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo)
    return isinstance(node, cst.BinaryOperation) and is_modulo and file.value(node.left).kind is Kind.TEXT


def _taken(file: FileFacts, call: cst.Call) -> str:
    """What is called with the number."""
    code, method = file.code(call.func), call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    if (method or code) in _REPORTS:
        return SHOWN
    if method == "update" and isinstance(call.func, cst.Attribute) and file.value(call.func.value).cls is None:
        return f"how `{code}` uses the value could not be determined: its class was not found in the files given"
    if method in _COLLECTS:
        return f"`{code}` on line {file.line(call)} collects it on the CPU"
    return f"it is passed to `{code}`, which may need it on the CPU"


def _assigned(file: FileFacts, statement: cst.Assign | cst.AnnAssign, node: cst.CSTNode) -> str | None:
    """What becomes of the variable, attribute or entry that gets the number."""
    targets = [item.target for item in statement.targets] if isinstance(statement, cst.Assign) else [statement.target]
    other = next((target for target in targets if isinstance(target, (cst.Attribute, cst.Subscript))), None)
    if other is not None:
        return (
            f"it is stored in `{file.code(other)}` on line {file.line(statement)}, where other code may need "
            "it on the CPU"
        )
    for definition in (each for target in targets for each in file.flow.defined(target)):
        uses = file.flow.uses(definition)
        if not uses:
            return f"`{definition.name}` is never used: delete it"
        for use in uses:
            why = why_needed(file, use, through_names=False) if not is_late(file, use, node) else None
            if why is not None:
                return why if why is not SHOWN else f"`{definition.name}`: {why}"
    return None
