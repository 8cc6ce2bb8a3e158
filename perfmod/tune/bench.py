"""Times stacks on the machine at hand, each next to the original, so that a machine that drifts does not matter."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from attrs import define, field

from perfmod.tune.search import Trial
from perfmod.tune.space import Space
from perfmod.tune.stack import COMPILE, RECORDED, Stack
from perfmod.verify.attribution import StackJudge
from perfmod.verify.proving import Prover
from perfmod.verify.running import Ran
from perfmod.verify.sides import ORIGINAL, Side

BATCHES: Final = 4
"""Batches of each loader that are at hand."""
_LIKELY: Final = 15.0
"""Seconds for a first group, and for one in which models are compiled."""
_LIKELY_COMPILED: Final = 40.0
_WIDEST: Final = 5


@define
class Bench:
    """Times stacks in groups that are warm at the same time.

    Attributes:
        deadline: on the clock of `time.monotonic`, for the last trial to end, as things stand.
        done: told of every trial.
    """

    space: Space
    prover: Prover
    deadline: Callable[[], float]
    done: Callable[[Trial], None] = lambda _trial: None
    _has_tried: bool = field(default=False, init=False)
    _longest: dict[bool, float] = field(factory=lambda: {False: _LIKELY, True: _LIKELY_COMPILED}, init=False)

    def __call__(self, stacks: Sequence[Stack], at_hand: bool) -> list[Trial]:
        """The trials of stacks, as far as there is time for them; of the first group, in any case."""
        found: dict[Stack, Trial] = {}
        for groups, is_compiled in self._rounds(stacks, at_hand):
            # A search that has tried nothing says nothing, however short its budget is.
            if self._has_tried and time.monotonic() + self._longest[is_compiled] > self.deadline():
                continue
            self._has_tried = True
            began = time.monotonic()
            found.update((trial.stack, trial) for trial in self._tried(groups, at_hand))
            self._longest[is_compiled] = time.monotonic() - began
        return list(found.values())

    def _rounds(self, stacks: Sequence[Stack], at_hand: bool) -> Iterator[tuple[list[list[Stack]], bool]]:
        """The groups that are timed at the same time; those that compile wait for each other, and nobody for them.

        Each card has a group, with the original. Loaders get all processors, because what they bring depends on these.
        """
        lab = self.prover.lab
        seats = lab.seats if at_hand else ()
        at_once = lab.on(seats[0]).at_once() if seats else lab.at_once()
        widest = max(1, min(at_once, _WIDEST) - 1)
        for is_compiled in (False, True):
            some = [stack for stack in stacks if (COMPILE in stack.codes) is is_compiled]
            # Few stacks are spread over all cards.
            width = min(widest, -(-len(some) // max(1, len(seats)))) if some else widest
            groups = [some[at : at + width] for at in range(0, len(some), width)]
            beside = max(1, len(seats))
            for at in range(0, len(groups), beside):
                yield groups[at : at + beside], is_compiled

    def _tried(self, groups: Sequence[Sequence[Stack]], at_hand: bool) -> list[Trial]:
        lab = self.prover.lab
        left = max(0.0, self.deadline() - time.monotonic())
        named = ", ".join(str(stack) for group in groups for stack in group)
        lab.progress(f"trials; {left:.0f} s left for them: {named}")
        sides = [[self.prover.original, *map(self.side, group)] for group in groups]
        batches = BATCHES if at_hand else 0
        if lab.seats and at_hand:
            timed = lab.time_beside(sides, batches)
        else:
            timed = [[ran for ran, _ in lab.time_by_turns(each, batches)] for each in sides]
        trials = []
        for group, (original, *others) in zip(groups, timed, strict=True):
            for stack, ran in zip(group, others, strict=True):
                trials.append(_trial(stack, at_hand, original, ran))
                self.done(trials[-1])
        return trials

    def side(self, stack: Stack) -> Side:
        """The script under a stack."""
        return StackJudge(self.space.rewriting(stack), self.prover).side(tuple(sorted(stack.codes)))


def _trial(stack: Stack, at_hand: bool, original: Ran, ran: Ran) -> Trial:
    for side, each in ((ORIGINAL, original), ("", ran)):
        reason = no_time(each)
        if reason:
            return Trial(stack, at_hand, reason=": ".join(filter(None, (side, reason))))
    record = ran.records[0]
    recompiled = record["recompiled_in_window"]
    if recompiled:
        return Trial(stack, at_hand, reason=f"compiles again and again: {recompiled} times while it was timed")
    if RECORDED in stack.codes and record["not_recorded"]:
        return Trial(stack, at_hand, reason=f"the step was not recorded: {record['not_recorded']}")
    return Trial(
        stack,
        at_hand,
        ms=_usual_ms(ran),
        original_ms=_usual_ms(original),
        compile_seconds=record["compile_seconds"],
        peak_mib=record["peak_reserved_mib"],
    )


def no_time(ran: Ran) -> str:
    """Why a run has no time."""
    if ran.trouble is not None:
        return ran.trouble.reason
    if not all(record["window_steps"] for record in ran.records):
        return "it ended before it could be timed"
    return ""


def _usual_ms(ran: Ran) -> float:
    """Of a step, in the middle one of the windows of the slowest process.

    What a script does every some hundred steps, such as an evaluation, comes sooner the faster a stack is, and then is
    in one of its windows.
    """
    return max(float(statistics.median(record["window_ms"])) for record in ran.records)


def mean_ms(ran: Ran) -> float:
    """Of a step, in the slowest process of a run."""
    return max(1000.0 * float(record["window_seconds"]) / int(record["window_steps"]) for record in ran.records)
