"""Checkpoints of a training before it is rewritten serve it afterwards, and the other way round."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from golden_harness.sides import run_script

from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice
from perfmod.transforms.policy import HalfType, Policy

SCRIPT = """\
import json
import os

import torch
import torch.nn.functional as F
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3))
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


model = Net().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
if os.path.exists("resumed.pt"):
    state = torch.load("resumed.pt", map_location=device)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
torch.manual_seed(1)
losses = []
for step in range(6):
    x = torch.randn(8, 3, 8, 8).to(device)
    y = torch.randint(4, (8,)).to(device)
    output = model(x)
    loss = F.cross_entropy(output, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "checkpoint.pt")
print(json.dumps([float(each) for each in losses]))
"""
CODES = ("PM301", "PM302", "PM304", "PM305")
APART = 0.03
"""Relative difference of losses in other formats of numbers, after some steps."""


def rewritten(code: str, half_type: HalfType = HalfType.BFLOAT16) -> bytes:
    rules = [rule for rule in catalog.rules() if rule.code == code]
    result = rewrite(
        SCRIPT.encode(),
        "train.py",
        rules,
        Choice(opted_in=frozenset({code}), unsafe=True, low_impact=True, policy=Policy(half_type=half_type)),
    )
    assert len(result.applied) == 1, result
    return result.after


def trained(script: bytes, folder: Path, resumed: Path | None = None) -> list[float]:
    """The losses of a training, which leaves its checkpoint in the folder."""
    folder.mkdir()
    if resumed is not None:
        (folder / "resumed.pt").write_bytes((resumed / "checkpoint.pt").read_bytes())
    status, printed = run_script(script, folder)
    assert status == 0
    losses: list[float] = json.loads(printed)
    return losses


def shape(value: object) -> object:
    """What a checkpoint looks like: its names, and types and shapes of its tensors."""
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(value.shape)
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    return [shape(each) for each in value] if isinstance(value, (list, tuple)) else type(value)


@pytest.mark.parametrize(("code", "half_type"), [
    *((code, HalfType.BFLOAT16) for code in CODES), ("PM301", HalfType.FLOAT16),
    pytest.param("PM303", HalfType.BFLOAT16, marks=pytest.mark.exhaustive),
])  # fmt: skip
def test_a_checkpoint_goes_both_ways(tmp_path: Path, code: str, half_type: HalfType) -> None:
    before, after = SCRIPT.encode(), rewritten(code, half_type)
    trained(before, tmp_path / "before")
    trained(after, tmp_path / "after")
    wanted = trained(before, tmp_path / "usual", tmp_path / "before")
    assert trained(after, tmp_path / "there", tmp_path / "before") == pytest.approx(wanted, rel=APART)
    assert trained(before, tmp_path / "back", tmp_path / "after") == pytest.approx(wanted, rel=APART)
    old, new = (torch.load(tmp_path / each / "checkpoint.pt") for each in ("before", "after"))
    assert shape(new["model"]) == shape(old["model"])
    assert shape(new["optimizer"]["state"]) == shape(old["optimizer"]["state"])
