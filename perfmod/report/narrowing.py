"""A report without some of its findings."""

from __future__ import annotations

from collections.abc import Collection

from attrs import evolve

from perfmod.codemods.results import Outcome
from perfmod.report.rows import FileRow, Report, State


def narrowed(report: Report, dropped: Collection[int]) -> Report:
    """The report of a run that wrote nothing, without findings given by their numbers.

    Files that only these would change stay as they are, and those that only these would make are left out.
    """
    findings = tuple(row for number, row in enumerate(report.findings) if number not in dropped)
    rewritten = [row for row in findings if row.state is State.REWRITTEN]
    changing = {path for row in rewritten for path in (row.path, *row.elsewhere)}

    def file(row: FileRow) -> FileRow:
        if row.outcome is not Outcome.CHANGED or row.path in changing:
            return row
        return evolve(row, outcome=Outcome.UNCHANGED, would_change=False, patch=None)

    unmade = {path for row in report.findings for path in row.makes} - changing
    return evolve(report, findings=findings, files=tuple(file(row) for row in report.files if row.path not in unmade))
