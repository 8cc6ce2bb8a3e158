"""What a class of rewrites may change is made alike: number formats, and what dropout drops."""

from __future__ import annotations

from pathlib import Path

import harness_child
import pytest

from perfmod.verify.job import Mode
from perfmod.verify.trace import Trace

TRAINING = """
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
drop, after = nn.Dropout(0.3), nn.Dropout(0.5)
for step in range(3):
    x = torch.randn(2, 4, 8)
    BEFORE
    q = model(x)
    ATTENTION
    loss = y.float().square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
BY_HAND = "y = F.dropout((q @ x.transpose(1, 2) / 8**0.5).softmax(-1), 0.5) @ x"
FUSED = "y = F.scaled_dot_product_attention(q, x, x, dropout_p=0.5)"


DROPPED = "y = F.dropout(q, 0.3)"


def losses(folder: Path, attention: str, before: str = "pass", alike: int = 1) -> list[float]:
    room = folder / str(len(list(folder.iterdir())))
    room.mkdir()
    script = TRAINING.replace("BEFORE", before).replace("ATTENTION", attention)
    child = harness_child.run(room, script, Mode.EQUALITY, steps=3, alike=alike)
    assert child.status == 0, child.stderr
    return list(Trace.load(child.out / "rank0.json").losses())


def test_what_a_class_excuses_is_no_difference_and_what_it_does_not_is_one(tmp_path: Path) -> None:
    original = losses(tmp_path, BY_HAND)
    assert losses(tmp_path, FUSED) == pytest.approx(original, rel=1e-6)
    half = "x = x.bfloat16().to(torch.float16); torch.autocast('cpu', torch.bfloat16).__enter__(); x = x.float()"
    assert losses(tmp_path, BY_HAND, half) == pytest.approx(original, rel=1e-6)
    # One mask for all samples, and the same one in every step.
    shared = "y = (F.dropout(torch.ones(1, 4, 4), 0.5) * (q @ x.transpose(1, 2) / 8**0.5).softmax(-1)) @ x"
    for wrong in (shared, f"torch.manual_seed(1); {BY_HAND}"):
        assert losses(tmp_path, wrong) != pytest.approx(original, rel=1e-3)


@pytest.mark.parametrize("before", [
    "model.to(memory_format=torch.channels_last); x = x.to(memory_format=torch.channels_last)",
    "x = x.contiguous(memory_format=torch.channels_last)",
    "torch.backends.cudnn.benchmark = True",
])  # fmt: skip
def test_images_keep_their_layout_and_no_algorithms_are_timed(tmp_path: Path, before: str) -> None:
    images = f"x = x.reshape(2, 4, 2, 4); {before}; print(x.stride(), torch.backends.cudnn.benchmark)"
    script = TRAINING.replace("BEFORE", f"{images}; x = x.reshape(2, 4, 8)").replace("ATTENTION", BY_HAND)
    (tmp_path / "alike").mkdir()
    child = harness_child.run(tmp_path / "alike", script, Mode.EQUALITY, steps=3, alike=1)
    assert child.status == 0, child.stderr
    assert child.stdout.splitlines()[0] == "(32, 8, 4, 1) False"


@pytest.mark.parametrize(("alike", "written"), [
    (1, "y = torch.where(torch.rand_like(q) < 0.7, q / 0.7, 0.0)"),
    pytest.param(1, "y = q * (torch.rand(2, 4, 8) < 0.7) / 0.7", marks=pytest.mark.exhaustive),
    pytest.param(1, "y = q * torch.empty_like(q).bernoulli_(0.7).div_(0.7)", marks=pytest.mark.exhaustive),
    pytest.param(1, "y = q * torch.bernoulli(torch.full(q.shape, 0.7)) / 0.7", marks=pytest.mark.exhaustive),
    (2, "y = q * (torch.rand_like(q) >= 0.3) / 0.7"),
])  # fmt: skip
def test_dropout_as_it_may_be_written(tmp_path: Path, alike: int, written: str) -> None:
    original = losses(tmp_path, DROPPED, alike=alike)
    assert losses(tmp_path, written, alike=alike) == pytest.approx(original, rel=1e-6)
    wrong = written.replace("0.7", "0.6").replace("0.3", "0.4")
    assert losses(tmp_path, wrong, alike=alike) != pytest.approx(original, rel=1e-3)


def test_a_module_drops_the_same_of_the_whole_as_of_its_parts(tmp_path: Path) -> None:
    whole = losses(tmp_path, "y = after(drop(q))", alike=3)
    parts = "first, last = (after(drop(each)) for each in q.split(1)); y = torch.cat([first, last])"
    assert losses(tmp_path, parts, alike=3) == pytest.approx(whole, rel=1e-6)
    shared = "y = after(drop(torch.ones(1, 4, 8)) * q)"
    for wrong in (parts.replace("first, last]", "first, first]"), shared):
        assert losses(tmp_path, wrong, alike=3) != pytest.approx(whole, rel=1e-3)
