"""Whole small files, rewritten by one rule that was selected by name."""

from __future__ import annotations

import textwrap

from attrs import frozen

from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, FileResult, Outcome
from perfmod.transforms.finding import Finding, Numerics, Safety
from perfmod.transforms.rule import Rule


@frozen
class WholeFiles:
    """Files under `imports`, as one rule rewrites them."""

    rule: Rule
    imports: str = "import torch\nimport torch.nn.functional as F\nfrom torch import nn"

    def file(self, code: str) -> str:
        """The file with that code."""
        return f"{self.imports}\n{textwrap.dedent(code).strip(chr(10))}\n"

    def result(self, code: str, *, unsafe: bool = True) -> FileResult:
        """What the engine makes of it."""
        choice = Choice(unsafe=unsafe, opted_in=frozenset({self.rule.code}))
        found = rewrite(self.file(code).encode(), "train.py", [self.rule], choice)
        assert found.outcome is not Outcome.FAILED, found.reason
        return found

    def assert_becomes(
        self, before: str, after: str, safety: Safety | None = None, numerics: Numerics | None = None
    ) -> None:
        """The code is rewritten so, is left alone afterwards, and stays without `unsafe` where the safety says so."""
        found = self.result(before)
        assert found.after.decode() == self.file(after), [finding.reason for finding in found.refused]
        expected = safety or self.rule.safety
        assert {finding.safety for finding in found.applied} == {expected}
        assert {finding.numerics for finding in found.applied} == {numerics or self.rule.numerics}
        again = self.result(after)
        assert (again.outcome, again.applied) == (Outcome.UNCHANGED, ())
        changed = self.result(before, unsafe=False).outcome is Outcome.CHANGED
        assert changed == (expected is not Safety.UNSAFE)

    def reports(self, code: str) -> tuple[Finding, ...]:
        """What is refused or advised in code that stays as it is."""
        found = self.result(code)
        assert found.outcome is Outcome.UNCHANGED, found.after.decode()
        return found.refused

    def reasons(self, code: str) -> list[str]:
        """Why code that stays as it is does so."""
        return [finding.reason for finding in self.reports(code)]
