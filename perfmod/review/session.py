"""One review: what there is to decide, and what becomes of a decision. Terminal, page and server work with it alone."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path

from attrs import define, evolve, field

from perfmod import applying
from perfmod.codemods.placed import Overlap
from perfmod.codemods.results import Outcome
from perfmod.commenting import with_ignore
from perfmod.config import Options
from perfmod.errors import Failure, UsageMistake
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
from perfmod.review.settling import only_accepted, without_rejected
from perfmod.transforms.finding import Place


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
        if remembered is not None:
            remembered.flush()
        by_key = {key_of(one): one for one in found(examined, decided)}
        rows = {key: row for key, one in by_key.items() if (row := matching.decisions.get(one.place)) is not None}
        return cls(examined, decided, {item.key: item for item in items}, matching.unfit, by_key, remembered, rows)

    def decide(self, keys: Sequence[str], verdict: Verdict, note: str = "") -> None:
        """Record a verdict about items, at once and in the file; `UNDECIDED` takes decisions back.

        What they build on is accepted with them; what builds on them and was accepted is undecided again without them.
        Raises `Failure` where the file cannot be written, and `KeyError` for an unknown item.
        """
        changes = dict.fromkeys(keys, (verdict, note))
        if verdict is Verdict.ACCEPTED:
            bases = [key for key in self._reach(keys, self._bases) if self.items[key].verdict is not verdict]
            changes = {**dict.fromkeys(bases, (verdict, "")), **changes}
        else:
            others = [key for key in self._reach(keys, self._users) if self.items[key].verdict is Verdict.ACCEPTED]
            changes = {**dict.fromkeys(others, (Verdict.UNDECIDED, "")), **changes}
        rows = {
            key: self._found[key].decided(new, said)
            for key, (new, said) in changes.items()
            if new is not Verdict.UNDECIDED
        }
        rows |= self._renumbered(rows, changes)
        before = [self._rows[key].key for key in {**changes, **rows} if key in self._rows]
        self.decisions = self.decisions.with_changes(rows.values(), before)
        for key, (new, said) in changes.items():
            self.items[key] = evolve(self.items[key], verdict=new, note=said if new is not Verdict.UNDECIDED else "")
            self._rows.pop(key, None)
        self._rows.update(rows)

    def _renumbered(self, new: Mapping[str, Decision], changed: Container[str]) -> dict[str, Decision]:
        """The decisions about other findings with the same code in the same place, counted as those of today."""
        counts = {row.key[:2]: row.of for row in new.values()}
        return {
            key: self._found[key].decided(row.verdict, row.note)
            for key, row in self._rows.items()
            if key not in changed and counts.get(self._found[key].key[:2], row.of) != row.of
        }

    def _bases(self, key: str) -> Sequence[str]:
        return self.items[key].builds_on

    def _users(self, key: str) -> Sequence[str]:
        return [other for other, item in self.items.items() if key in item.builds_on]

    def _reach(self, keys: Sequence[str], step: Callable[[str], Sequence[str]]) -> list[str]:
        """What is reached from items in any number of steps, in order, without themselves."""
        reached, waiting = dict.fromkeys(keys), [*keys]
        while waiting:
            new = [key for key in step(waiting.pop()) if key not in reached]
            reached.update(dict.fromkeys(new))
            waiting += new
        return [key for key in reached if key not in keys]

    def silence(self, keys: Sequence[str], reason: str) -> None:
        """Write comments into the code that silence items.

        Raises `Failure` where there is no place for one, or the file cannot be written.
        """
        by_file: dict[Path, list[Found]] = {}
        for key in keys:
            by_file.setdefault(self._found[key].each.file.real, []).append(self._found[key])
        commented = [with_ignore(ones[0].each, [one.finding for one in ones], reason) for ones in by_file.values()]
        for each in applying.write(commented, self.decisions.root):
            if each.result.outcome is Outcome.FAILED:
                raise Failure(f"{each.result.path}: {each.result.reason}")

    def accepted(self) -> list[Examined]:
        """The files with what was accepted, and nothing else. Raises `Failure` where they were edited meanwhile."""
        return only_accepted(self.examined, self._decided(), self.decisions.file, self._remembered)

    def without_rejected(self) -> list[Examined]:
        """The files without what was rejected. Raises `Failure` where they were edited meanwhile."""
        return without_rejected(self.examined, self._decided(), self.decisions.file, self._remembered)

    def _decided(self) -> dict[Place, Decision]:
        return {self._found[key].place: row for key, row in self._rows.items()}

    def diffs(self, keys: Sequence[str]) -> tuple[Diff, ...]:
        """What some items change together, of which none builds on others; one by one where that cannot be shown."""
        if len(keys) == 1:
            return self.items[keys[0]].diffs
        try:
            return together([(self._found[key].each, self._found[key].finding) for key in keys], self.examined)
        except Overlap:
            return tuple(diff for key in keys for diff in self.items[key].diffs)

    @property
    def has_failed(self) -> bool:
        """Whether a file could not be examined."""
        return any(each.result.outcome is Outcome.FAILED for each in self.examined)

    def count(self, verdict: Verdict) -> int:
        """How many items have it."""
        return sum(item.verdict is verdict for item in self.items.values())
