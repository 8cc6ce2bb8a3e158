"""Runs pieces of work on this machine: so many without GPUs at a time, and one a GPU."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections import deque
from collections.abc import Sequence

from perfmod.migrate.execution import execute
from perfmod.migrate.jobs import Done, Ending, Job
from perfmod.seats import Seat, division, environment_of, lack_of


class LocalEngine:
    """Runs jobs on this machine.

    Args:
        jobs: how many without GPUs run at a time.
        gpus: see `gpus_of_this_machine`; one seat each. `cpu0`, `cpu1` and so on are seats without a GPU.
        pass_fds: descriptors that every process holds open as long as it lives, such as that of a lock.
        over: takes the jobs that are over, where somebody else asks for them.
    """

    def __init__(
        self,
        jobs: int,
        gpus: Sequence[str],
        *,
        pass_fds: Sequence[int] = (),
        over: queue.SimpleQueue[Done] | None = None,
    ) -> None:
        self._jobs = jobs
        self._pass_fds = tuple(pass_fds)
        self._over: queue.SimpleQueue[Done] = queue.SimpleQueue() if over is None else over
        self._division = division(gpus)
        self._lock = threading.Lock()
        self._free = list(self._division.seats)
        self._waiting: deque[Job] = deque()
        self._waiting_for_seats: deque[Job] = deque()
        self._running = 0
        self._threads: set[threading.Thread] = set()
        self._cancelled = threading.Event()

    @property
    def room(self) -> int:
        """How many more jobs without GPUs can start at once."""
        with self._lock:
            return max(self._jobs - self._running - len(self._waiting), 0)

    def submit(self, job: Job) -> None:
        """Take a job; one with more GPUs than there are is over at once."""
        there = len(self._division.seats)
        if job.gpus > there:
            self._over.put(Done(job, Ending.CRASHED, lack_of(job.gpus, there, "this machine")))
            return
        with self._lock:
            (self._waiting_for_seats if job.gpus else self._waiting).append(job)
            self._start_what_can()

    def next(self, timeout: float) -> Done | None:
        """The next job that is over, waiting for at most so many seconds; None where there is none by then."""
        with contextlib.suppress(queue.Empty):
            return self._over.get(timeout=max(timeout, 0.0))
        return None

    def close(self) -> None:
        """End what still runs, with everything that it started."""
        with self._lock:
            self._cancelled.set()
            self._waiting.clear()
            self._waiting_for_seats.clear()
            threads = list(self._threads)
        for thread in threads:
            thread.join()

    def _start_what_can(self) -> None:
        while self._waiting and self._running < self._jobs:
            self._running += 1
            self._start(self._waiting.popleft(), [])
        # The first one waits until enough are free: one that needs several would else wait for ever.
        while self._waiting_for_seats and self._waiting_for_seats[0].gpus <= len(self._free):
            job = self._waiting_for_seats.popleft()
            seats, self._free = self._free[: job.gpus], self._free[job.gpus :]
            self._start(job, seats)

    def _start(self, job: Job, seats: list[Seat]) -> None:
        # A daemon, so that the program can end at any time; the processes notice that.
        thread = threading.Thread(target=self._run, args=(job, seats), daemon=True)
        self._threads.add(thread)
        thread.start()

    def _run(self, job: Job, seats: list[Seat]) -> None:
        if seats:
            cores = tuple(sorted({core for seat in seats for core in seat.cores}))
            environment = environment_of((seat.gpu for seat in seats), os.environ)
        else:
            cores, environment = self._division.rest, dict(os.environ)
        done = Done(job, Ending.CRASHED, "internal error: it was not run")
        try:
            done = execute(
                job, cores=cores, environment=environment, cancelled=self._cancelled, pass_fds=self._pass_fds
            )
        finally:
            with self._lock:
                self._free += seats
                self._running -= not seats
                self._threads.discard(threading.current_thread())
                if not self._cancelled.is_set():
                    self._start_what_can()
            self._over.put(done)
