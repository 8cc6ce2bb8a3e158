"""`torch.unique` makes the CPU wait: the size of its result is the number of distinct values, so the device must finish
before anything else is queued. Whether there is only one distinct value can be computed without waiting.

It is so exactly if every element equals its neighbour:

    kinds = torch.unique(labels)                     flat = labels.flatten()
    is_constant = len(kinds) < 2                     is_constant = (flat[1:] == flat[:-1]).all()

The answer is a boolean tensor on the device, with the same result as `torch.unique`: every NaN is a distinct value,
-0.0 is 0.0, and an empty tensor has none. An `if` that tests it waits for that boolean instead, which gains nothing, so
it is rewritten together with the `torch.where` that such an `if` becomes, or is of low impact.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding
from perfmod.transforms.facts.masks import is_repeatable, is_unchanged
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.finding import Edit, Family, Finding, Numerics, Safety, Status
from perfmod.transforms.rule import Rule
from perfmod.transforms.syncs._branches import rebinds_as_where
from perfmod.transforms.syncs._conditions import CannotSelect, shown
from perfmod.transforms.syncs._distinct import (
    Distinct,
    NeedsNumber,
    counted_tensor,
    distinct_values,
    is_plain,
    subject_of,
)
from perfmod.transforms.syncs._unused import UnusedNames
from perfmod.transforms.writing import insert_before_statement, replace


class UniqueCount(Rule):
    """Distinct values that are only counted."""

    code: ClassVar[str] = "PM103"
    name: ClassVar[str] = "unique-count"
    family: ClassVar[Family] = Family.SYNCS
    summary: ClassVar[str] = "unique() is called only to count the distinct values, and the CPU waits for the result"
    fix_title: ClassVar[str] = "Compare sorted neighbours on the device"
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
        "Never: the comparison has the same result for every tensor, including empty ones and those with "
        "NaN. It becomes "
        "a boolean tensor on the device, so code that needs a Python number or prints it is left as it is."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        """Every `unique` or `set` of a tensor that a step runs and that something counts."""
        names = UnusedNames(file)
        for call in find_all(file.tree.module, cst.Call):
            tensor = counted_tensor(file, call)
            if tensor is None or not file.steps.runs_every_step(call):
                continue
            try:
                found = distinct_values(file, call, tensor)
                if found is None:
                    continue
                waiting = _waiting(file, found)
                edits = _edits(file, found, names)
            except NeedsNumber as refusal:
                yield self.refused(file, call, str(refusal))
                continue
            reason, safety = (
                "the code only asks whether there is more than one value, which can be computed on the device",
                self.safety,
            )
            if isinstance(found.comparison.comparisons[0].operator, (cst.Equal, cst.NotEqual)):
                reason, safety = "right unless the tensor is empty", Safety.UNSAFE
            elif waiting is not None:
                line, safety = file.line(waiting), Safety.LOW_IMPACT
                reason = f"the `if` on line {line} waits for the result anyway, so nothing is gained"
            yield self.found(file, call, reason, edits, safety=safety)


def _waiting(file: FileFacts, distinct: Distinct) -> cst.If | None:
    """The `if` that would wait for the answer. Raises `NeedsNumber` where a boolean tensor is no substitute."""
    found = None
    for answer in _answers(file, distinct.comparison):
        parent = file.tree.parent(answer)
        if isinstance(parent, cst.If) and parent.test is answer:
            found = None if _becomes_where(file, parent, distinct.question) else parent
            if file.tree.loops(parent) != file.tree.loops(distinct.call):
                raise NeedsNumber(
                    f"it is tested inside another loop on line {file.line(parent)}, and every test would wait"
                )
            continue
        operation = parent if isinstance(parent, cst.BinaryOperation) else None
        is_masking = operation is not None and isinstance(operation.operator, (cst.Multiply, cst.BitAnd, cst.BitOr))
        other = (operation.right if operation.left is answer else operation.left) if operation is not None else answer
        if not is_masking or not file.value(other).is_tensor:
            line = file.line(answer)
            raise NeedsNumber(f"the comparison is used on line {line}, where it may be needed as a Python bool")
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
    if not defined or defined[0].binding is not Binding.ASSIGNED or not is_plain(file, defined[0]):
        raise NeedsNumber(f"the comparison is stored on line {file.line(parent)}, where other code may read it")
    yield from file.flow.uses(defined[0])


def _edits(file: FileFacts, distinct: Distinct, names: UnusedNames) -> list[Edit]:
    """The flattened tensor in a variable, and what is asked of it. Raises `NeedsNumber`."""
    source, tensor, call = file.source, distinct.tensor, distinct.call
    if not is_unchanged(file, tensor, distinct.comparison.comparisons[-1]) or not is_repeatable(file, tensor):
        raise NeedsNumber(f"{shown(file, tensor)} may be modified before its values are counted")
    code = source.whole_code(tensor)
    is_flat = isinstance(tensor, cst.Call) and any(subject_of(tensor, method) for method in ("flatten", "ravel"))
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
        raise NeedsNumber(
            f"it is part of a larger expression on line {file.line(call)}: give it a statement of its own"
        )
    return [insert_before_statement(source, statement, f"{name} = {text}", below_comments=True), answer]
