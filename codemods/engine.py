"""Source and rules in, a `FileResult` out: findings, edits, rounds, checks. No I/O.

A round reads the facts of the text, asks every rule, and applies as many admitted findings as do not get in
each other's way. The next round starts from the new text, until nothing admitted is left. Text between edits
is copied, never printed from a tree, so it stays as it was.
"""

from __future__ import annotations

import enum
import os
import re
import traceback
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from attrs import asdict, evolve, field, frozen

from perfmod.codemods.edits import Splice, disjoint, is_consistent
from perfmod.codemods.imports import Preamble, preamble_edits
from perfmod.codemods.suppress import Suppressions, mentioned
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.rule import Edit, Finding, Rule, Safety
from perfmod.transforms.source import LINE_NUMBERS, ForeignSource, Source, SourceError, code_of, is_notebook

MAX_ROUNDS = 10
"""How many rounds in a row may leave no fewer findings to apply than there were before."""


class Outcome(str, enum.Enum):
    """What became of one file; every file has exactly one."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"
    FAILED = "failed"


@frozen
class Choice:
    """Which findings may be applied.

    Attributes:
        unsafe: apply findings whose safety is `unsafe` too.
        opted_in: codes of the opt-in rules that were selected by code or name.
    """

    unsafe: bool = False
    opted_in: frozenset[str] = frozenset()

    def admits(self, finding: Finding, rule: Rule) -> bool:
        """Whether a finding that has edits may be applied; the unsafe ones of an opt-in rule need both flags."""
        if Safety.OPT_IN in (finding.safety, rule.safety) and finding.code not in self.opted_in:
            return False
        return finding.safety is not Safety.UNSAFE or self.unsafe


@frozen
class FileResult:
    """One file after all rules.

    Places of the findings, and lines that their texts name, are those of the file as it was given; the
    offsets of their edits are those of the round that found them.

    Attributes:
        path: the path as given.
        outcome: see `Outcome`.
        reason: why it was skipped or failed, in one line; else empty.
        before, after: the file's bytes; equal unless the outcome is `changed`.
        applied: findings whose edits are in `after`.
        held_back: findings with edits that `Choice` did not admit (unsafe, opt-in).
        refused: refusals and advice.
        suppressed: findings silenced by a `# perfmod: ignore` comment.
        warnings: what is wrong with such comments, each one line with its line number.
        together: paths of the other files that applied findings changed along with this one: all of them have to be
            written, or none.
    """

    path: str
    outcome: Outcome
    before: bytes
    after: bytes
    reason: str = ""
    applied: tuple[Finding, ...] = ()
    held_back: tuple[Finding, ...] = ()
    refused: tuple[Finding, ...] = ()
    suppressed: tuple[Finding, ...] = ()
    warnings: tuple[str, ...] = ()
    together: tuple[str, ...] = ()


class Part(str, enum.Enum):
    """What is done with one of several files that are read together."""

    ASKED = "asked"
    """Rules look for their patterns in it, and it is rewritten."""
    PARTNER = "partner"
    """No rule is asked about it; it is rewritten where a finding of another file has edits in it."""
    READ = "read"
    """Only facts are taken from it. A finding that would have to edit it is refused."""


@frozen
class Given:
    """One of several files that are read together.

    Attributes:
        path: the path as the user would write it, unique among the files. A file called `__init__.py` is its package.
        data: its bytes.
        modules: the dotted names by which other files may import it, such as `("engine", "src.engine")`; empty for a
            script that nobody can import.
        imports: the paths, among the files, of what it imports, by dotted name as it is written there: `engine`,
            `pkg.loop`, `.loop`, `..data.loaders`, and for `from pkg import loop` both `pkg` and `pkg.loop`. What is
            not in it is no file of these. None where nobody has looked; then `modules` tell.
        part: see `Part`.
        imported_elsewhere: whether files that are not among these import it, too: its callers are not all to be seen.
    """

    path: str
    data: bytes
    modules: tuple[str, ...] = ()
    imports: Mapping[str, str] | None = None
    part: Part = Part.ASKED
    imported_elsewhere: bool = False


def rewrite(data: bytes, path: str, rules: Sequence[Rule], choice: Choice = Choice()) -> FileResult:
    """Check one file against `rules` and put the admitted rewrites into its text.

    Never raises for what a file holds: a file that cannot be read as Python comes back as `failed` with the
    reason, and so does one that we fail on ourselves; the environment variable `PERFMOD_DEBUG=1` adds the
    traceback then.
    """
    try:
        if is_notebook(path) and not (b"torch" in data or b"perfmod:" in data):
            return FileResult(path, Outcome.UNCHANGED, data, data)  # it is not even taken apart
        text = code_of(data, path)
        if not _possible(rules, text) and not mentioned(text):
            return FileResult(path, Outcome.UNCHANGED, data, data)
        return _Rewriting(Source.parse(data, path), rules, choice).run(data)
    except ForeignSource as error:
        return FileResult(path, Outcome.SKIPPED, data, data, error.reason)
    except SourceError as error:
        reason = error.reason
    except _Failed as error:
        reason = str(error)
    except RecursionError:
        reason = "is nested too deeply to be checked"
    except Exception as error:  # noqa: BLE001, a bug of ours must not end the run over the other files
        reason = _internal_error("the engine", error)
    return FileResult(path, Outcome.FAILED, data, data, reason)


def rewrite_together(
    files: Sequence[Given], rules: Sequence[Rule], choice: Choice = Choice()
) -> tuple[FileResult, ...]:
    """Check files that import each other, as `rewrite` does one; the results in the order of `files`."""
    return tuple(rewrite(file.data, file.path, rules, choice) for file in files)


class _Failed(Exception):
    """The file stays as it was, for the reason in the message."""


@frozen
class _Round:
    """What the rules found in one text, by what is to become of it; each in order of position."""

    preamble: Preamble
    admitted: list[Finding] = field(factory=list)
    held_back: list[Finding] = field(factory=list)
    refused: list[Finding] = field(factory=list)
    suppressed: list[Finding] = field(factory=list)


class _Rewriting:
    """The rounds of one file."""

    def __init__(self, given: Source, rules: Sequence[Rule], choice: Choice) -> None:
        self.given = given
        self.rules = {rule.code: rule for rule in rules}
        self.choice = choice
        self.source = given
        self.splices: list[Splice] = []
        """How the given text became that of `source`."""
        self.applied: list[Finding] = []
        self.used: set[tuple[int, str]] = set()
        """The suppressions that silenced something: offset in the given text, and selector."""

    def run(self, data: bytes) -> FileResult:
        """All rounds. Raises `SourceError` and `_Failed` where the file has to stay as it was."""
        comments = Suppressions.read(self.given)
        last = self._settle()
        after = self.source.to_bytes() if self.splices else data
        return FileResult(
            path=self.given.path,
            outcome=Outcome.UNCHANGED if after == data else Outcome.CHANGED,
            before=data,
            after=after,
            applied=self._placed(self.applied),
            held_back=self._placed(map(self._in_given, last.held_back)),
            refused=self._placed(map(self._in_given, last.refused)),
            suppressed=self._placed(map(self._in_given, last.suppressed)),
            warnings=tuple(map(self.given.in_words, comments.warnings(tuple(self.rules.values()), self.used))),
        )

    def _settle(self) -> _Round:
        """Applies findings until none is left, and returns the round that found no more."""
        found = self._find()
        fewest, stalled = len(found.admitted) + 1, 0
        while found.admitted:
            stalled = 0 if len(found.admitted) < fewest else stalled + 1
            fewest = min(fewest, len(found.admitted))
            if stalled == MAX_ROUNDS:
                raise _Failed(f"does not settle: {_codes(found.admitted)} would go on changing it")
            self._apply(found)
            found = self._find()
        return found

    def _find(self) -> _Round:
        """Asks every rule, and sorts the findings out."""
        file = FileFacts(self.source)
        comments = Suppressions.read(self.source)
        found = _Round(Preamble(file))
        for reported in _findings(_possible(self.rules.values(), self.source.text), file):
            finding = _fitted(reported, self.source)
            silencing = comments.silencing(finding, self.source, self.rules[finding.code])
            self.used.update((self._start_in_given(each.offset), name) for each, name in silencing)
            if silencing:
                found.suppressed.append(finding)
            elif finding.refused or not finding.edits or finding.safety is Safety.ADVICE:
                found.refused.append(finding)
            elif not self.choice.admits(finding, self.rules[finding.code]):
                found.held_back.append(finding)
            elif problem := found.preamble.problem(finding):
                found.refused.append(_refusal(finding, problem))
            else:
                found.admitted.append(finding)
        return found

    def _apply(self, found: _Round) -> None:
        """Puts as many admitted findings into the text as fit together; the others wait for the next."""
        batch: list[Finding] = []
        edits: list[Edit] = []
        for finding in found.admitted:
            if disjoint(finding.edits, edits):
                batch.append(finding)
                edits += finding.edits
        self.applied += map(self._in_given, batch)
        needs = found.preamble.missing(batch)
        try:
            splice = self._splice(Splice.of(edits))
            if needs:
                first_use = min(splice.new(edit.start) for edit in edits)
                self._splice(preamble_edits(self.source, needs, first_use))
        except SourceError as error:
            raise _Failed(f"{_codes(batch)} would break it: {error.reason}") from error

    def _splice(self, splice: Splice) -> Splice:
        self.source = self.source.reparse(splice.apply(self.source.text))
        self.splices.append(splice)
        return splice

    def _placed(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Findings of the given text in order, placed for somebody who has the file open."""
        return tuple(
            evolve(
                finding,
                **asdict(self.given.place(finding.start)),
                message=self.given.in_words(finding.message),
                reason=self.given.in_words(finding.reason),
            )
            for finding in _ordered(findings)
        )

    def _in_given(self, finding: Finding) -> Finding:
        """A finding of the current text, with its place and the lines that it names in the given one."""
        if not self.splices:
            return finding
        start, end = self._start_in_given(finding.start), finding.end
        for splice in reversed(self.splices):
            end = splice.old_end(end)
        line, column = self.given.position(start)
        return evolve(
            finding,
            start=start,
            end=max(start, end),
            line=line,
            column=column,
            message=LINE_NUMBERS.sub(self._lines_in_given, finding.message),
            reason=LINE_NUMBERS.sub(self._lines_in_given, finding.reason),
        )

    def _start_in_given(self, offset: int) -> int:
        for splice in reversed(self.splices):
            offset = splice.old(offset)
        return offset

    def _lines_in_given(self, match: re.Match[str]) -> str:
        starts = self.source.line_starts

        def moved(number: re.Match[str]) -> str:
            line = int(number.group())
            if not 0 < line <= len(starts):
                return number.group()
            return str(self.given.position(self._start_in_given(starts[line - 1]))[0])

        return re.sub(r"\d+", moved, match.group())


def _possible(rules: Iterable[Rule], text: str) -> list[Rule]:
    """The rules that can find something in a text, judged by its words alone."""
    rules = list(rules)
    if "torch" not in text:
        return []
    present = set(_words(frozenset().union(*(rule.triggers for rule in rules))).findall(text))
    return [rule for rule in rules if not rule.triggers.isdisjoint(present)]


@cache
def _words(words: frozenset[str]) -> re.Pattern[str]:
    # No word at all: a pattern that matches nothing.
    return re.compile(rf"\b(?:{'|'.join(sorted(map(re.escape, words)))})\b" if words else r"(?!)")


def _findings(rules: Iterable[Rule], file: FileFacts) -> list[Finding]:
    """What `rules` report, each thing once, in order of position. Raises `_Failed` where a rule is broken."""
    found: dict[tuple[object, ...], Finding] = {}
    for rule in rules:
        for finding in _checked(rule, file):
            if not is_consistent(finding.edits, len(file.source.text)):
                raise _Failed(f"internal error in {rule.code}: the edits of a finding overlap or lie outside")
            found.setdefault((finding.code, finding.start, finding.end, finding.edits), finding)
    return list(_ordered(found.values()))


def _checked(rule: Rule, file: FileFacts) -> list[Finding]:
    try:
        return list(rule.check(file))
    except RecursionError:
        raise
    except Exception as error:
        raise _Failed(_internal_error(rule.code, error)) from error


def _ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda each: (each.start, each.end, each.code, each.edits)))


def _fitted(finding: Finding, source: Source) -> Finding:
    """A finding as far as the file can hold its edits, which a notebook cannot everywhere."""
    if finding.refused or not finding.edits:
        return finding
    if obstacle := source.obstacle(finding.edits):
        return _refusal(finding, obstacle)
    if finding.safety in (Safety.SAFE, Safety.OPT_IN) and (doubt := source.doubt(finding.edits)):
        return evolve(finding, safety=Safety.UNSAFE, reason=doubt)
    return finding


def _refusal(finding: Finding, reason: str) -> Finding:
    return evolve(finding, reason=reason, refused=True, safety=Safety.ADVICE, edits=(), imports=(), definitions=())


def _codes(findings: Iterable[Finding]) -> str:
    return ", ".join(sorted({finding.code for finding in findings}))


def _internal_error(where: str, error: Exception) -> str:
    reason = " ".join(f"internal error in {where}: {type(error).__name__}: {error}".split())
    if os.environ.get("PERFMOD_DEBUG") == "1":
        return f"{reason}\n{traceback.format_exc()}"
    return reason
