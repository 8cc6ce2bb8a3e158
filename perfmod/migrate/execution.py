"""Starts the process of a piece of work, watches it, and ends it with everything that it started."""

from __future__ import annotations

import contextlib
import enum
import os
import platform
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from attrs import define

from perfmod.errors import Failure
from perfmod.migrate.jobs import LOG, NO_ROOM, OUT, RESULT, Done, Ending, Job
from perfmod.migrate.relatives import MARK, Relatives
from perfmod.roots import shown
from perfmod.seats import on_cores

HALF_A_LOG: Final = 2**20
"""Bytes of output that are kept of the beginning, and as many of the end."""
_BLOCK: Final = 64 * 1024
_LAST_LINE: Final = 4096
_REASON: Final = 300
"""Characters of the last line that are told."""
_POLL: Final = 0.03
_LOOK: Final = 0.5
"""Seconds between two looks at the processes that it has started."""
_MIB: Final = 2**20
_COUNTED_LATE: Final = 16 * 2**20
"""Bytes by which two readings of the same process may lie apart: each processor counts some pages by itself."""
_UNIT_OF_USAGE: Final = 1 if sys.platform == "darwin" else 1024
"""Bytes in which the system tells the most resident memory."""


def execute(
    job: Job,
    *,
    cores: Sequence[int],
    environment: Mapping[str, str],
    cancelled: threading.Event,
    pass_fds: Sequence[int] = (),
) -> Done:
    """Run a job until it ends, its time is over or it is cancelled; no process of it is left then.

    Args:
        job: what an earlier run left in its folder is removed first.
        cores: processors that it may use, where the system lets them be chosen; none for all.
        environment: of the process, the whole of it.
        cancelled: ends it at once; what comes back then is worth nothing.
        pass_fds: descriptors that the process holds open as long as it lives, such as that of a lock.
    """
    mark = uuid.uuid4().hex
    try:
        _clear(job.folder)
        log = (job.folder / LOG).open("wb", buffering=0)
        with log, on_cores(cores):
            process = subprocess.Popen(
                _command(job),
                cwd=job.folder,
                env={**environment, MARK: mark},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=pass_fds,
            )
            start = time.monotonic()
            assert process.stdout is not None
            output = _Output(process.stdout, os.dup(log.fileno()))
    except OSError as error:
        return Done.hindered(job, "cannot be started", error, platform.node())
    watched = _Watched(process, Relatives(process.pid, mark))
    stuck = ""
    try:
        over = watched.wait(start + job.timeout, cancelled)
    finally:
        try:
            watched.relatives.end()
        except Failure as error:
            stuck = str(error)
        assert process.stdin is not None
        process.stdin.close()
        if not stuck:
            watched.reap()
        last = output.close()
    return Done(
        job,
        *_judged(job, watched.code, over, stuck, last),
        seconds=time.monotonic() - start,
        peak_mib=watched.peak(),
        worker=platform.node(),
    )


def _command(job: Job) -> list[str]:
    # Python 3.10 has no -P; the process stands in the job's folder, which holds no module, and then does the same.
    safe = ["-P"] if sys.version_info >= (3, 11) else []
    return [sys.executable, *safe, "-m", "perfmod.migrate.work", job.kind.value, str(job.folder)]


def _clear(folder: Path) -> None:
    for name in (RESULT, LOG):
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder / OUT)


class _Over(enum.Enum):
    """Why it is not waited for any longer."""

    EXITED = enum.auto()
    TIMEOUT = enum.auto()
    CANCELLED = enum.auto()


@define
class _Watched:
    """The process, until it is reaped."""

    process: subprocess.Popen[bytes]
    relatives: Relatives
    _usage: int = 0
    _seen: int = 0
    """Bytes of memory: as the system tells at the end, and as they were seen while it ran."""
    _is_reaped: bool = False

    @property
    def code(self) -> int:
        """Exit status, negative for a signal."""
        return self.process.returncode or 0

    def wait(self, deadline: float, cancelled: threading.Event) -> _Over:
        """Wait until it is over, see `_Over`."""
        next_look = 0.0
        while not self._reaped(os.WNOHANG):
            now = time.monotonic()
            if now >= deadline:
                return _Over.TIMEOUT
            self._seen = max(self._seen, _resident(self.process.pid))
            if now >= next_look:
                self.relatives.look()
                next_look = now + _LOOK
            if cancelled.wait(_POLL):
                return _Over.CANCELLED
        return _Over.EXITED

    def reap(self) -> None:
        """Take its exit status, which it has or gets at once."""
        self._reaped(0)

    def peak(self) -> float | None:
        """The most resident memory in MiB.

        A process that is started from a larger one is told to have had as much as that, up to what Linux counts late.
        """
        most = self._usage if self._usage > _own_peak() + _COUNTED_LATE else self._seen or self._usage
        return most / _MIB if most else None

    def _reaped(self, options: int) -> bool:
        if not self._is_reaped:
            pid, status, usage = os.wait4(self.process.pid, options)
            if pid:
                self._is_reaped = True
                self._usage = usage.ru_maxrss * _UNIT_OF_USAGE
                self.process.returncode = os.waitstatus_to_exitcode(status)
        return self._is_reaped


def _own_peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT_OF_USAGE


def _resident(pid: int) -> int:
    """The most resident memory of a process since it began, in bytes; 0 where nobody tells."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text("ascii", "replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def _judged(job: Job, code: int, over: _Over, stuck: str, last: str) -> tuple[Ending, str]:
    """How it ended, and why; a result that is there holds whatever the process came to after it."""
    if (job.folder / RESULT).exists():
        return Ending.FINISHED, ""
    if over is _Over.CANCELLED:
        return Ending.CRASHED, "stopped"
    if over is _Over.TIMEOUT:
        return Ending.TIMEOUT, "; ".join(filter(None, [f"took longer than {job.timeout:g} s", stuck]))
    if code == NO_ROOM:
        return Ending.DISK, last
    if code >= 0:
        how = f"exit code {code}" if code else "ended without a result"
    elif -code == signal.SIGKILL:
        how = "killed by SIGKILL, most likely because memory ran out"
    else:
        how = f"killed by {_name_of(-code)}"
    return Ending.CRASHED, f"{how}: {last}" if last else how


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class _Output:
    """Drains what a process prints into a file, in a thread; the middle of much output is left out."""

    def __init__(self, stream: IO[bytes], file: int) -> None:
        self._stream = stream
        self._file = file
        self._room = HALF_A_LOG
        self._end = bytearray()
        self._left_out = 0
        self._last = b""
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        while block := os.read(self._stream.fileno(), _BLOCK):
            self._last = (self._last + block)[-_LAST_LINE:]
            self._write(block[: self._room])
            self._end += block[self._room :]
            self._room -= min(self._room, len(block))
            self._left_out += max(len(self._end) - HALF_A_LOG, 0)
            del self._end[:-HALF_A_LOG]

    def close(self) -> str:
        """The last line that is not empty. All processes that could print are gone, but for such as nobody found."""
        self._thread.join(timeout=1.0)
        if self._left_out:
            self._write(f"\n[... {self._left_out} bytes left out ...]\n".encode())
        self._write(bytes(self._end))
        os.close(self._file)
        if not self._thread.is_alive():
            self._stream.close()
        lines = [line for line in self._last.decode("utf-8", "replace").splitlines() if line.strip()]
        return shown(lines[-1].strip())[:_REASON] if lines else ""

    def _write(self, data: bytes) -> None:
        # A log that the disk does not take is no reason to end the work, which must not wait for its output either.
        with contextlib.suppress(OSError):
            while data:
                data = data[os.write(self._file, data) :]
