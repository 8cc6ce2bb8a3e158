"""Controls of the E-run: noise of a rounding unit, double precision, no dropout."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import harness_child
import pytest

from perfmod.verify.job import Mode
from perfmod.verify.trace import Trace

TRAINING = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(9, 4)
        self.norm = nn.BatchNorm1d(4)
        self.recurrent = nn.LSTM(4, 4, num_layers=2, dropout=0.5, batch_first=True)
        self.attention = nn.MultiheadAttention(4, 2, dropout=0.5, batch_first=True)
        self.drop = nn.Dropout(0.5)
        self.last = nn.Linear(4, 1)

    def forward(self, numbers, *, floats=None):
        x = self.words(numbers)
        if floats is not None:
            x = x + floats
        x = self.norm(x.transpose(1, 2)).transpose(1, 2)
        x, _ = self.recurrent(x)
        x, _ = self.attention(x, x, x, need_weights=False)
        return self.last(nn.functional.dropout(self.drop(x).mean(1), 0.3)).squeeze(1)


numbers, floats, targets = torch.randint(0, 9, (8, 3)), torch.randn(8, 3, 4), torch.randn(8)
model = Net()
model(numbers, FLOATS)  # trains nothing
weighted = nn.BCEWithLogitsLoss(pos_weight=torch.full((4,), 0.5))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(3):
    for number, real, target in DataLoader(TensorDataset(numbers, floats, targets), batch_size=4):
        optimizer.zero_grad()
        y = model(number, FLOATS)
        loss = (y - target).square().mean() + nn.functional.mse_loss(y, target) + weighted(y, (target > 0).float())
        loss.backward()
        optimizer.step()
"""
WITH_FLOATS = TRAINING.replace("number, FLOATS", "number, floats=real").replace(
    "numbers, FLOATS", "numbers, floats=floats"
)
WITHOUT = TRAINING.replace("FLOATS", "")


class Runs:
    """E-runs in folders of their own; what was asked for before is not run again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._done: dict[tuple[object, ...], tuple[Trace, int]] = {}

    def trace(self, script: str, **job: Any) -> Trace:
        return self._ran(script, job)[0]

    def perturbed(self, script: str, **job: Any) -> int:
        return self._ran(script, job)[1]

    def _ran(self, script: str, job: dict[str, Any]) -> tuple[Trace, int]:
        asked = (script, *sorted(job.items()))
        if asked not in self._done:
            folder = self._folder / str(len(self._done))
            folder.mkdir()
            child = harness_child.run(folder, script, Mode.EQUALITY, steps=3, **job)
            assert child.status == 0, child.stderr
            self._done[asked] = Trace.load(child.out / "rank0.json"), child.record["perturbed"]
        return self._done[asked]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("controls"))


def difference(one: Trace, other: Trace, snapshot: str = "gradients") -> float:
    """Relative, of all tensors of step 1."""
    squares = total = 0.0
    for key, digest in one.snapshot(snapshot, 1).items():
        pairs = zip(digest.sketch, other.snapshot(snapshot, 1)[key].sketch, strict=True)
        squares += sum((a - b) ** 2 for a, b in pairs)
        total += digest.norm**2
    return math.sqrt(squares / total)


def test_noise_on_the_inputs_of_every_step(runs: Runs) -> None:
    plain = runs.trace(WITH_FLOATS)
    assert runs.perturbed(WITH_FLOATS) == 0
    noisy = runs.trace(WITH_FLOATS, perturb=1.0)
    assert (
        runs.perturbed(WITH_FLOATS, perturb=1.0) == 1 + 3
    )  # one tensor in each step, and in the call that came to nothing
    other = runs.trace(WITH_FLOATS, perturb=1.0, perturb_seed=1)
    strong = runs.trace(WITH_FLOATS, perturb=1024.0)
    assert plain.snapshot("parameters", 0) == noisy.snapshot("parameters", 0)
    assert list(plain.batches()) == list(noisy.batches())
    assert 1e-9 < difference(plain, noisy) < 1e-5
    assert difference(noisy, other) > 1e-9
    assert difference(plain, strong) > 30 * difference(plain, noisy)


def test_noise_on_the_weights_where_inputs_are_whole_numbers(runs: Runs) -> None:
    plain, noisy = runs.trace(WITHOUT), runs.trace(WITHOUT, perturb=1.0)
    # Those of the embedding and of all other layers, once, after they have been kept.
    assert runs.perturbed(WITHOUT, perturb=1.0) == len(plain.snapshot("gradients", 1)) == 17
    assert plain.snapshot("parameters", 0) == noisy.snapshot("parameters", 0)
    assert 1e-9 < difference(plain, noisy) < 1e-5


def test_double_precision(runs: Runs) -> None:
    plain, double = runs.trace(WITH_FLOATS, dropout=False), runs.trace(WITH_FLOATS, dropout=False, double=True)
    assert {digest.dtype for digest in double.snapshot("gradients", 1).values()} == {"float64"}
    assert {digest.dtype for digest in double.snapshot("parameters", 3).values()} == {"float64"}
    assert double.steps == plain.steps == {"0": 3}
    assert list(double.snapshot("gradients", 1)) == list(plain.snapshot("gradients", 1))
    assert double.losses() == pytest.approx(plain.losses(), rel=1e-5)
    assert 1e-9 < difference(double, plain) < 1e-5
    noisy = runs.trace(WITH_FLOATS, dropout=False, double=True, perturb=1.0)
    assert 0 < difference(double, noisy) < 1e-13


def test_without_dropout_nothing_is_drawn(runs: Runs) -> None:
    other_draws = WITH_FLOATS.replace("        loss.backward()", "        loss.backward(); torch.rand(3)").replace(
        "        optimizer.zero_grad()", "        optimizer.zero_grad(); torch.rand(3)"
    )
    # With dropout, a draw before the model's changes what is dropped ...
    assert runs.trace(WITH_FLOATS).losses() != runs.trace(other_draws).losses()
    # ... without it there is nothing to change, in no kind of layer.
    assert runs.trace(WITH_FLOATS, dropout=False).losses() == runs.trace(other_draws, dropout=False).losses()


def test_what_is_left_out_is_counted(runs: Runs) -> None:
    assert runs.trace(WITH_FLOATS).left_out is None
    # Three steps and the call that came to nothing: the attention and a layer with 0.5, a function with 0.3.
    assert runs.trace(WITH_FLOATS, dropout=False).left_out == {"0.5": 8, "0.3": 4}
    evaluated = WITH_FLOATS.replace("model = Net()", "model = Net().eval()")
    assert runs.trace(evaluated, dropout=False).left_out == {"0.3": 4}


def test_models_compute_in_half_types_and_return_what_they_did(runs: Runs) -> None:
    plain, half = runs.trace(WITH_FLOATS), runs.trace(WITH_FLOATS, half=True)
    outputs = [[leaf for event in trace.forwards() for leaf in event.leaves] for trace in (plain, half)]
    assert [leaf.dtype for leaf in outputs[1]] == [leaf.dtype for leaf in outputs[0]] == ["float32"] * len(outputs[0])
    first, other = plain.losses()[0], half.losses()[0]
    assert 1e-5 < abs(first - other) / first < 1e-1
    assert not any(digest.dtype == "bfloat16" for digest in half.snapshot("parameters", 3).values())


BARE = """
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
weight = torch.randn(4, 3, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
x, y = torch.randn(12, 4), torch.randn(12, 3)
for x, y in DataLoader(TensorDataset(x, y), batch_size=4):
    optimizer.zero_grad()
    loss = (x @ weight - y).square().mean()
    loss.backward()
    optimizer.step()
"""


def test_without_modules_batches_get_noise_and_all_is_computed_in_half_types(runs: Runs) -> None:
    plain = runs.trace(BARE)
    assert runs.trace(BARE, perturb=1.0).losses() == runs.trace(BARE, half=True).losses() == plain.losses()
    noisy, half = runs.trace(BARE, perturb=1.0, bare=True), runs.trace(BARE, half=True, bare=True)
    assert runs.perturbed(BARE, perturb=1.0, bare=True) == 6
    assert 0 < abs(noisy.losses()[0] - plain.losses()[0]) < 1e-6
    assert 1e-5 < abs(half.losses()[0] - plain.losses()[0]) / plain.losses()[0] < 1e-1
