"""PM201: what a dataset holds, what samples and batches are, and what of it no process can send to another."""

from __future__ import annotations

import pytest

from perfmod.codemods.engine import rewrite_together
from perfmod.codemods.results import Choice, Given
from perfmod.transforms.feeding.loader_without_workers import LoaderWithoutWorkers
from tests.rules.test_worker_traps import said, written


@pytest.mark.parametrize(("keeps", "opened"), [
    ("self.files = [open(str(n)) for n in items]", "open(str(n))"),
    ("self.files = {n: open(str(n)) for n in items}", "open(str(n))"),
    ("self.files = {}; self.files['a'] = open('a')", "open('a')"),
    ("self.files = []; self.files.append(open('a'))", "open('a')"),
    ("files = [n for n in '']; files.append(open('a')); self.files = files", "open('a')"),
    ("self.files = list(map(open, items))", "list(map(open, items))"),
    ("self.files = list(open(n) for n in items)", "open(n)"),
])  # fmt: skip
def test_open_files_that_the_dataset_holds(keeps: str, opened: str) -> None:
    reason = said(written(keeps=keeps))
    assert f"{opened} (line 24) is opened before the workers start, and they would all read from one position" in reason


@pytest.mark.parametrize(("keeps", "is_forked"), [
    ("self.ops = {'a': (lambda x: x,)}", True),
    ("self.ops = dict(a=lambda x: x)", True),
    ("self.rows = {'a': 1}; self.names = self.rows.keys()", True),
    ("rows = dict(items); self.names = rows.values()", True),
    ("self.rows = {'a': 1}; self.names = list(self.rows.keys())", False),
    ("self.names = collections.Counter(n for n in items)", False),
    ("self.pairs = list(map(int, items))", False),
    ("self.lines = [list(open(str(n))) for n in items]", False),
    ("self.lines = {'a': list(n for n in items), 'b': tuple({}.values())}", False),
    ("self.lines = [open(str(n)).read() for n in items]", False),
    ("self.lines = sorted(items, key=lambda n: -n)", False),
    ("self.names = pandas.read_csv('a').keys()", False),
])  # fmt: skip
def test_what_the_dataset_holds_and_needs_a_fork(keeps: str, is_forked: bool) -> None:
    code = written(keeps=keeps, top="import pandas")
    (result,) = rewrite_together([Given("train.py", code.encode())], [LoaderWithoutWorkers()], Choice())
    assert ("multiprocessing_context" in result.after.decode()) is is_forked
    assert result.applied


SENDING = """\
import collections, typing
from collections import namedtuple
from dataclasses import dataclass
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

Other = namedtuple("TrainBatch", ["x", "y"])
Same = namedtuple("Same", ["x", "y"])
Typed = typing.NamedTuple("Hidden", [("x", typing.Any), ("y", typing.Any)])
TOP


class Tidy(typing.NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


class Padded:
    def __init__(self, x, y):
        self.x = x
        self.y = y
        KEEPS


class Numbers(Dataset):
    def __init__(self):
        self.scale = nn.Upsample(scale_factor=1)
        self.encoder = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        HOLDS

    def __len__(self):
        return 8

    def encode(self, x):
        return self.encoder(x), 1

    DECORATED
    def __getitem__(self, index):
        x, y = torch.full((3,), float(index)).sqrt(), index % 2
        SAMPLE


def pad(items):
    xs = torch.stack([item[0] for item in items])
    ys = torch.tensor([item[1] for item in items])
    rows = {"x": xs, "y": ys}

    class Local(Padded):
        pass

    def lengths():
        yield len(xs)

    COLLATED


def main():
    model = nn.Linear(3, 2)
    loader = DataLoader(Numbers(), batch_size=2, collate_fn=pad)
    for x, y in loader:
        model(x.to(model.weight.device)).sum().backward()


if __name__ == "__main__":
    main()
"""


def sending(*, collate: bool = True, decorated: str = "", **parts: str) -> str:
    """The script with these parts, with its own collate function or without."""
    top = "ENCODER = nn.Linear(3, 3)" if "ENCODER" in str(parts) else "LAST = 7"
    code = SENDING.replace("TOP", top).replace("    DECORATED\n", f"    {decorated}\n" if decorated else "")
    for name, default in {
        "collated": "return xs, ys",
        "sample": "return x, y",
        "holds": "pass",
        "keeps": "pass",
    }.items():
        code = code.replace(name.upper(), parts.pop(name, default))
    assert not parts
    return code if collate else code.replace(", collate_fn=pad", "")


@pytest.mark.parametrize(("collated", "reason"), [
    ("return Other(xs, ys)",
     "an instance of TrainBatch, which cannot be found in its module under that name, (line 54)"),
    ("batch = Other(x=xs, y=ys); return batch", "an instance of TrainBatch"),
    ("return Other._make((xs, ys))", "an instance of TrainBatch"),
    ("return Typed(xs, ys)", "an instance of Hidden"),
    ("Inner = namedtuple('Inner', 'x y'); return Inner(xs, ys)", "an instance of Inner"),
    ("return Local(xs, ys)", "Local, which is defined inside a function,"),
    ("return rows.values()", "the view rows.values() of a dictionary (line 54) cannot be pickled"),
    ("views = rows.items(); return views", "the view rows.items() of a dictionary"),
    ("return xs, ys, rows.keys()", "the view rows.keys() of a dictionary"),
    ("return (x for x in rows)", "a generator (line 54)"),
    ("return xs, ys, (len(x) for x in xs)", "a generator (line 54)"),
    ("return {'x': xs, 'sizes': [lengths() for _ in xs]}", "the generator lengths() (line 54)"),
    ("return xs, lambda: ys", "a lambda (line 54)"),
    ("return xs, map(lambda y: y, ys)", "a lambda (line 54)"),
    ("return xs, lengths", "lengths, which is defined inside a function,"),
    ("return xs, open('a')", "open('a') (line 54)"),
    ("return Same(xs, rows.values())", "the view rows.values() of a dictionary"),
    ("rows['more'] = (y for y in ys); return rows", "a generator (line 54)"),
    ("return Padded(xs, lambda: ys)", "a lambda (line 54)"),
])  # fmt: skip
def test_batches_that_cannot_be_pickled(collated: str, reason: str) -> None:
    found = said(sending(collated=collated))
    assert reason in found
    assert "so a worker could not return such a batch" in found


@pytest.mark.parametrize("collated", [
    "return xs, ys",
    "return Same(xs, ys)",
    "return Tidy(x=xs, y=ys)",
    "return Same._make(rows.values())",
    "return rows",
    "return list(rows.values())",
    "return list(x for x in xs), tuple(rows.keys())",
    "out = []; out.append(sorted(rows.keys())); return out",
    "return tuple(rows[key] for key in rows)",
    "return [rows[key] for key in rows], sum(len(x) for x in xs)",
    "return Padded(xs, ys)",
    "return tuple(zip(*items))",
    "return default_collate(items)",
    "return dict(rows.items())",
    "return {key: value for key, value in rows.items()}",
    "return xs, dict(sizes=[len(x) for x in xs])",
])  # fmt: skip
def test_batches_that_can_be_pickled(collated: str) -> None:
    assert said(sending(collated=collated)) == ""


def test_what_batch_objects_keep_is_sent_too() -> None:
    reason = said(sending(collated="return Padded(xs, ys)", keeps="self.size = lambda: len(x)"))
    assert "a lambda (line 23) cannot be pickled, so a worker could not return such a batch" in reason


@pytest.mark.parametrize(
    ("sample", "collated", "sent"),
    [
        ("return Other(x, y)", None, True),
        ("return x, lambda: y", None, True),
        ("return x, y, (n for n in range(3))", "return xs, ys", False),  # it is read by the worker
        ("return Other(x, y)", "return xs, ys", False),
        ("return Other(x, y)", "return items", True),
        ("return Other(x, y)", "return default_collate(items)", True),
        ("return Other(x, y)", "return xs, [item for item in items]", True),
        ("return Same(x, y)", None, False),
    ],
)
def test_samples_that_cannot_be_pickled(sample: str, collated: str | None, sent: bool) -> None:
    code = sending(sample=sample, collated=collated) if collated else sending(sample=sample, collate=False)
    assert ("so a worker could not return such a batch" in said(code)) is sent


@pytest.mark.parametrize("parts", [
    {"sample": "return self.encoder(x), y"},
    {"sample": "x = self.encoder(x); return x * 2 + 1, y"},
    {"sample": "x = torch.relu(ENCODER(x)); return {'x': x}"},
    {"sample": "x, _ = self.encode(x); return x[None].float(), y"},
    {"sample": "return torch.zeros(3, requires_grad=True), y"},
    {"sample": "x = x.requires_grad_(); return x, y"},
    {"sample": "x.requires_grad = True; return x, y"},
    {"holds": "self.table = nn.Parameter(torch.ones(8, 3))", "sample": "return self.table[index], y"},
    {"holds": "self.kept = self.encoder(torch.ones(8, 3))", "sample": "return self.kept[index], y"},
    {"sample": "return self.encoder(x), y", "collated": "return xs, ys"},
    {"collated": "return ENCODER(xs), ys"},
    {"collated": "return torch.stack([ENCODER(x) for x in xs]), ys"},
    {"collated": "return ENCODER.forward(xs), ys"},
])  # fmt: skip
def test_batches_with_a_graph(parts: dict[str, str]) -> None:
    reason = said(sending(collate="collated" in parts, **parts))
    assert "may compute samples that require gradients" in reason


@pytest.mark.parametrize("parts", [
    {"sample": "return self.encoder(x).detach(), y"},
    {"sample": "x = self.encoder(x).detach(); return x * 2, y"},
    {"sample": "return self.encoder(x).argmax(), y"},
    {"sample": "return self.scale(x[None, None]), y"},
    {"sample": "return self.encoder(x).data, y"},
    {"sample": "x.requires_grad_(False); return x, y"},
    {"decorated": "@torch.no_grad()", "sample": "return self.encoder(x), y"},
    {"decorated": "@torch.inference_mode()", "sample": "return self.encoder(x), y"},
    {"sample": "with torch.no_grad(): x = self.encoder(x)\n        return x, y"},
    {"collated": "return ENCODER(xs).detach(), ys"},
])  # fmt: skip
def test_batches_without_a_graph(parts: dict[str, str]) -> None:
    assert "gradients" not in said(sending(collate="collated" in parts, **parts))
