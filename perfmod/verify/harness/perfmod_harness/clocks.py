"""Take the times at which steps end, without waiting for them."""

from __future__ import annotations

import time
from typing import Any

import torch

_event_class: Any = torch.cuda.Event


class HostClock:
    """For the CPU, where a step is over when it returns."""

    def __init__(self) -> None:
        self._times: list[float] = []

    @property
    def ticks(self) -> int:
        """How many times have been taken."""
        return len(self._times)

    def tick(self) -> None:
        """Take the time."""
        self._times.append(time.perf_counter())

    def again(self) -> None:
        """Take the last time anew, now."""
        self._times[-1] = time.perf_counter()

    def reserve(self, ticks: int) -> None:
        """Prepare for so many more."""

    def settle(self) -> None:
        """Wait until all work is done."""

    def milliseconds(self, first: int) -> list[float]:
        """Between consecutive ticks, from tick number `first` on."""
        times = self._times[first:]
        return [1000 * (end - start) for start, end in zip(times, times[1:])]


class DeviceClock:
    """For a CUDA device: an event in the stream in which the first step was made, at the end of each step.

    Work that a script puts into other streams, and does not join with that one, is not in these times; it is in the
    wall-clock time of the window, which ends when the whole device is done.

    Attributes:
        ticks: how many times have been taken.
    """

    def __init__(self) -> None:
        self.ticks = 0
        self._stream = torch.cuda.current_stream()
        self._events: list[Any] = []

    def tick(self) -> None:
        """Take the time."""
        if self.ticks == len(self._events):
            self._events.append(_event_class(enable_timing=True))
        self._events[self.ticks].record(self._stream)
        self.ticks += 1

    def again(self) -> None:
        """Take the last time anew, now."""
        self._events[self.ticks - 1].record(self._stream)

    def reserve(self, ticks: int) -> None:
        """Prepare for so many more: an event is made when it is recorded for the first time."""
        events = [_event_class(enable_timing=True) for _ in range(ticks)]
        for event in events:
            event.record(self._stream)
        self._events += events

    def settle(self) -> None:
        """Wait until all work is done. Raises `RuntimeError` where the device has failed."""
        torch.cuda.synchronize()

    def milliseconds(self, first: int) -> list[float]:
        """Between consecutive ticks, from tick number `first` on; the device must have settled."""
        events = self._events[first : self.ticks]
        return [start.elapsed_time(end) for start, end in zip(events, events[1:])]
