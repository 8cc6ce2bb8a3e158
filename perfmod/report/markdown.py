"""A summary in Markdown, for `$GITHUB_STEP_SUMMARY` and comments."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from perfmod.codemods.results import Outcome
from perfmod.report.rows import FindingRow, State
from perfmod.report.view import Rendering, View
from perfmod.report.wording import counted, sentences

_MOST_LISTED = 1_000
"""A step's summary holds 1 MiB, and readers less."""
_CODE = re.compile(r"(`[^`]*`)")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|&~$@])")


def render(view: View) -> Rendering:
    """How many findings became what, the rewrites by rule, and a list to unfold."""
    rows = view.listed if view.everything else view.actionable
    parts = [_headline(view), *_table_of_outcomes(view), *_table_of_rewrites(view), *_failures(view), *_list(rows)]
    return Rendering("\n\n".join(parts) + "\n")


def _headline(view: View) -> str:
    rewrites = view.report.count_findings()[State.REWRITTEN.value]
    files = counted(len(view.report.files), "file")
    if not rewrites:
        return f"### perfmod: nothing to rewrite in {files}"
    changed = sum(file.would_change for file in view.report.files)
    return f"### perfmod: {counted(rewrites, 'rewrite')} in {changed} of {files}"


def _table_of_outcomes(view: View) -> Iterator[str]:
    counts = view.report.count_findings()
    lines = [f"| {state.words} | {counts[state.value]} |" for state in State if counts[state.value]]
    if lines:
        yield "\n".join(["| outcome | findings |", "| --- | --: |", *lines])


def _table_of_rewrites(view: View) -> Iterator[str]:
    rewrites = [row for row in view.report.findings if row.state is State.REWRITTEN]
    counts = Counter((row.code, row.name) for row in rewrites)
    files = Counter((code, name) for code, name, _ in {(row.code, row.name, row.path) for row in rewrites})
    lines = [f"| {code} {name} | {count} | {files[code, name]} |" for (code, name), count in sorted(counts.items())]
    if lines:
        yield "\n".join(["| rule | rewrites | files |", "| --- | --: | --: |", *lines])


def _failures(view: View) -> Iterator[str]:
    failed = [file for file in view.report.files if file.outcome is Outcome.FAILED]
    if failed:
        yield "\n".join(f"- {code_span(file.path)} failed: {prose(' '.join(file.reason.split()))}" for file in failed)


def _list(rows: Sequence[FindingRow]) -> Iterator[str]:
    if not rows:
        return
    lines = [_line(row) for row in rows[:_MOST_LISTED]]
    if len(rows) > _MOST_LISTED:
        lines.append(f"- and {len(rows) - _MOST_LISTED} more, which `perfmod check -v` lists")
    inner = "\n".join(lines)
    yield f"<details>\n<summary>{counted(len(rows), 'finding')}</summary>\n\n{inner}\n\n</details>"


def _line(row: FindingRow) -> str:
    return f"- {code_span(row.place)}: {row.code} {row.name}: {prose(sentences(row))}"


def code_span(text: str) -> str:
    """A code span, whatever backticks are in the text."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    space = " " if longest else ""
    return f"{fence}{space}{text}{space}{fence}"


def prose(text: str) -> str:
    """A text in which only code in backticks is markup."""
    parts = _CODE.split(text)
    return "".join(part if number % 2 else _SPECIAL.sub(r"\\\1", part) for number, part in enumerate(parts))
