"""PM201: what the samples read while the training changes it, exceptions of samples, and data sets that are tiny."""

from __future__ import annotations

import pytest

from perfmod.codemods.engine import rewrite_together
from perfmod.codemods.results import Choice, Given
from perfmod.transforms.feeding.loader_without_workers import LoaderWithoutWorkers
from perfmod.transforms.finding import Safety
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


@pytest.mark.parametrize(("before", "inside", "sample"), [
    ("cur = {'v': 1.0}; dataset.level = cur", "cur['v'] += 1.0", "x = x * self.level['v']"),
    ("cur = [1.0]; setattr(dataset, 'level', cur)", "cur.append(1.0)", "x = x * self.level[-1]"),
    ("dataset.level = Shift()", "dataset.level.by += 1", "x = self.level(x)"),
    ("cur = Shift(); Photos.level = cur", "cur.by += 1", "x = self.level(x)"),
    ("pass", "CURRENT['v'] += 1.0", "x = x * CURRENT['v']"),
    ("global LEVEL", "LEVEL = float(x.mean())", "x = x * LEVEL"),
    ("model.register_forward_hook(lambda *_: CURRENT.update(v=2))", "pass", "x = x * CURRENT['v']"),
    ("optimizer.register_step_post_hook(bump)", "pass", "x = x * CURRENT['v']"),
])  # fmt: skip
def test_attached_and_global_state_that_the_loop_changes(before: str, inside: str, sample: str) -> None:
    top = "CURRENT, LEVEL = {'v': 1.0}, 1.0\n\n\ndef bump(*_):\n    CURRENT['v'] += 1.0\n"
    assert UNSEEN in said(written(top=top, before=before, inside=inside, sample=sample))


@pytest.mark.parametrize(("before", "inside", "sample"), [
    ("cur = {'v': 1.0}; dataset.level = cur", "print(cur['v'])", "x = x * self.level['v']"),
    ("cur = {'v': 1.0}; dataset.level = dict(cur)", "cur['v'] += 1.0", "x = x * self.level['v']"),
    ("level = 1.0; dataset.level = level", "level += 1.0", "x = x * self.level"),
    ("optimizer.register_step_post_hook(bump)", "pass", "x = x * LEVEL"),
    ("global STEPS", "STEPS += 1", "x = x * LEVEL"),
])  # fmt: skip
def test_other_state_may_change(before: str, inside: str, sample: str) -> None:
    top = "CURRENT, LEVEL, STEPS = {'v': 1.0}, 1.0, 0\n\n\ndef bump(*_):\n    CURRENT['v'] += 1.0\n"
    assert said(written(top=top, before=before, inside=inside, sample=sample)) == ""


@pytest.mark.parametrize(("reads", "inside"), [
    ("self.trainer.level", "self.level += 1.0"),
    ("self.trainer.level", "self.harder()"),
    ("self.trainer.level", "setattr(self, 'level', 2.0)"),
    ("self.trainer.options['rate']", "self.options['rate'] += 1.0"),
    ("self.trainer.options['rate']", "options = self.options; options.update(rate=2.0)"),
])  # fmt: skip
def test_a_trainer_that_the_data_set_reads(reads: str, inside: str) -> None:
    assert UNSEEN in said(TRAINED.replace("READS", reads).replace("INSIDE", inside))


@pytest.mark.parametrize(("reads", "inside"), [
    ("self.trainer.level", "self.seen += 1"),
    ("self.trainer.options['rate']", "self.level += 1"),
    ("1.0", "self.harder()"),
])  # fmt: skip
def test_a_trainer_may_change_what_no_sample_reads(reads: str, inside: str) -> None:
    assert UNSEEN not in said(TRAINED.replace("READS", reads).replace("INSIDE", inside))


RAISES = """\
import contextlib
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Bad(Exception):
    def __init__(self, index, path):
        super().__init__(f"{index} {path}")


class Watch:
    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        return EXIT


class Photos(Dataset):
    def __len__(self):
        return 800

    def __getitem__(self, index):
        if index == 9:
            ERROR
        return torch.load(f"{index}.pt")


def main():
    model = nn.Linear(1, 1).to("cuda")
    AROUND
        for x in DataLoader(Photos(), batch_size=2):
            model(x.to("cuda")).mean().backward()
    BEHIND


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(("around", "behind", "error", "leaves", "reason"), [
    ("with contextlib.suppress(Bad):", "pass", "raise Bad(index, 'x')", "False",
     "handles errors, and one that a sample raises (line 26)"),
    ("try:", "except Bad: pass", "raise Bad(index, 'x')", "False", "raises (line 26)"),
    ("try:", "except OSError as e: print(e.filename)", "index = 0", "False", "reads `e.filename` of an exc"),
    ("with Watch():", "pass", "raise ValueError(index)", "print(error)", "line 32 handles errors"),
    ("with Watch():", "pass", "raise ValueError(index)", "False", ""),
    ("if True:", "pass", "raise Bad(index, 'x')", "False", ""),
    ("try:", "except OSError: print('missing')", "index = 0", "False", ""),
])  # fmt: skip
def test_exceptions_of_samples_that_somebody_handles(
    around: str, behind: str, error: str, leaves: str, reason: str
) -> None:
    code = RAISES.replace("AROUND", around).replace("BEHIND", behind).replace("ERROR", error).replace("EXIT", leaves)
    assert reason in said(code)
    assert bool(reason) == bool(said(code))


SMALL = """\
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Small(Dataset):
    def __init__(self, size):
        self.items = list_of(size)
        self.size = size

    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        return SAMPLE


def list_of(size):
    return [float(n) for n in range(size)]


def main():
    model = nn.Linear(1, 1).to("cuda")
    loader = DataLoader(Small(500), batch_size=BATCH)
    for epoch in range(EPOCHS):
        for x in loader:
            model(x.to("cuda")).mean().backward()


if __name__ == "__main__":
    main()
"""
QUICK = "torch.tensor([float(index)]).sqrt()"


@pytest.mark.parametrize(("length", "sample", "batch", "epochs", "batches"), [
    ("500", QUICK, "50", "10", "an epoch has 10 batches"),
    ("self.size", QUICK, "50", "epochs", "an epoch has 10 batches"),
    ("len(self.items)", QUICK, "50", "10", "an epoch has 10 batches"),
    ("500", QUICK, "500", "10", "an epoch has one batch"),
    ("500", QUICK, "10", "10", ""),
    ("500", QUICK, "50", "1", ""),
    ("50_000", QUICK, "50", "10", ""),
    ("500", "Image.open(f'{index}.png')", "50", "10", ""),
    ("500", "torch.load(f'{index}.pt')", "50", "10", ""),
    ("measure()", QUICK, "50", "10", ""),
])  # fmt: skip
def test_tiny_data_sets_gain_little(length: str, sample: str, batch: str, epochs: str, batches: str) -> None:
    code = SMALL.replace("LENGTH", length).replace("SAMPLE", sample).replace("BATCH", batch).replace("EPOCHS", epochs)
    result = rewrite_together([Given("train.py", code.encode(), ("train",))], [LoaderWithoutWorkers()], Choice())[0]
    found = [(each.safety, each.reason) for each in (*result.applied, *result.held_back)]
    if batches:
        assert [safety for safety, _ in found] == [Safety.LOW_IMPACT]
        assert found[0][1] == f"{batches} of small samples, which load faster than workers start"
    else:
        assert len(result.applied) == 1


@pytest.mark.parametrize(("inside", "sample", "is_read"), [
    ("torch.save(x, 'level.pt')", "x = x * torch.load('level.pt')", True),
    ("torch.save(x, LEVEL)", "x = x * torch.load('level.pt')", True),
    ("open(LEVEL, 'w').write(str(epoch))", "x = x * float(open(LEVEL).read())", True),
    ("torch.save(x, os.path.join(ROOT, f'{epoch}.pt'))", "torch.load(os.path.join(ROOT, f'{index}.pt'))", True),
    ("torch.save(model.state_dict(), 'model.pt')", "x = x * torch.load('level.pt')", False),
    ("torch.save(model.state_dict(), f'model{epoch}.pt')", "torch.load(f'photo{index}.pt')", False),
    ("print(open(LEVEL).read())", "x = x * torch.load('level.pt')", False),
    ("torch.save(x, LEVEL)", "pass", False),
])  # fmt: skip
def test_files_that_the_loop_writes_and_samples_read(inside: str, sample: str, is_read: bool) -> None:
    top = "import os\nLEVEL, ROOT = 'level.pt', os.environ['HOME']\n"
    assert said(written(top=top, inside=inside, sample=sample)).endswith(UNSEEN) is is_read
