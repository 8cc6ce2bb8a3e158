"""How many samples a second larger batches give: measured, never written, because it changes the training."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from perfmod.profile.breakdown import Breakdown
from perfmod.tune.bench import BATCHES, mean_ms, no_time
from perfmod.tune.result import Batch
from perfmod.verify.laboratory import Laboratory
from perfmod.verify.sides import Side

_LARGEST: Final = 64
"""Times as large as it is."""
_ENOUGH: Final = 1.05
"""A larger batch that gives fewer times as many samples a second is the last one."""


def usual_size(profile: Breakdown) -> int | None:
    """Samples of a batch of the loader that has handed out most of them; None where none puts batches together."""
    sizes = [loader for loader in profile.loaders if loader.batch_size is not None and loader.batches]
    return max(sizes, key=lambda loader: loader.batches).batch_size if sizes else None


def measured(lab: Laboratory, side: Side, usual: int, deadline: float) -> Iterator[Batch]:
    """The batch as it is, then twice as large ones, until that brings nothing, does not fit, or there is no time."""
    times, before, longest = 1, 0.0, 0.0
    while times <= _LARGEST and time.monotonic() + longest < deadline:
        began, size = time.monotonic(), usual * times
        lab.progress(f"batches of {size}")
        ran = lab.time_larger(side, BATCHES, times)
        longest = max(longest, time.monotonic() - began)
        reason = no_time(ran)
        if reason:
            yield Batch(size, reason=reason)
            return
        ms = mean_ms(ran)
        per_second = 1000.0 * size / ms
        yield Batch(size, ms, per_second, ran.records[0]["peak_reserved_mib"])
        if per_second < _ENOUGH * before:
            return
        times, before = 2 * times, per_second
