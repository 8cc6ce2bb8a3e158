"""`torch.unique` makes the host wait: how many values there are decides how large its result is, so the
device must finish before anything else is queued. To know whether there is only one value is no reason to wait.

That is so exactly when every element equals its neighbour:

    kinds = torch.unique(labels)                     flat = labels.flatten()
    is_constant = len(kinds) < 2                     is_constant = (flat[1:] == flat[:-1]).all()

The answer is a boolean tensor of the device, and the same as of `torch.unique`: every NaN is a value of its own, -0.0
is 0.0, and an empty tensor has none. An `if` that asks for it waits for that boolean instead, which gains nothing, so
it is rewritten together with the `torch.where` that such an `if` becomes, or held back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import argument, has_star
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition
from perfmod.transforms.facts.masks import is_repeatable, is_unchanged
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Device, Kind
from perfmod.transforms.rule import Edit, Family, Finding, Numerics, Rule, Safety, Status
from perfmod.transforms.syncs._branches import rebinds_as_where
from perfmod.transforms.syncs._conditions import CannotSelect, shown
from perfmod.transforms.syncs._unused import UnusedNames
from perfmod.transforms.writing import insert_before_statement, replace

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


class _NeedsNumber(Exception):
    """A count that has to be a Python number, or values that are used for more than their number; the reason in one
    line.
    """


@frozen
class _Distinct:
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


class UniqueCount(Rule):
    """Distinct values that are only counted."""

    code: ClassVar[str] = "PM103"
    name: ClassVar[str] = "unique-count"
    family: ClassVar[Family] = Family.SYNCS
    summary: ClassVar[str] = (
        "the distinct values of a tensor are gathered only to be counted, and the host waits for them"
    )
    fix_title: ClassVar[str] = "Compare neighbours on the device"
    numerics: ClassVar[Numerics] = Numerics.BITWISE
    safety: ClassVar[Safety] = Safety.SAFE
    min_torch: ClassVar[str] = "1.8"
    status: ClassVar[Status] = Status.PREVIEW
    triggers: ClassVar[frozenset[str]] = frozenset({"unique", "tolist"})
    references: ClassVar[tuple[str, ...]] = (
        "https://docs.pytorch.org/docs/stable/generated/torch.unique.html",
        "https://docs.pytorch.org/docs/stable/generated/torch.cuda.set_sync_debug_mode.html",
    )
    changes_results: ClassVar[str] = (
        "Never: the comparison has the same truth for every tensor, empty ones and those with NaN included. It becomes "
        "a boolean tensor of the device, so code that needs a Python number or prints it is left as it is."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        """Every `unique` or `set` of a tensor that a step runs and that something counts."""
        names = UnusedNames(file)
        for call in find_all(file.tree.module, cst.Call):
            tensor = _tensor(file, call)
            if tensor is None or not file.steps.runs_every_step(call):
                continue
            try:
                found = _distinct(file, call, tensor)
                if found is None:
                    continue
                waiting = _waiting(file, found)
                edits = _edits(file, found, names)
            except _NeedsNumber as refusal:
                yield self.refused(file, call, str(refusal))
                continue
            reason, safety = (
                "only whether there are several values is asked for, and the device can answer",
                self.safety,
            )
            if isinstance(found.comparison.comparisons[0].operator, (cst.Equal, cst.NotEqual)):
                reason, safety = "right unless the tensor is empty, which has no value at all", Safety.UNSAFE
            elif waiting is not None:
                line, safety = file.line(waiting), Safety.OPT_IN
                reason = f"the `if` on line {line} waits for the answer as well, so that nothing is gained"
            yield self.found(file, call, reason, edits, safety=safety)


def _tensor(file: FileFacts, call: cst.Call) -> cst.BaseExpression | None:
    """The device tensor of `torch.unique(t)`, `t.unique()` or `set(t.tolist())`."""
    name = file.qualified(call)
    tensor: cst.BaseExpression | None = None
    if name == "torch.unique":
        tensor = argument(call, "input", 0)
    elif name == "builtins.set" and len(call.args) == 1:
        tensor = _subject(call.args[0].value, "tolist")
    elif name is None and isinstance(call.func, cst.Attribute) and call.func.attr.value == "unique":
        tensor = call.func.value
    while tensor is not None and (inner := _subject(tensor, "cpu") or _subject(tensor, "detach")) is not None:
        tensor = inner
    if tensor is None:
        return None
    value = file.value(tensor)
    is_tensor = value.is_tensor or (value.kind is Kind.UNKNOWN and name == "torch.unique")
    return tensor if is_tensor and value.device is not Device.CPU else None


def _subject(node: cst.BaseExpression, method: str) -> cst.BaseExpression | None:
    """`x` of `x.method()`."""
    if not isinstance(node, cst.Call) or node.args or not isinstance(node.func, cst.Attribute):
        return None
    return node.func.value if node.func.attr.value == method else None


def _distinct(file: FileFacts, call: cst.Call, tensor: cst.BaseExpression) -> _Distinct | None:
    """Values that are counted once and for one comparison; `None` where nobody counts them. Raises `_NeedsNumber`."""
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
        raise _NeedsNumber(f"`{extra or '*'}`: more than the distinct elements of the tensor is asked for and used")
    for use, count in zip(uses, counts, strict=True):
        if count is None:
            raise _NeedsNumber(f"the values themselves are used on line {file.line(use)}")
    if variable is not None and (not isinstance(variable.node, cst.Name) or not _is_plain(file, variable)):
        raise _NeedsNumber(f"`{variable.name}` may hold something else where it is counted")
    if len(found) > 1:
        raise _NeedsNumber(f"they are counted again on line {file.line(found[1])}")
    comparison, question = _compared(file, found[0])
    return _Distinct(call, tensor, variable, comparison, question)


def _is_plain(file: FileFacts, definition: Definition) -> bool:
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
        raise _NeedsNumber(f"the number of values is used on line {line} where a Python integer may be needed")
    target = comparison.comparisons[0]
    is_left = comparison.left is count
    other = target.comparator if is_left else comparison.left
    operator = _SWAPPED.get(type(target.operator), ("", ""))[0 if is_left else 1]
    limit = other.evaluated_value if isinstance(other, cst.Integer) else -1
    if len(comparison.comparisons) > 1 or (operator, limit) not in _QUESTIONS:
        raise _NeedsNumber(
            f"only whether there are fewer than two can be told from neighbours, not {shown(file, comparison)}"
        )
    return comparison, _QUESTIONS[operator, limit]


def _waiting(file: FileFacts, distinct: _Distinct) -> cst.If | None:
    """The `if` that would wait for the answer. Raises `_NeedsNumber` where a boolean tensor is no substitute."""
    found = None
    for answer in _answers(file, distinct.comparison):
        parent = file.tree.parent(answer)
        if isinstance(parent, cst.If) and parent.test is answer:
            found = None if _becomes_where(file, parent, distinct.question) else parent
            if file.tree.loops(parent) != file.tree.loops(distinct.call):
                raise _NeedsNumber(
                    f"it is tested in another loop on line {file.line(parent)}, and every test would wait"
                )
            continue
        operation = parent if isinstance(parent, cst.BinaryOperation) else None
        is_masking = operation is not None and isinstance(operation.operator, (cst.Multiply, cst.BitAnd, cst.BitOr))
        other = (operation.right if operation.left is answer else operation.left) if operation is not None else answer
        if not is_masking or not file.value(other).is_tensor:
            line = file.line(answer)
            raise _NeedsNumber(f"the comparison is used on line {line} where Python may need to know its truth")
    return found


def _becomes_where(file: FileFacts, branch: cst.If, question: str) -> bool:
    try:
        return rebinds_as_where(file, branch, question).safety is Safety.SAFE
    except CannotSelect:
        return False


def _answers(file: FileFacts, comparison: cst.Comparison) -> Iterator[cst.BaseExpression]:
    """Where the truth of a comparison is used, itself or by way of a variable."""
    parent = file.tree.parent(comparison)
    if not isinstance(parent, cst.Assign):
        yield comparison
        return
    target = parent.targets[0].target
    defined = file.flow.defined(target) if isinstance(target, cst.Name) else ()
    if not defined or defined[0].binding is not Binding.ASSIGNED or not _is_plain(file, defined[0]):
        raise _NeedsNumber(f"the comparison is kept on line {file.line(parent)}, where others may read it")
    yield from file.flow.uses(defined[0])


def _edits(file: FileFacts, distinct: _Distinct, names: UnusedNames) -> list[Edit]:
    """The flattened tensor in a variable, and what is asked of it. Raises `_NeedsNumber`."""
    source, tensor, call = file.source, distinct.tensor, distinct.call
    if not is_unchanged(file, tensor, distinct.comparison.comparisons[-1]) or not is_repeatable(file, tensor):
        raise _NeedsNumber(f"{shown(file, tensor)} may be written to before its values are counted")
    code = source.whole_code(tensor)
    is_flat = isinstance(tensor, cst.Call) and any(_subject(tensor, method) for method in ("flatten", "ravel"))
    text = code if is_flat else f"{code}.flatten()"
    name = names.take("flat")
    start, end = source.span(distinct.comparison)
    if distinct.comparison.lpar:
        first, last = distinct.comparison.lpar[0], distinct.comparison.rpar[-1]
        start, end = source.span(first)[0], source.span(last)[1]
    answer = Edit(start, end, distinct.question.format(name), source.path)
    if distinct.variable is not None:
        return [replace(source, distinct.variable.node, name), replace(source, call, text), answer]
    statement = file.tree.statement(call)
    above = file.tree.parent(statement)
    around = [node for node in file.tree.ancestors(call) if file.tree.is_within(node, statement)]
    is_elif = isinstance(above, cst.If) and above.orelse is statement
    is_inner = any(isinstance(node, (cst.Lambda, cst.BaseComp, cst.BooleanOperation, cst.IfExp)) for node in around)
    if is_elif or is_inner or not isinstance(statement, (cst.Assign, cst.Return, cst.If)):
        raise _NeedsNumber(f"it is evaluated in the midst of line {file.line(call)}, and needs a statement of its own")
    return [insert_before_statement(source, statement, f"{name} = {text}", below_comments=True), answer]
