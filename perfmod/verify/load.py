"""What else went on while steps were timed: other processes on the processors and on the GPU, clocks held down."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from typing import Final

import psutil
from attrs import define, field, frozen

from perfmod.verify import machine

_SAMPLE: Final = 0.5
"""Seconds between two looks at processes that may come and go."""
_AFTERGLOW: Final = 1.2
"""Seconds for which a GPU's share of busy time may still tell of what has just ended."""


@frozen
class Load:
    """What a timing had beside it.

    Attributes:
        processors: share of the time of the processors that may be used, which others took.
        throttled: why the GPU's clocks were held down; empty where they were not.
    """

    processors: float = 0.0
    throttled: str = ""


@define
class Meter:
    """Measures, in one or several spans, what processes that are not ours take of the processors.

    Ours are this process and all that descend from it.
    """

    _taken: float = 0.0
    _there: float = 0.0
    _seen: dict[psutil.Process, float] = field(factory=dict)

    @contextlib.contextmanager
    def span(self, *, sampled: bool = False) -> Iterator[None]:
        """Count what happens meanwhile. `sampled` looks at ours twice a second, where some of them may come and go."""
        over = threading.Event()
        sampler = threading.Thread(target=self._sample, args=(over,), daemon=True)
        self._seen = {}
        busy, own, began = _busy_seconds(), self._own_seconds(), time.monotonic()
        if sampled:
            sampler.start()
        try:
            yield
        finally:
            over.set()
            if sampled:
                sampler.join()
            elapsed = time.monotonic() - began
            others = (
                _busy_seconds() - busy - max(now - before for now, before in zip(self._own_seconds(), own, strict=True))
            )
            capacity = elapsed * _processors()
            self._taken += min(max(others, 0.0), capacity)
            self._there += capacity

    @property
    def share(self) -> float:
        """Of the processors' time, that others took."""
        return self._taken / self._there if self._there else 0.0

    def _sample(self, over: threading.Event) -> None:
        while not over.wait(_SAMPLE):
            self._own_seconds()

    def _own_seconds(self) -> tuple[float, float]:
        """Processor time that ours have taken so far, counted in two ways, each of which may miss some.

        One misses processes that ended between two looks, the other those that ended without being waited for.
        """
        with_reaped = 0.0
        me = psutil.Process()
        for process in (me, *me.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                self._seen[process] = times.user + times.system
                with_reaped += times.user + times.system + times.children_user + times.children_system
        return sum(self._seen.values()), with_reaped


def device_load() -> float:
    """The share of its time for which the GPU is busy although none of our processes uses it."""
    busy = machine.device_activity().busy
    if busy:
        # It may be from what has just ended.
        time.sleep(_AFTERGLOW)
        busy = machine.device_activity().busy
    return busy


def _usable() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def _processors() -> int:
    return len(_usable()) or os.cpu_count() or 1


def _busy_seconds() -> float:
    """For which the processors that may be used have been busy, or were taken by the host of a virtual machine."""
    every = psutil.cpu_times(percpu=True)
    usable = [every[number] for number in _usable() if number < len(every)] or every
    # The time of guests is in that of users, too.
    idle = ("idle", "iowait", "guest", "guest_nice")
    values = [float(value) for times in usable for name, value in times._asdict().items() if name not in idle]
    return sum(values)
