"""What is drawn of a loss curve: how far it lies from another one, and no more points than can be told apart."""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfmod.verify.evidence import Curve

_MOST_POINTS = 500


def differences(one: Curve, other: Curve) -> tuple[float, ...]:
    """Relative to `one`, as far as both go; 0 where both are the same NaN or infinity, NaN where only one is."""
    return tuple(_difference(mine, theirs) for mine, theirs in zip(one.losses, other.losses, strict=False))


def _difference(mine: float, theirs: float) -> float:
    if mine == theirs or (math.isnan(mine) and math.isnan(theirs)):
        return 0.0
    if not math.isfinite(mine) or not math.isfinite(theirs):
        return math.nan
    return abs(theirs - mine) / (abs(mine) or 1.0)


def largest(original: Curve, others: Sequence[Curve]) -> tuple[float, ...]:
    """At every value the largest difference that one of `others` has there; empty without any."""
    columns = zip(*(differences(original, other) for other in others), strict=False)
    return tuple(max((value for value in column if math.isfinite(value)), default=0.0) for column in columns)


def thinned(values: Sequence[float]) -> tuple[list[int], list[float]]:
    """Places from 1 and values, evenly left out where there are too many; what is not finite becomes a gap.

    Of every group that is drawn as one point the value farthest from the group's middle stands, so that a single
    excursion is seen.
    """
    size = math.ceil(len(values) / _MOST_POINTS)
    places, kept = [], []
    for start in range(0, len(values), size or 1):
        group = values[start : start + size]
        finite = [value for value in group if math.isfinite(value)]
        middle = sum(finite) / len(finite) if finite else math.nan
        place = max(range(len(group)), key=lambda index: _distance(group[index], middle))
        places.append(start + place + 1)
        kept.append(group[place] if math.isfinite(group[place]) else math.nan)
    return places, kept


def _distance(value: float, middle: float) -> float:
    return abs(value - middle) if math.isfinite(value) and math.isfinite(middle) else -1.0
