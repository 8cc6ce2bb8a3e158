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

RECORD = {
    "window_steps": 99,
    "window_ms": [10.0],
    "recompiled_in_window": 0,
    "not_recorded": "",
    "compile_seconds": 0.0,
    "peak_reserved_mib": None,
}


def test_a_first_group_is_tried_however_late_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def timed(_: Bench, groups: Sequence[Sequence[Stack]], at_hand: bool) -> list[Trial]:
        return [Trial(stack, at_hand, 1.0, 2.0) for group in groups for stack in group]

    monkeypatch.setattr(Bench, "_tried", timed)
    prover = SimpleNamespace(lab=SimpleNamespace(at_once=lambda: 2, seats=()))
    timed_once = Bench(cast("Any", None), cast("Any", prover), time.monotonic)
    one, other = (Stack.of({code}) for code in ("PM101", "PM304"))
    assert [trial.stack for trial in timed_once([one, other], True)] == [one]
    assert timed_once([other], True) == []


def test_what_a_script_does_now_and_then_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def timed(sides: Sequence[str], _batches: int) -> list[tuple[Ran, None]]:
        # The faster one comes to its evaluation in one of its windows.
        windows = {"original": [20.0, 21.0, 19.0], "PM304": [10.0, 90.0, 11.0]}
        return [(Ran(None, (RECORD | {"window_ms": windows[side]},)), None) for side in sides]

    (trial,) = bench(timed, monkeypatch)([Stack.of({"PM304"})], False)
    assert (trial.ms, trial.original_ms) == (11.0, 20.0)


def test_a_step_that_is_not_recorded_has_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def timed(sides: Sequence[str], _batches: int) -> list[tuple[Ran, None]]:
        problem = {"PM314": "it waits for the device in train.py, line 3: loss.item()"}
        return [(Ran(None, (RECORD | {"not_recorded": problem.get(side, "")},)), None) for side in sides]

    plain, recorded = bench(timed, monkeypatch)([Stack.of({"PM304"}), Stack.of({"PM314"})], True)
    assert (plain.ms, recorded.ms) == (10.0, None)
    assert recorded.reason == "the step was not recorded: it waits for the device in train.py, line 3: loss.item()"


def bench(timed: object, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Of four runs at once, that `timed` answers for."""
    monkeypatch.setattr(Bench, "side", lambda _, stack: str(stack))
    lab = SimpleNamespace(at_once=lambda: 4, seats=(), progress=lambda _: None, time_by_turns=timed)
    end = time.monotonic() + 60
    return Bench(cast("Any", None), cast("Any", SimpleNamespace(lab=lab, original="original")), lambda: end)
