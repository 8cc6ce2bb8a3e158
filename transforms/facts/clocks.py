"""Clocks of the CPU, and those that time training steps."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.programs import run_with

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


def _in_steps(file: FileFacts) -> Sequence[cst.Call]:
    """The clocks that every step asks, and what waits in some for the device."""
    return [
        call
        for call in file.world.tree.all(cst.Call)
        if file.qualified(call) in _WAITS or (reads_clock(file, call) and not file.steps.gate_of_callers(call))
        if file.steps.in_sight(call)
    ]
