"""SARIF 2.1.0, for GitHub code scanning, editors and review bots.

SARIF has no cells: a finding of a notebook stands in the first line of its file, because GitHub requires a line, and
a logical location and the message name the cell.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

from attrs import frozen

from perfmod import __version__
from perfmod.codemods.results import Outcome
from perfmod.report.pages import rule_rows, sections
from perfmod.report.rows import EditRow, FindingRow, State
from perfmod.report.view import Rendering, View, occurrences, told_place
from perfmod.report.wording import because, sentences
from perfmod.transforms.finding import Safety

if TYPE_CHECKING:
    from perfmod.transforms.rule import Rule

_Json: TypeAlias = dict[str, Any]

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT = "%SRCROOT%"
_MOST_RESULTS = 25_000
"""GitHub refuses a run with more, and shows the 5,000 of the highest level."""
_MOST_BYTES = 10_000_000
"""GitHub refuses a compressed file that is larger."""
_NOTIFIED = {Outcome.FAILED: "error", Outcome.SKIPPED: "note"}
"""The level at which a file is told that was not analysed."""


def render(view: View) -> Rendering:
    """A run with one result for each finding, the strongest first, as many as GitHub takes.

    What is left as it is has no result. What comments silence has one where everything was asked for, because GitHub
    shows it like all others.
    """
    silenced = [row for row in view.report.findings if row.state is State.SUPPRESSED] if view.everything else []
    found = [*view.actionable, *silenced]
    kept = found[:_MOST_RESULTS]
    text = _render(view, kept)
    while kept and (size := _packed(text)) > _MOST_BYTES:
        # Results differ in size, so that the share that fits is approached from above.
        kept = kept[: len(kept) * _MOST_BYTES * 9 // (size * 10)]
        text = _render(view, kept)
    if len(kept) == len(found):
        return Rendering(text)
    left = f"{len(found) - len(kept)} of {len(found)} findings are not in the SARIF file, whose size GitHub limits"
    return Rendering(text, (f"{left}; the strongest are. Give fewer paths, or --select rules",))


def _packed(text: str) -> int:
    """How many bytes are uploaded."""
    data = text.encode()
    return len(data) if len(data) <= _MOST_BYTES else len(gzip.compress(data))


def _render(view: View, rows: Sequence[FindingRow]) -> str:
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [_run(view, rows)]}, indent=1) + "\n"


def _run(view: View, rows: Sequence[FindingRow]) -> _Json:
    rules = [view.rules[code].load() for code in sorted({row.code for row in rows})]
    results = _Results(view, {rule.code: (index, rule) for index, rule in enumerate(rules)})
    failed = any(file.outcome is Outcome.FAILED for file in view.report.files)
    return {
        "tool": {"driver": {"name": "perfmod", "version": __version__, "rules": list(map(_rule, rules))}},
        "invocations": [
            {
                "executionSuccessful": not failed,
                "toolExecutionNotifications": list(_notifications(view)),
            }
        ],
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The root of the repository."}}},
        "columnKind": "unicodeCodePoints",
        "newlineSequences": ["\r\n", "\n", "\r"],
        "results": [results.result(row, occurrence) for row, occurrence in occurrences(rows)],
    }


def _rule(rule: Rule) -> _Json:
    (row,) = rule_rows([rule])
    told = sections(rule)
    descriptor: _Json = {
        "id": row.code,
        "name": row.name,
        "shortDescription": {"text": row.summary},
        "fullDescription": {"text": f"{row.summary}. {row.fix_title}."},
        "help": {
            "text": "\n\n".join(f"{title}\n{body}" for title, body in told.items()),
            "markdown": "\n\n".join(f"## {title}\n\n{body}" for title, body in told.items()),
        },
        "defaultConfiguration": {"level": "warning" if rule.safety is Safety.SAFE else "note"},
        "properties": {
            "tags": ["performance", "pytorch", row.family, row.numerics],
            "numerics": row.numerics,
            "safety": row.safety,
            "minTorch": row.min_torch,
        },
    }
    if row.references:
        descriptor["helpUri"] = row.references[0]
    return descriptor


def _notifications(view: View) -> Iterator[_Json]:
    for file in view.report.files:
        told = [("warning", warning) for warning in file.warnings]
        if file.outcome in _NOTIFIED:
            told.append((_NOTIFIED[file.outcome], f"{file.outcome.value}: {file.reason}"))
        for level, text in told:
            place = {"physicalLocation": {"artifactLocation": _artifact(view, file.path)}}
            yield {"level": level, "message": {"text": text}, "locations": [place]}


@frozen
class _Results:
    """Makes the results of a run.

    Attributes:
        rules: the rules of the run by code, each with its index.
    """

    view: View
    rules: dict[str, tuple[int, Rule]]

    def result(self, row: FindingRow, occurrence: int) -> _Json:
        """A finding."""
        index, rule = self.rules[row.code]
        in_cell = "" if row.cell is None else f"In {told_place(row)}: "
        result: _Json = {
            "ruleId": row.code,
            "ruleIndex": index,
            "level": "warning" if row.state is State.REWRITTEN else "note",
            "message": {"text": f"{in_cell}{sentences(row)}"},
            "locations": [self._location(row)],
            "partialFingerprints": _fingerprints(row, occurrence),
            "properties": {"state": row.state.value, "numerics": row.numerics},
        }
        if row.state is State.SUPPRESSED:
            result["suppressions"] = [{"kind": "inSource"}]
        if others := list(self._others(row)):
            result["relatedLocations"] = others
        if self._is_fixable(row):
            result["fixes"] = [self._fix(row, rule)]
        return result

    def _location(self, row: FindingRow) -> _Json:
        artifact = _artifact(self.view, row.path)
        if row.cell is None:
            region = _region(row.line, row.column, row.end_line, row.end_column)
            return {"physicalLocation": {"artifactLocation": artifact, "region": region}}
        return {
            "physicalLocation": {"artifactLocation": artifact, "region": {"startLine": 1}},
            "logicalLocations": [{"name": f"cell {row.cell}", "fullyQualifiedName": row.place, "kind": "cell"}],
        }

    def _others(self, row: FindingRow) -> Iterator[_Json]:
        """Where the first edit of each other file stands."""
        first: dict[str, EditRow] = {}
        for edit in row.edits or ():
            first.setdefault(edit.path, edit)
        for number, path in enumerate(row.elsewhere, start=1):
            place: _Json = {"artifactLocation": _artifact(self.view, path)}
            told = "is made along with it" if path in row.makes else "changes along with it"
            if path in first and first[path].cell is None:
                place["region"] = _region_of(first[path])
            yield {"id": number, "physicalLocation": place, "message": {"text": told}}

    def _is_fixable(self, row: FindingRow) -> bool:
        """Whether its edits alone can be made in the files as they are."""
        edits = row.edits or ()
        is_plain = all(edit.cell is None for edit in edits)
        return row.fixable and bool(row.edits) and is_plain and not self.view.report.wrote

    def _fix(self, row: FindingRow, rule: Rule) -> _Json:
        by_path: dict[str, list[EditRow]] = {}
        for edit in row.edits or ():
            by_path.setdefault(edit.path, []).append(edit)
        held = "" if row.state is State.REWRITTEN else f" ({row.state.words}{because(row)})"
        changes = [
            {"artifactLocation": _artifact(self.view, path), "replacements": list(map(_replacement, edits))}
            for path, edits in by_path.items()
        ]
        return {"description": {"text": f"{rule.fix_title}{held}"}, "artifactChanges": changes}


def _fingerprints(row: FindingRow, occurrence: int) -> dict[str, str]:
    """GitHub makes its own one from the line where there is none, which would be the same for all cells."""
    own = {"perfmod/v1": row.fingerprint}
    return own if row.cell is None else {**own, "primaryLocationLineHash": f"{row.fingerprint}:{occurrence}"}


def _artifact(view: View, path: str) -> _Json:
    """A file; relative to the root of the repository where it lies in there."""
    told = view.from_root(path)
    if told.startswith("/"):
        return {"uri": f"file://{quote(told)}"}
    return {"uri": quote(told), "uriBaseId": _ROOT}


def _replacement(edit: EditRow) -> _Json:
    inserted = {"insertedContent": {"text": edit.replacement}} if edit.replacement else {}
    return {"deletedRegion": _region_of(edit), **inserted}


def _region_of(edit: EditRow) -> _Json:
    return _region(edit.line, edit.column, edit.end_line, edit.end_column)


def _region(line: int, column: int, end_line: int, end_column: int) -> _Json:
    """Ends lie behind the last character in SARIF, too."""
    return {"startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column}
