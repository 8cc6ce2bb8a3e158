"""One review: what there is to decide, and what becomes of a decision. Terminal, page and server work with it alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import define, evolve, field

from perfmod.config import Options
from perfmod.errors import UsageMistake
from perfmod.examine import examine, silent
from perfmod.examined import Examined, Progress
from perfmod.files import STDIN
from perfmod.memory import Memory, cards, memory
from perfmod.review.building import items_of, key_of
from perfmod.review.decisions import Decision, Decisions
from perfmod.review.diffs import together
from perfmod.review.items import Diff, Item, Verdict
from perfmod.review.matching import Found, found, match
from perfmod.review.proofs import Proofs
from perfmod.review.settling import only_accepted


@define
class Review:
    """The findings of some files, in the order in which they are reviewed, with what was decided.

    Attributes:
        examined: the files with all that is reviewed applied.
        items: by key, in the order of review.
        unfit: decisions about these files whose findings are gone, or cannot be told apart.
    """

    examined: Sequence[Examined]
    decisions: Decisions
    items: dict[str, Item]
    unfit: tuple[Decision, ...]
    _found: Mapping[str, Found]
    _remembered: Memory | None
    _rows: dict[str, Decision] = field(factory=dict)
    """The rows of the decisions that were there, by key of the item; a renamed file has another name in its row."""

    @classmethod
    def of(
        cls,
        targets: Sequence[str],
        options: Options,
        *,
        cwd: Path,
        decisions: Path | None = None,
        evidence: Sequence[Path] = (),
        jobs: int | None = None,
        isolated: bool = False,
        use_cache: bool = True,
        progress: Progress = silent,
    ) -> Review:
        """Examine files and match what was found with earlier decisions.

        Raises:
            UsageMistake: a wrong path, rule, configuration, file of decisions or evidence.
        """
        if STDIN in targets:
            raise UsageMistake("- stands for standard input, which cannot be reviewed; name a file or a folder")
        decided = Decisions.read(cwd, decisions)
        examined = examine(
            targets,
            evolve(options, accepted=decided.accepted),
            cwd=cwd,
            isolated=isolated,
            jobs=jobs,
            use_cache=use_cache,
            progress=progress,
        )
        remembered = memory(use_cache=use_cache)
        matching = match(examined, decided)
        proofs = Proofs.read(decided.root, cwd, evidence)
        items = items_of(examined, cards(use_cache=use_cache), decided, matching, proofs, remembered)
        by_key = {key_of(one): one for one in found(examined, decided)}
        rows = {key: row for key, one in by_key.items() if (row := matching.decisions.get(one.place)) is not None}
        by_key = {item.key: by_key[item.key] for item in items}
        return cls(examined, decided, {item.key: item for item in items}, matching.unfit, by_key, remembered, rows)

    def decide(self, keys: Sequence[str], verdict: Verdict, note: str = "") -> None:
        """Record a verdict about items, at once and in the file; `UNDECIDED` takes decisions back.

        Raises `Failure` where the file cannot be written, and `KeyError` for an unknown item.
        """
        rows = {key: self._found[key].decided(verdict, note) for key in keys}
        before = [self._rows[key].key for key in keys if key in self._rows]
        is_new = verdict is not Verdict.UNDECIDED
        self.decisions = self.decisions.with_changes(rows.values() if is_new else (), before)
        for key, row in rows.items():
            self.items[key] = evolve(self.items[key], verdict=verdict, note=note if is_new else "")
            self._rows.pop(key, None)
            if is_new:
                self._rows[key] = row

    def accepted(self) -> list[Examined]:
        """The files with what was accepted, and nothing else. Raises `Failure` where they were edited meanwhile."""
        decided = {self._found[key].place: row for key, row in self._rows.items() if key in self._found}
        return only_accepted(self.examined, decided, self.decisions.file, self._remembered)

    def diffs(self, keys: Sequence[str]) -> tuple[Diff, ...]:
        """What some items change together, of which none builds on others."""
        if len(keys) == 1:
            return self.items[keys[0]].diffs
        return together([(self._found[key].each, self._found[key].finding) for key in keys], self.examined)

    def count(self, verdict: Verdict) -> int:
        """How many items have it."""
        return sum(item.verdict is verdict for item in self.items.values())
