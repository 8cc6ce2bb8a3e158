"""A code quality report of GitLab, which merge requests show."""

from __future__ import annotations

import hashlib
import json

from perfmod.report.rows import FindingRow, State
from perfmod.report.view import Rendering, View, occurrences, told_place
from perfmod.report.wording import sentences


def render(view: View) -> Rendering:
    """An entry for each finding that there is something to do about: `minor` for rewrites, `info` for others."""
    entries = [_entry(view, row, occurrence) for row, occurrence in occurrences(view.actionable)]
    return Rendering(json.dumps(entries, indent=2) + "\n")


def _entry(view: View, row: FindingRow, occurrence: int) -> dict[str, object]:
    """A finding of a notebook stands in its first line, and is described with its cell: reports know no cells."""
    path = view.from_root(row.path)
    in_cell = "" if row.cell is None else f"{told_place(row)}: "
    return {
        "description": f"{in_cell}{sentences(row)}",
        "check_name": f"{row.code} {row.name}",
        "fingerprint": _fingerprint(path, row, occurrence),
        "severity": "minor" if row.state is State.REWRITTEN else "info",
        "location": {
            "path": path,
            "lines": {"begin": row.line, "end": row.end_line} if row.cell is None else {"begin": 1},
        },
    }


def _fingerprint(path: str, row: FindingRow, occurrence: int) -> str:
    """Of two entries with the same one, GitLab shows the first."""
    return hashlib.sha256("\0".join((path, row.fingerprint, str(occurrence))).encode()).hexdigest()[:32]
