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


LARGER = """
import torch
from torch.utils.data import DataLoader

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return {"x": torch.full((1,), float(index)), "name": str(index), "pair": (index, ITEM)}

model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in DataLoader(Data(), batch_size=2):
    print(batch["x"].flatten().tolist(), batch["name"], [part.tolist() for part in batch["pair"]])
    optimizer.zero_grad()
    model(batch["x"]).sum().backward()
    optimizer.step()
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


def test_larger_batches_repeat_their_samples(tmp_path: Path) -> None:
    script = LARGER.replace("ITEM", "2 * index")
    child = harness_child.run(tmp_path, script, Mode.TIMING, batches_at_hand=1, batch_times=2, window_seconds=60.0)
    assert child.status == 0, child.stderr
    first = "[0.0, 1.0, 0.0, 1.0] ['0', '1', '0', '1'] [[0, 1, 0, 1], [0, 2, 0, 2]]"
    assert child.stdout.splitlines() == [first] * 4


@pytest.mark.parametrize(("size", "lines"), [(2, 1), (3, 4)])
def test_another_batch_size_than_the_script_asks_for(tmp_path: Path, size: int, lines: int) -> None:
    script = LARGER.replace("ITEM", "index").replace("DataLoader(Data(), batch_size=2)", "DataLoader(Data(), 2)")
    child = harness_child.run(tmp_path, script, Mode.TIMING, own_batch=size, other_batch=8, window_seconds=60.0)
    assert child.status == 0, child.stderr
    assert len(child.stdout.splitlines()) == lines


def test_batches_of_another_layout_are_not_made_larger(tmp_path: Path) -> None:
    script = LARGER.replace("ITEM", "torch.tensor(3)").replace("batch_size=2", "batch_size=2, collate_fn=dict")
    script = script.replace("collate_fn=dict", "collate_fn=lambda items: {'x': torch.ones(3, 1)}")
    child = harness_child.run(tmp_path, script, Mode.TIMING, batches_at_hand=1, batch_times=2, window_seconds=60.0)
    assert "ValueError: a batch of 2 samples holds a tensor of shape (3, 1)" in child.stderr
