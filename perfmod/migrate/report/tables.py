"""A campaign as tables, for spreadsheets, data frames and other programs.

The CSV and Parquet tables have one row a project, in the order of the campaign:

| column | |
| --- | --- |
| project, location, commit | its name, where its repository is, what was analysed |
| outcome | `changed`, `unchanged`, `skipped`, `failed`, `needs a person`, `not done` |
| cause, reason | why it is skipped, failed or needs a person |
| kind | what sort of project it is |
| files, files_changed, files_failed | numbers of files |
| findings, rewrites, questions | numbers of findings, of those that are rewritten, of questions to answer |
| rules | rewrites by rule: `PM101:3 PM204:1` |
| patches, added, removed | size of the patch series, lines |
| branches, waiting | names of the branches that were made, and of those held back, by spaces |
| decided, of | how many rewrites people have decided about, of how many |
| scripts, verdicts | number of scripts that are verified; their verdicts: `proven:2 refuted:1` |
| ratio, low, high | speed ratio and its interval, of the script with the smallest ratio; empty where none was timed |
| folder | where its results lie, from the campaign's folder |
| seconds, peak_mib, worker | of the analysis |

The JSON document holds everything: its projects are `ProjectRow`s with their files, findings, steps, verdicts and
branches, by the names of fields.
"""

from __future__ import annotations

import csv
import enum
import io
import json
import math
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import attrs

from perfmod.errors import Failure, UsageMistake, explain
from perfmod.migrate.report.summary import (
    Gain,
    added,
    findings_of,
    least_gain,
    made_branches,
    one_line,
    outcome_of,
    patches,
    questions_of,
    removed,
    rewrites_by_rule,
    verdicts_of,
)
from perfmod.migrate.results import FileRow, Outcome
from perfmod.migrate.rows import CampaignRow, ProjectRow
from perfmod.report.csv import inert
from perfmod.roots import shown

SCHEMA_VERSION: Final = 1
"""Raised when a field of the JSON document or a column changes its meaning or goes; new ones may come without."""

_Value = str | int | float | None


def rows_csv(campaign: CampaignRow) -> bytes:
    """One row a project, with a header, in UTF-8; a text that a spreadsheet would compute follows an apostrophe."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for project in campaign.projects:
        writer.writerow([inert(value) if isinstance(value, str) else value for value in _values(project)])
    return text.getvalue().encode()


def rows_parquet(campaign: CampaignRow, path: Path) -> None:
    """Write the columns of `rows_csv`, with types, to a file. Raises `UsageMistake` without pyarrow, and `Failure`."""
    try:
        # By name: it is no dependency, and has no types.
        pyarrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise UsageMistake(f"{shown(path)}: Parquet needs pyarrow: pip install pyarrow") from error
    types = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64()}
    schema = pyarrow.schema([(name, types[kind]) for name, (kind, _) in _COLUMNS.items()])
    values = [dict(zip(_COLUMNS, _values(project), strict=True)) for project in campaign.projects]
    try:
        parquet.write_table(pyarrow.Table.from_pylist(values, schema=schema), path)
    except OSError as error:
        raise Failure(f"{shown(path)}: cannot be written: {explain(error)}") from error


def rows_json(campaign: CampaignRow) -> bytes:
    """The whole campaign as one document, `schema_version` 1."""
    fields = {"schema_version": SCHEMA_VERSION, **_fields(campaign)}
    return (json.dumps(fields, indent=2, allow_nan=False) + "\n").encode()


def stable_rows(campaign: CampaignRow) -> bytes:
    """What has to be the same whenever, wherever and in how many attempts a campaign ran, to compare byte by byte.

    A line of JSON for the campaign and one for each project, by names. Left out are times, memory, workers, dates and
    machines; the tips of branches, which hold dates, but not whether there is one; of verifications, all but verdict
    and cause, as the rest is measured.
    """
    head = {"schema_version": SCHEMA_VERSION, "perfmod": campaign.perfmod, "writes": campaign.writes}
    projects = sorted(campaign.projects, key=lambda project: (project.name, project.location))
    return "".join(f"{json.dumps(row)}\n" for row in (head, *map(_stable, projects))).encode()


def _stable(project: ProjectRow) -> dict[str, Any]:
    fields = _fields(project)
    for name in ("seconds", "peak_mib", "worker"):
        del fields[name]
    for branch in fields["branches"]:
        branch["tip"] = bool(branch["tip"])
    fields["verdicts"] = [
        {
            "script": row.script,
            "folder": row.folder,
            "verdict": row.verification and row.verification.verdict,
            "cause": row.verification and row.verification.cause.value,
        }
        for row in project.verdicts
    ]
    return fields


def _fields(record: attrs.AttrsInstance) -> dict[str, Any]:
    return attrs.asdict(record, value_serializer=lambda _record, _attribute, value: _plain(value))


def _plain(value: Any) -> Any:  # noqa: ANN401
    """As JSON has it, which knows no infinities."""
    if isinstance(value, enum.Enum):
        return value.value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _values(project: ProjectRow) -> list[_Value]:
    return [shown(value) if isinstance(value := get(project), str) else value for _, get in _COLUMNS.values()]


def _files(project: ProjectRow) -> tuple[FileRow, ...]:
    return project.analysis.files if project.analysis is not None else ()


def _number_of_files(project: ProjectRow, outcome: Outcome) -> int:
    return sum(file.outcome is outcome for file in _files(project))


def _counted(counts: Counter[str]) -> str:
    return " ".join(f"{name}:{number}" for name, number in sorted(counts.items()))


def _of_gain(get: Callable[[Gain], float | None]) -> Callable[[ProjectRow], float | None]:
    return lambda project: get(gain) if (gain := least_gain(project)) else None


_COLUMNS: Final[dict[str, tuple[type, Callable[[ProjectRow], _Value]]]] = {
    "project": (str, lambda project: project.name),
    "location": (str, lambda project: project.location),
    "commit": (str, lambda project: project.commit),
    "outcome": (str, outcome_of),
    "cause": (str, lambda project: project.cause.value),
    "reason": (str, lambda project: one_line(project.reason)),
    "kind": (str, lambda project: project.analysis.kind if project.analysis else ""),
    "files": (int, lambda project: len(_files(project))),
    "files_changed": (int, lambda project: _number_of_files(project, Outcome.CHANGED)),
    "files_failed": (int, lambda project: _number_of_files(project, Outcome.FAILED)),
    "findings": (int, lambda project: len(findings_of(project))),
    "rewrites": (int, lambda project: sum(rewrites_by_rule(project).values())),
    "questions": (int, lambda project: sum(1 for _ in questions_of(project))),
    "rules": (str, lambda project: _counted(rewrites_by_rule(project))),
    "patches": (int, patches),
    "added": (int, added),
    "removed": (int, removed),
    "branches": (str, lambda project: " ".join(made_branches(project))),
    "waiting": (str, lambda project: " ".join(project.waiting)),
    "decided": (int, lambda project: project.analysis.decided if project.analysis else 0),
    "of": (int, lambda project: project.analysis.of if project.analysis else 0),
    "scripts": (int, lambda project: len(project.verdicts)),
    "verdicts": (str, lambda project: _counted(Counter(verdicts_of(project)))),
    "ratio": (float, _of_gain(lambda gain: gain.ratio)),
    "low": (float, _of_gain(lambda gain: gain.low)),
    "high": (float, _of_gain(lambda gain: gain.high)),
    "folder": (str, lambda project: project.folder),
    "seconds": (float, lambda project: project.seconds),
    "peak_mib": (float, lambda project: project.peak_mib),
    "worker": (str, lambda project: project.worker),
}
"""By name: the type, and what a project has there."""
