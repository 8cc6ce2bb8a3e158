"""When trials go on beside each other, and what is in their groups."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from attrs import evolve

from perfmod.seats import Seat
from perfmod.tune import cards
from perfmod.tune.bench import Bench
from perfmod.tune.search import Trial
from perfmod.tune.stack import Stack
from perfmod.verify import machine
from perfmod.verify.request import Request
from perfmod.verify.running import Ran

REQUEST = Request(Path("train.py"), None, (), "cuda", "python", 4, True, None, 60.0, None, (), "perfmod tune train.py")
FIRST = {"devices": [0]}


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The cards of a machine with sixteen cores."""
    found = {"0": "NVIDIA H100", "1": "NVIDIA H100"}
    monkeypatch.setattr(cards, "gpus_of_this_machine", lambda: list(found))
    monkeypatch.setattr(machine, "model_of", lambda card: found[card])
    monkeypatch.setattr(machine, "is_idle", lambda card: "busy" not in found[card])
    monkeypatch.setattr("perfmod.seats._cores", lambda: list(range(16)))
    return found


def test_cards_of_one_model_are_used(models: dict[str, str]) -> None:
    assert [(seat.gpu, len(seat.cores)) for seat in cards.seats(REQUEST, FIRST)] == [("0", 5), ("1", 5)]
    models["2"] = models["3"] = "NVIDIA H100"
    assert cards.seats(REQUEST, FIRST) == (), "too few cores for each"
    del models["2"], models["3"]
    models["1"] = "NVIDIA A100"
    assert cards.seats(REQUEST, FIRST) == ()
    models["1"] = "NVIDIA H100, busy"
    assert cards.seats(REQUEST, FIRST) == ()
    del models["1"]
    assert cards.seats(REQUEST, FIRST) == ()


@pytest.mark.parametrize("first", [{}, {"devices": [0, 1]}, {"devices": [1]}, {"devices": []}])
@pytest.mark.usefixtures("models")
def test_a_script_that_uses_other_cards_takes_turns(first: dict[str, Any]) -> None:
    assert cards.seats(REQUEST, first) == ()


@pytest.mark.usefixtures("models")
def test_neither_processes_of_torchrun_nor_the_cpu_have_seats() -> None:
    assert cards.seats(evolve(REQUEST, nproc=2), FIRST) == ()
    assert cards.seats(evolve(REQUEST, device="cpu"), FIRST) == ()


class Lab:
    """Notes what is timed together; a side's own time is in its name."""

    seats = (Seat("0", ()), Seat("1", ()))

    def __init__(self) -> None:
        self.beside: list[list[list[str]]] = []

    def on(self, _seat: Seat) -> Lab:
        return self

    def at_once(self) -> int:
        return 3

    def progress(self, _what: str) -> None:
        pass

    def time_beside(self, groups: Sequence[Sequence[str]], _batches: int) -> list[list[Ran]]:
        self.beside.append([list(group) for group in groups])
        # The second card is slower.
        return [[self._ran(side, 1.0 + card) for side in group] for card, group in enumerate(groups)]

    def time_by_turns(self, sides: Sequence[str], _batches: int) -> list[tuple[Ran, None]]:
        self.beside.append([list(sides)])
        return [(self._ran(side, 1.0), None) for side in sides]

    def _ran(self, side: str, slow: float) -> Ran:
        seconds = slow * (2.0 if side == "original" else 1.0)
        return Ran(None, ({"window_steps": 10, "window_ms": [100.0 * seconds], "recompiled_in_window": 0,
                           "compile_seconds": 0.0, "peak_reserved_mib": 1.0},))  # fmt: skip


def test_each_group_is_compared_with_an_original_on_its_own_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bench, "side", lambda _, stack: str(stack))
    lab, done = Lab(), list[Trial]()
    prover = SimpleNamespace(lab=lab, original="original")
    bench = Bench(cast("Any", None), cast("Any", prover), lambda: time.monotonic() + 600, done.append)
    stacks = [Stack.of({code}) for code in ("PM101", "PM102", "PM203", "PM304", "PM305")]
    trials = bench(stacks, True)
    names = list(map(str, stacks))
    assert lab.beside == [
        [["original", *names[:2]], ["original", *names[2:4]]],
        [["original", names[4]]],
    ]
    assert [trial.stack for trial in trials] == stacks == [trial.stack for trial in done]
    assert [trial.ratio for trial in trials] == [2.0] * 5
    lab.beside.clear()
    bench(stacks[:3], False)
    assert lab.beside == [[["original", *names[:2]]], [["original", names[2]]]]
