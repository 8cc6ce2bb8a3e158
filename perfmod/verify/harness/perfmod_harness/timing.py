"""The T-run: how long does a step take? A counter and the device's events, nothing else.

After the warm-up (see `warm_up`) comes the window. It begins and ends with a wait for the device, and is longer than
what the job asks for and than three times the batches that a loader prepares ahead, but ends after the job's longest
time once it has ten steps.

Where the job has turns, the run gets ready beside others after a few steps, and each of its turns, in which it has the
machine for itself, is a warm-up with a window of its own; they count as one. One in which something was compiled, as it
is for the first evaluation or a short last batch, is left out if there are others.

A script that ends before that is measured by the window that it had begun, or else by all its steps after the number
that the job asks for as a warm-up, or after the first third where fewer than ten would be left, if these are five.
"""

from __future__ import annotations

import functools
import time
from array import array
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

import torch
from torch.utils import data

from . import at_hand, compilations, process, replays
from .clocks import DeviceClock, HostClock
from .observer import Observer
from .step_watch import StepWatch, uses_device
from .turns import Turns
from .warm_up import WarmUp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch.optim import Optimizer

    from .by_hand import ByHand
    from .job import Job

FEWEST = 10
"""Steps of a window, at least."""
_FEWEST_OF_ALL = 5
"""Steps that are measured of a script that makes no more."""
_DEPTHS = 3
_MOST_RESERVED = 100_000
_BETWEEN_EVENTS = 0.01
"""Seconds, where steps are shorter: to take the time must not take half a percent of it."""
_FEWEST_GROUPS = 50
"""Of steps between two events, in a window."""
_MIB = 2**20


def begin(job: Job) -> None:
    """Time the steps of this process."""
    timing = Timing(job)
    timing.keep_to(job.threads)
    note_loaders(timing.loaders)
    if job.batches_at_hand:
        at_hand.begin(job.batches_at_hand, job.batch_times)
    StepWatch(job, timing).begin()


class Window(NamedTuple):
    """Steps that were measured.

    Attributes:
        first, last: the ticks between which they lie.
        compiled: functions that were compiled meanwhile.
    """

    first: int
    last: int
    seconds: float
    compiled: int = 0


def _undisturbed(windows: list[Window]) -> list[Window]:
    """Without the one in which something was compiled, if it is only one of several."""
    quiet = [window for window in windows if not window.compiled]
    return quiet if quiet and len(quiet) == len(windows) - 1 else windows


class Timing(Observer):
    """Goes through the phases of a T-run, one call per step.

    Attributes:
        loaders: made so far.
    """

    loaders: list[dict[str, Any]]

    def __init__(self, job: Job) -> None:
        self.loaders = []
        self._job = job
        self._phase: Callable[[], bool] = self._first_step
        self._clock: HostClock | DeviceClock = HostClock()
        # While a script records its step as a CUDA graph, nothing of ours may get into it. `bool()` is False.
        self._capturing: Callable[[], bool] = bool
        self._turns = Turns(job) if job.turns else None
        self._warm_up = WarmUp(job.warmup_steps, 0.0 if self._turns else job.warmup_seconds)
        self._first_step_seconds = 0.0
        self._windows: list[Window] = []
        # Of the window that is open, and of the warm-up before it: the ticks with which they begin.
        self._first: int | None = None
        self._begun: int | None = None if self._turns else 0
        # On the host's clock.
        self._opened = self._earliest = self._latest = 0.0
        self._fewest = FEWEST
        self._compiled = compilations.Compilations()
        # Threads that torch would use, and those that it uses beside other runs.
        self._threads = 0, 0

    def keep_to(self, threads: int) -> None:
        """Use so many threads beside other runs, until the first turn; as many as torch does, for 0."""
        if threads:
            self._threads = torch.get_num_threads(), threads
            torch.set_num_threads(threads)

    def after_step(self, optimizer: Optimizer | ByHand, number: int, closure: bool) -> bool:
        """Take the time of a step, or of as many as were idle before it. Returns whether the window is over."""
        return not self._capturing() and self._phase()

    def record(self, ended: str) -> tuple[Mapping[str, Any], array[float]]:
        """The times of the window's steps, and what else the run has shown."""
        if not self._windows or self._first is not None:
            self._clock.settle()
            self._close_early()
        if self._turns is not None:
            self._turns.leave()
        windows = _undisturbed(self._windows)
        step_ms = [ms for window in windows for ms in self._clock.milliseconds(window.first, window.last)]
        steps = sum(window.last - window.first for window in windows)
        on_device = isinstance(self._clock, DeviceClock)
        return {
            "step_ms": step_ms,
            "window_seconds": sum(window.seconds for window in windows),
            "window_steps": steps,
            "window_ms": [1000.0 * window.seconds / (window.last - window.first) for window in windows],
            "warmup_steps": self._clock.ticks - steps,
            "first_step_seconds": self._first_step_seconds,
            "compile_seconds": self._compiled.seconds,
            "recompiled_in_window": sum(window.compiled for window in windows),
            "not_recorded": replays.not_recorded(),
            "peak_allocated_mib": torch.cuda.max_memory_allocated() / _MIB if on_device else None,
            "peak_reserved_mib": torch.cuda.max_memory_reserved() / _MIB if on_device else None,
        }, array("d")

    def _close_early(self) -> None:
        """Make a window of what there is where the script ends by itself, if that is enough."""
        first, last = self._first, self._clock.ticks - 1
        if (first is None or last - first < FEWEST) and not self._windows and self._begun is not None:
            steps, warm = self._clock.ticks - self._begun, self._job.warmup_steps
            first = self._begun + max(1, warm if steps - warm >= FEWEST else min(warm, steps // 3)) - 1
            self._compiled = compilations.so_far()
        if first is not None and last - first >= (FEWEST if self._windows else _FEWEST_OF_ALL):
            milliseconds = self._clock.milliseconds(first, last)
            # The last steps of a group whose time was not taken are left out.
            self._windows.append(Window(first, first + len(milliseconds), sum(milliseconds) / 1000))

    # Phases

    def _first_step(self) -> bool:
        if uses_device(self._job):
            if torch.cuda.is_current_stream_capturing():
                return False
            self._capturing = torch.cuda.is_current_stream_capturing
            self._clock = DeviceClock()
        self._clock.settle()
        self._first_step_seconds = process.seconds()
        self._phase = self._warming
        return self._warming()

    def _warming(self) -> bool:
        self._clock.tick()
        if self._warm_up.step(time.perf_counter(), compilations.so_far().frames, self._prepared()):
            if self._begun is None:
                self._take_turn()
            elif self._turns is None or self._turns.may_open():
                self._open()
        return False

    def _take_turn(self) -> bool:
        """Wait for the next turn, with an idle device. Returns whether there is none."""
        assert self._turns is not None
        self.idle = 0
        self._clock.settle()
        if not self._turns.take():
            return True
        usual, few = self._threads
        if few and torch.get_num_threads() == few:  # and the script has not chosen another number meanwhile
            torch.set_num_threads(usual)
        self._threads = 0, 0
        self._begun = self._clock.ticks
        self._warm_up = WarmUp(self._job.warmup_steps, self._job.warmup_seconds)
        self._phase = self._warming
        return False

    def _open(self) -> None:
        self._fewest = max(FEWEST, self._job.window_steps, _DEPTHS * self._prepared() + 1)
        likely = max(self._fewest, int(self._job.window_seconds / max(self._warm_up.usual(), 1e-5)))
        self._clock.settle()
        if isinstance(self._clock, DeviceClock) and not self._windows:
            torch.cuda.reset_peak_memory_stats()
        self._compiled = compilations.so_far()
        self._first = self._clock.ticks - 1
        together = min(int(_BETWEEN_EVENTS / max(self._warm_up.usual(), 1e-5)), likely // _FEWEST_GROUPS)
        self.idle = self._clock.group(max(1, together), min(2 * likely, _MOST_RESERVED)) - 1
        self._clock.settle()
        self._clock.again()
        self._opened = time.perf_counter()
        self._latest = self._opened + self._job.longest_seconds
        self._earliest = min(self._opened + self._job.window_seconds, self._latest)
        self._phase = self._measuring

    def _measuring(self) -> bool:
        self._clock.tick(self.idle)
        now = time.perf_counter()
        if now < self._earliest or self._steps() < (self._fewest if now < self._latest else FEWEST):
            return False
        self._clock.settle()
        assert self._first is not None
        seconds, compiled = time.perf_counter() - self._opened, compilations.so_far().frames - self._compiled.frames
        self._windows.append(Window(self._first, self._clock.ticks - 1, seconds, compiled))
        self._first = None
        return self._turns is None or self._take_turn()

    def _steps(self) -> int:
        """Of the window, so far."""
        return self._clock.ticks - 1 - (self._first or 0)

    def _prepared(self) -> int:
        """Batches that a loader prepares ahead, at most."""
        return max((each["workers"] * each["prefetch"] for each in self.loaders), default=0)


def note_loaders(loaders: list[dict[str, Any]]) -> None:
    """Append what is known of each loader that the script makes; the batches that it hands out go uncounted."""
    loader_class: Any = data.DataLoader
    original = loader_class.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        loaders.append(
            {
                "workers": self.num_workers,
                "prefetch": self.prefetch_factor or 0,
                "pin_memory": bool(self.pin_memory),
                "persistent": bool(self.persistent_workers),
                "batch_size": self.batch_size,
                "batches": None,
            }
        )

    loader_class.__init__ = init
