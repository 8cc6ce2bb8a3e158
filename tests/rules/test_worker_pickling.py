"""PM201: what a dataset holds, what samples and batches are, and what of it no process can send to another."""

from __future__ import annotations

import pytest

from tests.rules.test_worker_traps import MADE, said, written

COLLATED = MADE.replace(")", ", collate_fn=joined)")


@pytest.mark.parametrize(
    ("keeps", "reason"),
    [
        ("self.files = [open(str(n)) for n in items]", "the open handle open(str(n)) (line 24) cannot be pickled"),
        ("self.files = {n: open(str(n)) for n in items}", "the open handle open(str(n)) (line 24) cannot be pickled"),
        ("self.files = [open('a'), open('b')]", "the open handle open('a') (line 24) cannot be pickled"),
        ("self.files = {}; self.files['a'] = open('a')", "the open handle open('a') (line 24) cannot be pickled"),
        ("self.files = []; self.files.append(open('a'))", "the open handle open('a') (line 24) cannot be pickled"),
        ("files = [n for n in '']; files.append(open('a')); self.files = files", "the open handle open('a') (line 24)"),
        ("self.files = list(map(open, items))", "what list(map(open, items)) opens (line 24) cannot be pickled"),
        ("self.files = list(open(n) for n in items)", "the open handle open(n) (line 24) cannot be pickled"),
        ("self.ops = {'a': (lambda x: x,)}", "a lambda (line 24) cannot be pickled"),
        ("self.ops = dict(a=lambda x: x)", "a lambda (line 24) cannot be pickled"),
        ("self.rows = {'a': 1}; self.names = self.rows.keys()", "the view self.rows.keys() of a dictionary (line 24)"),
        ("self.rows = {'a': 1}; self.names = self.rows.items()", "the view self.rows.items() of a dictionary"),
        ("rows = dict(items); self.names = rows.values()", "the view rows.values() of a dictionary (line 24)"),
        ("self.names = torch.load('x.pt').keys()", "the view torch.load('x.pt').keys() of a dictionary (line 24)"),
        ("self.rest = self.forever()", "the generator self.forever() (line 24) cannot be pickled"),
    ],
)
def test_held_by_the_dataset(keeps: str, reason: str) -> None:
    method = "def forever(self):\n        yield 1\n\n    def __len__(self)"
    assert reason in said(written(keeps=keeps).replace("def __len__(self)", method))


@pytest.mark.parametrize(
    "keeps",
    [
        "self.rows = {'a': 1}; self.names = list(self.rows.keys())",
        "self.rows = {'a': 1}; self.names = sorted(self.rows.items())",
        "self.names = tuple(dict(items).values())",
        "self.names = set({'a': 1}.keys())",
        "self.names = collections.OrderedDict({'a': 1}.items())",
        "self.names = collections.Counter(n for n in items)",
        "self.pairs = list(zip(items, items))",
        "self.pairs = list(map(int, items))",
        "self.lines = list(open('a'))",
        "self.lines = [line for line in open('a')]",
        "self.lines = [open(str(n)).read() for n in items]",
        "self.lines = sum(list(reversed([1, 2])))",
        "self.lines = sorted(items, key=lambda n: -n)",
        "self.names = pandas.read_csv('a').keys()",
        "self.cells = torch.ones(2, 2).to_sparse().coalesce().values()",
    ],
)
def test_copies_of_such_things_are_held(keeps: str) -> None:
    assert said(written(keeps=keeps, top="import pandas")) == ""
