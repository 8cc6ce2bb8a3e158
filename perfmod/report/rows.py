"""The rows that every renderer prints. Made from results; nothing is decided here or in a renderer."""

from __future__ import annotations

import enum
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs
from attrs import frozen

from perfmod.codemods.catalog import PRESETS
from perfmod.codemods.results import FileResult, Outcome, is_on_request
from perfmod.errors import ExitCode
from perfmod.examined import Examined
from perfmod.roots import shown
from perfmod.transforms.card import Card
from perfmod.transforms.finding import Family, Finding, Question, Safety

SCHEMA_VERSION = 2
"""Raised when a field of the rows changes its meaning or goes; new fields may come without."""


class State(str, enum.Enum):
    """What became of a finding, the strongest first: where several speak of one place, one counts."""

    REWRITTEN = "rewritten"
    """It is in the new code."""
    LOW_IMPACT = "low-impact"
    """It has a rewrite that is worth little; `--low-impact` applies it."""
    QUESTION = "open-question"
    """It has a rewrite that is right if the answer to a question is yes; `--unsafe` takes it as answered so."""
    ON_REQUEST = "on-request"
    """It has a rewrite that has to be asked for: by selecting its rule, or by naming the file that it needs, too."""
    ADVICE = "advice"
    """There is something to gain, but no rewrite."""
    UNDECIDED = "undecided"
    """It has a rewrite, and only those are made that were accepted in a review."""
    REJECTED = "rejected"
    """It has a rewrite, and the project's decisions say no."""
    LEFT = "left-as-it-is"
    """It is fine, or a change would be wrong."""
    SUPPRESSED = "suppressed"
    """A comment in the file silences it."""

    @property
    def words(self) -> str:
        """How people read it."""
        return self.value.replace("-", " ")


HELD_BACK = (State.LOW_IMPACT, State.QUESTION, State.ON_REQUEST)
"""Those of the rewrites that an option applies."""
UNLISTED = (State.REJECTED, State.LEFT, State.SUPPRESSED)
"""What is only listed where everything is asked for."""


@frozen
class EditRow:
    """One edit of a finding: what stands there in the file as it was, up to the end, is replaced."""

    path: str
    cell: int | None
    line: int
    column: int
    end_line: int
    end_column: int
    replacement: str


@frozen
class QuestionRow:
    """What is open about a rewrite, so that a person or a run can answer it with yes.

    Attributes:
        predicate: what is asked of the expression, in kebab-case: `is-scalar`, `is-on-device`.
        watchable: whether watching a run answers it.
    """

    predicate: str
    expression: str
    path: str
    cell: int | None
    line: int
    column: int
    watchable: bool


@frozen
class FindingRow:
    """One finding.

    Attributes:
        line, column, end_line, end_column: where it stands in the file as it was, from 1; the end is behind its last
            character. In a notebook they count in the code cell that is number `cell` of all its cells, from 1.
        flag: what has to be added to the command line so that a rewrite that is not made is made: the paths of other
            files that it changes, options, or both.
        questions: what is open about it.
        fixable: whether there is a rewrite: it is made, or an option makes it.
        edits: the rewrite if it alone is made, with imports and definitions that are missing; None where there is
            none, or it is only right on top of another rewrite.
        imports: the modules that the rewrite needs to be imported in its own file, whether or not they are.
        page: the rule's page in the documentation, from the root of this project.
        elsewhere: the paths of the other files that its rewrite changes along with this one, or makes.
        makes: those of them that are not there before.
        figures_may_differ: whether figures that are only shown or logged may differ by a rounding.
        observed: what a run showed of its questions.
    """

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    code: str
    name: str
    family: Family
    state: State
    fixable: bool
    message: str
    reason: str
    safety: Safety
    numerics: str
    flag: str
    scope: str
    step_in_sight: bool
    fingerprint: str
    page: str
    cell: int | None = None
    edits: tuple[EditRow, ...] | None = None
    imports: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    figures_may_differ: bool = False
    questions: tuple[QuestionRow, ...] = ()
    observed: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Where it is, as it is printed: `train.py:12:5`, `train.ipynb:cell 3:12:5`."""
        cell = "" if self.cell is None else f"cell {self.cell}:"
        return f"{self.path}:{cell}{self.line}:{self.column}"


@frozen
class FileRow:
    """One file.

    Attributes:
        would_change: whether its rewrites change it, be they written or not.
        reason: why it was skipped or failed.
        warnings: what is wrong with its `# perfmod:` comments, with the lines.
        in_part: whether it was analysed without some of the files that it belongs to, because all of them together
            are too large.
        patch: its diff; None where it is unchanged, not UTF-8, or nobody asked for it.
    """

    path: str
    outcome: Outcome
    would_change: bool
    reason: str
    warnings: tuple[str, ...]
    in_part: bool
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

    def flags(self, state: State) -> dict[str, int]:
        """What has to be added to the command line for the findings of a state, with the number of findings of each.

        Several rules that a preset selects together are added by its name.
        """
        counts = Counter(row.flag for row in self.findings if row.state is state)
        for preset, codes in PRESETS.items():
            members = counts.keys() & {f"--extend-select {code}" for code in codes}
            if len(members) > 1:
                counts[f"--preset {preset}"] = sum(counts.pop(flag) for flag in members)
        return dict(counts)

    @property
    def exit_code(self) -> ExitCode:
        """What `apply` with the same options would do counts for `check`, also where other files failed."""
        found = self.command == "check" and self.count_findings()[State.REWRITTEN]
        return ExitCode.FOUND if found else self.exit_code_of_files

    @property
    def exit_code_of_files(self) -> ExitCode:
        """Whether a file failed, whatever was found in the others."""
        return ExitCode.FAILED if any(row.outcome is Outcome.FAILED for row in self.files) else ExitCode.OK


def report(
    command: str,
    examined: Sequence[Examined],
    rules: Sequence[Card],
    *,
    wrote: bool = False,
    patches: Mapping[Path, bytes] | None = None,
) -> Report:
    """The rows of a run; `patches` are the diffs by real path."""
    files = [_file_row(each, (patches or {}).get(each.file.real)) for each in examined]
    return Report(command, wrote, tuple(files), finding_rows(examined, rules))


def finding_rows(examined: Sequence[Examined], rules: Sequence[Card]) -> tuple[FindingRow, ...]:
    """The rows of the findings in some files."""
    by_code = {rule.code: rule for rule in rules}
    return tuple(row for each in examined for row in _finding_rows(each.result, by_code))


def _file_row(each: Examined, patch: bytes | None) -> FileRow:
    changed = each.result.outcome is Outcome.CHANGED
    try:
        text = patch.decode() if changed and patch is not None else None
    except UnicodeDecodeError:
        text = None
    return FileRow(
        path=each.result.path,
        outcome=each.result.outcome,
        would_change=changed,
        reason="\n".join(shown(line) for line in each.result.reason.splitlines()),
        warnings=tuple(shown(warning) for warning in each.result.warnings),
        in_part=each.result.in_part,
        patch=text,
    )


def _finding_rows(result: FileResult, by_code: Mapping[str, Card]) -> Iterator[FindingRow]:
    found = [
        *((State.REWRITTEN, finding) for finding in result.applied),
        *((waiting(finding, by_code[finding.code]), finding) for finding in result.held_back),
        *((State.UNDECIDED, finding) for finding in result.undecided),
        *((State.REJECTED, finding) for finding in result.rejected),
        *((State.LEFT if finding.refused else State.ADVICE, finding) for finding in result.refused),
        *((State.SUPPRESSED, finding) for finding in result.suppressed),
    ]
    for state, finding in sorted(found, key=lambda pair: _order(pair[1])):
        rule = by_code[finding.code]
        if state in (*HELD_BACK, State.ADVICE, State.LEFT) and any(
            _speaks_for(*each, state, finding) for each in found
        ):
            continue
        yield finding_row(result.path, finding, rule, state)


def finding_row(path: str, finding: Finding, rule: Card, state: State) -> FindingRow:
    """The row of a finding in the file at `path`."""
    return FindingRow(
        path=path,
        line=finding.line,
        column=finding.column,
        end_line=finding.end_line,
        end_column=finding.end_column,
        code=finding.code,
        name=rule.name,
        family=rule.family,
        state=state,
        fixable=state in (State.REWRITTEN, *HELD_BACK),
        message=shown(finding.message),
        reason=shown(finding.reason),
        safety=finding.safety,
        numerics=finding.numerics.value,
        flag=_flag(finding, rule) if state in HELD_BACK else "",
        scope=finding.scope,
        step_in_sight=finding.step_in_sight,
        fingerprint=finding.fingerprint,
        page=rule.page,
        cell=finding.cell,
        edits=_edits(finding) if finding.edits or finding.elsewhere else None,
        imports=finding.imports,
        elsewhere=tuple(shown(change.path) for change in finding.elsewhere if change.edits),
        makes=tuple(shown(change.path) for change in finding.elsewhere if change.is_new),
        figures_may_differ=finding.figures_may_differ,
        questions=tuple(_question(each, path) for each in finding.questions),
        observed=finding.observed,
    )


def waiting(finding: Finding, rule: Card) -> State:
    """What a finding with a rewrite is where no option applies it."""
    if is_on_request(finding, rule) or finding.unnamed:
        return State.ON_REQUEST
    return State.QUESTION if finding.safety is Safety.UNSAFE else State.LOW_IMPACT


def _speaks_for(stronger: State, other: Finding, state: State, finding: Finding) -> bool:
    """Whether a finding is not told because another of its place is: of its rule, or a rewrite of code that stays."""
    states = list(State)
    if stronger is State.SUPPRESSED or states.index(stronger) >= states.index(state):
        return False
    if (other.cell, other.start, other.end) == (finding.cell, finding.start, finding.end):
        return other.code == finding.code or state is State.LEFT
    meet = other.start < finding.end and finding.start < other.end
    return meet and other.code == finding.code and not finding.edits


def _question(question: Question, path: str) -> QuestionRow:
    return QuestionRow(
        question.predicate,
        shown(question.expression),
        shown(question.path) or path,
        question.cell,
        question.line,
        question.column,
        question.watchable,
    )


def _order(finding: Finding) -> tuple[int, int, int, str]:
    return finding.cell or 0, finding.line, finding.column, finding.code


def _edits(finding: Finding) -> tuple[EditRow, ...] | None:
    if finding.placed is None:
        return None
    return tuple(EditRow(**attrs.asdict(edit) | {"path": shown(edit.path)}) for edit in finding.placed)


def _flag(finding: Finding, rule: Card) -> str:
    named = map(shown, finding.unnamed)
    chosen = [f"--extend-select {finding.code}"] if is_on_request(finding, rule) else []
    admitted = {Safety.UNSAFE: ["--unsafe"], Safety.LOW_IMPACT: ["--low-impact"]}.get(finding.safety, [])
    return " ".join([*map(shlex.quote, named), *chosen, *admitted])
