"""Distinct values of a tensor that are only counted, to know whether there are several."""

from __future__ import annotations

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import argument, has_star
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition
from perfmod.transforms.facts.value import Device, Kind
from perfmod.transforms.syncs._conditions import shown

_EXTRAS = ("return_inverse", "return_counts", "dim")
_SWAPPED: dict[type[cst.BaseCompOp], tuple[str, str]] = {
    cst.LessThan: ("<", ">"),
    cst.LessThanEqual: ("<=", ">="),
    cst.GreaterThan: (">", "<"),
    cst.GreaterThanEqual: (">=", "<="),
    cst.Equal: ("==", "=="),
    cst.NotEqual: ("!=", "!="),
}
_EQUAL, _DIFFERENT = "({0}[1:] == {0}[:-1]).all()", "({0}[1:] != {0}[:-1]).any()"
_QUESTIONS = {
    **dict.fromkeys((("<", 2), ("<=", 1), ("==", 1)), _EQUAL),
    **dict.fromkeys(((">", 1), (">=", 2), ("!=", 1)), _DIFFERENT),
}


class NeedsNumber(Exception):
    """A count that has to be a Python number, or values that are used for more than their number; the reason in one
    line.
    """


@frozen
class Distinct:
    """The distinct values of a tensor, made by `call`, and whether there is more than one.

    Attributes:
        variable: the variable that holds the values, if one does.
        comparison: the comparison of their number.
        question: what it asks of neighbours.
    """

    call: cst.Call
    tensor: cst.BaseExpression
    variable: Definition | None
    comparison: cst.Comparison
    question: str


def counted_tensor(file: FileFacts, call: cst.Call) -> cst.BaseExpression | None:
    """The device tensor of `torch.unique(t)`, `t.unique()` or `set(t.tolist())`."""
    name = file.qualified(call)
    tensor: cst.BaseExpression | None = None
    if name == "torch.unique":
        tensor = argument(call, "input", 0)
    elif name == "builtins.set" and len(call.args) == 1:
        tensor = subject_of(call.args[0].value, "tolist")
    elif name is None and isinstance(call.func, cst.Attribute) and call.func.attr.value == "unique":
        tensor = call.func.value
    while tensor is not None and (inner := subject_of(tensor, "cpu") or subject_of(tensor, "detach")) is not None:
        tensor = inner
    if tensor is None:
        return None
    value = file.value(tensor)
    is_tensor = value.is_tensor or (value.kind is Kind.UNKNOWN and name == "torch.unique")
    return tensor if is_tensor and value.device is not Device.CPU else None


def subject_of(node: cst.BaseExpression, method: str) -> cst.BaseExpression | None:
    """`x` of `x.method()`."""
    if not isinstance(node, cst.Call) or node.args or not isinstance(node.func, cst.Attribute):
        return None
    return node.func.value if node.func.attr.value == method else None


def distinct_values(file: FileFacts, call: cst.Call, tensor: cst.BaseExpression) -> Distinct | None:
    """Values that are counted once and for one comparison; `None` where nobody counts them. Raises `NeedsNumber`."""
    parent, variable = file.tree.parent(call), None
    uses: list[cst.BaseExpression] = [call]
    if isinstance(parent, cst.Assign):
        target: cst.BaseExpression = parent.targets[0].target
        if isinstance(target, (cst.Tuple, cst.List)) and target.elements:
            target = target.elements[0].value
        defined = file.flow.defined(target)
        variable = defined[0] if defined else None
        uses = list(file.flow.uses(variable)) if variable is not None else []
    counts = [_count_around(file, use, is_set=file.qualified(call) == "builtins.set") for use in uses]
    found = [count for count in counts if count is not None]
    if not found:
        return None
    extra = next((name for name in _EXTRAS if argument(call, name) is not None), None)
    if extra is not None or has_star(call) or len([arg for arg in call.args if arg.keyword is None]) > 2:
        raise NeedsNumber(f"`{extra or '*'}` asks for more than the distinct values")
    for use, count in zip(uses, counts, strict=True):
        if count is None:
            raise NeedsNumber(f"the distinct values themselves are used on line {file.line(use)}")
    if variable is not None and (not isinstance(variable.node, cst.Name) or not is_plain(file, variable)):
        raise NeedsNumber(f"`{variable.name}` may hold another value where it is counted")
    if len(found) > 1:
        raise NeedsNumber(f"the distinct values are counted again on line {file.line(found[1])}")
    comparison, question = _compared(file, found[0])
    return Distinct(call, tensor, variable, comparison, question)


def is_plain(file: FileFacts, definition: Definition) -> bool:
    """Whether a variable is bound by one assignment wherever it is read, which is in its own scope."""
    statement = file.tree.statement(definition.node)
    is_alone = isinstance(statement, cst.Assign) and len(statement.targets) == 1 and not definition.path
    return is_alone and all(
        file.tree.scope(use) is definition.scope and file.flow.definitions(use) == (definition,)
        for use in file.flow.uses(definition)
    )


def _count_around(file: FileFacts, values: cst.BaseExpression, *, is_set: bool) -> cst.BaseExpression | None:
    """`len(v)`, `torch.numel(v)`, `v.numel()`, `v.nelement()`, `v.shape[0]`, `v.size(0)` around `v`."""
    parent = file.tree.parent(values)
    around = file.tree.parent(parent) if isinstance(parent, (cst.Arg, cst.Attribute)) else None
    if isinstance(parent, cst.Arg) and isinstance(around, cst.Call) and len(around.args) == 1:
        counting = {"builtins.len"} if is_set else {"builtins.len", "torch.numel"}
        return around if file.qualified(around) in counting else None
    if is_set or not isinstance(parent, cst.Attribute):
        return None
    method = parent.attr.value
    if isinstance(around, cst.Call) and around.func is parent:
        given = [file.code(arg.value) for arg in around.args]
        is_count = (method in ("numel", "nelement") and not given) or (method == "size" and given in (["0"], ["-1"]))
        return around if is_count else None
    is_shape = isinstance(around, cst.Subscript) and method == "shape" and len(around.slice) == 1
    return around if isinstance(around, cst.Subscript) and is_shape and file.code(around.slice[0]) in "0-1" else None


def _compared(file: FileFacts, count: cst.BaseExpression) -> tuple[cst.Comparison, str]:
    """The comparison of a count, itself or by way of a variable, and what it asks of neighbours."""
    parent = file.tree.parent(count)
    comparison = file.tree.parent(parent) if isinstance(parent, cst.ComparisonTarget) else parent
    line = file.line(count)
    if not isinstance(comparison, cst.Comparison):
        raise NeedsNumber(f"the count is used on line {line}, where a Python integer may be needed")
    target = comparison.comparisons[0]
    is_left = comparison.left is count
    other = target.comparator if is_left else comparison.left
    operator = _SWAPPED.get(type(target.operator), ("", ""))[0 if is_left else 1]
    limit = other.evaluated_value if isinstance(other, cst.Integer) else -1
    if len(comparison.comparisons) > 1 or (operator, limit) not in _QUESTIONS:
        raise NeedsNumber(
            f"only 'fewer than two distinct values' can be tested without waiting, not {shown(file, comparison)}"
        )
    return comparison, _QUESTIONS[operator, limit]
