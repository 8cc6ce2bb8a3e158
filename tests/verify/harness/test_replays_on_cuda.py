"""Replays of CUDA graphs, made by the recorder that scripts get, are seen as other steps are."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness_child
import pytest
from attrs import frozen

from perfmod.transforms.compute import recorder
from perfmod.transforms.finding import Numerics
from perfmod.verify.evidence import Equality, Verdict
from perfmod.verify.job import Mode
from perfmod.verify.judging import Controls, judge
from perfmod.verify.trace import Trace

pytestmark = pytest.mark.cuda

RECORDER = Path(recorder.__file__).with_name("graphed_step.py")
HANDED = (3, 8, 14)
"""The third is the one in which the recorder looks for waits."""
TRAINING = """
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(72, 4), torch.randint(3, (72,))
model = nn.Sequential(nn.Linear(4, 8, bias=False), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.25), nn.Linear(8, 3))
model.cuda()
average = copy.deepcopy(model).requires_grad_(False)
OPTIMIZER
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10, gamma=0.5)


def step(x, y):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x + NOISE), y)
    loss.backward()
    optimizer.step()
    for smooth, own in zip(average.parameters(), model.parameters()):
        smooth.lerp_(own.detach(), 0.1)
    return loss


RECORDED
for epoch in range(EPOCHS):
    for batch in DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True):
        loss = step(*(each.cuda() for each in batch))
        schedule.step()
        LATER
"""
SGD = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)"
ADAM = "optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, fused=True, capturable=True)"
RECORDED = """
from graphed_step import GraphedStep
class Recorder(GraphedStep):
    MUTANT
step = Recorder(step, [optimizer])
"""


@frozen
class Mutant:
    """A wrong recorder.

    Attributes:
        body: of a class that derives from the right one.
        later: what the loop does in each step beside training, on both sides.
        is_shown: whether only what the script shows is wrong, which never refutes.
    """

    body: str
    later: str = "pass"
    is_shown: bool = False


def _restored(tensors: str) -> str:
    """A replay that leaves some tensors as they were before it."""
    return (
        "def _replay(self, *rest):\n"
        f"        former = [each.clone() for each in {tensors}]\n"
        "        loss = super()._replay(*rest)\n"
        f"        [each.copy_(old) for each, old in zip({tensors}, former)]\n"
        "        return loss"
    )


MUTANTS = {
    "inputs not refreshed": Mutant(
        "def _replay(self, batch, graph, inputs, *rest):\n"
        "        return super()._replay((inputs[0].clone(), batch[1]), graph, inputs, *rest)"
    ),
    "labels not refreshed": Mutant(
        "def _replay(self, batch, graph, inputs, *rest):\n"
        "        return super()._replay((batch[0], inputs[1].clone()), graph, inputs, *rest)"
    ),
    "stale learning rate": Mutant("def _settings(self): return 1"),
    "weight decay frozen": Mutant(
        "def _settings(self): return optimizer.param_groups[0]['lr']",
        later="optimizer.param_groups[0]['weight_decay'] = 0.1 if epoch < 1 else 0.3",
    ),
    "dropout that repeats its draw": Mutant(
        "def _replay(self, *rest):\n        torch.cuda.manual_seed(3)\n        return super()._replay(*rest)"
    ),
    "statistics that stand still": Mutant(_restored("model.buffers()")),
    "moving average outside of the graph": Mutant(_restored("average.parameters()")),
    "a graph of the wrong shape for the last batch": Mutant(
        "def __call__(self, x, y):\n"
        "        filled = [torch.cat((each, torch.zeros_like(each)))[:16] for each in (x, y)]\n"
        "        return super().__call__(*filled)"
    ),
    "recorded with gradients of the steps before": Mutant(
        "def _record(self, batch):\n"
        "        optimizer.zero_grad = lambda *_, **__: None\n"
        "        found = super()._record(batch)\n"
        "        del optimizer.zero_grad\n"
        "        return found"
    ),
    "the loss of the step before is shown": Mutant(
        "def _replay(self, *rest):\n"
        "        shown = getattr(self, 'shown', torch.zeros((), device='cuda'))\n"
        "        self.shown = super()._replay(*rest).clone()\n"
        "        return shown",
        later="print(f'loss {loss.item():.5f}')",
        is_shown=True,
    ),
}
"""What is wrong, and the body of a recorder in which it is."""


def run(
    folder: Path,
    recorded: str,
    mode: Mode,
    optimizer: str = SGD,
    epochs: int = 6,
    later: str = "pass",
    noise: str = "0",
    **job: Any,
) -> harness_child.Child:
    (folder / "tree").mkdir(parents=True)
    shutil.copy(RECORDER, folder / "tree")
    script = TRAINING.replace("RECORDED", recorded).replace("OPTIMIZER", optimizer)
    script = script.replace("EPOCHS", str(epochs)).replace("LATER", later).replace("NOISE", noise)
    child = harness_child.run(folder, script, mode, "cuda", **job)
    assert child.status == 0, child.stderr
    assert "without a CUDA graph" not in child.stderr, child.stderr
    return child


def trace(folder: Path, name: str, recorded: str = "", **options: Any) -> Trace:
    """What an E-run of 20 steps sees; the one that is called original writes the states for the others."""
    (folder / "handed").mkdir(exist_ok=True)
    job = {"states": str(folder / "handed"), "writes_states": name == "original", "handed": HANDED, "steps": 20}
    return Trace.load(run(folder / name, recorded, Mode.EQUALITY, **job, **options).out / "rank0.json")


Judged = Callable[..., tuple[Trace, Equality]]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """A recorded side, and the verdict on it; the original is run once with each optimizer and each kind of loop."""
    known: dict[tuple[str, str], tuple[Path, Trace, Trace]] = {}

    def judge_recorded(
        recorded: str, numerics: Numerics = Numerics.BITWISE, optimizer: str = SGD, later: str = "pass"
    ) -> tuple[Trace, Equality]:
        options = {"optimizer": optimizer, "later": later}
        if (optimizer, later) not in known:
            folder = tmp_path_factory.mktemp("replays")
            pair = [trace(folder, name, **options) for name in ("original", "again")]
            known[optimizer, later] = folder, pair[0], pair[1]
        folder, original, again = known[optimizer, later]
        replayed = trace(folder, f"replayed-{len(list(folder.iterdir()))}", recorded, **options)
        return replayed, judge(original, replayed, Controls((again,)), numerics)

    return judge_recorded


@pytest.mark.parametrize("optimizer", [SGD, ADAM], ids=["sgd", "adam"])
def test_a_replayed_step_is_seen_as_any_other(judged: Judged, optimizer: str) -> None:

    replayed, equality = judged(RECORDED.replace("MUTANT", "pass"), Numerics.ROUNDING, optimizer)
    assert (replayed.ended, replayed.steps, replayed.handed) == ("steps", {"0": 20}, HANDED)
    assert replayed.replays_unseen == ""
    assert not replayed.lacks_gradients()
    assert equality.verdict is Verdict.PROVEN, equality.reason
    assert "single steps: gradients" in {check.name for check in equality.checks}


@pytest.mark.parametrize(
    "drawn", ["torch.randn_like(x)", "torch.rand(x.shape, device='cuda')", "x.clone().normal_(1, 2)"]
)
def test_what_a_replay_draws_is_filled_as_elsewhere(tmp_path: Path, drawn: str) -> None:
    settings = {"noise": drawn, "fills": True}
    original, again = (trace(tmp_path, name, **settings) for name in ("original", "again"))
    replayed = trace(tmp_path, "replayed", RECORDED.replace("MUTANT", "pass"), **settings)
    assert replayed.replays_unseen == ""
    equality = judge(original, replayed, Controls((again,)), Numerics.ROUNDING)
    assert equality.verdict is Verdict.PROVEN, equality.reason


@pytest.mark.parametrize("later", [mutant.later for mutant in MUTANTS.values() if mutant.later != "pass"])
def test_loops_of_mutants_are_proven_without_them(judged: Judged, later: str) -> None:
    _, equality = judged(RECORDED.replace("MUTANT", "pass"), Numerics.ROUNDING, later=later)
    assert equality.verdict is Verdict.PROVEN, equality.reason


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_replay_is_refuted(judged: Judged, name: str) -> None:
    mutant = MUTANTS[name]
    _, equality = judged(RECORDED.replace("MUTANT", mutant.body), later=mutant.later)
    expected = Verdict.INCONCLUSIVE if mutant.is_shown else Verdict.REFUTED
    assert equality.verdict is expected, equality.reason


def test_replays_are_timed(tmp_path: Path) -> None:
    recorded = RECORDED.replace("MUTANT", "pass")
    settings = {"warmup_steps": 12, "warmup_seconds": 0.0, "window_steps": 40, "window_seconds": 0.1, "epochs": 400}
    record = run(tmp_path, recorded, Mode.TIMING, **settings).record
    assert record["ended"] == "steps"
    # What the device takes for a replay is in the times, although steps before were made in another stream.
    assert sum(record["step_ms"]) == pytest.approx(1000 * record["window_seconds"], rel=0.2)
