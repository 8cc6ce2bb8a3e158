"""Examined files as decisions want them: without what was rejected, or with what was accepted and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from attrs import define, evolve, field

from perfmod.codemods.results import FileResult, Withheld
from perfmod.config import Options
from perfmod.examined import Examined
from perfmod.memory import Memory, memory
from perfmod.review.decisions import Decision, Decisions
from perfmod.review.items import Verdict
from perfmod.review.matching import match
from perfmod.roots import from_here, shown
from perfmod.transforms.finding import Place
from perfmod.withholding import place_of, without

_MOST_ROUNDS = 20
"""How often the engine is asked again, because something else is found once a rewrite is not made."""


@define
class Settling:
    """What decisions make of files that belong together.

    Attributes:
        only_accepted: whether rewrites that nobody decided about are left out, too.
        unfit: decisions whose findings are no longer there, or cannot be told apart.
    """

    decisions: Decisions
    remembered: Memory | None
    only_accepted: bool
    unfit: list[Decision] = field(factory=list)

    @classmethod
    def of(cls, file: Path | None, *, use_cache: bool, cwd: Path | None = None) -> Settling:
        """By the decisions of the project around a folder (the current one), or by those of a file.

        Raises `UsageMistake` where that is no such file.
        """
        decisions = Decisions.read(cwd or Path.cwd(), file)
        return cls(decisions, memory(use_cache=use_cache) if decisions.rows else None, file is not None)

    def options(self, options: Options) -> Options:
        """Options under which everything is found that was accepted."""
        return evolve(options, accepted=self.decisions.accepted) if self.only_accepted else options

    def __call__(self, examined: Sequence[Examined]) -> list[Examined]:
        """The files as they are under the decisions."""
        if not self.decisions.rows and not self.only_accepted:
            return list(examined)
        matching = match(examined, self.decisions)
        self.unfit += matching.unfit
        settle = only_accepted if self.only_accepted else without_rejected
        return settle(examined, matching.decisions, self.decisions.file, self.remembered)


def without_rejected(
    examined: Sequence[Examined], decided: Mapping[Place, Decision], file: Path, remembered: Memory | None
) -> list[Examined]:
    """The files without the rewrites that were rejected in `file`, which are reported as such."""
    reasons = {
        place: Withheld(_reason(row, file), in_review=True)
        for place, row in decided.items()
        if row.verdict is Verdict.REJECTED
    }
    if not reasons:
        return list(examined)
    settled = _withheld(examined, reasons.get, remembered)
    return [evolve(each, result=_with_rejected(each.result, reasons)) for each in settled]


def only_accepted(
    examined: Sequence[Examined], decided: Mapping[Place, Decision], file: Path, remembered: Memory | None
) -> list[Examined]:
    """The files with the rewrites that were accepted in `file` and no others.

    Findings may have any outcome; they have to be examined with the fingerprints of what was accepted.
    """

    def why(place: Place) -> Withheld | None:
        row = decided.get(place)
        if row is None:
            return Withheld(f"not decided in {shown(from_here(file))}", is_open=True, in_review=True)
        return None if row.verdict is Verdict.ACCEPTED else Withheld(_reason(row, file), in_review=True)

    return _withheld(examined, why, remembered)


def _withheld(
    examined: Sequence[Examined], why: Callable[[Place], Withheld | None], remembered: Memory | None
) -> list[Examined]:
    """The files without the applied findings for which there is a reason `why` not to apply them."""
    settled = list(examined)
    for _ in range(_MOST_ROUNDS):
        applied = [place_of(each, finding) for each in settled for finding in each.result.applied]
        reasons = {place: reason for place in applied if (reason := why(place)) is not None}
        if not reasons:
            break
        settled = without(settled, reasons, remembered)
    return settled


def _with_rejected(result: FileResult, reasons: Mapping[Place, Withheld]) -> FileResult:
    """A result whose findings that wait for an option are rejected, too, where they were."""
    held = {finding: reasons.get(Place(result.path, finding.code, finding.start)) for finding in result.held_back}
    rejected = tuple(evolve(finding, reason=why.reason) for finding, why in held.items() if why is not None)
    if not rejected:
        return result
    left = tuple(finding for finding, why in held.items() if why is None)
    return evolve(result, held_back=left, rejected=(*result.rejected, *rejected))


def _reason(row: Decision, file: Path) -> str:
    place = f"rejected in {shown(from_here(file))}"
    return f"{place}: {row.note}" if row.note else place
