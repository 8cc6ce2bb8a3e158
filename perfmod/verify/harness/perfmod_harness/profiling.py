"""The P-run: why does a step take that long?

After the warm-up and, where the job asks for them, some steps that nothing but a clock looks at, some steps under
torch's sync debug mode say which lines make the host wait; then some steps without
it say what is copied and how busy the device is. Torch's profiler runs all the time, so that it knows how long each
wait was; it makes the host slower, and waits thereby look shorter than they are without it.
"""

from __future__ import annotations

import time
from array import array
from typing import TYPE_CHECKING, Any, Callable

import torch
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from . import patching
from .chrome_trace import FIRST_MARK, IDLE_MARK, LAST_MARK, Trace
from .loaders import Loaders
from .observer import Observer
from .profiler import Profiler, mark
from .step_watch import StepWatch, uses_device
from .syncs import SyncWatch, rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch.optim import Optimizer

    from .by_hand import ByHand
    from .job import Job


_EDGES = 2
_MIB = 2**20


def begin(job: Job) -> None:
    """Profile the steps of this process."""
    StepWatch(job, Profiling(job)).begin()


def _memory() -> Mapping[str, float]:
    """MiB of the device: free and in all, and the most that this process has reserved."""
    free, total = torch.cuda.mem_get_info()
    return {
        "free_mib": free / _MIB,
        "total_mib": total / _MIB,
        "peak_reserved_mib": torch.cuda.max_memory_reserved() / _MIB,
    }


class PlainSteps:
    """Takes the time of steps, and of the waits for batches in them."""

    def __init__(self) -> None:
        self._edges: list[float] = []
        self._steps = -1
        self._waited = 0.0
        self._loaders = Loaders()
        # An epoch's first wait is for its workers to start.
        patching.around(DataLoader, "__iter__", self._timed)
        patching.around(_BaseDataLoaderIter, "__next__", self._timed)
        self._loaders.watch()

    def tick(self, on_device: bool, *, is_edge: bool) -> None:
        """A step is over, or the one before the first."""
        self._steps += 1
        if is_edge:
            if on_device:
                torch.cuda.synchronize()
            self._edges.append(time.perf_counter())

    def describe(self) -> Mapping[str, Any] | None:
        """For the record; None where the script ended before the last one."""
        if len(self._edges) < _EDGES:
            return None
        start, end = self._edges
        return {
            "steps": self._steps,
            "step_ms": 1000 * (end - start) / self._steps,
            "loader_ms": 1000 * self._waited / self._steps,
            "loaders": self._loaders.describe(),
        }

    def _timed(self, call: Callable[[Any], Any], of: Any) -> Any:
        before = time.perf_counter()
        try:
            return call(of)
        finally:
            if len(self._edges) == 1:
                self._waited += time.perf_counter() - before


class Profiling(Observer):
    """Goes through the phases of a P-run. On the CPU, and where a script does without CUDA, it only counts steps."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._plain_from = max(1, job.warmup_steps)
        self._watched_from = self._plain_from + job.plain_steps
        self._profiled_from = self._watched_from + job.sync_steps
        self._last = self._profiled_from + job.profile_steps
        self._steps = 0
        self._on_device = False
        self._profiler = Profiler()
        self._syncs = SyncWatch(job.root)
        self._watching = False
        self._found = 0
        self._plain = PlainSteps() if job.plain_steps else None

    def after_step(self, optimizer: Optimizer | ByHand, number: int, closure: bool) -> bool:
        """Go on to the next phase where it is time. Returns whether the last step is done."""
        on_device = uses_device(self._job)
        if on_device and torch.cuda.is_current_stream_capturing():
            return False  # a graph of the script's, which must not contain anything of ours
        self._steps += 1
        self._found = len(self._syncs.places)
        if self._plain is not None and self._plain_from <= self._steps <= self._watched_from:
            self._plain.tick(on_device, is_edge=self._steps in (self._plain_from, self._watched_from))
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
            "on_cpu": self._job.device == "cuda" and not uses_device(self._job),
            **(self._told_of_plain(trace if complete else None) if self._plain is not None else {}),
        }, array("d")

    def _told_of_plain(self, trace: Trace | None) -> Mapping[str, Any]:
        assert self._plain is not None
        is_seen = trace is not None and trace.is_whole()
        return {
            "plain": self._plain.describe(),
            "work": trace.work_by_name(self._job.profile_steps) if trace is not None and is_seen else None,
            "memory": _memory() if uses_device(self._job) else None,
        }

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
