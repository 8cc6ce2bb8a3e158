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


def losses(folder: Path, attention: str, before: str = "pass") -> list[float]:
    room = folder / str(len(list(folder.iterdir())))
    room.mkdir()
    script = TRAINING.replace("BEFORE", before).replace("ATTENTION", attention)
    child = harness_child.run(room, script, Mode.EQUALITY, steps=3, alike=True)
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
