"""The rows as one JSON document."""

from __future__ import annotations

import json

import attrs

from perfmod import __version__
from perfmod.report.rows import SCHEMA_VERSION, Report


def render(report: Report) -> str:
    """The document, ending in a newline; its fields are those of the rows."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "perfmod": __version__,
        "command": report.command,
        "wrote": report.wrote,
        "files": [attrs.asdict(row) for row in report.files],
        "findings": [attrs.asdict(row) for row in report.findings],
        "summary": {"files": report.count_files(), "findings": report.count_findings()},
    }
    return json.dumps(document, indent=2) + "\n"
