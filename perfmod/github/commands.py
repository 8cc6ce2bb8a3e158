"""Workflow commands: lines in the log of a job that GitHub shows beside the code."""

from collections.abc import Sequence

from perfmod.github.findings import Found

SHOWN = 10
"""Warnings of one step that GitHub shows."""


def annotation(found: Found) -> str:
    """The line of a finding. Lines in a notebook's cell are not those of its file: they are in the message."""
    row = found.row
    place, words = f"file={_value(row.path)}", f"{row.message}: {row.reason}" if row.reason else row.message
    if row.cell is None:
        place += f",line={row.line},endLine={row.end_line}"
        # GitHub refuses columns of a range of lines.
        place += f",col={row.column},endColumn={row.end_column}" if row.line == row.end_line else ""
    else:
        words = f"cell {row.cell}, line {row.line}: {words}"
    return f"::warning {place},title={_value(f'{row.code} {row.name}')}::{_data(words)}"


def annotations(found: Sequence[Found]) -> list[str]:
    """The lines of findings, as many as GitHub shows, and of the number of the others."""
    shown = [annotation(each) for each in found[:SHOWN]]
    if len(found) > SHOWN:
        shown.append(f"::notice title=perfmod::{len(found) - SHOWN} more are in the summary of this job")
    return shown


def complaint(level: str, message: str) -> str:
    """A line about the run itself; `level` is `error`, `warning` or `notice`."""
    return f"::{level} title=perfmod::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _value(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
