"""PM110: checks of distributions that wait for the device, and those that do not."""

from __future__ import annotations

import textwrap

import pytest

from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, FileResult, Outcome
from perfmod.transforms.finding import Safety
from perfmod.transforms.syncs.validated_distribution import ValidatedDistribution

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
    found = rewrite(code.encode(), "train.py", [ValidatedDistribution()], Choice(unsafe=unsafe))
    assert found.outcome is not Outcome.FAILED, found.reason
    return found


def reports(body: str) -> list[tuple[bool, str]]:
    """Whether it is refused, and why, of all that is reported for code that stays as it is."""
    found = result(step(body), unsafe=True)
    assert found.outcome is Outcome.UNCHANGED, found.after.decode()
    return [(finding.refused, finding.reason) for finding in found.refused]


UNCHECKED = {
    "Categorical(logits=out)": "Categorical(logits=out, validate_args=False)",
    "Normal(out, 1.0)": "Normal(out, 1.0, validate_args=False)",
    "D.Independent(D.Normal(out, out.exp()), 1)":
        "D.Independent(D.Normal(out, out.exp(), validate_args=False), 1, validate_args=False)",
    "torch.distributions.Bernoulli(out)": "torch.distributions.Bernoulli(out, validate_args=False)",
    "D.categorical.Categorical(out)": "D.categorical.Categorical(out, validate_args=False)",
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), UNCHECKED.items())
def test_checks_are_switched_off(before: str, after: str) -> None:
    found = result(step(f"z = {before}"))
    assert found.outcome is Outcome.UNCHANGED
    assert {finding.safety for finding in found.held_back} == {Safety.UNSAFE}
    assert result(step(f"z = {before}"), unsafe=True).after.decode() == step(f"z = {after}")
    assert not result(step(f"z = {after}"), unsafe=True).refused


@pytest.mark.parametrize(
    "body",
    ["z = Normal(0.0, 1.0)", "z = Normal(torch.zeros(3), torch.ones(3))", "z = D.AffineTransform(out, out)",
     "z = D.kl_divergence(args.a, args.b)", "if i % 10 == 0:\n    z = Categorical(logits=out)"],
)  # fmt: skip
def test_no_checks_of_the_device(body: str) -> None:
    assert reports(body) == []


@pytest.mark.parametrize(("body", "reason"), [
    ("z = Categorical(logits=out, validate_args=True)", "`validate_args=True` is set explicitly"),
    ("z = Categorical(logits=out, validate_args=args.debug)", "`validate_args=args.debug` is set explicitly"),
    ("z = Normal(*out)", "its arguments are passed by `*` or `**`"),
    ("D.Distribution.set_default_validate_args(False)\nz = Categorical(logits=out)", "line 12 sets validation"),
])  # fmt: skip
def test_checks_that_stay(body: str, reason: str) -> None:
    ((refused, found),) = reports(body)
    assert refused
    assert reason in found
