"""The rows as one JSON document, described by `docs/findings.schema.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs
from attrs import frozen

from perfmod import __version__
from perfmod.report import json_schema
from perfmod.report.reasons import ReasonRow
from perfmod.report.rows import SCHEMA_VERSION, FileRow, FindingRow
from perfmod.report.statistics import StatisticRow
from perfmod.report.view import Rendering, View

SCHEMA_ID = f"urn:perfmod:findings:{SCHEMA_VERSION}"
"""Names the schema, in it and in each document."""
_ON_REQUEST = ("reasons", "statistics")
"""Parts that are only there if they were asked for."""


@frozen
class Summary:
    """The numbers.

    Attributes:
        files: number of files by outcome.
        would_change: how many files the rewrites change.
        findings: number of findings by state.
        fixable: how many findings have a rewrite.
    """

    files: Mapping[str, int]
    would_change: int
    findings: Mapping[str, int]
    fixable: int


@frozen
class Document:
    """What `perfmod check` and `perfmod apply` print with `--output-format json`.

    Attributes:
        schema_version: raised when a field changes its meaning or goes; new fields may come without.
        perfmod: the version that wrote it.
        command: `apply` or `check`.
        wrote: whether the changed files were written.
        files, findings: in the order of paths and lines.
        reasons: with `--explain-all`, the findings counted by kinds of reasons.
        statistics: with `--statistics`, the findings counted by rule and outcome.
    """

    schema_version: int
    perfmod: str
    command: str
    wrote: bool
    files: tuple[FileRow, ...]
    findings: tuple[FindingRow, ...]
    summary: Summary
    reasons: tuple[ReasonRow, ...] | None = None
    statistics: tuple[StatisticRow, ...] | None = None


def render(view: View) -> Rendering:
    """The document; its fields are those of the rows."""
    report = view.report
    document = Document(
        schema_version=SCHEMA_VERSION,
        perfmod=__version__,
        command=report.command,
        wrote=report.wrote,
        files=report.files,
        findings=report.findings,
        summary=Summary(
            files=report.count_files(),
            would_change=sum(row.would_change for row in report.files),
            findings=report.count_findings(),
            fixable=sum(row.fixable for row in report.findings),
        ),
        reasons=None if view.reasons is None else tuple(view.reasons),
        statistics=None if view.statistics is None else tuple(view.statistics),
    )
    fields = attrs.asdict(document)
    for name in _ON_REQUEST:
        if fields[name] is None:
            del fields[name]
    return Rendering(json.dumps({"$schema": SCHEMA_ID, **fields}, indent=2) + "\n")


def schema() -> dict[str, Any]:
    """The document's JSON Schema. Fields that nobody knows are allowed, as a later perfmod may have written them."""
    definitions: dict[str, Any] = {}
    record = json_schema.record(Document, definitions)
    record["properties"]["schema_version"] = {"const": SCHEMA_VERSION}
    record["properties"] = {"$schema": {"const": SCHEMA_ID}, **record["properties"]}
    return json_schema.document("perfmod check and apply: findings", record, definitions, identifier=SCHEMA_ID)
