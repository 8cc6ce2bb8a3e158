"""PM109: sizes that the code shows, and advice where it does not."""

from __future__ import annotations

import textwrap

import pytest
import torch

from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, FileResult, Outcome
from perfmod.transforms.finding import Safety
from perfmod.transforms.syncs.data_dependent_size import DataDependentSize

HEAD = """\
import torch
import torch.nn.functional as F
import torch.distributions as D
from torch.distributions import Categorical, Independent, Normal


def train(model, loader, optimizer, device, args, n):
    for i, (x, y, parts) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        out = model(x).relu()
        out.sum().backward()
"""


def step(body: str) -> str:
    return HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8) + "\n"


def result(code: str, *, unsafe: bool = False) -> FileResult:
    found = rewrite(code.encode(), "train.py", [DataDependentSize()], Choice(unsafe=unsafe))
    assert found.outcome is not Outcome.FAILED, found.reason
    return found


def reports(body: str) -> list[tuple[bool, str]]:
    """Whether it is refused, and why, of all that is reported for code that stays as it is."""
    found = result(step(body), unsafe=True)
    assert found.outcome is Outcome.UNCHANGED, found.after.decode()
    return [(finding.refused, finding.reason) for finding in found.refused]


LISTED = "sizes = [len(p) for p in parts]\nr = torch.tensor(sizes, device=device)\n"
SAID = {
    LISTED + "z = torch.repeat_interleave(r)": LISTED + "z = torch.repeat_interleave(r, output_size=sum(sizes))",
}  # fmt: skip
DOUBTED = {
    "F.one_hot(y).float() * out": "F.one_hot(y, num_classes=out.shape[-1]).float() * out",
    "z = out - F.one_hot(y)": "z = out - F.one_hot(y, num_classes=out.shape[-1])",
    LISTED + "z = torch.repeat_interleave(x, r, dim=0)":
        LISTED + "z = torch.repeat_interleave(x, r, dim=0, output_size=sum(sizes))",
    LISTED + "z = x.repeat_interleave(r, 0)": LISTED + "z = x.repeat_interleave(r, 0, output_size=sum(sizes))",
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), [*SAID.items(), *DOUBTED.items()])
def test_sizes_are_said(before: str, after: str) -> None:
    assert result(step(before), unsafe=True).after.decode() == step(after)
    held = result(step(before)).held_back
    assert [finding.safety for finding in held] == ([Safety.UNSAFE] if before in DOUBTED else [])
    assert not result(step(after), unsafe=True).refused


@pytest.mark.parametrize("sizes", [[1, 2, 3], [0, 0, 2], [4]])
def test_said_sizes_are_the_same(sizes: list[int]) -> None:
    repeats = torch.tensor(sizes)
    old, new = torch.repeat_interleave(repeats), torch.repeat_interleave(repeats, output_size=sum(sizes))
    assert torch.equal(old, new)


ADVISED = {
    "z = F.one_hot(y)": "pass `num_classes=`",
    "z = F.one_hot(y).sum(0)": "pass `num_classes=`",
    "z = x.repeat_interleave(y, dim=0)": "pass `output_size=`",
    LISTED + "sizes.append(3)\nz = torch.repeat_interleave(r)": "pass `output_size=`",
    LISTED + "r += 1\nz = torch.repeat_interleave(r)": "pass `output_size=`",
    "z = torch.bincount(y, minlength=n)": "`torch.zeros(n).scatter_add_`",
    "z = y.bincount()": "waits even with `minlength=`",
    "sizes = [1.5, 2]\nz = torch.repeat_interleave(torch.LongTensor(sizes).to(device))": "pass `output_size=`",
    "sizes = [a.sum() for a in y]\nz = torch.repeat_interleave(torch.tensor(sizes).to(device))": "pass `output_size=`",
    "z = F.one_hot(torch.arange(n, device=device))": "pass `num_classes=`",
}


@pytest.mark.parametrize(("body", "reason"), ADVISED.items())
def test_sizes_are_advised_about(body: str, reason: str) -> None:
    ((refused, found),) = reports(body)
    assert not refused
    assert reason in found


@pytest.mark.parametrize("body", [
    "z = F.one_hot(y, 10)",
    "z = F.one_hot(y, num_classes=n)",
    "z = x.repeat_interleave(2, dim=0)",
    "z = torch.repeat_interleave(x, y, output_size=n)",
    "z = F.one_hot(torch.zeros(3, dtype=torch.long))",
    "if i % 10 == 0:\n    z = F.one_hot(y)",
])  # fmt: skip
def test_no_sizes_are_missing(body: str) -> None:
    assert reports(body) == []


def test_a_size_that_the_data_is_asked_for() -> None:
    ((refused, reason),) = reports("z = F.one_hot(y, num_classes=-1)")
    assert not refused
    assert reason.startswith("pass `num_classes=`")
    ((refused, _),) = reports("z = F.one_hot(y, **args)")
    assert refused
