"""Small bodies of code, rewritten by one rule and run on both sides."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest
from attrs import frozen
from golden_harness.sides import compare_probes

from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, FileResult, Outcome
from perfmod.transforms.finding import Numerics, Safety
from perfmod.transforms.rule import Rule

CASES = """

def cases(make):
    for dtype in make.floats:
        shape = make.shape(4, 3)
        x, w = (make.tensor(shape, dtype, requires_grad=True) for _ in range(2))
        yield x, w, make.labels(shape, 3), make.mask(shape)


def probe(x, w, labels, m):
    return f(x, w, labels, m > 0), labels
"""
"""Two float tensors with gradients, integers from 0 to 2, and a mask, all of one shape."""


@frozen
class Bodies:
    """Bodies of `def f(x, w, labels, m)`, under `imports`, as one rule rewrites them."""

    rule: Rule
    imports: str = "import torch\nfrom torch import Tensor"

    def module(self, body: str) -> str:
        """The file with that body."""
        head = f"{self.imports}\n\n\ndef f(x: Tensor, w: Tensor, labels: Tensor, m: Tensor):\n"
        return head + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"

    def result(self, body: str, *, unsafe: bool = True) -> FileResult:
        """What the engine makes of it."""
        found = rewrite(self.module(body).encode(), "train.py", [self.rule], Choice(unsafe=unsafe))
        assert found.outcome is not Outcome.FAILED, found.reason
        return found

    def assert_becomes(self, before: str, after: str, safety: Safety = Safety.SAFE) -> None:
        """The body is rewritten so, and the result is left alone."""
        found = self.result(before)
        assert found.after.decode() == self.module(after), [finding.reason for finding in found.refused]
        assert {finding.safety for finding in found.applied} == {safety}
        assert self.result(after).outcome is Outcome.UNCHANGED
        assert (self.result(before, unsafe=False).outcome is Outcome.CHANGED) == (safety is Safety.SAFE)

    def reasons(self, body: str) -> list[str]:
        """Why the rule refuses a body that stays as it is."""
        found = self.result(body)
        assert found.outcome is Outcome.UNCHANGED, found.after.decode()
        return [finding.reason for finding in found.refused]

    def differences(self, before: str, after: str, folder: Path, numerics: Numerics) -> list[str]:
        """In what both sides differ on hard inputs: results, gradients, arguments, aliases, exceptions."""
        old, new = (self.module(body) + CASES for body in (before, after))
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(folder))
            patch.setattr(sys, "dont_write_bytecode", True)
            return compare_probes(old.encode(), new.encode(), numerics, folder)
