"""A training in another precision over many steps, beside what the original comes to with its own and other seeds.

Single steps tell whether the same is computed; they do not tell what errors come to that add up. Over many steps no
two runs stay close, so figures are smoothed, and have to lie where the original's own runs lie: those that are run
again and those with noise of the new precision, and in any case those that were given other seeds. What is better
than all of them by far is as suspicious as what is worse.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from attrs import evolve, frozen

from perfmod.verify.curves import Points, gradient_norms, lacks_gradients, loss_points
from perfmod.verify.evidence import Check, Verdict
from perfmod.verify.outputs import figures_by_line
from perfmod.verify.runs import Runs, Spread
from perfmod.verify.tolerances import Tolerance
from perfmod.verify.trace import Trace
from perfmod.verify.vectors import movements, norm

UNOBSERVED: Final = "printed figures when nobody looks on"
_WINDOWS: Final = 8
"""Parts of a run over each of which a loss is averaged."""
_SHORTEST: Final = 4
"""Steps in such a part, at least."""
_FEWEST_SEEDS: Final = 2
_BEYOND: Final = 0.5
"""Share of the range of all seeds by which a figure may lie beyond them: they are a handful of draws."""
_SHOWN: Final = 1e-3
"""Relative difference of a printed figure that says nothing."""


@frozen
class _Figure:
    """A number that sums up a part of a run.

    Attributes:
        what: it is, in the words of a reason.
    """

    what: str
    value: float


_Figures: TypeAlias = Sequence[_Figure]


def compare_courses(runs: Runs[Trace], seeds: Sequence[Trace], tolerance: Tolerance) -> list[Check]:
    """The rows of smoothed losses, of the way that the parameters went, and of printed figures.

    Those of gradients are left out where a run has replayed steps that overwrite them.

    Args:
        runs: over many steps, in which nobody took over another one's state.
        seeds: the original with other seeds.
        tolerance: of the first step.
    """
    last = runs.original.last
    is_seen = not lacks_gradients(runs) and not any(seed.lacks_gradients() for seed in seeds)
    norms = f"norms of gradients over {last} steps"
    rows = [
        _idle(f"steps without a gradient of {last}", runs) if is_seen else None,
        _row(f"losses over {last} steps", runs.map(_losses), [_losses(each) for each in seeds], tolerance),
        _row(norms, runs.map(_gradients), [_gradients(each) for each in seeds], tolerance) if is_seen else None,
        _row(f"way of the parameters in {last} steps", runs.map(_way), [_way(each) for each in seeds], tolerance),
        _printed(f"printed figures over {last} steps", runs, seeds),
    ]
    return [row for row in rows if row is not None]


def _idle(name: str, runs: Runs[Trace]) -> Check | None:
    """The row of steps in which nothing is learnt; none where the original's own runs do not agree on them."""
    idle = runs.map(lambda trace: [point.place for point in gradient_norms(trace) if point.value == 0.0])
    if any(each != idle.original for each in (*idle.repeats, *idle.perturbed)):
        return None
    reason = f"{len(idle.rewritten)} steps have gradients that are all zero, and {len(idle.original)} in the original"
    verdict = Verdict.PROVEN if idle.rewritten == idle.original else Verdict.REFUTED
    return Check(name, verdict, reason="" if verdict is Verdict.PROVEN else reason)


def _losses(trace: Trace) -> _Figures:
    return _smoothed("loss", loss_points(trace))


def _gradients(trace: Trace) -> _Figures:
    return _smoothed("norm of the gradients", gradient_norms(trace))


def _smoothed(what: str, points: Points) -> _Figures:
    """The means over parts of the run, of every kind of loss or of every optimizer."""
    columns: dict[tuple[int, int], list[float]] = {}
    for point in points:
        if point.place.optimizer >= 0:
            columns.setdefault(point.place.column, []).append(point.value)
    found = []
    for values in columns.values():
        count = max(1, min(_WINDOWS, len(values) // _SHORTEST))
        bounds = [part * len(values) // count for part in range(count + 1)]
        for first, end in pairwise(bounds):
            found.append(_Figure(f"the mean {what} of steps {first + 1} to {end}", statistics.fmean(values[first:end])))
    return found


def _way(trace: Trace) -> _Figures:
    """How far all parameters together have moved at the end."""
    moved = movements(trace.snapshot("parameters", 0), trace.snapshot("parameters", trace.last), trace.last)
    return [_Figure("the way of the parameters", norm(moved))] if moved else []


def _row(name: str, runs: Runs[_Figures], seeds: Sequence[_Figures], tolerance: Tolerance) -> Check | None:
    """The figure that fares worst; None where the original has none."""
    own = runs.original
    if not own:
        return None
    if len(runs.rewritten) != len(own):
        return Check(name, Verdict.INCONCLUSIVE, reason=f"{name}: there are not as many as in the original")
    like = Runs(
        own,
        runs.rewritten,
        tuple(each for each in runs.repeats if len(each) == len(own)),
        tuple(each for each in runs.perturbed if len(each) == len(own)),
    ).map(lambda figures: [figure.value for figure in figures])
    others = [[figure.value for figure in each] for each in seeds if len(each) == len(own)]
    scale = statistics.median(abs(value) for value in like.original) or 1.0
    checks: list[Check] = []
    strays: list[bool] = []
    reach = 0.0
    spreads = [like.map(lambda values, at=at: values[at]).measure(_apart) for at in range(len(own))]  # type: ignore[misc]
    for at, figure in enumerate(own):
        # Differences grow, and one run may be a part ahead of another.
        reach = max([reach, *(tolerance.base(spread) for spread in spreads[at : at + 2])])
        floor = tolerance.floor * max(scale, abs(figure.value))
        allowed = tolerance.factor * reach + floor
        drawn = [each[at] for each in others]
        checks.append(_judged(name, figure, like.rewritten[at], spreads[at], (allowed, floor), drawn))
        strays.append(_is_stray(figure.value, like.rewritten[at], drawn, is_close=spreads[at].measured <= allowed))
    doubtful = [number for number, check in enumerate(checks) if check.verdict is not Verdict.PROVEN]
    if len(doubtful) == 1 and len(checks) >= _WINDOWS and strays[doubtful[0]]:
        checks[doubtful[0]] = evolve(checks[doubtful[0]], verdict=Verdict.PROVEN, reason="")
    return max(checks, key=_rank)


def _judged(
    name: str, figure: _Figure, value: float, spread: Spread, limits: tuple[float, float], others: Sequence[float]
) -> Check:
    """The row as this figure alone would have it."""
    scale, (allowed, floor) = abs(figure.value) or 1.0, limits
    over = spread.over(scale)
    told = over.measured, allowed / scale, over.noise, over.control
    if math.isfinite(figure.value) != math.isfinite(value):
        reason = f"{figure.what} is {value:.4g}, and {figure.value:.4g} in the original"
        return Check(name, Verdict.REFUTED, reason=reason)
    seen = [each for each in (figure.value, *others) if math.isfinite(each)]
    is_close = spread.measured <= allowed
    is_among = not _beyond(value, seen, floor)
    if is_close and (is_among or len(seen) <= _FEWEST_SEEDS):
        return Check(name, Verdict.PROVEN, *told)
    if len(seen) <= _FEWEST_SEEDS:
        reason = f"{figure.what} is {value:.4g}, and {figure.value:.4g} in the original; its other seeds tell nothing"
        return Check(name, Verdict.INCONCLUSIVE, *told, reason=reason)
    between = f"between {min(seen):.4g} and {max(seen):.4g} with {len(seen)} seeds of the original"
    if is_among:
        reason = (
            f"{figure.what} is {value:.4g}, off by {told[0]:.1e} from the original with the same seed, which noise of"
            f" that precision moves by less (allowed {told[1]:.1e}); it is {between}"
        )
        return Check(name, Verdict.INCONCLUSIVE, *told, reason=reason)
    side = "smaller" if value < min(seen) else "larger"
    reason = f"{figure.what} is {value:.4g}, {side} than all of the original's: it is {between}"
    return Check(name, Verdict.INCONCLUSIVE if is_close else Verdict.REFUTED, *told, reason=reason)


def _is_stray(own: float, value: float, others: Sequence[float], *, is_close: bool) -> bool:
    """Whether seeds move a figure by more than it is off: then it may be, in one part of a run.

    Where a loss falls fast, a part is a phase of its own, and noise that came before it says little about it. What is
    computed in another way shows in more parts than one. A figure that noise explains (`is_close`) may be off by as
    much as seeds move it: it lies beyond all of them where the original's own is the largest or smallest already.
    """
    seen = [own, *others]
    share = 1.0 if is_close else _BEYOND
    return len(seen) > _FEWEST_SEEDS and abs(value - own) <= share * (max(seen) - min(seen))


def _beyond(value: float, seen: Sequence[float], floor: float) -> bool:
    """Whether a figure lies further beyond those of all seeds, on either side, than another draw of them might.

    What is above zero, as most losses are, varies in proportion: seeds that a loss falls by at different times are
    factors apart.
    """
    low, high = min(seen), max(seen)
    if min(low, value) > 0.0:
        share = (high / low) ** _BEYOND
        return not min(low / share, low - floor) <= value <= max(high * share, high + floor)
    margin = max(_BEYOND * (high - low), floor)
    return not low - margin <= value <= high + margin


def _apart(one: float, other: float) -> float:
    distance = abs(one - other)
    return distance if math.isfinite(distance) else 0.0


def _rank(check: Check) -> tuple[int, float]:
    order = (Verdict.PROVEN, Verdict.INCONCLUSIVE, Verdict.REFUTED)
    return order.index(check.verdict), (check.measured or 0.0) / (check.allowed or math.inf)


def _printed(name: str, runs: Runs[Trace], seeds: Sequence[Trace]) -> Check | None:
    """The row of what was printed, which refutes nothing: a text does not say how much it may differ."""
    own = figures_by_line(runs.original.printed)
    again = [figures_by_line(each.printed) for each in runs.repeats]
    shaken = [figures_by_line(each.printed) for each in runs.perturbed]
    drawn = [figures_by_line(each.printed) for each in seeds]
    new = figures_by_line(runs.rewritten.printed)
    compared = False
    for line, series in own.items():
        same = [each[line] for each in (*again, *drawn) if len(each.get(line, ())) == len(series)]
        if len(same) < len(again) + len(drawn) or len(drawn) < _FEWEST_SEEDS:
            continue  # what only some seeds print
        if len(new.get(line, ())) != len(series):
            reason = f"{len(new.get(line, ()))} lines are printed that read {line!r}, and {len(series)} in the original"
            return Check(name, Verdict.INCONCLUSIVE, reason=reason)
        close = [each[line] for each in shaken if len(each.get(line, ())) == len(series)]
        for place, value in enumerate(_late(series)):
            compared = True
            seen = [value, *(_late(each)[place] for each in same)]
            moved = max((abs(_late(each)[place] - value) for each in close), default=0.0)
            other = _late(new[line])[place]
            floor = max(_SHOWN * abs(value), moved)
            if not math.isfinite(value) or math.isclose(other, value, rel_tol=_SHOWN):
                continue
            if _beyond(other, seen, floor):
                reason = (
                    f"lines that read {line!r} come to {other:.4g} in the end, in place of {min(seen):.4g} to"
                    f" {max(seen):.4g} with the original's seeds"
                )
                return Check(name, Verdict.INCONCLUSIVE, reason=reason)
    return Check(name, Verdict.PROVEN) if compared else None


def _late(series: Sequence[Sequence[float]]) -> list[float]:
    """The means of the figures of one kind of line over its later half."""
    later = series[len(series) // 2 :]
    return [statistics.fmean(column) for column in zip(*later, strict=False)]


def compare_unobserved(
    own: Sequence[str], rewritten: str, course: str, seeds: Sequence[str], *, cut: bool = False
) -> Check | None:
    """The row of what both sides print when nobody looks on; none where nothing can be compared.

    Random numbers are the script's own then, and other ones where a rewrite draws in another order: what other seeds
    of the original changed, in runs that were looked at, is how far figures may lie apart.

    Args:
        own: what the original printed, each time.
        rewritten: what the other side printed.
        course: what the original printed over many steps, in a run that was looked at.
        seeds: the same with other seeds.
        cut: the other side did not come to its end, so that lines may be missing.
    """
    runs, new = [figures_by_line(each) for each in own], figures_by_line(rewritten)
    usual, drawn = figures_by_line(course), [figures_by_line(each) for each in seeds]
    compared = False
    for line, series in runs[0].items():
        others = [each[line] for each in drawn if line in each]
        if line not in usual or len(others) < _FEWEST_SEEDS or any(line not in each for each in runs):
            continue
        count = min(map(len, (*(each[line] for each in runs), usual[line], *others)))
        if cut and line not in new:
            continue
        count = min(count, len(new[line])) if cut else count
        if len(new.get(line, ())) < count:
            reason = f"{len(new.get(line, ()))} lines are printed that read {line!r}, and {len(series)} in the original"
            return Check(UNOBSERVED, Verdict.INCONCLUSIVE, reason=reason)
        compared = True
        old, other, before = _late(series[:count]), _late(new[line][:count]), _late(usual[line][:count])
        for place, value in enumerate(old):
            again = [_late(each[line][:count])[place] - value for each in runs]
            moved = [_late(each[:count])[place] - before[place] for each in others]
            floor = max(_SHOWN * abs(value), *map(abs, again))
            if _beyond(other[place] - value, [0.0, *again, *moved], floor):
                reason = (
                    f"when nobody looks on, lines that read {line!r} come to {other[place]:.4g}, and {value:.4g} in"
                    f" the original, which other seeds move by {min(moved):.2g} to {max(moved):.2g}"
                )
                return Check(UNOBSERVED, Verdict.INCONCLUSIVE, reason=reason)
    return Check(UNOBSERVED, Verdict.PROVEN) if compared else None
