"""The findings as a table of comma-separated values with a header, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io

from perfmod.report.rows import FindingRow
from perfmod.report.view import Rendering, View

_COLUMNS = (
    "path",
    "cell",
    "line",
    "column",
    "end_line",
    "end_column",
    "code",
    "name",
    "family",
    "state",
    "numerics",
    "fixable",
    "message",
    "reason",
    "scope",
    "elsewhere",
    "fingerprint",
)
"""Fields of the rows."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a cell begins with that a spreadsheet would compute."""


def render(view: View) -> Rendering:
    """A line for each finding, whatever became of it."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows([_cell(row, column) for column in _COLUMNS] for row in view.report.findings)
    return Rendering(text.getvalue())


def _cell(row: FindingRow, column: str) -> str | int:
    """What stands in a cell."""
    match getattr(row, column):
        case None:
            return ""
        case bool() as flag:
            return str(flag).lower()
        case int() as number:
            return number
        case tuple() as paths:
            text = " ".join(paths)
        case other:
            text = str(getattr(other, "value", other))
    return inert(text)


def inert(text: str) -> str:
    """The text of a cell; one that a spreadsheet would take for a formula follows an apostrophe."""
    return f"'{text}" if text.startswith(_FORMULA) else text
