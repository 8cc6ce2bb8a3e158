"""Starts a command, watches it, and ends it with everything it started."""

from __future__ import annotations

import enum
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from attrs import define, frozen

from perfmod.verify.family import Family
from perfmod.verify.job import RUN_VARIABLE
from perfmod.verify.template import Forked, Template
from perfmod.verify.terminal import nobodys

TAIL = 64 * 1024
"""Bytes of output that are kept, the last ones."""
WHERE_SIGNAL = signal.SIGUSR1
"""Asks a Python process at the time limit to print where it is; the harness registers faulthandler for it."""
_TIME_TO_SAY_WHERE = 0.5
_POLL = 0.05
_QUIET_POLL = 0.5
_SAMPLE = 0.2
_SHARED_MEMORY = Path("/dev/shm")
_MIB = 2**20


class End(enum.Enum):
    """Why a command is over."""

    EXITED = "exited"
    RESULTS = "results"
    """It had delivered and did not end by itself."""
    TIME_LIMIT = "time limit"
    UNFIT = "unfit"
    """It was forked, and has to be run again as a process of its own."""
    CANCELLED = "cancelled"


@frozen
class Ended:
    """How a command ended.

    Attributes:
        code: exit status, negative for a signal; means nothing unless the command exited by itself.
        seconds: from start to exit, time limit or cancellation.
        tail: the end of what it and its processes printed.
        peak_resident_mib: of all its processes together; None where memory was not sampled.
        peak_shm_mib: growth of /dev/shm, by whomever; None also where there is none.
    """

    how: End
    code: int
    seconds: float
    tail: str
    peak_resident_mib: float | None
    peak_shm_mib: float | None


@frozen
class Command:
    """What to start.

    Attributes:
        run: unique name of the run, put into the environment as the mark of its processes.
        timeout: in seconds.
        sample_memory: look at the processes' memory five times a second.
        quiet_from: once this file exists, something is timed: then only look whether it is over, and that seldom.
        template: forks it, if it can.
    """

    arguments: Sequence[str]
    cwd: Path
    environment: Mapping[str, str]
    run: str
    timeout: float
    sample_memory: bool = True
    template: Template | None = None
    quiet_from: Path | None = None

    def execute(self, delivered: Callable[[], float | None], cancelled: threading.Event) -> Ended:
        """Run it in a session of its own, until it exits, has delivered, is out of time or is cancelled.

        `delivered` tells for how many seconds it may go on, or None where it has not delivered. No process of it is
        left in the end. Not for the main thread, where Ctrl-C could come in between.

        Raises:
            OSError: it cannot be started.
            Failure: a process of it cannot be ended.
        """
        with nobodys() as stdin:
            return self._execute(stdin, delivered, cancelled)

    def _execute(self, stdin: int, delivered: Callable[[], float | None], cancelled: threading.Event) -> Ended:
        start = time.monotonic()
        process = self._start(stdin, cancelled)
        family = Family(process.pid, self.run)
        tail = _Tail(process)
        memory = _Memory(family) if self.sample_memory else None
        try:
            how = self._watch(process, start, delivered, cancelled, memory)
            seconds = time.monotonic() - start
            if how is End.TIME_LIMIT:
                family.look()
                family.signal(WHERE_SIGNAL)
                time.sleep(_TIME_TO_SAY_WHERE)
        finally:
            family.end()
            code = process.wait()
            text = tail.close()
        return Ended(
            how=how,
            code=code,
            seconds=seconds,
            tail=text,
            peak_resident_mib=memory.peak_resident_mib if memory else None,
            peak_shm_mib=memory.peak_shm_mib if memory else None,
        )

    def _start(self, stdin: int, cancelled: threading.Event) -> subprocess.Popen[bytes] | Forked:
        environment = {**self.environment, RUN_VARIABLE: self.run}
        if self.template is not None:
            forked = self.template.fork(self.arguments, self.cwd, environment, stdin, cancelled)
            if forked is not None:
                return forked
        return subprocess.Popen(
            self.arguments,
            cwd=self.cwd,
            env=environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def _watch(
        self,
        process: subprocess.Popen[bytes] | Forked,
        start: float,
        delivered: Callable[[], float | None],
        cancelled: threading.Event,
        memory: _Memory | None,
    ) -> End:
        deadline, how = start + self.timeout, End.TIME_LIMIT
        while process.poll() is None:
            now = time.monotonic()
            if now >= deadline:
                return how
            if how is End.TIME_LIMIT and (grace := delivered()) is not None:
                deadline, how = now + grace, End.RESULTS
            is_quiet = self.quiet_from is not None and self.quiet_from.exists()
            if memory and not is_quiet:
                memory.sample(now)
            if cancelled.wait(_QUIET_POLL if is_quiet else _POLL):
                return End.CANCELLED
            if _is_unfit(process):
                return End.UNFIT
        return End.UNFIT if _is_unfit(process) else End.EXITED


def _is_unfit(process: subprocess.Popen[bytes] | Forked) -> bool:
    return isinstance(process, Forked) and process.is_unfit()


class _Tail:
    """Drains the output of a process in a thread, so that it never blocks, and keeps the end of it."""

    def __init__(self, process: subprocess.Popen[bytes] | Forked) -> None:
        assert process.stdout is not None
        self._stream = process.stdout
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        while block := os.read(self._stream.fileno(), TAIL):
            self._kept += block
            del self._kept[:-TAIL]

    def close(self) -> str:
        """What was kept. All processes that could write are gone."""
        self._thread.join(timeout=1.0)
        if not self._thread.is_alive():
            self._stream.close()
        return self._kept.decode("utf-8", "replace")


@define
class _Memory:
    """Peaks of memory."""

    family: Family
    peak_resident_mib: float = 0.0
    peak_shm_mib: float | None = None
    _shm_before: float | None = None
    _next_sample: float = 0.0

    def __attrs_post_init__(self) -> None:
        self._shm_before = shared_memory_mib()

    def sample(self, now: float) -> None:
        """Sample, if it is time to."""
        if now < self._next_sample:
            return
        self._next_sample = now + _SAMPLE
        self.family.look()
        self.peak_resident_mib = max(self.peak_resident_mib, self.family.resident_mib())
        used = shared_memory_mib()
        if used is not None and self._shm_before is not None:
            self.peak_shm_mib = max(self.peak_shm_mib or 0.0, used - self._shm_before)


def shared_memory_mib() -> float | None:
    """What is used of /dev/shm, by everybody; None where there is none."""
    try:
        state = os.statvfs(_SHARED_MEMORY)
    except OSError:
        return None
    return (state.f_blocks - state.f_bfree) * state.f_frsize / _MIB
