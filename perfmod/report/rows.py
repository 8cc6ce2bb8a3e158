"""The rows that every renderer prints. Made from results; nothing is decided here or in a renderer."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from attrs import frozen

from perfmod.codemods.engine import FileResult, Outcome
from perfmod.errors import ExitCode
from perfmod.examine import Examined
from perfmod.roots import shown
from perfmod.transforms.rule import Family, Finding, Rule, Safety

SCHEMA_VERSION = 1
"""Raised when a field of the rows changes its meaning or goes; new fields may come without."""


class State(str, enum.Enum):
    """What became of a finding."""

    REWRITTEN = "rewritten"
    """It is in the new code."""
    HELD_BACK = "held-back"
    """It has a rewrite that a flag admits."""
    REFUSED = "refused"
    """A rewrite could change the training."""
    ADVICE = "advice"
    """There is something to gain, but no rewrite."""
    SUPPRESSED = "suppressed"
    """A comment in the file silences it."""


@frozen
class FindingRow:
    """One finding; line and column count from 1 in the file as it was, `flag` admits what is held back.

    In a notebook they count in the code cell that is number `cell` of all its cells, from 1. `elsewhere` are the
    paths of the other files that its rewrite changes along with this one; `figures_may_differ` says that figures that
    are only shown or logged may differ by a rounding.
    """

    path: str
    line: int
    column: int
    code: str
    name: str
    family: Family
    state: State
    message: str
    reason: str
    safety: Safety
    numerics: str
    flag: str
    scope: str
    step_in_sight: bool
    fingerprint: str
    cell: int | None = None
    elsewhere: tuple[str, ...] = ()
    figures_may_differ: bool = False

    @property
    def place(self) -> str:
        """Where it is, as it is printed: `train.py:12:5`, `train.ipynb:cell 3:12:5`."""
        cell = "" if self.cell is None else f"cell {self.cell}:"
        return f"{self.path}:{cell}{self.line}:{self.column}"


@frozen
class FileRow:
    """One file.

    Attributes:
        reason: why it was skipped or failed.
        warnings: what is wrong with its `# perfmod:` comments, with the lines.
        patch: its diff; None where it is unchanged, not UTF-8, or nobody asked for it.
    """

    path: str
    outcome: Outcome
    reason: str
    warnings: tuple[str, ...]
    patch: str | None


@frozen
class Report:
    """A whole run.

    Attributes:
        command: `apply` or `check`.
        wrote: whether the changed files were written.
        files, findings: in the order of paths and lines.
    """

    command: str
    wrote: bool
    files: tuple[FileRow, ...]
    findings: tuple[FindingRow, ...]

    def count_files(self) -> dict[str, int]:
        """Number of files by outcome; every outcome is there, and they add up to all files."""
        counts = Counter(row.outcome for row in self.files)
        return {outcome.value: counts[outcome] for outcome in Outcome}

    def count_findings(self) -> dict[str, int]:
        """Number of findings by state; every state is there, and they add up to all findings."""
        counts = Counter(row.state for row in self.findings)
        return {state.value: counts[state] for state in State}

    def flags(self) -> dict[str, int]:
        """The flags that admit what is held back, with the number of findings of each."""
        return dict(Counter(row.flag for row in self.findings if row.state is State.HELD_BACK))

    @property
    def exit_code(self) -> ExitCode:
        """A failed file outweighs what `check` found; refusals and advice alone are nothing found."""
        if any(row.outcome is Outcome.FAILED for row in self.files):
            return ExitCode.FAILED
        counts = self.count_findings()
        found = counts[State.REWRITTEN] + counts[State.HELD_BACK]
        return ExitCode.FOUND if self.command == "check" and found else ExitCode.OK


def report(
    command: str,
    examined: Sequence[Examined],
    rules: Sequence[Rule],
    *,
    wrote: bool = False,
    patches: Mapping[Path, bytes] | None = None,
) -> Report:
    """The rows of a run; `patches` are the diffs by real path."""
    by_code = {rule.code: rule for rule in rules}
    files = [_file_row(each, (patches or {}).get(each.file.real)) for each in examined]
    findings = [row for each in examined for row in _finding_rows(each.result, by_code)]
    return Report(command, wrote, tuple(files), tuple(findings))


def _file_row(each: Examined, patch: bytes | None) -> FileRow:
    changed = each.result.outcome is Outcome.CHANGED
    try:
        text = patch.decode() if changed and patch is not None else None
    except UnicodeDecodeError:
        text = None
    return FileRow(
        path=each.result.path,
        outcome=each.result.outcome,
        reason="\n".join(shown(line) for line in each.result.reason.splitlines()),
        warnings=tuple(shown(warning) for warning in each.result.warnings),
        patch=text,
    )


def _finding_rows(result: FileResult, by_code: Mapping[str, Rule]) -> Iterator[FindingRow]:
    states = {
        State.REWRITTEN: result.applied,
        State.HELD_BACK: result.held_back,
        State.REFUSED: tuple(finding for finding in result.refused if finding.refused),
        State.ADVICE: tuple(finding for finding in result.refused if not finding.refused),
        State.SUPPRESSED: result.suppressed,
    }
    found = [(state, finding) for state, findings in states.items() for finding in findings]
    for state, finding in sorted(found, key=lambda pair: _order(pair[1])):
        yield FindingRow(
            path=result.path,
            line=finding.line,
            column=finding.column,
            code=finding.code,
            name=by_code[finding.code].name,
            family=by_code[finding.code].family,
            state=state,
            message=shown(finding.message),
            reason=shown(finding.reason),
            safety=finding.safety,
            numerics=finding.numerics.value,
            flag=_flag(finding, by_code[finding.code]) if state is State.HELD_BACK else "",
            scope=finding.scope,
            step_in_sight=finding.step_in_sight,
            fingerprint=finding.fingerprint,
            cell=finding.cell,
            elsewhere=tuple(shown(change.path) for change in finding.elsewhere if change.edits),
            figures_may_differ=finding.figures_may_differ,
        )


def _order(finding: Finding) -> tuple[int, int, int, str]:
    return finding.cell or 0, finding.line, finding.column, finding.code


def _flag(finding: Finding, rule: Rule) -> str:
    chosen = [f"--select {finding.code}"] if Safety.OPT_IN in (finding.safety, rule.safety) else []
    return " ".join([*chosen, *(["--unsafe"] if finding.safety is Safety.UNSAFE else [])])
