"""Clocks of the CPU, and those that time training steps."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.programs import run_with
from perfmod.transforms.facts.rounds import round_loop
from perfmod.transforms.facts.tree import find_any

_CLOCKS = (
    "time.time", "time.perf_counter", "time.monotonic", "time.process_time", "time.thread_time", "time.clock",
    "timeit.", "datetime.datetime.now", "datetime.datetime.utcnow",
)  # fmt: skip
_WAITS = frozenset({"torch.cuda.synchronize", "torch.accelerator.synchronize"})


def reads_clock(file: FileFacts, call: cst.Call) -> bool:
    """Whether a call asks a clock of Python's library."""
    return (file.qualified(call) or "").startswith(_CLOCKS)


def timed_without_waiting(file: FileFacts) -> cst.Call | None:
    """A clock that every step of a file's programs asks, where none of them calls `torch.cuda.synchronize()`."""
    together = run_with(file)
    calls = [call for call in file.once(_in_steps) if file.tree.module_of(call) in together]
    is_awaited = any(file.qualified(call) in _WAITS for call in calls)
    return next((call for call in calls if reads_clock(file, call)), None) if not is_awaited else None


def why_timed(file: FileFacts, node: cst.CSTNode, uses: Sequence[cst.CSTNode]) -> str | None:
    """Why a time needs the wait at `node`: each round takes it further below, from its own start, or adds it up while
    no round waits for what is `uses` of the value.
    """
    loop = round_loop(file, node)
    if loop is None:
        return None
    is_read = any(file.tree.is_within(use, loop) for use in uses)
    for part in find_any(loop.body, cst.BinaryOperation):
        assert isinstance(part, cst.BinaryOperation)
        is_time = isinstance(part.operator, cst.Subtract) and isinstance(part.left, cst.Call)
        if not is_time or not reads_clock(file, cst.ensure_type(part.left, cst.Call)):
            continue
        if file.tree.loops(part)[0] is not loop or not file.comes_before(node, part):
            continue
        if _starts_in_round(file, loop, part, node):
            return f"the time on line {file.line(part)} would be that of other kernels than those of its step"
        shown = _shown_behind(file, loop, part) if not is_read and not file.steps.is_gated(part, loop) else None
        if shown is not None:
            time = f"the time on line {file.line(shown)}, taken on line {file.line(part)},"
            return f"{time} would not include kernels that still run"
    return None


def _starts_in_round(file: FileFacts, loop: cst.For | cst.While, time: cst.BinaryOperation, node: cst.CSTNode) -> bool:
    """Whether a time begins above `node` in the same round of a loop: that of one step, `time.time() - start`."""
    if not isinstance(time.right, cst.Name) or file.flow.from_earlier_rounds(time.right):
        return False
    starts = [each.node for each in file.flow.definitions(time.right)]
    return bool(starts) and all(file.tree.is_within(each, loop) and file.comes_before(each, node) for each in starts)


def _shown_behind(file: FileFacts, loop: cst.CSTNode, time: cst.BinaryOperation) -> cst.CSTNode | None:
    """Where a sum or meter of times is read behind a loop, if no round and nobody else reads it."""
    statement = file.tree.statement(time)
    kept: cst.CSTNode | None = None
    if isinstance(statement, cst.AugAssign):
        kept = statement.target
    elif isinstance(statement, cst.Expr) and isinstance(statement.value, cst.Call):
        func = statement.value.func
        kept = func.value if isinstance(func, cst.Attribute) else None
    if not isinstance(kept, cst.Name):
        return None
    uses = [use for each in file.flow.definitions(kept) for use in file.flow.uses(each)]
    others = [use for use in uses if not file.tree.is_within(use, statement)]
    is_behind = all(
        file.comes_before(loop, use)
        and not file.tree.is_within(use, loop)
        and file.tree.function(use) is file.tree.function(loop)
        for use in others
    )
    return others[0] if others and is_behind else None


def _in_steps(file: FileFacts) -> Sequence[cst.Call]:
    """The clocks that every step asks, and what waits in some for the device."""
    return [
        call
        for call in file.world.tree.all(cst.Call)
        if file.qualified(call) in _WAITS or (reads_clock(file, call) and not file.steps.gate_of_callers(call))
        if file.steps.in_sight(call)
    ]
