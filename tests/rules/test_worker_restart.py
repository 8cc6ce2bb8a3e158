"""PM203: workers stay from epoch to epoch, when nothing that they hold changes."""

from __future__ import annotations

import pytest

from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, FileResult
from perfmod.transforms.feeding.worker_restart import WorkerRestart
from perfmod.transforms.finding import Numerics, Safety

CODE = """\
import os
import torch
from torch.utils.data import DataLoader, Dataset
from data import workers, Foreign

class Squares(Dataset):
    def __init__(self):
        self.epoch = 0

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.tensor([float(index) ** 2])

    def set_epoch(self, epoch):
        self.epoch = epoch


def main(model, epochs):
    dataset = Squares()
    loader = DataLoader(dataset, batch_size=2, num_workers=2)
    for epoch in range(epochs):
        for x in loader:
            model(x).sum().backward()
"""


def run(code: str, *, selected: bool = True) -> FileResult:
    choice = Choice(unsafe=True, opted_in=frozenset({"PM203"} if selected else ()))
    result = rewrite(code.encode(), "train.py", [WorkerRestart()], choice)
    assert not result.reason
    return result


def test_it_has_to_be_selected() -> None:
    result = run(CODE, selected=False)
    assert [(f.safety, f.numerics) for f in result.held_back] == [(Safety.OPT_IN, Numerics.SAMPLING)]
    assert "num_workers=2, persistent_workers=True)" in run(CODE).after.decode()
    assert not run(run(CODE).after.decode()).applied


def test_it_says_which_random_numbers_are_others() -> None:
    (plain,) = run(CODE, selected=False).held_back
    assert plain.reason == "every sample stays the same; later shuffles and dropout draw other random numbers"
    (drawn,) = run(CODE.replace("float(index) ** 2", "torch.rand(1).item()"), selected=False).held_back
    assert drawn.reason.startswith("from epoch 2 on `torch.rand()` (line 14) draws other random numbers")


@pytest.mark.parametrize(("workers", "kept"), [
    ("4", "True"),
    ("workers", "workers > 0"),
    ("os.cpu_count()", "True"),
    ("min(8, os.cpu_count())", "True"),
])  # fmt: skip
def test_numbers_of_workers(workers: str, kept: str) -> None:
    code = CODE.replace("num_workers=2", f"num_workers={workers}")
    after = " ".join(run(code).after.decode().split())
    assert f"num_workers={workers}, persistent_workers={kept})" in after


def test_an_epoch_in_a_function() -> None:
    code = CODE.replace("        for x in loader:\n            model(x)", "        train(model, loader)\n\n\nREST")
    code = code.replace(
        "REST.sum().backward()", "def train(model, loader):\n    for x in loader:\n        model(x).sum()"
    )
    assert run(code).applied


@pytest.mark.parametrize(("change", "reason"), [
    (("        for x", "        dataset.set_epoch(epoch)\n        for x"), "may change the dataset"),
    (("        for x", "        dataset.epoch = epoch\n        for x"), "may change the dataset"),
    (("        for x", "        loader.dataset.epoch += 1\n        for x"), "may change the dataset"),
    (("        return torch", "        self.epoch += index\n        return torch"), "from one epoch to the next"),
    (("dataset = Squares()", "dataset = Foreign()"), "perfmod cannot see the code of"),
    (("num_workers=2", "num_workers=workers()"), "only known at run time"),
    (("num_workers=2)", "num_workers=2, **epochs)"), "could not be determined"),
])  # fmt: skip
def test_refusals_say_why(change: tuple[str, str], reason: str) -> None:
    result = run(CODE.replace(*change))
    assert not result.applied
    assert [reason in finding.reason for finding in result.refused] == [True]


def test_a_sampler_may_change() -> None:
    code = CODE.replace("batch_size=2", "batch_size=2, sampler=sampler").replace(
        "    loader =", "    sampler = torch.utils.data.DistributedSampler(dataset)\n    loader ="
    )
    assert run(code.replace("        for x", "        sampler.set_epoch(epoch)\n        for x")).applied


@pytest.mark.parametrize("change", [
    ("num_workers=2", "num_workers=0"),
    (", num_workers=2", ""),
    ("num_workers=2", "num_workers=2, persistent_workers=False"),
    ("    for epoch in range(epochs):\n        for x in loader:\n    ", "    for x in loader:\n"),
    ("    loader = DataLoader(dataset, batch_size=2, num_workers=2)\n    for epoch in range(epochs):",
     "    for epoch in range(epochs):\n        loader = DataLoader(dataset, batch_size=2, num_workers=2)"),
])  # fmt: skip
def test_nothing_is_started_again(change: tuple[str, str]) -> None:
    result = run(CODE.replace(*change))
    assert not result.applied
    assert not result.refused


TRAP = """\
import argparse, copy, functools, os, random
import numpy as np
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Sampler, Subset, random_split
from curriculum import advance

LABELS = {}

class Photos(Dataset):
    def __init__(self, items, shift):
        self.items = items
        self.shift = shift

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.shift(torch.tensor([float(self.items[index])]))

class Shift:
    def __init__(self):
        self.by = 0.0

    def __call__(self, x):
        return x + self.by

def seeded(worker):
    np.random.seed(worker)

def reseeded(worker):
    np.random.seed(torch.initial_seed() % 2**32)

@functools.lru_cache(None)
def noise(x):
    return x + torch.rand(1)

def relabel(x):
    return x + LABELS.get(int(x[0]), 0)

class Collate:
    def __init__(self):
        self.epoch = 0

    def __call__(self, batch):
        return torch.stack(batch) + self.epoch

class Scales(Sampler):
    def __init__(self, dataset):
        self.dataset = dataset

    def __iter__(self):
        self.dataset.scale = random.random()
        return iter(range(len(self.dataset)))

def measure(model, loader):
    for x in loader:
        model(x)

def forever(loader):
    while True:
        for x in loader:
            yield x

def main(workers=2):
    options = argparse.ArgumentParser()
    options.add_argument("--workers", type=int, default=4)
    args = options.parse_args()
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    items, array = list(range(8)), torch.arange(8.0)
    shift, collate = Shift(), Collate()
    dataset = Photos(items, shift)
    part, _ = random_split(dataset, [6, 2])
    loader = DataLoader(dataset, batch_size=2, num_workers=2)
    for epoch in range(3):
        for x in loader:
            loss = model(x).sum()
            loss.backward()
        print(epoch)


if __name__ == "__main__":
    main()
"""
AT_END = "        print(epoch)\n"
MADE = "DataLoader(dataset, batch_size=2, num_workers=2)"
COLLATED = MADE.replace(")", ", collate_fn=collate)")
AT_START = "for x in loader:\n            loss"
FOREVER = "for x in forever(loader):\n            next(forever(loader))\n            loss"


@pytest.mark.parametrize(
    "line",
    [
        "shift.by = float(epoch)", "items.append(epoch)", "items[:] = items[::-1]", "random.shuffle(items)",
        "Photos.scale = epoch", "vars(dataset)['scale'] = epoch", "advance(dataset, epoch)", "dataset.shift.by += 1",
    ],
)  # fmt: skip
def test_what_the_dataset_was_made_of_changes(line: str) -> None:
    result = run(TRAP.replace(AT_END, f"{AT_END}        {line}\n"))
    assert not result.applied
    assert "line 80 may change the dataset" in result.refused[0].reason


@pytest.mark.parametrize(("made", "line"), [
    ("Subset(dataset, [0, 1])", "dataset.scale = epoch"),
    ("ConcatDataset([dataset, dataset])", "items.append(epoch)"),
    ("part", "dataset.scale = epoch"),
    ("part", "part.dataset.scale = epoch"),
    ("Photos(array, shift)", "array.mul_(2)"),
])  # fmt: skip
def test_a_dataset_of_datasets(made: str, line: str) -> None:
    code = TRAP.replace(MADE, MADE.replace("dataset", made)).replace(AT_END, f"{AT_END}        {line}\n")
    assert "line 80 may change the dataset" in run(code).refused[0].reason


@pytest.mark.parametrize(("change", "reason"), [
    ((MADE, COLLATED, AT_END, AT_END + "        collate.epoch += 1\n"), "line 80 may change"),
    ((AT_END, AT_END + "        loader.collate_fn = torch.stack\n"), "line 80 changes the loader"),
    ((AT_END, AT_END + "        print(loader.persistent_workers)\n"), "line 80 reads `persistent_workers`"),
    (("(items, shift)", "(items, relabel)", AT_END, AT_END + "        LABELS[epoch] = 1\n"), "line 80 may change"),
    (("(items, shift)", "(items, noise)"), "random draws of line 34 would be kept"),
    ((MADE, MADE.replace(")", ", worker_init_fn=seeded)")), "line 28 gives the workers"),
    (("(items, shift)", "(items, model)"), "line 69 trains"),
    ((MADE, MADE.replace(")", ", sampler=Scales(dataset))")), "line 52 may change the dataset"),
    (("for x in loader:\n            loss", "for x, y in zip(loader, loader):\n            loss"), "line 76"),
    (("loss.backward()", "loss.backward()\n            measure(model, loader)"), "line 56 starts it again"),
    ((AT_START, FOREVER), "forever (line 61) may iterate over it several times"),
    ((AT_END, AT_END + "        kept = copy.deepcopy(loader)\n"), "line 80 copies or pickles the loader"),
    ((AT_END, AT_END + "        torch.save({'loader': loader}, 'l.pt')\n"), "line 80 copies or pickles the loader"),
    (("num_workers=2", "num_workers=int(len(os.sched_getaffinity(0)) / 2)"), "only known at run time"),
])  # fmt: skip
def test_traps_say_why(change: tuple[str, ...], reason: str) -> None:
    code = TRAP
    for before, after in zip(change[::2], change[1::2], strict=True):
        assert before in code
        code = code.replace(before, after)
    result = run(code)
    assert not result.applied
    assert [finding.reason for finding in result.refused if reason not in finding.reason] == []
    assert result.refused


@pytest.mark.parametrize(("change", "kept"), [
    (("", ""), "True"),
    (("    loader =", "    dataset.scale = 2\n    items.append(3)\n    loader ="), "True"),
    ((AT_END, AT_END + "        print(dataset.items.index(3), len(dataset))\n"), "True"),
    ((AT_END, AT_END + "        first = next(iter(loader))\n"), "True"),
    ((MADE, MADE.replace(")", ", worker_init_fn=reseeded)")), "True"),
    (("num_workers=2", "num_workers=args.workers"), "args.workers > 0"),
    (("num_workers=2", "num_workers=workers"), "workers > 0"),
])  # fmt: skip
def test_look_alikes_of_traps(change: tuple[str, str], kept: str) -> None:
    result = run(TRAP.replace(*change))
    assert f"persistent_workers={kept})" in result.after.decode()


def test_the_environment_changes() -> None:
    code = TRAP.replace("LABELS.get(int(x[0]), 0)", "float(os.environ.get('SHIFT', 0))")
    code = code.replace("(items, shift)", "(items, relabel)")
    assert run(code).applied
    result = run(code.replace(AT_END, f"{AT_END}        os.environ['SHIFT'] = str(epoch)\n"))
    assert "line 80 may change the dataset" in result.refused[0].reason


@pytest.mark.parametrize("made", ["loader = build()\n    for x in loader", "for x in build()"])
def test_a_loader_of_every_epoch(made: str) -> None:
    code = (
        CODE[: CODE.index("def main")]
        + f"""\
def build():
    return DataLoader(Squares(), batch_size=2, num_workers=2)

def epoch(model):
    {made}:
        model(x).sum().backward()

def main(model, epochs):
    for _ in range(epochs):
        epoch(model)
"""
    )
    result = run(code)
    assert not result.applied
    assert not result.refused
