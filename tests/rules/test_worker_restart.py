"""PM203: workers stay from epoch to epoch, when nothing that they hold changes."""

from __future__ import annotations

import pytest

from perfmod.codemods.engine import Choice, FileResult, rewrite
from perfmod.transforms.feeding.worker_restart import WorkerRestart
from perfmod.transforms.rule import Numerics, Safety

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


@pytest.mark.parametrize(
    ("workers", "kept"),
    [
        ("4", "True"),
        ("workers", "workers > 0"),
        ("os.cpu_count()", "True"),
        ("min(8, os.cpu_count())", "True"),
    ],
)
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


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("        for x", "        dataset.set_epoch(epoch)\n        for x"), "may change the dataset"),
        (("        for x", "        dataset.epoch = epoch\n        for x"), "may change the dataset"),
        (("        for x", "        loader.dataset.epoch += 1\n        for x"), "may change the dataset"),
        (("        return torch", "        self.epoch += index\n        return torch"), "from one epoch to the next"),
        (("dataset = Squares()", "dataset = Foreign()"), "is not in sight"),
        (("num_workers=2", "num_workers=workers()"), "decided at run time"),
        (("num_workers=2)", "num_workers=2, **epochs)"), "could not be seen"),
    ],
)
def test_refusals_say_why(change: tuple[str, str], reason: str) -> None:
    result = run(CODE.replace(*change))
    assert not result.applied
    assert [reason in finding.reason for finding in result.refused] == [True]


def test_a_sampler_may_change() -> None:
    code = CODE.replace("batch_size=2", "batch_size=2, sampler=sampler").replace(
        "    loader =", "    sampler = torch.utils.data.DistributedSampler(dataset)\n    loader ="
    )
    assert run(code.replace("        for x", "        sampler.set_epoch(epoch)\n        for x")).applied


@pytest.mark.parametrize(
    "change",
    [
        ("num_workers=2", "num_workers=0"),
        (", num_workers=2", ""),
        ("num_workers=2", "num_workers=2, persistent_workers=False"),
        ("    for epoch in range(epochs):\n        for x in loader:\n    ", "    for x in loader:\n"),
        ("    loader = DataLoader(dataset, batch_size=2, num_workers=2)\n    for epoch in range(epochs):",
         "    for epoch in range(epochs):\n        loader = DataLoader(dataset, batch_size=2, num_workers=2)"),
    ],
)  # fmt: skip
def test_nothing_is_started_again(change: tuple[str, str]) -> None:
    result = run(CODE.replace(*change))
    assert not result.applied
    assert not result.refused
