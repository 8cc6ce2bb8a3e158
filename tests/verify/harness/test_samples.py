"""A sample is the same whoever fetches it: random augmentation with and without workers, in any order of draws."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import harness_child
import pytest
import torchvision_cpu
from attrs import evolve

from perfmod.verify.job import Mode
from perfmod.verify.premises import compare_workers
from perfmod.verify.trace import Trace

SUPPORT = Path(torchvision_cpu.__file__).parent

IMAGES = """
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler
from torchvision import transforms


class Images(Dataset):
    augment = transforms.Compose([
        transforms.RandomCrop(12, padding=2),
        transforms.RandomHorizontalFlip(),
        transforms.ColorJitter(brightness=0.4),
    ])

    def __len__(self):
        return 44

    def __getitem__(self, index):
        image = self.augment(torch.full((3, 12, 12), index / 44.0))
        image = image + random.random() + np.random.rand() + np.random.default_rng().random()
        return image, index % 3, random.choice("abc")


def mixed_up(samples):
    images, labels, names = zip(*samples)
    shift = random.randrange(len(images))
    return torch.stack(images).roll(shift, 0), torch.tensor(labels).roll(shift), list(names)


def weights():
    return torch.arange(44.0) + 1


if __name__ == "__main__":
    generator = torch.Generator().manual_seed(3)
    loader = DataLoader(Images(), batch_size=8, OPTIONS)
    model = nn.Sequential(nn.Flatten(), nn.Linear(432, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for images, labels, _ in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images + torch.rand(1)), labels).backward()
            optimizer.step()
            torch.rand(1, generator=generator)
"""

# How many workers there are, how they begin and how long they live.
WORKERS = {
    "none": "num_workers=0",
    "four": "num_workers=4",
    "persistent": "num_workers=4, persistent_workers=True, prefetch_factor=3",
    "spawned": "num_workers=1, multiprocessing_context='spawn', persistent_workers=True",
    "forkserver": "num_workers=2, multiprocessing_context='forkserver', persistent_workers=True",
}


def trained(folder: Path, script: str, options: str) -> Trace:
    """The E-run of the script with these options of its loader, to the script's own end."""
    folder.mkdir()
    script = script.replace("OPTIONS", options)
    paths = (SUPPORT / "torchvision_on_cpu", SUPPORT)
    child = harness_child.run(folder, script, Mode.EQUALITY, paths=paths, steps=1000)
    assert child.status == 0, child.stderr
    return Trace.load(child.out / "rank0.json")


def compared(trace: Trace) -> Mapping[str, Any]:
    return {
        "batches": [(batch.epoch, batch.samples, batch.leaves) for batch in trace.batches()],
        "losses": trace.losses(),
        "snapshots": trace.snapshots,
    }


@pytest.mark.long
@pytest.mark.parametrize(("sampling", "workers"), [
    ("shuffle=True", ["spawned"]),
    pytest.param("shuffle=True", ["four", "persistent", "forkserver"], marks=pytest.mark.exhaustive),
    pytest.param("shuffle=True, generator=generator", ["four", "persistent"], marks=pytest.mark.exhaustive),
    ("sampler=WeightedRandomSampler(weights(), 44), collate_fn=mixed_up", ["persistent"]),
    pytest.param(
        "sampler=WeightedRandomSampler(weights(), 44, generator=generator)", ["four"], marks=pytest.mark.exhaustive
    ),
])  # fmt: skip
def test_batches_and_training_are_the_same_with_any_workers(tmp_path: Path, sampling: str, workers: list[str]) -> None:
    torchvision_cpu.load_or_skip()
    alone = trained(tmp_path / "none", IMAGES, f"{sampling}, {WORKERS['none']}")
    batches = list(alone.batches())
    assert [batch.samples for batch in batches] == [8, 8, 8, 8, 8, 4] * 2
    assert [batch.epoch for batch in batches] == [0] * 6 + [1] * 6
    # Every batch has its own images, and the second epoch another order: nothing is the same by being constant.
    assert len({batch.leaves[0].bits for batch in batches}) == 12
    for each in workers:
        assert compared(trained(tmp_path / each, IMAGES, f"{sampling}, {WORKERS[each]}")) == compared(alone), each


NOISY = """
import torch
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    kept = {}

    def __len__(self):
        return 8

    def __getitem__(self, index):
        drawn = torch.rand(2) + index
        return KEPT


if __name__ == "__main__":
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(Noisy(), batch_size=4, OPTIONS)
    for epoch in range(2):
        for batch in loader:
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
"""


@pytest.mark.parametrize(("kept", "differs"), [("drawn", True), ("self.kept.setdefault(index, drawn)", False)])
def test_each_epoch_draws_a_sample_anew(tmp_path: Path, kept: str, differs: bool) -> None:
    script = NOISY.replace("KEPT", kept)
    alone = compared(trained(tmp_path / "none", script, WORKERS["none"]))
    first, second = ([leaves for epoch, _, leaves in alone["batches"] if epoch == at] for at in (0, 1))
    assert (first != second) is differs
    if differs:
        assert compared(trained(tmp_path / "kept", script, WORKERS["persistent"])) == alone


STREAM = """
import random

import torch
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __iter__(self):
        offset = random.random()
        for number in range(10):
            yield torch.rand(2) + offset


if __name__ == "__main__":
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for name in ("first", "second"):
        loader = DataLoader(Stream(), batch_size=4, OPTIONS)
        for epoch in range(2):
            for batch in loader:
                optimizer.zero_grad()
                model(batch + torch.rand(1)).sum().backward()
                optimizer.step()
"""


def test_a_stream_is_the_same_in_the_training_process_and_in_a_worker(tmp_path: Path) -> None:
    alone = compared(trained(tmp_path / "none", STREAM, "num_workers=0"))
    assert [samples for _, samples, _ in alone["batches"]] == [4, 4, 2] * 4
    # Two loaders draw differently.
    assert alone["batches"][0] != alone["batches"][6]
    for name, options in {"one": "num_workers=1", "kept": "num_workers=1, persistent_workers=True"}.items():
        assert compared(trained(tmp_path / name, STREAM, options)) == alone, name


DRAWING = """
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(8, 2)), batch_size=4, num_workers=2, worker_init_fn=BEGIN)
for epoch in range(2):
    for (x,) in loader:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(("begin", "shared"), [
    ("None", []),
    ("lambda number: np.random.seed(torch.initial_seed() % 2**32)", []),
    ("lambda number: np.random.seed(0)", ["all workers of a loader draw the same random numbers from NumPy's stream"]),
    ("lambda number: torch.manual_seed(number) and None",
     ["the workers of a loader draw the same random numbers from torch's stream in each epoch"]),
])  # fmt: skip
def test_workers_that_draw_the_same_are_seen(tmp_path: Path, begin: str, shared: list[str]) -> None:
    seen = trained(tmp_path / "run", DRAWING.replace("BEGIN", begin), "")
    assert len(seen.workers) == 4
    own = compare_workers(evolve(seen, workers=()), seen)
    assert ([own.reason] if own else []) == shared
    assert compare_workers(seen, seen) is None
