"""Which decision is about which finding, after files were edited and some rewrites were made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from attrs import frozen

from perfmod import disk
from perfmod.codemods.results import Outcome
from perfmod.examined import Examined
from perfmod.review.decisions import Decision, Decisions
from perfmod.review.items import Verdict
from perfmod.transforms.finding import Finding, Place
from perfmod.transforms.fingerprint import normalised
from perfmod.withholding import place_of

_SHOWN = 80
"""Characters of a finding's code that a decision repeats."""


@frozen
class Found:
    """A finding that has a rewrite, as decisions know it.

    Attributes:
        path: its file, as decisions name it.
        occurrence: which of the findings of its file with this fingerprint it is, from 1. of: how many there are.
    """

    each: Examined
    finding: Finding
    path: str
    occurrence: int
    of: int

    @property
    def place(self) -> Place:
        """What tells it apart within a run."""
        return place_of(self.each, self.finding)

    @property
    def key(self) -> tuple[str, str, int]:
        """What a decision about it is known by."""
        return self.path, self.finding.fingerprint, self.occurrence

    @property
    def code(self) -> str:
        """The first line of its code, for readers."""
        code = normalised(self.finding.snippet).partition("\n")[0]
        return code if len(code) <= _SHOWN else f"{code[: _SHOWN - 1]}…"

    def decided(self, verdict: Verdict, note: str = "") -> Decision:
        """A decision about it."""
        return Decision(
            self.path,
            self.finding.code,
            self.finding.scope,
            self.finding.fingerprint,
            self.occurrence,
            self.of,
            verdict,
            self.code,
            note,
        )


@frozen
class Matching:
    """Decisions by the place of their finding, and those of the files that could be read that fit none any more."""

    decisions: dict[Place, Decision]
    unfit: tuple[Decision, ...]


def found(examined: Sequence[Examined], decisions: Decisions) -> list[Found]:
    """The findings that have a rewrite, in the order of their files and places."""
    return [one for each in examined for one in _found_in(each, decisions)]


def _found_in(each: Examined, decisions: Decisions) -> Iterator[Found]:
    result = each.result
    fixable = [*result.applied, *result.held_back, *result.rejected, *result.undecided]
    if not fixable:
        return
    groups: dict[str, list[Finding]] = defaultdict(list)
    for finding in sorted(fixable, key=lambda one: (one.start, one.end, one.code)):
        groups[finding.fingerprint].append(finding)
    path = decisions.name(each.file.real)
    numbered = [
        Found(each, finding, path, number, len(group))
        for group in groups.values()
        for number, finding in enumerate(group, 1)
    ]
    yield from sorted(numbered, key=lambda one: (one.finding.start, one.finding.end, one.finding.code))


def match(examined: Sequence[Examined], decisions: Decisions) -> Matching:
    """The decisions that are about what was found.

    Findings of one file with the same fingerprint are told apart by their order. Where some of them are gone, those
    that were accepted are taken for applied; where that does not explain it either and the decisions differ, none fits.
    A decision about a file that is gone is about the only other file that has its finding.
    """
    findings: dict[tuple[str, str], list[Found]] = defaultdict(list)
    for one in found(examined, decisions):
        findings[one.path, one.finding.fingerprint].append(one)
    rows: dict[tuple[str, str], list[Decision]] = defaultdict(list)
    names = {decisions.name(each.file.real) for each in examined}
    read = {
        decisions.name(each.file.real)
        for each in examined
        if each.result.outcome not in (Outcome.FAILED, Outcome.SKIPPED)
    }
    for row in sorted(decisions.rows.values(), key=lambda row: row.occurrence):
        rows[_path_now(row, names, findings, decisions), row.fingerprint].append(row)
    matched: dict[Place, Decision] = {}
    left: list[tuple[str, Decision]] = []
    for key, decided in rows.items():
        pairs = _aligned(findings.get(key, []), decided)
        matched.update({one.place: row for one, row in pairs})
        fitting = [row for _, row in pairs]
        left += [(key[0], row) for row in decided if row not in fitting]
    undecided = [one for group in findings.values() for one in group if one.place not in matched]
    alike = {(one.path, one.finding.code, one.finding.scope) for one in undecided}
    # What was accepted and is gone was applied, unless something alike is there that nobody decided about.
    unfit = [
        row
        for path, row in left
        if path in read and (row.verdict is not Verdict.ACCEPTED or (path, row.rule, row.scope) in alike)
    ]
    return Matching(matched, tuple(sorted(unfit)))


def _path_now(
    row: Decision, names: set[str], findings: dict[tuple[str, str], list[Found]], decisions: Decisions
) -> str:
    """The file that a decision is about: another one where its own was renamed."""
    if row.path in names or disk.exists(decisions.root / row.path):
        return row.path
    others = [path for path, fingerprint in findings if fingerprint == row.fingerprint]
    return others[0] if len(others) == 1 else row.path


def _aligned(found: Sequence[Found], rows: Sequence[Decision]) -> list[tuple[Found, Decision]]:
    """Findings and decisions about them, both in order and with the same fingerprint."""
    if not found:
        return []
    now, then = found[0].of, rows[-1].of
    same = {row.occurrence: row for row in rows if row.of == now}
    if same:
        return [(one, same[one.occurrence]) for one in found if one.occurrence in same]
    by_number = {row.occurrence: row for row in rows}
    applied = {number for number, row in by_number.items() if row.verdict is Verdict.ACCEPTED and number <= then}
    if then - len(applied) == now:
        left = [number for number in range(1, then + 1) if number not in applied]
        return [(one, by_number[number]) for one, number in zip(found, left, strict=True) if number in by_number]
    if len(rows) == then and len({row.verdict for row in rows}) == 1:
        return list(zip(found, rows))  # noqa: B905, of more findings than there were, the first ones
    return []
