"""The scripts of the verifier's self-test, and their variants: wrong ones it must refuse, right ones it must prove.

Every folder in `verify_scripts` holds one training script as people write them, and a `variants.toml`:

    script = "train.py"             # what is run; files beside it are the modules it imports

    [[mutant]]
    name = "flipped mask"
    verdicts = ["refuted"]          # those that are right for it
    reason = "loss"                 # regular expression for the reason given: refused for the right one
    edits = [["mask]", "~mask]"]]   # old and new text; the old one stands in the script exactly once
    cuda = true                     # it goes wrong there only; may be left out
    exhaustive = true               # it is like others, and run with --exhaustive only; may be left out
    both = [["lr=0.1", "lr=1e9"]]   # edits of the original, too; may be left out

    [[right]]
    name = "by rule"
    numerics = "bitwise"            # the class as which it is judged
    rules = ["PM202"]               # rewritten by perfmod; or `edits`
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from attrs import field, frozen

from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, Outcome
from perfmod.transforms.finding import Numerics
from perfmod.verify.evidence import Verdict

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).with_name("verify_scripts")


@frozen
class Variant:
    """A rewrite of one script, right or wrong.

    Attributes:
        path: the script.
        both: replacements of the script's text that make the original.
        edits: replacements of the original's text, or else `rules`: codes of those that rewrite it.
        numerics: the class as which it is judged; a mutant claims no more than most rewrites need.
        verdicts: those that are right for it.
        reason: regular expression that the reason of a refusal matches.
        cuda: what is wrong with it can only go wrong on CUDA.
        exhaustive: it is like others of its script, and need not be run every time.
    """

    path: Path
    name: str
    both: tuple[tuple[str, str], ...]
    edits: tuple[tuple[str, str], ...]
    rules: tuple[str, ...]
    numerics: Numerics
    verdicts: frozenset[Verdict]
    reason: str
    cuda: bool
    exhaustive: bool

    def __str__(self) -> str:
        return f"{self.path.parent.name}: {self.name}"

    def original(self) -> bytes:
        """The script that is rewritten. Fails where an edit does not fit."""
        return self._edited(self.path.read_bytes(), self.both)

    def rewritten(self) -> bytes:
        """What it is rewritten to. Fails where an edit does not fit, or a rule has nothing to do."""
        return self._by_rule() if self.rules else self._edited(self.original(), self.edits)

    def _edited(self, data: bytes, edits: tuple[tuple[str, str], ...]) -> bytes:
        text = data.decode()
        for old, new in edits:
            assert text.count(old) == 1, f"{self}: stands there {text.count(old)} times: {old!r}"
            assert old != new, f"{self}: changes nothing: {old!r}"
            text = text.replace(old, new)
        return text.encode()

    def _by_rule(self) -> bytes:
        choice = Choice(unsafe=True, opted_in=frozenset(self.rules), low_impact=True)
        result = rewrite(self.original(), str(self.path), catalog.select(catalog.rules(), self.rules, ()), choice)
        assert result.outcome is Outcome.CHANGED, f"{self}: {result.outcome.value} {result.reason}"
        assert {finding.code for finding in result.applied} == set(self.rules), f"{self}: {result.refused}"
        return result.after


@frozen
class Script:
    """A training script, and the variants of it."""

    path: Path
    mutants: tuple[Variant, ...] = field(repr=False)
    rights: tuple[Variant, ...] = field(repr=False)

    def __str__(self) -> str:
        return self.path.parent.name


def scripts() -> list[Script]:
    """All of them, by name."""
    return [_read(path) for path in sorted(FOLDER.glob("*/variants.toml"))]


def _read(path: Path) -> Script:
    described = tomllib.loads(path.read_text(encoding="utf-8"))
    script = path.with_name(described["script"])
    return Script(
        path=script,
        mutants=tuple(_variant(script, {"numerics": "rounding", **entry}) for entry in described["mutant"]),
        rights=tuple(_variant(script, {"verdicts": ["proven"], **entry}) for entry in described["right"]),
    )


def _variant(script: Path, entry: dict[str, Any]) -> Variant:
    return Variant(
        path=script,
        name=entry["name"],
        both=_pairs(entry.get("both", ())),
        edits=_pairs(entry.get("edits", ())),
        rules=tuple(entry.get("rules", ())),
        numerics=Numerics(entry["numerics"]),
        verdicts=frozenset(Verdict(verdict) for verdict in entry["verdicts"]),
        reason=entry.get("reason", ""),
        cuda=entry.get("cuda", False),
        exhaustive=entry.get("exhaustive", False),
    )


def _pairs(entry: Iterable[Sequence[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((old, new) for old, new in entry)
