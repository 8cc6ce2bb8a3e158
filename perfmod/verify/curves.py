"""Comparing what a script yields at every step: losses, norms of gradients."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from attrs import evolve, frozen

from perfmod.verify.evidence import Check, Verdict
from perfmod.verify.gaps import Gap
from perfmod.verify.runs import Runs, Spread
from perfmod.verify.tolerances import Course, Tolerance
from perfmod.verify.trace import Backward, Step, Trace


@frozen
class Place:
    """Where in the training a figure belongs: before which step of which optimizer, and as which of its figures."""

    optimizer: int
    step: int
    index: int

    @property
    def column(self) -> Column:
        """Figures of one column mean the same at different steps."""
        return self.optimizer, self.index

    def __str__(self) -> str:
        return f"step {self.step}" if self.optimizer <= 0 else f"step {self.step} of optimizer {self.optimizer}"


@frozen
class Point:
    """A figure and its place."""

    place: Place
    value: float


@frozen
class Usual:
    """What figures of one column are like in several steps that do not follow from each other.

    A figure of a single step is one number, and a few control runs may move one by almost nothing that they move by
    much in the next step.

    Attributes:
        size: in the middle one of the steps.
        spread: largest distances of the original's own runs, relative to the size of the figure.
    """

    size: float
    spread: Spread


Column: TypeAlias = tuple[int, int]
Points: TypeAlias = tuple[Point, ...]
Figures: TypeAlias = tuple[float, ...]
_NONE: Final[Mapping[Column, Usual]] = {}


def loss_points(trace: Trace) -> Points:
    """Every loss, with the step that it led to; those after the last step belong to one that was not done."""
    points: list[Point] = []
    waiting: list[float] = []
    done = {0: trace.begun}
    for event in trace.events:
        if isinstance(event, Backward):
            waiting += event.losses
        elif isinstance(event, Step):
            done[event.optimizer] = done.get(event.optimizer, 0) + 1
            points += _placed(event.optimizer, done[event.optimizer], waiting)
            waiting = []
    return (*points, *_placed(-1, max(done.values(), default=0) + 1, waiting))


def gradient_norms(trace: Trace) -> Points:
    """The norm of the gradients at every step at which they were seen."""
    done = {0: trace.begun}
    points: list[Point] = []
    for event in trace.events:
        if isinstance(event, Step):
            done[event.optimizer] = done.get(event.optimizer, 0) + 1
            norms = [] if event.gradient_norm is None else [event.gradient_norm]
            points += _placed(event.optimizer, done[event.optimizer], norms)
    return tuple(points)


def lacks_gradients(runs: Runs[Trace]) -> bool:
    """Whether a run has replayed a step that overwrites its gradients, so that they were not seen."""
    lacking = runs.map(Trace.lacks_gradients)
    return lacking.original or lacking.rewritten or any((*lacking.repeats, *lacking.perturbed))


def seen_by_all(runs: Runs[Points]) -> Runs[Points]:
    """The points at those places that no run lacks."""
    places = runs.map(lambda points: {point.place for point in points})
    common = places.original.intersection(places.rewritten, *places.repeats, *places.perturbed)
    return runs.map(lambda points: tuple(point for point in points if point.place in common))


def _placed(optimizer: int, step: int, values: Sequence[float]) -> list[Point]:
    return [Point(Place(optimizer, step, index), value) for index, value in enumerate(values)]


def of_first_steps(points: Points) -> Points:
    """Those of the first step of every optimizer."""
    return tuple(point for point in points if point.place.step == 1)


def usual_figures(steps: Sequence[Runs[Points]]) -> dict[Column, Usual]:
    """What figures are like in all of these steps, by their columns."""
    columns: dict[Column, list[tuple[float, Spread]]] = {}
    for runs in steps:
        places = [point.place for point in runs.original]
        figures = _figures(runs)
        for index, place in enumerate(places):
            columns.setdefault(place.column, []).append((figures.original[index], _spread(figures, index)))
    usual = {}
    for column, found in columns.items():
        size = _size(value for value, _ in found)
        over = [spread.over(_scale(value, size) or 1.0) for value, spread in found]
        widest = Spread(0.0, max(each.noise for each in over), max(each.control for each in over))
        usual[column] = Usual(size, widest)
    return usual


def compare_curves(
    name: str,
    what: str,
    runs: Runs[Points],
    tolerance: Tolerance,
    course: Course,
    later: float,
    usual: Mapping[Column, Usual] = _NONE,
) -> list[Check]:
    """One row: the point that is furthest off; the reason names the first. Nothing where nothing was recorded.

    Args:
        name: of the row.
        what: a figure is, as `loss`.
        runs: figures of each run; repeats and perturbed runs that have other places are left out.
        tolerance: the limits.
        course: what earlier rows showed; told whether this one still repeats.
        later: relative difference that a unit switched over at its kink in an earlier step may make.
        usual: what such figures are like in other steps.
    """
    places = [point.place for point in runs.original]
    if [point.place for point in runs.rewritten] != places:
        return [
            Check(name, Verdict.INCONCLUSIVE, reason=f"the {what} was recorded at other steps than in the original")
        ]
    if not places:
        return []
    figures = _figures(runs)
    broken = _patterns(name, what, places, figures)
    if broken is not None:
        return [broken]
    gaps = _gaps(places, figures, tolerance, course, later, usual)
    worst = max(gaps, key=lambda gap: gap.excess)
    first = next((gap for gap in gaps if gap.excess > 1.0), worst)
    index = gaps.index(first)
    sides = f"{figures.rewritten[index]:.7g} against {figures.original[index]:.7g}"
    reason = f"{what} first differs at {first.place}: {sides}, off by {first.shown}"
    same = all(gap.spread.measured == 0.0 for gap in gaps)
    return [worst.check(name, tolerance, reason, "equal bits" if same else "")]


def _figures(runs: Runs[Points]) -> Runs[Figures]:
    """Without the repeats and perturbed runs that have other places."""
    count = len(runs.original)
    like = evolve(
        runs,
        repeats=tuple(points for points in runs.repeats if len(points) == count),
        perturbed=tuple(points for points in runs.perturbed if len(points) == count),
    )
    return like.map(lambda points: tuple(point.value for point in points))


def _gaps(
    places: Sequence[Place],
    figures: Runs[Figures],
    tolerance: Tolerance,
    course: Course,
    later: float,
    usual: Mapping[Column, Usual],
) -> list[Gap[Place]]:
    spreads = [_spread(figures, index) for index in range(len(places))]
    columns: dict[Column, list[int]] = {}
    for index, place in enumerate(places):
        columns.setdefault(place.column, []).append(index)
    gaps = []
    for index, (place, spread) in enumerate(zip(places, spreads, strict=True)):
        column = columns[place.column]
        course.exact = course.exact and spread.noise == 0.0
        known = usual.get(place.column)
        size = known.size if known is not None else _size(figures.original[at] for at in column)
        scale = _scale(figures.original[index], size)
        # The largest so far and one step ahead: differences grow exponentially, and one run may be ahead of another.
        near = [spreads[at] for at in column if places[at].step <= place.step + 1]
        noise, control = max(one.noise for one in near), max(one.control for one in near)
        if known is not None:
            noise, control = max(noise, known.spread.noise * scale), max(control, known.spread.control * scale)
        reach = Spread(spread.measured, noise, control)
        rounded = tolerance.factor * course.stretch * tolerance.base(reach)
        allowed, bent = rounded + tolerance.floor * scale, 0.0
        if place.step > 1 and later > tolerance.floor:
            bent = rounded + later * scale
        if not course.same_start:
            allowed = max(allowed, bent)
        if tolerance.bitwise and course.exact:
            allowed = bent = 0.0
        gaps.append(Gap(place, reach, allowed, scale, unclear=bent))
    return gaps


def _spread(figures: Runs[Figures], index: int) -> Spread:
    def between(one: Figures, other: Figures) -> float:
        distance = abs(one[index] - other[index])
        return distance if math.isfinite(distance) else 0.0

    return figures.measure(between)


def _scale(value: float, size: float) -> float:
    """What a difference is relative to, at a figure of a column of that size."""
    return max(size, abs(value)) if math.isfinite(value) else size


def _size(column: Iterable[float]) -> float:
    """What the figures of a column are like; a difference of two means may come close to zero now and then."""
    sizes = [abs(value) for value in column if math.isfinite(value)]
    return statistics.median(sizes) if sizes else 0.0


def _patterns(name: str, what: str, places: Sequence[Place], figures: Runs[Figures]) -> Check | None:
    """What is wrong with the places of NaN and infinities, if anything is."""
    for index, place in enumerate(places):
        old, new = figures.original[index], figures.rewritten[index]
        if any(_class(again[index]) != _class(old) for again in figures.repeats):
            reason = f"{what} at {place} is not finite in some runs of the original only"
            return Check(name, Verdict.INCONCLUSIVE, reason=reason)
        if _class(old) != _class(new):
            reason = f"{what} at {place} is {new:.7g}, and {old:.7g} in the original"
            return Check(name, Verdict.REFUTED, reason=reason)
    return None


def _class(value: float) -> str:
    return "finite" if math.isfinite(value) else str(value)
