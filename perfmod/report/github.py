"""Annotations of GitHub Actions: workflow commands that the runner reads in the log of a step.

The runner shows ten warnings and ten notices of a step, the first of each.
"""

from __future__ import annotations

from collections.abc import Mapping

from perfmod.codemods.results import Outcome
from perfmod.report.rows import FindingRow, State
from perfmod.report.view import Rendering, View, told_place
from perfmod.report.wording import because

_ESCAPES = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY_ESCAPES = {**_ESCAPES, ":": "%3A", ",": "%2C"}


def render(view: View) -> Rendering:
    """A warning for each rewrite, a notice for what an option rewrites and for advice, an error for a failed file."""
    failed = (
        workflow_command("error", {"file": view.from_root(file.path), "title": "perfmod"}, f"failed: {file.reason}")
        for file in view.report.files
        if file.outcome is Outcome.FAILED
    )
    lines = [*failed, *(_annotation(view, row) for row in view.actionable)]
    return Rendering("".join(f"{line}\n" for line in lines))


def _annotation(view: View, row: FindingRow) -> str:
    """A finding of a notebook is one of its file, and its title names the cell: annotations know no cells."""
    properties: dict[str, object] = {"file": view.from_root(row.path), "title": f"{row.code} {row.name}"}
    if row.cell is not None:
        properties["title"] = f"{row.code} {row.name} ({told_place(row)})"
    else:
        properties |= {"line": row.line, "endLine": row.end_line}
        if row.line == row.end_line:
            # The runner takes columns only where the finding stands in one line.
            properties["col"] = row.column
    level = "warning" if row.state is State.REWRITTEN else "notice"
    return workflow_command(level, properties, f"{row.message}\n{row.state.words}{because(row)}")


def workflow_command(name: str, properties: Mapping[str, object], message: str) -> str:
    """The line, without its end, by which a step tells the runner something; the name may be `error` or `notice`."""
    told = ",".join(f"{key}={_escaped(str(value), _PROPERTY_ESCAPES)}" for key, value in properties.items())
    return f"::{name} {told}::{_escaped(message, _ESCAPES)}"


def _escaped(text: str, escapes: dict[str, str]) -> str:
    return "".join(escapes.get(char, char) for char in text)
