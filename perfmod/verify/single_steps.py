"""Comparing single steps that begin with the original's state: nothing has grown there, so limits stay at rounding.

A unit that switches sides at its kink, or an element of an update that is turned over, makes a step differ now and
then, in either version. What is wrong is wrong more often than that: most of the steps have to hold.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from attrs import evolve, frozen

from perfmod.verify.curves import loss_points, usual_figures
from perfmod.verify.evidence import Check, Verdict
from perfmod.verify.runs import Runs
from perfmod.verify.tolerances import Tolerance
from perfmod.verify.trace import Trace
from perfmod.verify.training import compare_single, updates
from perfmod.verify.vectors import Vectors, align, distance, fill, norm, values

NAME: Final = "single steps"
_PARTS: Final = ("parameters", "buffers", "optimizer state")
_SKETCH_ERRORS: Final = 4.0
"""Standard errors of what sketches tell of a common factor; those of one are the square root of a bucket's share."""
_BUCKETS: Final = 128


def draw_steps(steps: int, count: int, chance: random.Random) -> tuple[int, ...]:
    """After which of the steps the state is handed over: `count`, one from each part of the run, drawn by `chance`."""
    last = steps - 1
    count = min(count, last)
    bounds = [1 + round(part * last / count) for part in range(count + 1)] if count > 0 else []
    return tuple(chance.randrange(low, high) for low, high in pairwise(bounds))


def compare_single_steps(runs: Runs[Trace], double: Trace | None, tolerance: Tolerance) -> list[Check]:
    """A row for each kind of what a step computes, over all steps that began with the original's state.

    There is none where the original wrote no states, as in a run of one step.
    """
    handed = [step for step in runs.original.handed if step < runs.original.last]
    if not handed:
        return []
    missing = [step for step in handed if step not in runs.rewritten.handed]
    if missing:
        reason = f"the state of the original after step {missing[0]} could not be handed over to the other version"
        return [Check(NAME, Verdict.INCONCLUSIVE, reason=reason)]
    found: dict[str, list[Check]] = {}
    factors: list[Runs[_Along]] = []
    singles = {step: _single(runs, step) for step in handed}
    losses = usual_figures([alone.map(loss_points) for alone in singles.values()])
    for step, alone in singles.items():
        other = _other_start(alone)
        if other is not None:
            reason = f"the state of the original after step {step} was not taken over: {other} differs"
            return [Check(NAME, Verdict.INCONCLUSIVE, reason=reason)]
        truth = double.single(step + 1) if double is not None and step in double.handed else None
        for check in compare_single(alone, truth, tolerance, losses):
            found.setdefault(check.name, []).append(evolve(check, reason=f"{check.reason}, in step {step + 1}"))
        factors += _factors(alone)
    rows = [_row(name, checks) for name, checks in found.items()]
    return rows + _common_factor(factors, tolerance)


def _single(runs: Runs[Trace], step: int) -> Runs[Trace]:
    """The step that began with the state after that one, of the runs that took it over."""
    return Runs(
        runs.original.single(step + 1),
        runs.rewritten.single(step + 1),
        tuple(each.single(step + 1) for each in runs.repeats if step in each.handed),
        tuple(each.single(step + 1) for each in runs.perturbed if step in each.handed),
    )


@frozen
class _Along:
    """How the updates of a run lie along the original's.

    Attributes:
        share: by which they are longer.
        error: standard error of that, from sketches and from storing parameters.
    """

    share: float
    error: float


def _other_start(alone: Runs[Trace]) -> str | None:
    """The first tensor that the sides do not begin the step with in common; those of one side only do not count."""
    for part in _PARTS:
        old, new = alone.original.snapshot(part, 0), alone.rewritten.snapshot(part, 0)
        names = align(old, new)
        mine, theirs = values(old), values(new) if names is None else names.rename(values(new))
        if part == "parameters" and len(mine) != len(theirs):
            return "the number of parameters"
        for key in mine.keys() & theirs.keys():
            if not mine[key].equals(theirs[key]):
                return key
    return None


def _row(name: str, checks: Sequence[Check]) -> Check:
    """The row over all steps: the worst of them, where a doubt in fewer than half of the steps is none."""
    worst = max(checks, key=lambda check: (check.verdict is Verdict.REFUTED, check.verdict is not Verdict.PROVEN))
    doubtful = [check for check in checks if check.verdict is Verdict.INCONCLUSIVE]
    if worst.verdict is Verdict.INCONCLUSIVE and 2 * len(doubtful) < len(checks):
        worst = evolve(worst, verdict=Verdict.PROVEN, reason="")
    elif worst.verdict is Verdict.INCONCLUSIVE:
        worst = evolve(worst, reason=f"{worst.reason}; so in {len(doubtful)} of {len(checks)} steps")
    if worst.verdict is Verdict.PROVEN:
        worst = max(checks, key=lambda check: (check.measured or 0.0) / (check.allowed or math.inf))
        worst = evolve(worst, verdict=Verdict.PROVEN, reason="")
    return evolve(worst, name=f"{NAME}: {name}")


def _factors(alone: Runs[Trace]) -> list[Runs[_Along]]:
    """What the updates of each run have of the original's; nothing where these are zero."""
    moved = updates(alone, 1)
    whole = moved.map(lambda vectors: fill(vectors, moved.original))
    size = norm(whole.original)
    if not size:
        return []
    grain = math.hypot(*(vector.grain for vector in whole.original.values())) / size
    return [whole.map(lambda vectors: _along(whole.original, vectors, grain))]


def _along(original: Vectors, other: Vectors, grain: float) -> _Along:
    squared = product = 0.0
    for key, vector in original.items():
        squared += math.fsum(value * value for value in vector.sketch)
        product += math.fsum(value * off for value, off in zip(vector.sketch, other[key].sketch, strict=True))
    return _Along(product / squared - 1.0, grain + distance(original, other) / norm(original) / math.sqrt(_BUCKETS))


def _common_factor(factors: Sequence[Runs[_Along]], tolerance: Tolerance) -> list[Check]:
    """The row of what all updates have in common: a learning rate that is off by little, a part that is missing."""
    if not factors:
        return []
    measured = abs(statistics.median(each.rewritten.share for each in factors))
    known = [abs(other.share) for each in factors for other in (*each.repeats, *each.perturbed)]
    error = _SKETCH_ERRORS * max(each.rewritten.error for each in factors) / math.sqrt(len(factors))
    allowed = max(known, default=0.0) + error + tolerance.floor
    reason = f"all updates are {1.0 + measured:.5f} times as long as the original's, or shorter by as much"
    verdict = Verdict.PROVEN if measured <= allowed else Verdict.REFUTED
    name = f"{NAME}: common factor of the updates"
    return [Check(name, verdict, measured, allowed, reason="" if verdict is Verdict.PROVEN else reason)]
