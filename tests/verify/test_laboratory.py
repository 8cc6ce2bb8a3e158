"""What the first run of all teaches about how a script is to be run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import traced_training
from attrs import define, field

from perfmod.verify.job import Job, Point
from perfmod.verify.laboratory import Laboratory, Setting
from perfmod.verify.request import Request
from perfmod.verify.running import Ran
from perfmod.verify.scratch import Scratch
from perfmod.verify.sides import ORIGINAL, Side
from perfmod.verify.tree import Tree


@define
class Stepping:
    """Stands in for `Runner`: its optimizers step in an order that is given."""

    order: Sequence[int]
    scratch: Scratch
    clocks: list[int] = field(factory=list)

    def run_all(self, runs: Sequence[tuple[Side, Job]], _concurrency: int = 1) -> list[Ran]:
        self.clocks += [job.clock for _, job in runs]
        record, numbers = traced_training.document(traced_training.Recipe(steps=3))
        (step, *_) = [event for event in record["events"] if event["kind"] == "step"]
        others = [event for event in record["events"] if event["kind"] != "step"]
        events = [*others, *({**step, "optimizer": number} for number in self.order)]
        added: dict[str, Any] = {"unrepeatable": [], "environment": {}, "modules": [], "optimizers": 2}
        return [Ran(None, ({**added, **record, "events": events},), (numbers,)) for _ in runs]


def laboratory(folder: Path, runner: object, *, quick: bool = True) -> tuple[Laboratory, Side]:
    """One that runs a script, and the script."""
    script = folder / "train.py"
    script.write_text("import torch\n")
    request = Request(script, None, (), "cuda", "python", 4, quick, None, 60.0, None, (), "perfmod verify train.py")
    lab = Laboratory(runner, request, lambda _what: None, 1e5)  # type: ignore[arg-type]
    tree = Tree.of(script)
    return lab, Side(ORIGINAL, tree, script.relative_to(tree.root))


@pytest.mark.parametrize(("order", "clock"), [
    ([0, 0, 0], 0),
    ([0, 1, 0, 1, 0], 1),
    ([0, 1, 2, 0, 1, 2, 0], 2),
    ([0, 0, 0, 1, 0, 0, 0, 1, 0], 0),
    ([0, 1, 0, 2, 0], 0),
    ([0], 0),
])  # fmt: skip
def test_steps_are_counted_where_a_round_is_over(tmp_path: Path, order: list[int], clock: int) -> None:
    (tmp_path / "scratch").mkdir()
    runner = Stepping(order, Scratch(tmp_path / "scratch"))
    lab, side = laboratory(tmp_path, runner)
    for _ in range(2):
        lab.watch([(side, Setting())], seed=1)
    # Where another optimizer counts, the first run is made again.
    assert runner.clocks == ([0, clock, clock] if clock else [0, 0])


def test_what_is_asked_is_asked_beside_the_first_run(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    runner = Stepping([0, 1, 0, 1, 0], Scratch(tmp_path / "scratch"))
    lab, side = laboratory(tmp_path, runner)
    assert len(lab.watch([(side, Setting())], seed=1, asked=[(side, [Point("train.py", 1, 1)])])) == 2
    # Both are made again where the first one teaches something.
    assert runner.clocks == [0, 0, 1, 1]


@pytest.mark.parametrize(("seconds", "quick", "lengths"), [
    (10.0, True, (4, 8)),
    (10.0, False, (10, 20)),
    (1.0, True, (10, 20)),
])  # fmt: skip
def test_few_slow_steps_are_timed_by_those_in_a_hurry(
    tmp_path: Path, seconds: float, lengths: tuple[int, int], *, quick: bool
) -> None:
    jobs: list[Job] = []

    class Timing:
        def run(self, _side: Side, job: Job) -> Ran:
            jobs.append(job)
            return Ran(None)

    lab, side = laboratory(tmp_path, Timing(), quick=quick)
    lab.first = {"steps": {"0": 20}, "seconds": seconds}
    lab.time(side)
    assert [(job.warmup_steps, job.window_steps) for job in jobs] == [lengths]
