"""Replays of CUDA graphs, made by the recorder that scripts get, are seen as other steps are."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import harness_child
import pytest

from perfmod.transforms.compute import recorder
from perfmod.transforms.finding import Numerics
from perfmod.verify.evidence import Equality, Verdict
from perfmod.verify.job import Mode
from perfmod.verify.judging import Controls, judge
from perfmod.verify.trace import Trace

pytestmark = pytest.mark.cuda

RECORDER = Path(recorder.__file__).with_name("graphed_step.py")
HANDED = (5, 8, 14)
TRAINING = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(72, 4), torch.randint(3, (72,))
model = nn.Sequential(nn.Linear(4, 8, bias=False), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.25), nn.Linear(8, 3))
model.cuda()
OPTIMIZER
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10, gamma=0.5)


def step(x, y):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


RECORDED
for epoch in range(EPOCHS):
    for batch in DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True):
        loss = step(*(each.cuda() for each in batch))
        schedule.step()
"""
SGD = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)"
ADAM = "optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, fused=True, capturable=True)"
RECORDED = """
from graphed_step import GraphedStep
class Recorder(GraphedStep):
    MUTANT
step = Recorder(step, [optimizer])
"""
MUTANTS = {
    "inputs not refreshed": (
        "def _replay(self, batch, graph, inputs, *rest):\n"
        "        return super()._replay((inputs[0].clone(), batch[1]), graph, inputs, *rest)"
    ),
    "labels not refreshed": (
        "def _replay(self, batch, graph, inputs, *rest):\n"
        "        return super()._replay((batch[0], inputs[1].clone()), graph, inputs, *rest)"
    ),
    "stale learning rate": "def _settings(self): return 1",
    "dropout that repeats its draw": (
        "def _replay(self, *rest):\n        torch.cuda.manual_seed(3)\n        return super()._replay(*rest)"
    ),
    "statistics that stand still": (
        "def _replay(self, *rest):\n"
        "        former = [each.clone() for each in model.buffers()]\n"
        "        loss = super()._replay(*rest)\n"
        "        [each.copy_(old) for each, old in zip(model.buffers(), former)]\n"
        "        return loss"
    ),
}


def run(
    folder: Path, recorded: str, mode: Mode, optimizer: str = SGD, epochs: int = 6, **job: Any
) -> harness_child.Child:
    (folder / "tree").mkdir(parents=True)
    shutil.copy(RECORDER, folder / "tree")
    script = TRAINING.replace("RECORDED", recorded).replace("OPTIMIZER", optimizer).replace("EPOCHS", str(epochs))
    child = harness_child.run(folder, script, mode, "cuda", **job)
    assert child.status == 0, child.stderr
    assert "without a CUDA graph" not in child.stderr, child.stderr
    return child


def trace(folder: Path, name: str, recorded: str = "", **options: Any) -> Trace:
    (folder / "handed").mkdir(exist_ok=True)
    job = {"states": str(folder / "handed"), "writes_states": name == "original", "handed": HANDED, "steps": 20}
    return Trace.load(run(folder / name, recorded, Mode.EQUALITY, **job, **options).out / "rank0.json")


def judged(folder: Path, mutant: str, numerics: Numerics = Numerics.BITWISE, **options: Any) -> tuple[Trace, Equality]:
    original, again = (trace(folder, name, **options) for name in ("original", "again"))
    replayed = trace(folder, "replayed", RECORDED.replace("MUTANT", mutant), **options)
    return replayed, judge(original, replayed, Controls((again,)), numerics)


@pytest.mark.parametrize("optimizer", [SGD, ADAM], ids=["sgd", "adam"])
def test_a_replayed_step_is_seen_as_any_other(tmp_path: Path, optimizer: str) -> None:

    replayed, equality = judged(tmp_path, "pass", Numerics.ROUNDING, optimizer=optimizer)
    assert (replayed.ended, replayed.steps, replayed.handed) == ("steps", {"0": 20}, HANDED)
    assert replayed.replays_unseen == ""
    assert not replayed.lacks_gradients()
    assert equality.verdict is Verdict.PROVEN, equality.reason
    assert "single steps: gradients" in {check.name for check in equality.checks}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_replay_is_refuted(tmp_path: Path, mutant: str) -> None:
    _, equality = judged(tmp_path, MUTANTS[mutant])
    assert equality.verdict is Verdict.REFUTED, equality.reason


def test_replays_are_timed(tmp_path: Path) -> None:
    recorded = RECORDED.replace("MUTANT", "pass")
    settings = {"warmup_steps": 12, "warmup_seconds": 0.0, "window_steps": 40, "window_seconds": 0.1, "epochs": 400}
    record = run(tmp_path, recorded, Mode.TIMING, **settings).record
    assert record["ended"] == "steps"
    # What the device takes for a replay is in the times, although steps before were made in another stream.
    assert sum(record["step_ms"]) == pytest.approx(1000 * record["window_seconds"], rel=0.2)
