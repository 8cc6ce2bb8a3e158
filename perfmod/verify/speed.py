"""Is it faster? The verdict of the T-runs.

A process is one draw: its clocks, its place in memory and its neighbours stay with it, so that a thousand steps of
one process say less than ten of another. The figure of a process is the mean of its window, because scripts that wait
for their loader are bursty, and that of a side is the median over its processes.

What others took of the machine meanwhile, a step may have lost: so much more has to be cleared. A change that the noise
alone would have let pass is then inconclusive.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, TypeVar

from attrs import evolve

from perfmod.verify.evidence import Speed, TimedRun, Verdict

T = TypeVar("T")

LEAST_GAIN: Final = 0.005
"""Relative change below which nobody is told that something is faster or slower."""
QUIET: Final = 0.02
"""Share of a machine's time that nobody is told others took: its own services do."""
TOO_GOOD: Final = 10.0
"""Ratio from which a gain is not taken on trust."""

_CHEAPER: Final = 5.0
"""How many times faster the work itself may become, in another number format and with fewer kernels."""

_FEWEST: Final = 2
"""Processes per side below which nothing is known about their spread."""
_RESAMPLES: Final = 1000
_WINDOWS: Final = 64
"""Windows drawn anew from each process; the resamples choose among them."""
_BLOCKS: Final = 16
"""Blocks that a window is cut into: long enough to keep a burst of the loader in one piece."""
_MOST_LOAD: Final = 0.95
_PROFILED: Final = 0.9
"""Share of the GPU-busy time that a step may seem to take: profiling stretches kernels a little."""


def compare(original: Sequence[TimedRun], rewritten: Sequence[TimedRun], seed: int) -> Speed:
    """The verdict on the processes of both sides, interleaved as they ran.

    `seed` draws the resamples: the same runs and seed give the same interval.
    """
    runs = tuple(sorted((*original, *rewritten), key=lambda run: run.order))
    reason = _unusable(original, rewritten)
    if reason:
        return Speed(Verdict.INCONCLUSIVE, reason, runs=runs)
    original_ms, rewritten_ms = _median_ms(original), _median_ms(rewritten)
    ratio = original_ms / rewritten_ms
    low, high = _interval((original, rewritten), ratio, random.Random(seed))
    speed = Speed(
        Verdict.NO_CHANGE,
        "",
        ratio=ratio,
        low=low,
        high=high,
        spread=_spread(original),
        load=max(map(_load, (original, rewritten))),
        original_ms=original_ms,
        rewritten_ms=rewritten_ms,
        saved_ms=original_ms - rewritten_ms,
        runs=runs,
    )
    interval = f"{low:.3f} to {high:.3f}"
    noise, beside = f"the noise of {_limit(speed) - 1.0:.1%}", _beside(original, rewritten)
    alone, verdict = _judged(evolve(speed, load=0.0)), _judged(speed)
    if alone is Verdict.NO_CHANGE:
        reason = "; ".join(filter(None, (f"{ratio:.3f}x ({interval}) is within {noise}", beside)))
        return evolve(speed, reason=reason)
    claim = f"{'' if ratio > 1.0 else 'slower: '}{ratio:.3f}x as fast ({interval})"
    if verdict is not alone or _clocks_changed(runs):
        reason = f"{claim}, but {beside}; time it again on an idle machine"
        return evolve(speed, verdict=Verdict.INCONCLUSIVE, reason=reason)
    speed = evolve(speed, verdict=verdict, reason=f"{claim}, beyond {noise}")
    if verdict is Verdict.REFUTED:
        return speed
    return evolve(speed, break_even_step=_break_even(original, rewritten, speed.saved_ms))


def too_good(speed: Speed, busy_ms: float | None = None, before_ms: float | None = None) -> str:
    """Why a gain has to be repeated with other inputs before it is believed; empty where it need not.

    Args:
        speed: the gain.
        busy_ms: for how long a rewritten step keeps the GPU busy, from its profile; None where that is unknown.
        before_ms: what a step of the original would take without all that it waits for, or without batches alone.
    """
    if speed.ratio > TOO_GOOD and not (before_ms and _CHEAPER * speed.rewritten_ms > before_ms):
        return f"{speed.ratio:.1f}x is more than removing overhead can give: is the work still done?"
    if busy_ms is not None and 0.0 < speed.rewritten_ms < _PROFILED * busy_ms:
        return (
            f"a step takes {speed.rewritten_ms:.3g} ms, less than the {busy_ms:.3g} ms"
            " for which its kernels keep the GPU busy"
        )
    return ""


def more_would_help(speed: Speed) -> bool:
    """Whether further processes may change the verdict: there seems to be a change, and its interval lies across a
    limit.
    """
    if speed.verdict is not Verdict.NO_CHANGE or 1.0 / (1.0 + LEAST_GAIN) < speed.ratio < 1.0 + LEAST_GAIN:
        return False
    limit = _limit(speed)
    return speed.low <= limit <= speed.high or speed.low <= 1.0 / limit <= speed.high


def _unusable(original: Sequence[TimedRun], rewritten: Sequence[TimedRun]) -> str:
    for side, runs in (("original", original), ("rewritten", rewritten)):
        if len(runs) < _FEWEST:
            return f"{len(runs)} timed processes of the {side} script; at least {_FEWEST} are needed"
        for run in runs:
            if not run.step_ms or not (math.isfinite(run.mean_ms) and run.mean_ms > 0.0):
                return f"process {run.order} of the {side} script timed no steps"
    return ""


def _judged(speed: Speed) -> Verdict:
    """What its interval says."""
    limit = _limit(speed)
    if speed.low > limit:
        return Verdict.PROVEN
    return Verdict.REFUTED if speed.high < 1.0 / limit else Verdict.NO_CHANGE


def _limit(speed: Speed) -> float:
    """The ratio that the whole interval has to clear."""
    return (1.0 + max(speed.spread, LEAST_GAIN)) / (1.0 - speed.load)


def _load(runs: Sequence[TimedRun]) -> float:
    """The share of a side's time that others may have taken: as much as they took of what it ran on."""
    left = (1.0 - statistics.fmean(shares) for shares in _shares(runs).values())
    load = 1.0 - math.prod(left)
    return min(load, _MOST_LOAD) if load > QUIET else 0.0


def _shares(runs: Sequence[TimedRun]) -> dict[str, list[float]]:
    """What others took of which part of the machine, beside each process."""
    return {"processors": [run.load for run in runs], "GPU": [run.device_load for run in runs]}


def _beside(original: Sequence[TimedRun], rewritten: Sequence[TimedRun]) -> str:
    """What there was beside the timed processes, in words; empty for nothing."""
    told = []
    shares = _shares(original), _shares(rewritten)
    for part in shares[0]:
        share = max(statistics.fmean(side[part]) for side in shares)
        if share > QUIET:
            told.append(f"other processes took {share:.0%} of the {part}'{'' if part.endswith('s') else 's'} time")
    runs = (*original, *rewritten)
    if _clocks_changed(runs):
        held = [run.throttled for run in runs if run.throttled]
        told.append(f"the GPU's clocks were held down in {len(held)} of {len(runs)} processes ({held[0]})")
    return " and ".join(told)


def _clocks_changed(runs: Sequence[TimedRun]) -> bool:
    """Whether they were held down for some of the processes only."""
    return len({bool(run.throttled) for run in runs}) > 1


def _median_ms(runs: Sequence[TimedRun]) -> float:
    return statistics.median(run.mean_ms for run in runs)


def _spread(original: Sequence[TimedRun]) -> float:
    """How far the ratio of the original to itself strays from 1, for sides of as many processes.

    Processes that follow each other are compared, because a slow drift cancels out between the sides, too. The more
    processes a side has, the less its median strays: a ratio of two of them serves as it is, further ones average.
    """
    figures = [math.log(run.mean_ms) for run in sorted(original, key=lambda run: run.order)]
    pairs = [(one - other) ** 2 for one, other in pairwise(figures)]
    # One pair may come out close by chance: the fewer there are, the further the next one may stray.
    few = 1.0 + 1.0 / len(pairs)
    return math.expm1(few * math.sqrt(statistics.fmean(pairs) / (len(figures) / 2)))


def _interval(
    sides: tuple[Sequence[TimedRun], Sequence[TimedRun]], ratio: float, draw: random.Random
) -> tuple[float, float]:
    """95 % of the ratio: a bootstrap over processes and, within each, over blocks of consecutive steps.

    Few values vary less about their own mean than about the true one, by (n - 1) / n in variance; that is made up for.
    """
    medians = [_medians([window for run in runs for window in _windows(run, draw)], len(runs), draw) for runs in sides]
    ratios = sorted(old / new for old, new in zip(*medians, strict=True))
    fewest = min(map(len, sides))
    wider = math.sqrt(fewest / (fewest - 1))
    tail = round(0.025 * _RESAMPLES)
    low, high = min(ratio, ratios[tail]), max(ratio, ratios[-tail - 1])
    return ratio * (low / ratio) ** wider, ratio * (high / ratio) ** wider


def _windows(run: TimedRun, draw: random.Random) -> list[float]:
    """Means of windows put together from blocks of the process's own."""
    count = min(_BLOCKS, len(run.step_ms))
    bounds = [len(run.step_ms) * block // count for block in range(count + 1)]
    blocks = [(sum(run.step_ms[start:end]), end - start) for start, end in pairwise(bounds)]
    mean = sum(run.step_ms) / len(run.step_ms)
    chosen = draw.choices(blocks, k=count * _WINDOWS)
    return [
        run.mean_ms / mean * sum(total for total, _ in window) / sum(steps for _, steps in window)
        for window in _cut(chosen, count)
    ]


def _medians(windows: Sequence[float], processes: int, draw: random.Random) -> list[float]:
    """Of resampled sides. Every process has as many windows: to draw one of all draws the process along with it."""
    return [_middle(side) for side in _cut(draw.choices(windows, k=processes * _RESAMPLES), processes)]


def _cut(values: Sequence[T], length: int) -> Iterator[Sequence[T]]:
    return (values[start : start + length] for start in range(0, len(values), length))


def _middle(values: Sequence[float]) -> float:
    """The median; the library's checks cost more than the sorting, a thousand times over."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2.0


def _break_even(original: Sequence[TimedRun], rewritten: Sequence[TimedRun], saved_ms: float) -> int | None:
    """After how many steps a start that is longer, beyond how the original's own starts vary, is earned back."""
    starts, others = ([_start_seconds(run) for run in runs] for runs in (original, rewritten))
    longer = statistics.median(others) - statistics.median(starts)
    return math.ceil(1000.0 * longer / saved_ms) if longer > max(starts) - min(starts) else None


def _start_seconds(run: TimedRun) -> float:
    """Until the first step's end; what is compiled later than that is not told apart, so the longer of both counts."""
    return max(run.first_step_seconds, run.compile_seconds)
