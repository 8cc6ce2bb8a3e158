"""Two steps of one loop that are replayed, each as a graph of its own; on the CPU, by a stand-in for the recorder."""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import harness_child
import pytest

from perfmod.transforms.finding import Numerics
from perfmod.verify.evidence import Verdict
from perfmod.verify.job import Mode
from perfmod.verify.judging import Controls, judge
from perfmod.verify.trace import Trace

RECORDER = Path(__file__).parents[2] / "support" / "verify_recorder" / "graphed_step.py"
TRAINING = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(84, 4))
generator = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 4))
critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer_G = torch.optim.SGD(generator.parameters(), lr=0.1, momentum=0.9)
optimizer_D = torch.optim.SGD(critic.parameters(), lr=0.1, momentum=0.9)


def critic_step(x, z):
    optimizer_D.zero_grad()
    loss = critic(generator(z)).mean() - critic(x).mean()
    loss.backward()
    optimizer_D.step()
    return loss


def generator_step(z):
    loss = -critic(generator(z)).mean()
    loss.backward()
    optimizer_G.step()
    return loss


RECORDED
for epoch in range(4):
    for i, (x,) in enumerate(DataLoader(data, batch_size=8, shuffle=True)):
        z = torch.randn(x.shape[0], 2)
        critic_loss = critic_step(x, z)
        optimizer_G.zero_grad()
        if i % 3 == 0:
            print(f"{critic_loss.item():.6f} {generator_step(z).item():.6f}")
"""
BOTH = """
from graphed_step import Stepper
critic_step = Stepper(critic_step, [optimizer_D, optimizer_G], [generator, critic])
generator_step = Stepper(generator_step, [optimizer_G, optimizer_D], [generator, critic])
"""
MUTANTS = {
    "the generator's noise is not refreshed": "generator_step._refresh = lambda inputs, batch: None\n",
    "the critic's batch is not refreshed": "critic_step._refresh = lambda inputs, batch: None\n",
    "the generator is not trained": "generator_step._replay = lambda batch, graph, inputs, returned: returned\n",
}


@functools.cache
def states() -> Path:
    return Path(tempfile.mkdtemp(prefix="replays-"))


@pytest.fixture(scope="module", autouse=True)
def _taken_away() -> Iterator[None]:
    yield
    shutil.rmtree(states())


@functools.cache
def trace(recorded: str, *, writes: bool = False) -> Trace:
    if not writes:
        trace("", writes=True)  # the others wait for its states
    (states() / "handed").mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=states()))
    (folder / "tree").mkdir()
    shutil.copy(RECORDER, folder / "tree")
    script = TRAINING.replace("RECORDED", recorded)
    given = {"steps": 30, "states": str(states() / "handed"), "writes_states": writes, "handed": (5, 8, 14, 18)}
    child = harness_child.run(folder, script, Mode.EQUALITY, **given)
    assert child.status == 0, child.stderr
    return Trace.load(child.out / "rank0.json")


def test_both_are_seen_as_any_others() -> None:
    original, replayed = trace("", writes=True), trace(BOTH)
    assert replayed.steps == original.steps == {"0": 30, "1": 11}
    equality = judge(original, replayed, Controls((trace(""),)), Numerics.BITWISE)
    assert equality.verdict is Verdict.PROVEN, equality.reason


@pytest.mark.parametrize("mutant", MUTANTS)
def test_wrong_ones_are_not_proven(mutant: str) -> None:
    replayed = trace(BOTH + MUTANTS[mutant])
    equality = judge(trace("", writes=True), replayed, Controls((trace(""),)), Numerics.BITWISE)
    assert equality.verdict is not Verdict.PROVEN, equality.reason
