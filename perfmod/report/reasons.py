"""Why occurrences of a pattern are rewritten or not, counted by kinds of reasons."""

from __future__ import annotations

import re
from collections import Counter

from attrs import frozen

from perfmod.report.rows import Report, State

_PARTICULAR = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"|[\w./-]+\.(?:py|ipynb)\b")
"""What names a thing of the code at hand: code in quotes, files."""
_NUMBERS = re.compile(r"\d+(?:(?:, | and | or | to |-|\u2013)\d+)*")


@frozen
class ReasonRow:
    """How many findings of one rule have the same kind of reason: the same words, whatever they name."""

    state: State
    code: str
    name: str
    reason: str
    count: int


def reason_rows(report: Report) -> tuple[ReasonRow, ...]:
    """One row for each kind, by what became of the findings, then by rule, the frequent ones first."""
    counts = Counter((row.state, row.code, row.name, kind(row.reason)) for row in report.findings)
    states = list(State)
    rows = (ReasonRow(*key, count) for key, count in counts.items())
    return tuple(sorted(rows, key=lambda row: (states.index(row.state), row.code, -row.count, row.reason)))


def kind(reason: str) -> str:
    """A reason without what it names: `line 41` is `line N`, and code in quotes an ellipsis."""
    return _NUMBERS.sub("N", _PARTICULAR.sub("\u2026", reason))
