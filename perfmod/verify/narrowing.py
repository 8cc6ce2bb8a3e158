"""Finds the most findings that leave the training the same together, in few tries.

What is tried first is everything; what does not hold is halved, between rules as long as there are several of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from attrs import define, evolve, field, frozen

from perfmod.codemods.results import Part, Withheld
from perfmod.transforms.finding import Finding, Place, Safety
from perfmod.verify.evidence import Equality, Verdict
from perfmod.verify.judging import UNFIT
from perfmod.verify.stacks import Rewriting
from perfmod.verify.statements import Statements
from perfmod.withholding import place_of

BUDGET: Final = 12
"""Rewritten versions that are tried by default."""
_ORDER: Final = (Safety.SAFE, Safety.LOW_IMPACT, Safety.OPT_IN, Safety.UNSAFE)
OVER: Final = "not proven within --budget"


@frozen
class Group:
    """Findings that edit the same statement, and are tried together as long as that holds.

    Attributes:
        rank: how doubtful the most doubtful of them is; its rule is `code`, and that of the first one otherwise.
    """

    places: frozenset[Place]
    rank: int
    code: str


@define
class Narrowing:
    """The search, for one rewriting.

    Attributes:
        judge: says whether a version leaves the training the same.
        budget: so many versions are tried.
        judged: the verdicts on those that were tried, by the findings in them.
        withdrawn: the findings that are not in the version that `proven` gives, with the reason.
        refuting: the verdict that a finding was withdrawn for.
    """

    rewriting: Rewriting
    judge: Callable[[Rewriting], Equality]
    budget: int = BUDGET
    judged: dict[frozenset[Place], Equality] = field(factory=dict)
    withdrawn: dict[Place, Withheld] = field(factory=dict)
    refuting: dict[Place, Equality] = field(factory=dict)
    _all: list[Group] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._all = groups(self.rewriting)

    def proven(self) -> tuple[Rewriting, Equality | None]:
        """The version that is kept, with its verdict; None where nothing is left of it."""
        kept = self._grown([], self._all)
        return self._version(kept), self.judged.get(_places(kept))

    @property
    def whole(self) -> Equality:
        """The verdict on everything together."""
        return self.judged[_places(self._all)]

    def refuting_rule(self, code: str) -> Equality | None:
        """The verdict that findings of a rule were withdrawn for; None where there were no tries left."""
        found = [equality for place, equality in self.refuting.items() if place.code == code]
        return found[-1] if found else None

    def why(self, code: str) -> str:
        """Why findings of a rule are gone for which there is no verdict of their own."""
        is_over = any(place.code == code for place in self.withdrawn)
        return OVER if is_over else "what was added to the default rewrites makes the step no faster"

    def _grown(self, kept: list[Group], rest: Sequence[Group]) -> list[Group]:
        """The most of `rest` that can be added to what is kept."""
        if not rest:
            return kept
        equality = self._verdict([*kept, *rest])
        if equality is not None and equality.verdict is Verdict.PROVEN:
            return [*kept, *rest]
        if len(rest) == 1:
            rest = [evolve(rest[0], places=frozenset({place})) for place in sorted(rest[0].places)]
        if equality is None or self._is_hopeless(equality) or len(rest) == 1:
            self._withdraw(rest, equality)
            return kept
        first, second = _halves(rest)
        return self._grown(self._grown(kept, first), second)

    def _verdict(self, wanted: Sequence[Group]) -> Equality | None:
        """On a version; None where there are no tries left."""
        key = _places(wanted)
        if key not in self.judged:
            if len(self.judged) >= self.budget:
                return None
            self.judged[key] = self.judge(self._version(wanted))
        return self.judged[key]

    def _is_hopeless(self, equality: Equality) -> bool:
        """Whether the original itself cannot be judged, whatever is compared with it."""
        return any(check.name == UNFIT and check.verdict is Verdict.INCONCLUSIVE for check in equality.checks)

    def _version(self, kept: Iterable[Group]) -> Rewriting:
        """The files without the groups that are not kept."""
        gone = _places(self._all) - _places(kept)
        return self.rewriting.without({place: self.withdrawn.get(place, Withheld("withdrawn")) for place in gone})

    def _withdraw(self, gone: Sequence[Group], equality: Equality | None) -> None:
        for place in (place for group in gone for place in group.places):
            if equality is None:
                self.withdrawn[place] = Withheld(OVER, is_open=True)
            else:
                self.withdrawn[place] = Withheld(f"a run decided against it: {equality.reason}")
                self.refuting[place] = equality


def _places(groups: Iterable[Group]) -> frozenset[Place]:
    return frozenset(place for group in groups for place in group.places)


def groups(rewriting: Rewriting) -> list[Group]:
    """Those of a rewriting, the least doubtful first, and by rules."""
    statements = {
        file.path: Statements.of(file.data.decode("utf-8", "replace"))
        for each in rewriting.examined
        if each.task is not None
        for file in each.task.files
        if file.part is not Part.NEW  # which others may share
    }
    found = {
        place_of(each, finding): (finding, _touched(each.result.path, finding, statements))
        for each in rewriting.examined
        for finding in each.result.applied
    }
    merged: list[tuple[set[Place], set[object]]] = []
    for place, (_, touched) in found.items():
        places, all_touched = {place}, set(touched)
        apart = []
        for other in merged:
            if other[1] & all_touched:
                places |= other[0]
                all_touched |= other[1]
            else:
                apart.append(other)
        merged = [*apart, (places, all_touched)]
    ranked = [_group(places, {place: found[place][0] for place in places}) for places, _ in merged]
    return sorted(ranked, key=lambda group: (group.rank, group.code, min(group.places)))


def _group(places: Iterable[Place], findings: dict[Place, Finding]) -> Group:
    rank, code = max((_ORDER.index(finding.safety), finding.code) for finding in findings.values())
    return Group(frozenset(places), rank, code)


def _touched(path: str, finding: Finding, statements: dict[str, Statements]) -> set[object]:
    """The statements that a finding edits; where it edits what another has written, the one that it stands in."""
    edits = [(edit.path, edit.line) for edit in finding.placed or () if edit.path in statements]
    edits = edits or [(path, finding.line)]
    return {(name, statements[name].around(line) if name in statements else (line, line)) for name, line in edits}


def _halves(groups: Sequence[Group]) -> tuple[Sequence[Group], Sequence[Group]]:
    """Two parts of about the same size, whose border lies between two rules if there are any."""
    borders = [at for at in range(1, len(groups)) if groups[at - 1].code != groups[at].code]
    middle = min(borders or range(1, len(groups)), key=lambda at: abs(2 * at - len(groups)))
    return groups[:middle], groups[middle:]
