"""PM201: a method as collate function is sent to the workers with all that its object keeps."""

from __future__ import annotations

import pytest

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


LOST = "cannot be pickled, which spawn and forkserver need for workers"
MOVED = "is sent to the workers with the object whose method they call, and may be on the device"


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"keeps": "self.log = lambda m: print(m)"}, f"a lambda (line 33) {LOST}"),
        ({"keeps": "self.file = open('log.txt', 'w')"}, f"the open handle open('log.txt', 'w') (line 33) {LOST}"),
        ({"keeps": "self.files = {1: open('log.txt')}"}, f"the open handle open('log.txt') (line 33) {LOST}"),
        ({"keeps": "self.lock = threading.Lock()"}, LOST),
        ({"keeps": "self.writer = SummaryWriter()"}, f"what SummaryWriter() makes (line 33) {LOST}"),
        ({"keeps": "self.rest = (n for n in range(3))"}, f"a generator (line 33) {LOST}"),
        ({"keeps": "self.hooks = []; self.hooks.append(lambda: 1)"}, f"a lambda (line 33) {LOST}"),
        ({"words": "self.names = {'a': 1}.keys()"}, f"the view {{'a': 1}}.keys() of a dictionary (line 24) {LOST}"),
        ({"before": "feeder.words = lambda: 1"}, f"a lambda (line 55) {LOST}"),
        ({"before": "feeder.words.log = lambda: 1"}, f"a lambda (line 55) {LOST}"),
        ({"before": "feeder.done = lambda: 1"}, f"a lambda (line 55) {LOST}"),
        ({"keeps": "self.it = iter(DataLoader(Numbers()))"}, "the iterator iter(DataLoader(Numbers())) (line 33)"),
        ({"keeps": "self.model = nn.Linear(3, 2).to(device)"}, f"nn.Linear(3, 2).to(device) (line 33) {MOVED}"),
        ({"keeps": "self.model = nn.Linear(3, 2)"}, f"nn.Linear(3, 2) (line 33) {MOVED}"),
        ({"keeps": "self.opt = torch.optim.SGD(nn.Linear(1, 1).parameters())"}, MOVED),
        ({"keeps": "self.weights = torch.ones(3).to(device)"}, f"torch.ones(3).to(device) (line 33) {MOVED}"),
        ({"keeps": "self.weights = torch.ones(3, device='cuda')"}, MOVED),
        ({"keeps": "self.parts = [nn.Linear(3, 2)]"}, MOVED),
        ({"keeps": "self.run = wandb.init()"}, "the code of wandb.init() (line 33) was not found"),
        ({"inside": "self.pad = float(x.mean())"}, "changes data that the loader reads while it runs"),
        ({"inside": "self.pad += 1"}, "line 50 changes data that the loader reads while it runs"),
    ],
)
@pytest.mark.parametrize("handed", ["collate_fn=self.collate", "worker_init_fn=self.start"])
def test_what_its_object_keeps(parts: dict[str, str], reason: str, handed: str) -> None:
    if "inside" in parts and handed != "collate_fn=self.collate":
        assert fed(handed, **parts) == ""
    else:
        assert reason in fed(handed, **parts)


@pytest.mark.parametrize(
    ("handed", "parts"),
    [
        ("collate_fn=self.collate", {}),
        ("collate_fn=self.collate", {"keeps": "self.logger = logging.getLogger(__name__)"}),
        ("collate_fn=self.collate", {"keeps": "self.names = list({'a': 1}.keys()); self.mean = torch.ones(3)"}),
        ("collate_fn=self.collate", {"inside": "self.rate *= 0.5"}),
        ("collate_fn=self.collate", {"before": "feeder.pad = 1.0"}),
        ("collate_fn=self.plain", {"keeps": "self.log = lambda m: print(m)"}),
        ("collate_fn=dataset.gather", {"keeps": "self.log = lambda m: print(m)"}),
    ],
)
def test_what_can_be_sent(handed: str, parts: dict[str, str]) -> None:
    assert fed(handed, **parts) == ""
