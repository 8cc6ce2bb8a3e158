"""The page's figures: the loss curves of both sides, and the times of their steps."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from perfmod.verify.evidence import Curve, Equality, Speed, TimedRun
from perfmod.verify.report import wording
from perfmod.verify.report.series import differences, largest, thinned
from perfmod.verify.report.summary import ORIGINAL, REWRITTEN, processes
from perfmod.verify.report.svg import INKS, Drawing, draw

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FEW_POINTS = 60
"""Up to so many, every value has a dot."""
_BINS = 70
_MANY_PROCESSES = 40
"""From so many on, their rows are thin and not numbered."""
_MARKERS = {ORIGINAL: "o", REWRITTEN: "D"}


def losses(equality: Equality) -> Drawing | None:
    """Both loss curves over each other, and their difference; None without them."""
    original, rewritten = equality.original, equality.rewritten
    if not original or not rewritten or not original.losses:
        return None
    apart = differences(original, rewritten)
    known = [value for value in apart if math.isfinite(value)]
    description = _compared(apart, max(known, default=math.nan))

    def paint(figure: Figure) -> None:
        if any(known):
            upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
            _differences(lower, original, equality, apart)
        else:
            upper = lower = figure.subplots()
        _curves(upper, original, rewritten, equality)
        lower.set_xlabel("backward pass")
        lower.set_xlim(0.5, max(len(apart), 1) + 0.5)
        lower.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)

    height = 430 if any(known) else 230
    return draw("losses", "Loss curves of both sides and their difference", description, height, paint)


def _compared(apart: Sequence[float], most: float) -> str:
    if not any(apart):
        return f"{wording.counted(len(apart), 'backward pass')}, with equal losses on both sides."
    broken = sum(map(math.isnan, apart))
    crosses = f" Crosses: {broken} are NaN or infinite on one side only." if broken else ""
    furthest = f"the largest relative difference is {wording.difference(most)}."
    return f"{wording.counted(len(apart), 'backward pass')}; {furthest}{crosses}"


def _curves(axes: Axes, original: Curve, rewritten: Curve, equality: Equality) -> None:
    _heading(axes, "loss")
    axes.grid(visible=False, axis="x")
    for curves, ink in ((equality.controls, "control"), (equality.repeats, "noise")):
        for curve in curves:
            axes.plot(*thinned(curve.losses), color=INKS[ink], linewidth=1)
    band = "o" if len(original.losses) == 1 else ""
    dots = "o" if len(original.losses) <= _FEW_POINTS else ""
    axes.plot(*thinned(original.losses), color=INKS[ORIGINAL], linewidth=7, alpha=0.55, marker=band, markersize=12)
    axes.plot(*thinned(rewritten.losses), color=INKS[REWRITTEN], linewidth=1.5, marker=dots, markersize=3.5)
    for curve, ink, height in ((original, ORIGINAL, 1.0), (rewritten, REWRITTEN, 0.93)):
        _not_finite(axes, [math.isfinite(value) for value in curve.losses], INKS[ink], height)


def _differences(axes: Axes, original: Curve, equality: Equality, apart: Sequence[float]) -> None:
    """How far apart the curves are, over how far the original is from itself; a zero stands on the bottom line."""
    _heading(axes, "relative difference")
    bands = {
        "control": largest(original, equality.controls),
        "noise": largest(original, equality.repeats),
    }
    positive = [value for series in (apart, *bands.values()) for value in series if 0 < value < math.inf]
    bottom = 10.0 ** (math.floor(math.log10(min(positive))) - 1)
    top = max(positive) * 3
    for ink, band in bands.items():
        places, values = thinned([max(value, bottom) for value in band])
        axes.fill_between(places, bottom, values, color=INKS[ink], alpha=0.28, linewidth=0)
    marker = "o" if len(apart) <= _FEW_POINTS else ""
    places, values = thinned([max(value, bottom) if math.isfinite(value) else value for value in apart])
    axes.plot(places, values, color=INKS["rewritten"], linewidth=1.6, marker=marker, markersize=4, clip_on=False)
    _not_finite(axes, [math.isfinite(value) for value in apart], INKS["bad"], 1.0)
    axes.grid(visible=False, axis="x")
    axes.set_yscale("log")
    axes.set_ylim(bottom, top)
    exponents = range(round(math.log10(bottom)), math.ceil(math.log10(top)))
    ticks = [10.0**exponent for exponent in exponents[:: math.ceil(len(exponents) / 5)]]
    axes.set_yticks(ticks, labels=["0", *(f"{tick:.0e}" for tick in ticks[1:])])
    axes.minorticks_off()


def _not_finite(axes: Axes, finite: Sequence[bool], color: str, height: float) -> None:
    """Crosses at the top where there is no number to draw."""
    places, crosses = thinned([math.nan if good else height for good in finite])
    if not all(finite):
        at_top = axes.get_xaxis_transform()
        axes.plot(places, crosses, "x", markersize=6, color=color, transform=at_top, clip_on=False)


def step_times(speed: Speed) -> Drawing | None:
    """How long the steps took, in all and by process, and the interval of the ratio; None without times of both."""
    sides = {side: processes(speed, side) for side in (ORIGINAL, REWRITTEN)}
    steps = {side: sorted(_finite_steps(runs)) for side, runs in sides.items()}
    if not all(steps.values()):
        return None
    rows = sum(map(len, sides.values()))
    heights = (150, 60 + rows * (18 if rows <= _MANY_PROCESSES else 6), 110)
    description = (
        f"Median step {wording.from_to(speed.original_ms, speed.rewritten_ms, 'ms')} over {rows} processes; "
        f"{wording.ratio(speed.ratio)} as fast, 95 % interval {wording.interval(speed.low, speed.high)}, "
        f"the original against itself differs by {wording.percent(speed.spread)}."
    )

    def paint(figure: Figure) -> None:
        upper, middle, lower = figure.subplots(3, 1, height_ratios=heights)
        _distribution(upper, steps)
        _processes(middle, sides)
        middle.set_xlim(upper.get_xlim())
        _ratio(lower, speed)

    return draw("steps", "Step times of both sides and the ratio", description, sum(heights), paint)


def _finite_steps(runs: Sequence[TimedRun]) -> Iterator[float]:
    return (value for run in runs for value in run.step_ms if math.isfinite(value))


def _span(values: Sequence[float]) -> tuple[float, float]:
    """From the least to the largest, with room for labels at both ends."""
    low, high = min(values), max(values)
    room = 0.12 * (high - low) or 0.05 * abs(high) or 1.0
    return low - room, high + room


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[round(share * (len(ordered) - 1))]


def _distribution(axes: Axes, steps: dict[str, list[float]]) -> None:
    _heading(axes, "all steps, share per bin and median")
    low, high = _span([_quantile(values, share) for values in steps.values() for share in (0.02, 0.98)])
    edges = [low + (high - low) * number / _BINS for number in range(_BINS + 1)]
    medians = {side: statistics.median(values) for side, values in steps.items()}
    for side, values in steps.items():
        counts = [0] * _BINS
        for value in values:
            if low <= value < high:
                counts[min(int((value - low) / (high - low) * _BINS), _BINS - 1)] += 1
        axes.stairs([number / len(values) for number in counts], edges, fill=True, color=INKS[side], alpha=0.55)
        axes.axvline(medians[side], color=INKS[side], linewidth=1.6)
        other = medians[REWRITTEN if side == ORIGINAL else ORIGINAL]
        left = medians[side] < other or (medians[side] == other and side == REWRITTEN)
        axes.annotate(
            wording.milliseconds(medians[side]),
            (medians[side], 1),
            xycoords=axes.get_xaxis_transform(),
            xytext=(-6 if left else 6, -2),
            textcoords="offset points",
            horizontalalignment="right" if left else "left",
            verticalalignment="top",
            color=INKS[side],
            fontweight="bold",
        )
    axes.set_xlim(low, high)
    axes.set_ylim(0, 1.25 * axes.get_ylim()[1])
    axes.set_yticks([])
    axes.tick_params(labelbottom=False)


def _processes(axes: Axes, sides: dict[str, tuple[TimedRun, ...]]) -> None:
    """A row per process: middle half of its steps thick, 90 % of them thin, the median as a dot."""
    _heading(axes, "by process, in the order of running")
    runs = sorted((run for side in sides.values() for run in side), key=lambda run: run.order)
    for row, run in enumerate(runs):
        ordered = sorted(_finite_steps([run]))
        if not ordered:
            continue
        color = INKS[run.side]
        for share, width in ((0.05, 1.2), (0.25, 4.5)):
            axes.plot(
                [_quantile(ordered, share), _quantile(ordered, 1 - share)], [row, row], color=color, linewidth=width
            )
        axes.plot([statistics.median(ordered)], [row], color=color, marker=_MARKERS[run.side], markersize=7)
    few = len(runs) <= _MANY_PROCESSES
    axes.set_yticks(range(len(runs)) if few else [], labels=[str(run.order + 1) for run in runs] if few else None)
    axes.set_ylim(len(runs) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("milliseconds per step")


def _ratio(axes: Axes, speed: Speed) -> None:
    """The interval on a line, with the noise that it has to clear."""
    _heading(axes, "times as fast, 95 % interval; noise shaded")
    noise = (1 - speed.spread, 1 + speed.spread)
    axes.axvspan(*noise, color=INKS["noise"], alpha=0.35, linewidth=0)
    axes.axvline(1, color=INKS["muted"], linewidth=1)
    axes.plot([speed.low, speed.high], [0, 0], color=INKS["ink"], linewidth=4.5)
    axes.plot([speed.ratio], [0], color=INKS["ink"], marker="o", markersize=9)
    axes.annotate(
        wording.typeset(wording.ratio(speed.ratio)),
        (speed.ratio, 0),
        xytext=(0, 10),
        textcoords="offset points",
        horizontalalignment="center",
        color=INKS["ink"],
        fontweight="bold",
    )
    axes.set_xlim(*_span([*noise, speed.low, speed.high, speed.ratio, 1.0]))
    axes.set_ylim(-1, 2)
    axes.set_yticks([])


def _heading(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="left", fontsize=12, color=INKS["muted"], pad=10)
