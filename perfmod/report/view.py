"""What a renderer is given: the rows of a run, and what was asked for beside them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import frozen

from perfmod.report.reasons import ReasonRow
from perfmod.report.rows import UNLISTED, FindingRow, Report, State
from perfmod.report.statistics import StatisticRow
from perfmod.transforms.card import Card


@frozen
class View:
    """What is printed of a run.

    Attributes:
        rules: those of the findings, by code.
        folder: the folder that paths of rows are relative to, unless they are absolute: the working directory.
        root: the folder that platforms count paths from: the repository's.
        everything: whether what is left as it is or silenced is listed as well.
        reasons, statistics: counts, where they were asked for.
    """

    report: Report
    rules: Mapping[str, Card]
    folder: Path
    root: Path
    everything: bool = False
    reasons: Sequence[ReasonRow] | None = None
    statistics: Sequence[StatisticRow] | None = None

    @property
    def listed(self) -> tuple[FindingRow, ...]:
        """The findings that there is something to do about; all of them where everything was asked for."""
        return tuple(row for row in self.report.findings if self.everything or row.state not in UNLISTED)

    @property
    def actionable(self) -> tuple[FindingRow, ...]:
        """The findings that there is something to do about, whatever was asked for: the strongest first."""
        states = list(State)
        rows = (row for row in self.report.findings if row.state not in UNLISTED)
        return tuple(sorted(rows, key=lambda row: states.index(row.state)))

    def from_root(self, path: str) -> str:
        """The path of a row as platforms want it: from the root, with slashes; absolute where it lies outside."""
        whole = Path(os.path.normpath(self.folder / path))
        return (whole.relative_to(self.root) if whole.is_relative_to(self.root) else whole).as_posix()


@frozen
class Rendering:
    """What a renderer made.

    Attributes:
        text: the document, ending in a newline unless it is empty.
        notes: what its reader has to be told beside it, such as that something was left out; one line each.
    """

    text: str
    notes: tuple[str, ...] = ()


def occurrences(rows: Sequence[FindingRow]) -> list[tuple[FindingRow, int]]:
    """Each row with its number, from 1, among those of its file that have the same fingerprint."""
    seen: dict[tuple[str, str], int] = {}
    numbered = []
    for row in rows:
        key = row.path, row.fingerprint
        seen[key] = seen.get(key, 0) + 1
        numbered.append((row, seen[key]))
    return numbered


def told_place(row: FindingRow) -> str:
    """Where a finding is, in words: `line 3`, `cell 2, line 3`."""
    return f"line {row.line}" if row.cell is None else f"cell {row.cell}, line {row.line}"
