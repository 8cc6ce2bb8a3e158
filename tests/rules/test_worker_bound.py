"""PM201: a method as collate function reaches workers with its object, which a fork hands over as it is."""

from __future__ import annotations

import pytest

from perfmod.codemods.engine import rewrite_together
from perfmod.codemods.results import Choice, Given
from perfmod.transforms.feeding.loader_without_workers import LoaderWithoutWorkers
from tests.rules.test_worker_traps import said

TRAINER = """\
import logging
import threading
import torch
import wandb
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.tensorboard import SummaryWriter


class Numbers(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.full((3,), float(index)).sqrt(), index % 2

    def gather(self, items):
        return torch.stack([item[0] for item in items]), torch.tensor([item[1] for item in items])


class Words:
    def __init__(self):
        self.size = 3
        WORDS


class Feeder:
    def __init__(self, device, rate: float, hook=None):
        self.device = device
        self.rate = rate
        self.pad = 0.0
        self.words = Words()
        KEEPS

    def collate(self, items):
        return torch.stack([item[0] + self.pad for item in items]), torch.tensor([item[1] for item in items])

    @staticmethod
    def plain(items):
        return torch.stack([item[0] for item in items]), torch.tensor([item[1] for item in items])

    def start(self, index):
        torch.set_num_threads(1)

    def train(self, model):
        dataset = Numbers()
        loader = DataLoader(dataset, batch_size=2, collate_fn=self.collate)
        for x, y in loader:
            model(x.to(model.weight.device)).sum().backward()
            INSIDE


def main():
    feeder = Feeder(torch.device("cuda"), 0.1)
    BEFORE
    feeder.train(nn.Linear(3, 2))


if __name__ == "__main__":
    main()
"""


def fed(handed: str = "collate_fn=self.collate", **parts: str) -> str:
    code = TRAINER.replace("collate_fn=self.collate", handed)
    for name in ("KEEPS", "WORDS", "INSIDE", "BEFORE"):
        code = code.replace(name, parts.pop(name.lower(), "pass"))
    assert not parts
    return said(code)


@pytest.mark.parametrize(("parts", "reason"), [
    ({"keeps": "self.log = lambda m: print(m)"}, ""),
    ({"keeps": "self.lock = threading.Lock()"}, ""),
    ({"keeps": "self.writer = SummaryWriter()"}, ""),
    ({"keeps": "self.model = nn.Linear(3, 2).to(device)"}, ""),
    ({"keeps": "self.run = wandb.init()"}, ""),
    ({"inside": "self.rate *= 0.5"}, ""),
    ({"before": "feeder.pad = 1.0"}, ""),
    ({"inside": "self.pad = float(x.mean())"}, "changes data that the loader reads"),
    ({"inside": "self.pad += 1"}, "line 50 changes data that the loader reads"),
])  # fmt: skip
def test_what_its_object_keeps(parts: dict[str, str], reason: str) -> None:
    assert reason in fed(**parts)
    assert bool(fed(**parts)) is bool(reason)


def test_an_open_file_that_the_method_reads() -> None:
    held = "self.pad = open('pad.txt')"
    assert "open('pad.txt') (line 33) is opened before the workers start" in fed(keeps=held)


@pytest.mark.parametrize(
    ("handed", "is_forked"), [("self.collate", True), ("self.plain", False), ("dataset.gather", False)]
)
def test_only_methods_of_other_objects_need_a_fork(handed: str, is_forked: bool) -> None:
    code = TRAINER.replace("self.collate", handed)
    for name in ("KEEPS", "WORDS", "INSIDE", "BEFORE"):
        code = code.replace(name, "pass")
    (result,) = rewrite_together([Given("train.py", code.encode())], [LoaderWithoutWorkers()], Choice())
    assert ("multiprocessing_context" in result.after.decode()) is is_forked
