"""Findings to review, as the engine makes them of goldens: real messages, reasons and changes."""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from itertools import cycle, islice

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

_EACH = 2
"""Goldens of a folder that are looked at."""
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
    """So many, of different files; those of goldens repeat. Some are proven, some build on the one before."""
    out: list[Item] = []
    for index, (finding, diff) in enumerate(islice(cycle(_found()), number)):
        turn, place = divmod(index, len(_found()))
        path = f"project_{turn:02}/{finding.path}" if turn else finding.path
        key = f"{path}:{finding.fingerprint}:1"
        proof = _PROOFS[place // 4 % 3] if place % 4 == 0 else None
        before = (out[-1].key,) if place and out[-1].finding.path == path else ()
        row = evolve(finding, path=path, elsewhere=("data.py",) if place % 9 == 5 else ())
        out.append(Item(key, 1, row, (evolve(diff, path=path),), before, proof, Verdict.UNDECIDED, ""))
    return out


@cache
def _found() -> tuple[tuple[FindingRow, Diff], ...]:
    """Goldens of one finding, with what becomes of them."""
    return tuple(each for folder in sorted(ROOT.iterdir()) if folder.is_dir() for each in _in(folder.name))


def _in(folder: str) -> Iterator[tuple[FindingRow, Diff]]:
    rules = [rule for rule in catalog.rules() if rule.name == folder]
    if not rules:
        return
    everything = Choice(unsafe=True, low_impact=True, opted_in=frozenset(rule.code for rule in rules))
    changed = sorted((ROOT / folder).glob("*.out.py"))[:_EACH]
    for number, out in enumerate(changed):
        given = out.with_name(out.name.replace(".out.py", ".in.py"))
        # Two goldens share a file, as findings do.
        path = f"{folder.replace('-', '_')}/{given.name.removesuffix('.in.py')}.py"
        data = given.read_bytes()
        file = FoundFile(path, given, True, settings_for(ROOT, Options()), ROOT)
        rows = finding_rows([Examined(file, rewrite(data, path, rules))], catalog.cards())
        fixable = [row for row in rows if row.fixable]
        after = rewrite(data, path, rules, everything).after
        if not fixable or after == data:
            continue
        yield fixable[number % len(fixable)], _diff(path, data, after)


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
