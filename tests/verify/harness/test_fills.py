"""The same random numbers, whether NumPy or torch draws them; and streams that do not move because of it."""

from __future__ import annotations

from pathlib import Path

import harness_child
import pytest

from perfmod.verify.job import Mode
from perfmod.verify.trace import Trace

TRAINING = """
import numpy as np
import torch
from torch import nn

np.random.seed(1)
torch.manual_seed(0)
model = nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
generator = torch.Generator()
for step in range(3):
    x = (NOISE)
    loss = (model(x) - x).square().mean() * nn.functional.dropout(torch.ones(64)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def trained(folder: Path, noise: str, *, fills: bool = True) -> Trace:
    room = folder / str(len(list(folder.iterdir())))
    room.mkdir()
    child = harness_child.run(room, TRAINING.replace("NOISE", noise), Mode.EQUALITY, steps=3, alike=1, fills=fills)
    assert child.status == 0, child.stderr
    return Trace.load(child.out / "rank0.json")


@pytest.mark.parametrize(("numpy", "torch"), [
    ("np.random.normal(0, 1, (4, 8))", "torch.randn(4, 8)"),
    ("np.random.normal(1.0, scale=2.0, size=(4, 8))", "torch.normal(1.0, 2.0, (4, 8))"),
    ("np.random.randn(4, 8)", "torch.empty(8, 4).t().normal_()"),
    ("np.random.standard_normal((4, 8))", "torch.randn_like(torch.ones(4, 8))"),
    ("np.random.uniform(-1, 1, (4, 8))", "torch.FloatTensor(4, 8).uniform_(-1, to=1)"),
    ("np.random.rand(4, 8)", "torch.rand(size=(4, 8))"),
    ("np.random.random_sample((4, 8))", "torch.rand_like(torch.ones(4, 8))"),
    ("np.random.randint(0, 9, (4, 8))", "torch.randint(9, (4, 8))"),
    ("np.random.randint(2, high=9, size=(4, 8), dtype='int32')", "torch.randint(low=2, high=9, size=(4, 8)).int()"),
    ("np.random.randint(9, size=(4, 8))", "torch.LongTensor(4, 8).random_(0, 9)"),
    ("(SEEDED, np.random.randn(4, 8))[1]", "(SEEDED, torch.randn(4, 8))[1]"),
])  # fmt: skip
def test_numpy_and_torch_draw_the_same(tmp_path: Path, numpy: str, torch: str) -> None:
    seeded = "(np.random.seed(step), torch.manual_seed(step))"
    original, other = (
        trained(tmp_path, f"torch.as_tensor({each}).float()".replace("SEEDED", seeded)) for each in (numpy, torch)
    )
    assert other.losses() == original.losses()
    assert len(set(original.losses())) == len(original.losses())
    assert not original.steps_drawn_otherwise(other)


@pytest.mark.parametrize("noise", [
    "(torch.manual_seed(0), torch.randn(4, 8))[1]",
    "torch.rand(4, 8)",
    "torch.randn(1, 8).expand(4, 8)",
    "torch.randn(4, 8, generator=generator)",
    "(torch.randn(4, 8), torch.randn(4, 8))[0]",
    "torch.randn(8, 8)[4:]",
])  # fmt: skip
def test_other_draws_are_told_apart(tmp_path: Path, noise: str) -> None:
    original = trained(tmp_path, "torch.from_numpy(np.random.randn(4, 8)).float()")
    assert original.steps_drawn_otherwise(trained(tmp_path, noise))


def test_what_is_begun_anew_is_the_same_again(tmp_path: Path) -> None:
    begun = "torch.manual_seed(5) and torch.randn(4, 8)"
    anew = trained(tmp_path, f"({begun}) - ({begun})")
    assert anew.losses()[0] < trained(tmp_path, "torch.randn(4, 8) - torch.randn(4, 8)").losses()[0]


def test_a_model_begins_as_ever_and_dropout_draws_as_ever(tmp_path: Path) -> None:
    still = "torch.ones(4, 8)"
    assert trained(tmp_path, still).losses() == trained(tmp_path, still, fills=False).losses()
    noisy = "torch.ones(4, 8) + 0 * torch.randn(4, 8)"
    assert trained(tmp_path, noisy).losses() == pytest.approx(trained(tmp_path, still).losses(), rel=1e-6)
