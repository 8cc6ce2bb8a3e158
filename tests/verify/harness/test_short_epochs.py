"""Epochs end early, with any workers, and the script is told the same length."""

from __future__ import annotations

from pathlib import Path

import harness_child
import pytest

from perfmod.verify.job import Mode
from perfmod.verify.trace import Trace

TRAINING = """
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if __name__ == "__main__":
    loader = DataLoader(TensorDataset(torch.randn(40, 2)), batch_size=2, shuffle=True, OPTIONS)
    few = DataLoader(TensorDataset(torch.randn(4, 2)), batch_size=2)
    print(len(loader), len(iter(loader)), len(few))
    for epoch in range(3):
        for (x,) in loader:
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        print("evaluated", sum(1 for _ in few))
"""


@pytest.mark.parametrize("options", ["num_workers=0", "num_workers=2", "num_workers=2, persistent_workers=True"])
def test_each_epoch_has_so_many_batches(tmp_path: Path, options: str) -> None:
    script = TRAINING.replace("OPTIONS", options)
    child = harness_child.run(tmp_path, script, Mode.EQUALITY, steps=100, epoch=3)
    assert child.status == 0, child.stderr
    trace = Trace.load(child.out / "rank0.json")
    assert trace.ended == "exit"
    assert trace.printed.split() == ["3", "3", "2", *("evaluated", "2") * 3]
    trained = [batch for batch in trace.batches() if batch.loader != 1]
    # `iter` above has begun the first.
    assert [batch.epoch for batch in trained] == [1] * 3 + [2] * 3 + [3] * 3
