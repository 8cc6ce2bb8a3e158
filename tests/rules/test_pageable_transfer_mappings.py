"""PM202: what pinning makes of batches that are mappings or tuples with names, and are read by attributes."""

from __future__ import annotations

import collections

import pytest
from torch.utils.data._utils.pin_memory import pin_memory

from perfmod.codemods.engine import rewrite_together
from perfmod.codemods.results import Choice, FileResult, Given, Pin
from perfmod.transforms.feeding.pageable_transfer import PageableTransfer

SCRIPT = """\
from collections import namedtuple
from typing import NamedTuple

import torch
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import default_collate
from transformers import BatchEncoding

from data import model, photos

Pair = namedtuple("Pair", ["x", "y"])


class Typed(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


def collate(samples):
    x, y = default_collate([s[0] for s in samples]), default_collate([s[1] for s in samples])
    RESULT


loader = DataLoader(photos, num_workers=2, batch_size=4, collate_fn=collate)
for batch in loader:
    loss = model(batch.x.cuda(), batch.y.cuda())
    MORE
    loss.backward()
"""


def run(result: str, more: str = "pass", pin: Pin | None = None) -> FileResult:
    code = SCRIPT.replace("RESULT", result).replace("MORE", more)
    (found,) = rewrite_together([Given("train.py", code.encode(), pin=pin)], [PageableTransfer()], Choice())
    return found


@pytest.mark.parametrize("result", [
    "return Pair(x, y)",
    "return Typed(x=x, y=y)",
    "made = Pair(*(x, y))\n    return made",
    "if photos:\n        return Pair(x, y)\n    return Typed(x, y)",
    "return BatchEncoding({'x': x, 'y': y}, tensor_type='pt')",
])  # fmt: skip
def test_batches_that_are_read_by_attributes_all_the_same(result: str) -> None:
    after = run(result).after.decode()
    assert "pin_memory=True" in after
    assert after.count("non_blocking=True") == 2


@pytest.mark.parametrize(("result", "more", "reason"), [
    ("return tokenizer.pad(samples)", "pass", "which has no `batch.x`"),
    ("if photos:\n        return Pair(x, y)\n    return tokenizer.pad(samples)", "pass", "which has no `batch.x`"),
    ("return helper(samples)[0]", "pass", "which has no `batch.x`"),
    ("return BatchEncoding({'x': x, 'y': y})", "print(batch.word_ids(0))", "loses what `batch.word_ids` needs"),
    ("return BatchEncoding({'x': x, 'y': y})", "print(batch.encodings)", "loses what `batch.encodings` needs"),
])  # fmt: skip
def test_batches_that_might_not_be_read_any_more(result: str, more: str, reason: str) -> None:
    (held,) = run(result, more).held_back
    assert reason in held.reason


def test_mappings_keep_their_class_from_one_version_on() -> None:
    encoding, names = "return BatchEncoding({'x': x, 'y': y}, tensor_type='pt')", "return Pair(x, y)"
    old, new = Pin((1, 10), "requirements.txt asks for torch==1.10"), Pin((1, 11), "")
    (held,) = run(encoding, pin=old).held_back
    assert held.reason == "it needs torch 1.11 or later, and requirements.txt asks for torch==1.10"
    assert run(encoding, pin=new).applied
    assert run(encoding, "print(batch.items())", pin=new).applied
    assert run(names, pin=old).applied


def test_what_torch_makes_of_them() -> None:
    class Encoding(collections.UserDict[str, object]):
        def __getattr__(self, name: str) -> object:
            if name not in self.data:
                raise AttributeError(name)
            return self.data[name]

    pinned = pin_memory(Encoding({"x": 1}))
    assert isinstance(pinned, Encoding)
    assert pinned.x == 1
