"""Findings to review, as the engine makes them of goldens: real messages, reasons and changes."""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path

from attrs import evolve
from golden_harness.golden import ROOT

from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite
from perfmod.codemods.patch import parse_hunks, unified_diff
from perfmod.codemods.results import Choice
from perfmod.config import Options, settings_for
from perfmod.examined import Examined
from perfmod.files import FoundFile
from perfmod.report.rows import FindingRow, finding_rows
from perfmod.review.items import Diff, Hunk, Item, Line, Proof, Verdict
from perfmod.review.page import RuleText
from perfmod.transforms.rule import Rule

_EACH = 2
"""Goldens of a rule that are looked at."""
_PROOFS = (
    Proof("proven", 1.38, 1.36, 1.40, 3.0, "NVIDIA H100, torch 2.9.0", "runs/evidence.json", False),
    Proof("proven", 1.07, 1.02, 1.11, 1.0, "NVIDIA H100, torch 2.9.0", "runs/old/evidence.json", True),
    Proof("refuted", None, None, None, None, "cpu", "runs/evidence.json", False),
)


def rule_texts() -> dict[str, RuleText]:
    """What every rule says of itself."""
    return {
        rule.code: RuleText(
            rule.name,
            rule.summary,
            rule.fix_title,
            rule.numerics.value,
            rule.changes_results,
            inspect.getdoc(sys.modules[type(rule).__module__]) or rule.summary,
        )
        for rule in catalog.rules()
    }


def items(number: int) -> list[Item]:
    """So many, of different files; those of goldens repeat. Some are proven, some change a second file."""
    found = _found(number)
    out: list[Item] = []
    for index in range(number):
        turn, place = divmod(index, len(found))
        finding, diff = found[place]
        path = f"project_{turn:02}/{finding.path}" if turn else finding.path
        proof = _PROOFS[place // 4 % 3] if place % 4 == 0 else None
        row = evolve(finding, path=path, elsewhere=("data.py",) if place % 9 == 5 else ())
        out.append(
            Item(f"{path}:{finding.fingerprint}:1", path, 1, 1, "", row, (evolve(diff, path=path),), proof=proof)
        )
    return out


def unusual() -> list[Item]:
    """One of each kind that a page shows in a way of its own.

    Two files, a cell of a notebook, measured and not any more, and one that builds on another and was decided.
    """
    two, cell, fresh, stale, base, user = items(6)
    two = evolve(
        two,
        finding=evolve(two.finding, elsewhere=("models/heads.py",)),
        diffs=(*two.diffs, evolve(cell.diffs[0], path="models/heads.py")),
    )
    cell = evolve(
        cell,
        finding=evolve(cell.finding, path="study.ipynb", cell=3),
        diffs=(evolve(cell.diffs[0], path="study.ipynb", cell=3),),
    )
    fresh, stale = evolve(fresh, proof=_PROOFS[0]), evolve(stale, proof=_PROOFS[1])
    user = evolve(user, builds_on=(base.key,), note="the loss is logged only once an epoch", verdict=Verdict.REJECTED)
    return [two, cell, fresh, stale, evolve(base, proof=_PROOFS[2]), user]


@cache
def _found(number: int) -> tuple[tuple[FindingRow, Diff], ...]:
    """Up to so many findings of goldens with what becomes of them: one of each rule, then another one of each."""
    named = {rule.name: rule for rule in catalog.rules()}
    goldens = [(named[name], sorted((ROOT / name).glob("*.out.py"))[:_EACH]) for name in sorted(named)]
    turns = ((rule, outs[turn]) for turn in range(_EACH) for rule, outs in goldens if turn < len(outs))
    return tuple(islice((each for rule, out in turns for each in _of(rule, out)), number))


def _of(rule: Rule, out: Path) -> Iterator[tuple[FindingRow, Diff]]:
    """The first finding of a golden, with all that changes in it."""
    given = out.with_name(out.name.replace(".out.py", ".in.py"))
    path = f"{rule.name.replace('-', '_')}/{given.name.removesuffix('.in.py')}.py"
    data = given.read_bytes()
    file = FoundFile(path, given, True, settings_for(ROOT, Options()), ROOT)
    everything = Choice(unsafe=True, low_impact=True, opted_in=frozenset({rule.code}))
    after = rewrite(data, path, [rule], everything).after
    rows = finding_rows([Examined(file, rewrite(data, path, [rule]))], [rule.card])
    fixable = next((row for row in rows if row.fixable), None)
    if fixable is not None and after != data:
        yield fixable, _diff(path, data, after)


def _diff(path: str, before: bytes, after: bytes) -> Diff:
    hunks, shift = [], 0
    for hunk in parse_hunks(unified_diff(path, before, after)):
        lines = tuple(_lines([each.decode() for each in hunk.old], [each.decode() for each in hunk.new]))
        hunks.append(Hunk(hunk.start, hunk.start + shift, lines))
        shift += len(hunk.new) - len(hunk.old)
    return Diff(path, None, tuple(hunks))


def _lines(old: list[str], new: list[str]) -> Iterator[Line]:
    for tag, start, end, new_start, new_end in difflib.SequenceMatcher(None, old, new, False).get_opcodes():
        if tag == "equal":
            yield from (Line(" ", text.rstrip("\n")) for text in old[start:end])
        else:
            yield from (Line("-", text.rstrip("\n")) for text in old[start:end])
            yield from (Line("+", text.rstrip("\n")) for text in new[new_start:new_end])
