"""Which pieces of work are done again, because they failed or for what they came to."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from attrs import frozen

from perfmod.migrate.results import Analysis, Branches, Cause, Outcome, Refused, Result, Verification
from perfmod.migrate.state import State
from perfmod.migrate.steps import ANALYSIS
from perfmod.verify.evidence import Verdict


@frozen
class Retry:
    """What is to be done again.

    Attributes:
        failed: everything that failed. causes: what came to one of these. projects: all of these projects.
    """

    failed: bool
    causes: Collection[str]
    projects: Collection[str]

    def forget(self, state: State) -> int:
        """Take it back in the state of a campaign; how many projects that are. Raises `Failure`."""
        count = 0
        for project in state.projects():
            pieces = state.pieces(project.name)
            steps = [
                step for step, piece in pieces.items() if project.name in self.projects or self._fits(piece.result)
            ]
            # Everything else rests on the analysis.
            state.forget(project.name, pieces if ANALYSIS in steps else steps)
            count += bool(steps)
        return count

    def _fits(self, result: Result) -> bool:
        return any(
            (self.failed and outcome is Outcome.FAILED) or cause.value in self.causes
            for outcome, cause in _outcomes(result)
        )


def _outcomes(result: Result) -> Iterator[tuple[Outcome, Cause]]:
    if isinstance(result, (Analysis, Refused)):
        yield result.outcome, result.cause
    elif isinstance(result, Branches):
        yield from ((each.outcome, each.cause) for each in result.branches)
    elif isinstance(result, Verification):
        has_failed = result.verdict == Verdict.FAILED.value
        yield Outcome.FAILED if has_failed else Outcome.UNCHANGED, result.cause
