"""Scripts without a torch optimizer: their backward passes are steps."""

from __future__ import annotations

from pathlib import Path

import harness_child
import pytest

from perfmod.verify.job import Mode
from perfmod.verify.trace import Trace

BY_HAND = """\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 3)
x = torch.ones(2, 4)
for step in range(40):
    loss = model(x).square().mean()
    model.zero_grad()
    loss.backward()
    for p in model.parameters():
        p.data.add_(p.grad, alpha=-0.1)
"""
TWO = BY_HAND.replace("x = torch.ones(2, 4)\n", "x = torch.ones(2, 4)\nother = nn.Linear(4, 1)\n").replace(
    "    for p in model", "    other(x).sum().backward()\n    for p in model"
)


def trace(folder: Path, script: str, **job: int) -> Trace:
    return Trace.load(harness_child.run(folder, script, Mode.EQUALITY, **job).out / "rank0.json")


def test_a_pass_is_a_step_that_ends_with_the_next(tmp_path: Path) -> None:
    seen = trace(tmp_path, BY_HAND, steps=5, by_hand=1)
    assert (seen.ended, seen.steps, seen.backwards) == ("steps", {"0": 5}, 5)
    start, first, last = (seen.snapshot("parameters", step) for step in (0, 1, 5))
    assert start.keys() == first.keys() == last.keys() == {"0.weight", "0.bias"}
    assert all(start[key].bits != first[key].bits != last[key].bits for key in start)
    assert seen.snapshot("gradients", 1).keys() == start.keys()


def test_passes_that_reach_other_parameters_count_on_their_own(tmp_path: Path) -> None:
    seen = trace(tmp_path, TWO, steps=5, by_hand=1)
    assert (seen.ended, seen.steps, seen.backwards) == ("steps", {"0": 5, "1": 4}, 9)


def test_the_last_step_ends_with_the_script(tmp_path: Path) -> None:
    seen = trace(tmp_path, BY_HAND.replace("range(40)", "range(3)"), steps=5, by_hand=1)
    assert (seen.ended, seen.steps) == ("exit", {"0": 3})


def test_without_being_told_nothing_is_a_step(tmp_path: Path) -> None:
    record = harness_child.run(tmp_path, BY_HAND.replace("range(40)", "range(400)"), Mode.EQUALITY, steps=5).record
    assert (record["ended"], record["steps"], record["backwards"], record["optimizers"]) == ("stuck", {}, 101, 0)


@pytest.mark.parametrize(("script", "passes"), [(BY_HAND, 1), (TWO, 2)])
def test_timed_steps(tmp_path: Path, script: str, passes: int) -> None:
    # Where the first steps are disturbed, the warm-up takes three times as long as they did: many short steps.
    script = script.replace("range(40)", "range(20_000)")
    job = {"warmup_steps": 5, "warmup_seconds": 0.0, "window_steps": 12, "window_seconds": 0.0}
    record = harness_child.run(tmp_path, script, Mode.TIMING, by_hand=passes, **job).record
    assert record["ended"] == "steps"
    assert len(record["step_ms"]) == record["window_steps"] >= 12


def test_an_optimizer_may_make_the_steps_of_a_script_that_makes_them_itself(tmp_path: Path) -> None:
    changed = "    for p in model.parameters():\n        p.data.add_(p.grad, alpha=-0.1)\n"
    assert changed in BY_HAND
    script = BY_HAND.replace(changed, "    optimizer.step()\n").replace(
        "x = torch.ones", "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nx = torch.ones"
    )
    for name in ("by-hand", "optimizer"):
        (tmp_path / name).mkdir()
    by_hand, seen = (
        trace(tmp_path / name, each, steps=5, by_hand=1) for name, each in (("by-hand", BY_HAND), ("optimizer", script))
    )
    assert (seen.ended, seen.steps, seen.backwards) == ("steps", {"0": 5}, 5)
    assert seen.losses() == by_hand.losses()
    assert seen.snapshot("parameters", 5) == by_hand.snapshot("parameters", 5)
