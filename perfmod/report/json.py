"""The rows as one JSON document."""

from __future__ import annotations

import json
from collections.abc import Sequence

import attrs

from perfmod import __version__
from perfmod.report.reasons import ReasonRow
from perfmod.report.rows import SCHEMA_VERSION, Report


def render(report: Report, reasons: Sequence[ReasonRow] | None = None) -> str:
    """The document, ending in a newline; its fields are those of the rows. `reasons` are in it where they are given."""
    document: dict[str, object] = {
        "schema_version": SCHEMA_VERSION,
        "perfmod": __version__,
        "command": report.command,
        "wrote": report.wrote,
        "files": [attrs.asdict(row) for row in report.files],
        "findings": [attrs.asdict(row) for row in report.findings],
        "summary": {
            "files": report.count_files(),
            "would_change": sum(row.would_change for row in report.files),
            "findings": report.count_findings(),
            "fixable": sum(row.fixable for row in report.findings),
        },
    }
    if reasons is not None:
        document["reasons"] = [attrs.asdict(row) for row in reasons]
    return json.dumps(document, indent=2) + "\n"
