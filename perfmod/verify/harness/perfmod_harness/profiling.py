"""The P-run: why does a step take that long?

After the warm-up, some steps under torch's sync debug mode say which lines make the host wait; then some steps without
it say what is copied and how busy the device is. Torch's profiler runs all the time, so that it knows how long each
wait was; it makes the host slower, and waits thereby look shorter than they are without it.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import torch

from .chrome_trace import FIRST_MARK, IDLE_MARK, LAST_MARK
from .observer import Observer
from .profiler import Profiler, mark
from .step_watch import StepWatch, uses_device
from .syncs import SyncWatch, rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch.optim import Optimizer

    from .by_hand import ByHand
    from .job import Job


def begin(job: Job) -> None:
    """Profile the steps of this process."""
    StepWatch(job, Profiling(job)).begin()


class Profiling(Observer):
    """Goes through the phases of a P-run. On the CPU, and where a script does without CUDA, it only counts steps."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._watched_from = max(1, job.warmup_steps)
        self._profiled_from = self._watched_from + job.sync_steps
        self._last = self._profiled_from + job.profile_steps
        self._steps = 0
        self._on_device = False
        self._profiler = Profiler()
        self._syncs = SyncWatch(job.root)
        self._watching = False
        self._found = 0

    def after_step(self, optimizer: Optimizer | ByHand, number: int, closure: bool) -> bool:
        """Go on to the next phase where it is time. Returns whether the last step is done."""
        on_device = uses_device(self._job)
        if on_device and torch.cuda.is_current_stream_capturing():
            return False  # a graph of the script's, which must not contain anything of ours
        self._steps += 1
        self._found = len(self._syncs.places)
        if self._steps == self._watched_from and on_device:
            self._on_device = True
            self._watch()
        if self._on_device and self._steps == self._profiled_from:
            self._profile()
        if self._on_device and self._steps == self._last:
            self._drain()
        return self._steps >= self._last

    def record(self, ended: str) -> tuple[Mapping[str, Any], array[float]]:
        """The synchronisations by line, in all, and what the profiler saw, per step."""
        complete = self._steps >= self._last
        if self._watching:
            self._stop_watching()
            # What came after the last step belongs to none.
            del self._syncs.places[self._found :]
        trace = self._profiler.stop()
        places = self._syncs.places
        return {
            "sync_steps": max(0, min(self._steps - self._watched_from, self._job.sync_steps)),
            "syncs": rows(places, trace.waited_for(len(places)) if trace else ()),
            "profile_steps": max(0, self._steps - self._profiled_from),
            "trace": trace.per_step(self._job.profile_steps) if trace and complete and trace.is_whole() else None,
            "own_profiler": self._profiler.displaced,
        }, array("d")

    def _watch(self) -> None:
        self._profiler.start()
        self._syncs.start()
        self._watching = True

    def _profile(self) -> None:
        self._stop_watching()
        torch.cuda.synchronize()
        mark(FIRST_MARK)

    def _drain(self) -> None:
        mark(LAST_MARK)
        torch.cuda.synchronize()
        mark(IDLE_MARK)

    def _stop_watching(self) -> None:
        self._watching = False
        self._syncs.stop()
