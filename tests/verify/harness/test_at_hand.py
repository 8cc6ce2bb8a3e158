"""Batches at hand: the first ones come again, and an epoch is as long as it was."""

from __future__ import annotations

from pathlib import Path

import harness_child
import pytest

from perfmod.verify.job import Mode

TRAINING = """
import torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if __name__ == "__main__":
    loader = DataLoader(TensorDataset(torch.arange(20.0)[:, None]), batch_size=4, OPTIONS)
    for epoch in range(2):
        seen = []
        for (x,) in loader:
            seen.append(int(x[0, 0]))
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        print(*seen)
"""


@pytest.mark.parametrize(("options", "count", "wanted"), [
    ("num_workers=0", 2, ["0 4 0 4 0", "0 4 0 4 0"]),
    ("num_workers=2, persistent_workers=True", 2, ["0 4 0 4 0", "0 4 0 4 0"]),
    ("drop_last=True", 9, ["0 4 8 12 16", "0 4 8 12 16"]),
])  # fmt: skip
def test_the_first_batches_come_again(tmp_path: Path, options: str, count: int, wanted: list[str]) -> None:
    script = TRAINING.replace("OPTIONS", options)
    child = harness_child.run(tmp_path, script, Mode.TIMING, batches_at_hand=count, window_seconds=60.0)
    assert child.status == 0, child.stderr
    assert child.stdout.splitlines() == wanted
