"""Runs that are warm at the same time are timed one at a time, whatever becomes of some of them."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perfmod.verify.harness.perfmod_harness import turns as harness
from perfmod.verify.turns import COUNT, Turns


class Machine:
    """Runs without scripts: threads that take turns as the harness does, and note when they had the machine.

    `ends` says in which of its turns a run ends by itself, -1 for one that fails before it is ready.
    """

    def __init__(self, folder: Path, runs: int, ends: dict[int, int]) -> None:
        self.folder = folder
        self.ends = ends
        self.busy: list[int] = []
        self.seen: list[int] = []
        self.threads = [threading.Thread(target=self._run, args=(place,), daemon=True) for place in range(runs)]

    def _run(self, place: int) -> None:
        job: Any = SimpleNamespace(turns=str(self.folder), place=place, turn_count=COUNT)
        own = harness.Turns(job)
        time.sleep(0.01 * place)
        last = self.ends.get(place, COUNT)
        number = 0
        while last >= 0 and own.take():
            self.busy.append(place)
            assert self.busy == [place], "two at a time"
            while not own.may_open():
                time.sleep(0.01)
            self.busy.remove(place)
            self.seen.append(place)
            if number == last:
                break
            number += 1
        if last >= 0:
            own.leave()

    def over(self, place: int) -> bool:
        return not self.threads[place].is_alive()


@pytest.mark.parametrize(("runs", "ends", "order"), [
    (3, {}, [0, 1, 2, 2, 1, 0, 0, 1, 2]),
    (1, {}, [0, 0, 0]),
    (3, {1: 0}, [0, 1, 2, 2, 0, 0, 2]),
    (3, {1: -1}, [0, 2, 2, 0, 0, 2]),
    (2, {0: -1, 1: -1}, []),
])  # fmt: skip
def test_one_at_a_time_and_backwards_every_second_time(
    tmp_path: Path, runs: int, ends: dict[int, int], order: list[int]
) -> None:
    machine, turns = Machine(tmp_path, runs, ends), Turns(tmp_path, runs)
    for thread in machine.threads:
        thread.start()
    turns.conduct(machine.over)
    for thread in machine.threads:
        thread.join(timeout=10)
    assert not any(thread.is_alive() for thread in machine.threads)
    assert machine.seen == order
    assert all(0.0 <= load.processors <= 1.0 for load in turns.loads())


def test_who_comes_when_all_are_over_waits_for_nobody(tmp_path: Path) -> None:
    Turns(tmp_path, 0).conduct(lambda _place: True)
    late = Machine(tmp_path, 1, {})
    late._run(0)
    assert late.seen == [0] * COUNT
