"""What else went on while steps were timed: other processes on the processors and on the GPU, clocks held down."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
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
        processors: share of the processor time that the script wanted, which it may have lost to others.
        throttled: why the GPU's clocks were held down; empty where they were not.
    """

    processors: float = 0.0
    throttled: str = ""


@define
class OwnTime:
    """Processor time of our processes as it was when they were last seen, in seconds."""

    _own: dict[psutil.Process, float] = field(factory=dict)
    _threads: dict[str, tuple[float, float]] = field(factory=dict)
    _with_reaped: float = 0.0

    def look(self) -> None:
        """Look at those that are alive."""
        self._with_reaped = 0.0
        me = psutil.Process()
        for process in (me, *me.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                self._own[process] = times.user + times.system
                self._with_reaped += times.user + times.system + times.children_user + times.children_system
            # The time on a processor and the time of waiting for one, in nanoseconds, and a count.
            for path in Path(f"/proc/{process.pid}/task").glob("*/schedstat"):
                with contextlib.suppress(OSError, ValueError):
                    running, waiting, _ = map(int, path.read_text("ascii").split())
                    self._threads[str(path)] = running / 1e9, waiting / 1e9

    def seconds(self) -> tuple[float, float]:
        """What ours have taken, counted in two ways, each of which may miss some.

        One misses processes that ended between two looks, the other those that ended without being waited for.
        """
        return sum(self._own.values()), self._with_reaped

    @property
    def tells_of_waiting(self) -> bool:
        """Whether the system keeps how long its threads wait."""
        return bool(self._threads)

    @property
    def running(self) -> float:
        """Of all threads, on a processor."""
        return sum(running for running, _ in self._threads.values())

    @property
    def waiting(self) -> float:
        """Of all threads, for a processor."""
        return sum(waiting for _, waiting in self._threads.values())


@define
class Meter:
    """Measures, in one or several spans, what processes that are not ours take of the processors.

    Ours are this process and all that descend from it. What others take costs nothing as long as there are processors
    left, and ours may wait for each other, too: what was lost is the lesser of what others took of the processors, and
    of how long ours had to wait for one; and what the host of a virtual machine stole.
    """

    _lost: float = 0.0
    _elapsed: float = 0.0
    _seen: OwnTime = field(factory=OwnTime)

    @contextlib.contextmanager
    def span(self, *, sampled: bool = False) -> Iterator[None]:
        """Count what happens meanwhile. `sampled` looks at ours twice a second, where some of them may come and go."""
        over = threading.Event()
        sampler = threading.Thread(target=self._sample, args=(over,), daemon=True)
        self._seen = OwnTime()
        self._seen.look()
        (busy, stolen), own, began = _busy_seconds(), self._seen.seconds(), time.monotonic()
        running, waiting = self._seen.running, self._seen.waiting
        if sampled:
            sampler.start()
        try:
            yield
        finally:
            over.set()
            if sampled:
                sampler.join()
            self._seen.look()
            elapsed = time.monotonic() - began
            ours = max(now - before for now, before in zip(self._seen.seconds(), own, strict=True))
            busy, stolen = (now - before for now, before in zip(_busy_seconds(), (busy, stolen), strict=True))
            taken = min(max(busy - ours, 0.0) / (elapsed * _processors()), 1.0)
            running, waiting = self._seen.running - running, self._seen.waiting - waiting
            if self._seen.tells_of_waiting:
                taken = min(taken, waiting / max(running + waiting, 1e-9))
            gone = stolen / max(busy + stolen, 1e-9)
            self._lost += (1.0 - (1.0 - taken) * (1.0 - gone)) * elapsed
            self._elapsed += elapsed

    @property
    def share(self) -> float:
        """Of the time that the script wanted, which it may have lost to others."""
        return self._lost / self._elapsed if self._elapsed else 0.0

    def _sample(self, over: threading.Event) -> None:
        while not over.wait(_SAMPLE):
            self._seen.look()


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


def _busy_seconds() -> tuple[float, float]:
    """For which the processors that may be used have been busy, and were taken by the host of a virtual machine."""
    every = psutil.cpu_times(percpu=True)
    usable = [every[number] for number in _usable() if number < len(every)] or every
    # The time of guests is in that of users, too.
    left_out = ("idle", "iowait", "steal", "guest", "guest_nice")
    named = [times._asdict() for times in usable]
    busy = [float(value) for times in named for name, value in times.items() if name not in left_out]
    return sum(busy), sum(float(times.get("steal", 0.0)) for times in named)
