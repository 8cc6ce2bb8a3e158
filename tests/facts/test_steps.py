"""Training steps: what runs in each of them, and what stands behind a condition that is rarely true."""

from __future__ import annotations

import textwrap

import libcst as cst
import pytest

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.source import Source

TRAINING = """\
import torch


def fit(model, loader, args):
    for step, (x, y) in enumerate(loader):
        logits, log_probs = model(x), torch.log_softmax(model(x), 1)
        loss = torch.nn.functional.cross_entropy(logits, y)
        loss.backward()
        if {test}:
            report()
"""


def report_is_gated(test: str) -> bool:
    """Whether `report()` under `if test:` is taken for something that steps seldom come by."""
    file = FileFacts(Source.parse(textwrap.dedent(TRAINING).format(test=test).encode(), "train.py"))
    report = next(call for call in find_all(file.tree.module, cst.Call) if file.source.code(call) == "report()")
    assert file.steps.in_sight(report)
    return file.steps.is_gated(report)


@pytest.mark.parametrize(
    "test", ["step % 100 == 0", "args.log", "step in args.log_steps", "args.logSteps", "VERBOSE", "print_now(step)"]
)
def test_reports_are_rare(test: str) -> None:
    assert report_is_gated(test)


@pytest.mark.parametrize(
    "test", ["logits is not None", "args.use_logits", "args.catalog", "log_probs.dim() == 2", "x.any()"]
)
def test_other_conditions_are_not(test: str) -> None:
    assert not report_is_gated(test)
