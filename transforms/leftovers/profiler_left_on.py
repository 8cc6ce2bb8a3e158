"""Profilers and gradient checks that were left in the training.

A profiler records every operation of every step inside it: each costs CPU time, and the records pile up in memory.
`gradcheck` computes a numerical gradient, which takes two forward passes for every single input value.

    with torch.profiler.profile(activities=[...]):       for x, y in loader:
        for x, y in loader:                                  ...
            ...

Where nothing reads the profiler's records, it is removed. Where something does, it is a measurement: the advice is a
`schedule`, which limits it to a few steps. `emit_nvtx` serves a profiler outside of the program and `gradcheck` raises
where gradients are wrong, so whether to remove them is an open question.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from perfmod.transforms.facts.calls import argument, has_star
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.finding import Family, Finding, Numerics, Safety, Status
from perfmod.transforms.leftovers import _switches
from perfmod.transforms.rule import Rule
from perfmod.transforms.writing import MOST_MOVED, delete_statement, delete_statements

_PROFILERS = frozenset({"torch.profiler.profile", "torch.autograd.profiler.profile"})
_MARKS = frozenset(
    {"torch.autograd.profiler.emit_nvtx", "torch.autograd.profiler.emit_itt", "torch.cuda.profiler.profile"}
)
_CHECKS = frozenset(
    f"torch.autograd.{module}{name}" for module in ("", "gradcheck.") for name in ("gradcheck", "gradgradcheck")
)
_DRIVES = frozenset({"step", "start", "stop", "__enter__", "__exit__"})
_EVERY_STEP = "it records every step: give it a schedule, such as torch.profiler.schedule(wait=1, warmup=1, active=3)"


class ProfilerLeftOn(Rule):
    code = "PM402"
    name = "profiler-left-on"
    family = Family.LEFTOVERS
    summary = "A profiler or gradient check runs in every training step"
    fix_title = "Remove the profiler from the training"
    numerics = Numerics.BITWISE
    safety = Safety.SAFE
    min_torch = "1.0"
    status = Status.PREVIEW
    triggers = frozenset({"profile", "profiler", "emit_nvtx", "emit_itt", "gradcheck", "gradgradcheck"})
    references = (
        "https://docs.pytorch.org/docs/stable/profiler.html#torch.profiler.schedule",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#disable-debugging-apis",
    )
    changes_results = (
        "Never for the training. A profiler is removed only if nothing reads its records. Without `emit_nvtx` a "
        "profiler outside of the program sees no operation names, and without `gradcheck` a wrong gradient is not "
        "noticed (nor are the random numbers drawn that its forward passes draw): both are open questions."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        for call in find_all(file.tree.module, cst.Call):
            name = file.qualified(call) or ""
            if name in _CHECKS:
                yield from self._gradcheck(file, call)
            elif name in _PROFILERS | _MARKS and not _switches.is_optional(file, call):
                yield from self._profiler(file, call, name)

    def _gradcheck(self, file: FileFacts, call: cst.Call) -> Iterator[Finding]:
        if not file.steps.in_sight(call) or _switches.is_optional(file, call):
            return
        statement = file.tree.parent(call)
        if isinstance(statement, (cst.Expr, cst.Assert)):
            reason = "it is a check, which raises an error if a gradient is wrong"
            yield self.found(file, call, reason, delete_statement(file.source, statement), safety=Safety.UNSAFE)
        else:
            yield self.refused(file, call, f"its result is used on line {file.line(call)}")

    def _profiler(self, file: FileFacts, call: cst.Call, name: str) -> Iterator[Finding]:
        enabled = _switches.boolean(argument(call, "enabled", 0 if name != "torch.profiler.profile" else None), True)
        if enabled is not True or argument(call, "schedule") is not None:
            return
        block = _switches.with_item(file, call)
        if block is not None:
            around, item = block
            if not file.steps.trains(around.body) and not file.steps.in_sight(call):
                return
            definitions = _bound(file, item.asname.name) if item.asname is not None else []
            edits = _switches.without_item(file, around, item) if definitions is not None else ()
        else:
            statement = file.tree.parent(call)
            if not file.steps.found or not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
                return
            definitions = _bound(file, statement.targets[0].target)
            edits = delete_statement(file.source, statement)
        if name in _MARKS:
            if block is not None:
                reason = "a profiler outside of the program (such as Nsight) no longer sees the names of operations"
                yield self.found(file, call, reason, edits, safety=Safety.UNSAFE)
            return
        driven = _driven(file, definitions)
        if driven is None or has_star(call) or argument(call, "on_trace_ready") is not None:
            yield self.found(file, call, _EVERY_STEP, (), safety=Safety.ADVICE)
            return
        gone = list(delete_statements(file.source, driven, keeps_comments=False) if driven else ())
        # Lines that go are not moved.
        kept = (edit for edit in edits if not any(cut.start <= edit.start and edit.end <= cut.end for cut in gone))
        found = [*kept, *gone]
        reason, safety = "nothing reads what it records", self.safety
        if block is not None and len(found) > MOST_MOVED:
            reason, safety = f"{reason}, but many lines are re-indented: review it with `git diff -w`", Safety.OPT_IN
        yield self.found(file, call, reason, found, safety=safety)


def _bound(file: FileFacts, target: cst.BaseExpression) -> Sequence[Definition] | None:
    """The variables that a profiler is put into; None where that is no variable."""
    if not isinstance(target, cst.Name) or target.value in file.handing.outer_names:
        return None
    return file.flow.defined(target)


def _driven(file: FileFacts, definitions: Sequence[Definition] | None) -> list[cst.BaseSmallStatement] | None:
    """The statements that only drive a profiler, `prof.step()`; None where something else is done with it."""
    if definitions is None:
        return None
    statements: list[cst.BaseSmallStatement] = []
    for use in (use for definition in definitions for use in file.flow.uses(definition)):
        method = file.tree.parent(use)
        call = file.tree.parent(method) if isinstance(method, cst.Attribute) else None
        statement = file.tree.parent(call) if isinstance(call, cst.Call) else None
        if not isinstance(statement, cst.Expr) or not isinstance(method, cst.Attribute):
            return None
        if method.attr.value not in _DRIVES or len(file.flow.definitions(use)) > 1 or not file.is_own(use):
            return None
        statements.append(statement)
    return statements
