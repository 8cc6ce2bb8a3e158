"""Workflow commands: lines in the log of a job that GitHub shows beside the code."""

from collections.abc import Sequence

from perfmod.github.findings import Found
from perfmod.report.github import workflow_command
from perfmod.report.view import told_place

SHOWN = 10
"""Warnings of one step that GitHub shows."""


def annotation(found: Found) -> str:
    """The line of a finding. Lines in a notebook's cell are not those of its file: they are in the message."""
    row = found.row
    properties: dict[str, object] = {"file": row.path}
    words = f"{row.message}: {row.reason}" if row.reason else row.message
    if row.cell is None:
        properties |= {"line": row.line, "endLine": row.end_line}
        if row.line == row.end_line:
            # GitHub refuses columns of a range of lines.
            properties |= {"col": row.column, "endColumn": row.end_column}
    else:
        words = f"{told_place(row)}: {words}"
    return workflow_command("warning", properties | {"title": f"{row.code} {row.name}"}, words)


def annotations(found: Sequence[Found]) -> list[str]:
    """The lines of findings, as many as GitHub shows, and of the number of the others."""
    shown = [annotation(each) for each in found[:SHOWN]]
    if len(found) > SHOWN:
        shown.append(complaint("notice", f"{len(found) - SHOWN} more are in the summary of this job"))
    return shown


def complaint(level: str, message: str) -> str:
    """A line about the run itself; `level` is `error`, `warning` or `notice`."""
    return workflow_command(level, {"title": "perfmod"}, message)
