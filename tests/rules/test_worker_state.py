"""PM201: what the samples read while the training changes it, exceptions of samples, and data sets that are tiny."""

from __future__ import annotations

import pytest

from tests.rules.test_worker_traps import said, written

UNSEEN = "changes data that the loader reads while it runs, which workers would not see"
TRAINED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __init__(self, trainer):
        self.trainer = trainer

    def __len__(self):
        return 800

    def __getitem__(self, index):
        return torch.tensor([float(index)]).sqrt() * READS


class Trainer:
    def __init__(self, device):
        self.level, self.seen, self.device = 1.0, 0, device
        self.options = {"rate": 1.0}
        self.loader = DataLoader(Numbers(self), batch_size=4)

    def harder(self):
        self.level += 1.0

    def fit(self, model):
        for epoch in range(3):
            for x in self.loader:
                model(x.to(self.device)).mean().backward()
                INSIDE
            self.level = epoch


if __name__ == "__main__":
    Trainer(torch.device("cuda")).fit(nn.Linear(1, 1).to("cuda"))
"""


@pytest.mark.parametrize(
    ("before", "inside", "sample"),
    [
        ("cur = {'v': 1.0}; dataset.level = cur", "cur['v'] += 1.0", "x = x * self.level['v']"),
        ("cur = [1.0]; setattr(dataset, 'level', cur)", "cur.append(1.0)", "x = x * self.level[-1]"),
        ("dataset.level = Shift()", "dataset.level.by += 1", "x = self.level(x)"),
        ("cur = Shift(); Photos.level = cur", "cur.by += 1", "x = self.level(x)"),
        ("pass", "CURRENT['v'] += 1.0", "x = x * CURRENT['v']"),
        ("global LEVEL", "LEVEL = float(x.mean())", "x = x * LEVEL"),
        ("model.register_forward_hook(lambda *_: CURRENT.update(v=2))", "pass", "x = x * CURRENT['v']"),
        ("optimizer.register_step_post_hook(bump)", "pass", "x = x * CURRENT['v']"),
    ],
)
def test_attached_and_global_state_that_the_loop_changes(before: str, inside: str, sample: str) -> None:
    top = "CURRENT, LEVEL = {'v': 1.0}, 1.0\n\n\ndef bump(*_):\n    CURRENT['v'] += 1.0\n"
    assert UNSEEN in said(written(top=top, before=before, inside=inside, sample=sample))


@pytest.mark.parametrize(
    ("before", "inside", "sample"),
    [
        ("cur = {'v': 1.0}; dataset.level = cur", "print(cur['v'])", "x = x * self.level['v']"),
        ("cur = {'v': 1.0}; dataset.level = dict(cur)", "cur['v'] += 1.0", "x = x * self.level['v']"),
        ("level = 1.0; dataset.level = level", "level += 1.0", "x = x * self.level"),
        ("optimizer.register_step_post_hook(bump)", "pass", "x = x * LEVEL"),
        ("global STEPS", "STEPS += 1", "x = x * LEVEL"),
    ],
)
def test_other_state_may_change(before: str, inside: str, sample: str) -> None:
    top = "CURRENT, LEVEL, STEPS = {'v': 1.0}, 1.0, 0\n\n\ndef bump(*_):\n    CURRENT['v'] += 1.0\n"
    assert said(written(top=top, before=before, inside=inside, sample=sample)) == ""


@pytest.mark.parametrize(
    ("reads", "inside"),
    [
        ("self.trainer.level", "self.level += 1.0"),
        ("self.trainer.level", "self.harder()"),
        ("self.trainer.level", "setattr(self, 'level', 2.0)"),
        ("self.trainer.options['rate']", "self.options['rate'] += 1.0"),
        ("self.trainer.options['rate']", "options = self.options; options.update(rate=2.0)"),
    ],
)
def test_a_trainer_that_the_data_set_reads(reads: str, inside: str) -> None:
    assert UNSEEN in said(TRAINED.replace("READS", reads).replace("INSIDE", inside))


@pytest.mark.parametrize(
    ("reads", "inside"),
    [
        ("self.trainer.level", "self.seen += 1"),
        ("self.trainer.options['rate']", "self.level += 1"),
        ("1.0", "self.harder()"),
    ],
)
def test_a_trainer_may_change_what_no_sample_reads(reads: str, inside: str) -> None:
    assert UNSEEN not in said(TRAINED.replace("READS", reads).replace("INSIDE", inside))
