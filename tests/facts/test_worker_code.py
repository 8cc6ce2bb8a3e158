"""What worker processes would run, and what of that cannot be done by a copy."""

from __future__ import annotations

import textwrap

import pytest
from snippets import facts

from perfmod.transforms.facts.worker_code import Trait, WorkerCode

HEAD = """\
import random
import numpy as np
import torch
import torchvision.transforms as T
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset


class D(Dataset):
    def __init__(self, items, transform=None):
        self.items = items
        self.transform = transform
        self.cache = {}
        self.table = torch.zeros(3)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
"""


def noticed(getitem: str, tail: str = "x = DataLoader(D(items))") -> set[Trait]:
    file = facts(HEAD + textwrap.indent(getitem, " " * 8) + f"\n\n{tail}\n")
    (loader,) = file.loaders
    return {remark.trait for remark in WorkerCode.of(file, loader).remarks}


ITEMS = {
    "plain": ("return self.items[i] + 1", set()),
    "random": ("return random.random()", {Trait.RANDOM}),
    "NumPy's generator": ("return np.random.rand()", {Trait.RANDOM}),
    "torch's generator": ("return torch.rand(3)", {Trait.RANDOM}),
    "changes an attribute": ("self.last = i\nreturn i", {Trait.STATE}),
    "fills a cache": ("self.cache[i] = self.items[i]\nreturn i", {Trait.STATE}),
    "grows a list": ("self.items.append(i)\nreturn i", {Trait.STATE}),
    "writes into a tensor": ("self.table[i] = 1\nreturn i", {Trait.STATE}),
    "changes a local list": ("found = []\nfound.append(i)\nreturn found", set()),
    "device": ("return torch.zeros(3).cuda()", {Trait.DEVICE}),
    "device by name": ("return torch.zeros(3, device='cuda')", {Trait.DEVICE}),
    "prints": ("print(i)\nreturn i", {Trait.PRINTS}),
}


@pytest.mark.parametrize("name", ITEMS)
def test_what_an_item_does(name: str) -> None:
    code, expected = ITEMS[name]
    assert noticed(code) == expected


def test_random_numbers_of_a_helper() -> None:
    assert Trait.RANDOM in noticed("return self.draw()\n\ndef draw(self):\n    return torch.randn(3)")


TAILS = {
    "lambda as a transform": ("x = DataLoader(D(items, lambda s: s))", {Trait.UNPICKLABLE}),
    "lambda as collate_fn": ("x = DataLoader(D(items), collate_fn=lambda b: b)", {Trait.UNPICKLABLE}),
    "local class": ("def make():\n    class L(D): ...\n    return DataLoader(L(items))\nmake()", {Trait.UNPICKLABLE}),
    "unknown data set": ("from other import Data\nx = DataLoader(Data())", {Trait.UNSEEN}),
    "function as collate_fn": ("def join(b):\n    return torch.stack(b)\nx = DataLoader(D(items), collate_fn=join)",
        set()),
    "random collate_fn": (("def join(b):\n    return torch.stack(b) + torch.rand(1)\n"
          "x = DataLoader(D(items), collate_fn=join)"), {Trait.RANDOM}),
    "iterated": ("class S(IterableDataset):\n    def __iter__(self):\n        yield 1\nx = DataLoader(S())",
        {Trait.ITERABLE}),
    "iterated in shards": (("class S(IterableDataset):\n    def __iter__(self):\n"
          "        info = torch.utils.data.get_worker_info()\n        yield info.id\n"
          "x = DataLoader(S())"), {Trait.SHARDED, Trait.PROCESS}),
}  # fmt: skip


@pytest.mark.parametrize("name", TAILS)
def test_what_a_loader_is_given(name: str) -> None:
    tail, expected = TAILS[name]
    assert noticed("return self.items[i]", tail) == expected


def test_data_in_memory() -> None:
    for tail, expected in {"TensorDataset(a, b)": True, "D(items)": False}.items():
        file = facts(
            HEAD
            + f"        return open(self.items[i])\n\na, b = torch.zeros(3), torch.ones(3)\nx = DataLoader({tail})\n"
        )
        (loader,) = file.loaders
        assert WorkerCode.of(file, loader).in_memory is expected


COLLATED = {
    "torch.stack": True,
    "lambda column: torch.stack(column)": True,
    "lambda column: [open(path).read() for path in column]": False,
    "tokenize": False,
}


@pytest.mark.parametrize("mapped", COLLATED)
def test_batches_stacked_column_by_column(mapped: str) -> None:
    body = f"    ids, lengths = map({mapped}, zip(*batch))\n    return ids[:, :max(lengths).item()]\n"
    tail = "x = DataLoader(TensorDataset(torch.zeros(3), torch.ones(3)), collate_fn=join)\n"
    file = facts(HEAD + f"        return self.items[i]\n\ndef join(batch):\n{body}\n{tail}")
    (loader,) = file.loaders
    assert WorkerCode.of(file, loader).in_memory is COLLATED[mapped]


def test_a_loader_is_looked_at_once() -> None:
    file = facts(HEAD + "        return self.items[i]\n\nx = DataLoader(D(items))\ny = DataLoader(D(items))\n")
    first, second = file.loaders
    assert WorkerCode.of(file, first) is WorkerCode.of(file, first)
    assert WorkerCode.of(file, first) is not WorkerCode.of(file, second)
