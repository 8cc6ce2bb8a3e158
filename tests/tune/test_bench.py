"""What is timed when there is little time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from perfmod.tune.bench import Bench
from perfmod.tune.search import Trial
from perfmod.tune.stack import Stack
from perfmod.verify.running import Ran


def test_a_first_group_is_tried_however_late_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def timed(_: Bench, groups: Sequence[Sequence[Stack]], at_hand: bool) -> list[Trial]:
        return [Trial(stack, at_hand, 1.0, 2.0) for group in groups for stack in group]

    monkeypatch.setattr(Bench, "_tried", timed)
    prover = SimpleNamespace(lab=SimpleNamespace(at_once=lambda: 2, seats=()))
    bench = Bench(cast("Any", None), cast("Any", prover), time.monotonic())
    one, other = (Stack.of({code}) for code in ("PM101", "PM304"))
    assert [trial.stack for trial in bench([one, other], True)] == [one]
    assert bench([other], True) == []


def test_what_a_script_does_now_and_then_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def timed(sides: Sequence[str], _batches: int) -> list[tuple[Ran, None]]:
        # The faster one comes to its evaluation in one of its windows.
        windows = {"original": [20.0, 21.0, 19.0], "PM304": [10.0, 90.0, 11.0]}
        record = {"window_steps": 99, "recompiled_in_window": 0, "compile_seconds": 0.0, "peak_reserved_mib": None}
        return [(Ran(None, (record | {"window_ms": windows[side]},)), None) for side in sides]

    monkeypatch.setattr(Bench, "side", lambda _, stack: str(stack))
    lab = SimpleNamespace(at_once=lambda: 4, seats=(), progress=lambda _: None, time_by_turns=timed)
    bench = Bench(cast("Any", None), cast("Any", SimpleNamespace(lab=lab, original="original")), time.monotonic() + 60)
    (trial,) = bench([Stack.of({"PM304"})], False)
    assert (trial.ms, trial.original_ms) == (11.0, 20.0)
