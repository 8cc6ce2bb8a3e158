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


def test_a_first_group_is_tried_however_late_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def timed(_: Bench, groups: Sequence[Sequence[Stack]], at_hand: bool) -> list[Trial]:
        return [Trial(stack, at_hand, 1.0, 2.0) for group in groups for stack in group]

    monkeypatch.setattr(Bench, "_tried", timed)
    prover = SimpleNamespace(lab=SimpleNamespace(at_once=lambda: 2, seats=()))
    bench = Bench(cast("Any", None), cast("Any", prover), time.monotonic())
    one, other = (Stack.of({code}) for code in ("PM101", "PM304"))
    assert [trial.stack for trial in bench([one, other], True)] == [one]
    assert bench([other], True) == []
