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

    def tick(self, left_out: int = 0) -> None:
        """Take the time; none is ever left out."""
        self._times.append(time.perf_counter())

    def again(self) -> None:
        """Take the last time anew, now."""
        self._times[-1] = time.perf_counter()

    def group(self, steps: int, ticks: int) -> int:
        """To take the time costs nothing here, so it is taken of every tick. Returns 1."""
        return 1

    def settle(self) -> None:
        """Wait until all work is done."""

    def milliseconds(self, first: int, last: int) -> list[float]:
        """Between consecutive ticks, from number `first` to number `last`."""
        times = self._times[first : last + 1]
        return [1000 * (end - start) for start, end in zip(times, times[1:])]


class DeviceClock:
    """For a CUDA device: an event in the stream in which a step was made, at its end.

    To record an event takes the host some ten microseconds. So there may be one for several steps, which then count as
    equally long.

    Steps may be made in several streams that wait for each other, as where some are replayed as a graph. Work that a
    script puts into others, and does not join with these, is not in these times; it is in the wall-clock time of the
    window, which ends when the whole device is done.

    Attributes:
        ticks: how many there have been, with those left out.
    """

    def __init__(self) -> None:
        self.ticks = 0
        self._events: list[Any] = []
        self._recorded: list[int] = []

    def tick(self, left_out: int = 0) -> None:
        """Take the time, after so many ticks whose time was not taken."""
        self.ticks += left_out
        if len(self._recorded) == len(self._events):
            self._events.append(_event_class(enable_timing=True))
        self._events[len(self._recorded)].record()
        self._recorded.append(self.ticks)
        self.ticks += 1

    def again(self) -> None:
        """Take the last time anew, now."""
        self._events[len(self._recorded) - 1].record()

    def group(self, steps: int, ticks: int) -> int:
        """Prepare for so many more ticks, of which every `steps`-th is to be taken. Returns `steps`.

        An event is made when it is recorded for the first time.
        """
        events = [_event_class(enable_timing=True) for _ in range(ticks // steps + 1)]
        for event in events:
            event.record()
        self._events += events
        return steps

    def settle(self) -> None:
        """Wait until all work is done. Raises `RuntimeError` where the device has failed."""
        torch.cuda.synchronize()

    def milliseconds(self, first: int, last: int) -> list[float]:
        """Of each step from tick number `first` to `last` whose time was taken; the device must have settled."""
        marks = [(tick, event) for tick, event in zip(self._recorded, self._events) if first <= tick <= last]
        found: list[float] = []
        for (tick, start), (later, end) in zip(marks, marks[1:]):
            found += [start.elapsed_time(end) / (later - tick)] * (later - tick)
        return found
