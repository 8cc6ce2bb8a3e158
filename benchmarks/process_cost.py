"""What a command takes: time, processor time and memory, its children included."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import frozen

PERFMOD = (sys.executable, "-I", "-m", "perfmod")
"""The program of this Python; no module of the folder that it runs in takes the place of another."""

_LONGEST_END = 500


@frozen
class Cost:
    """One run of a command.

    Attributes:
        seconds: wall time.
        processor_seconds: of the process and of all children that it waited for.
        peak_mib: resident memory of the largest process; on Linux at least that of this process, which counts in a
            child until the child has become another program.
        code: the exit code, negative for a signal.
        stopped: whether it was killed at its limit; what its children had used by then is not in the processor time.
        output: what it wrote to standard output.
        errors: the end of what it wrote to standard error.
    """

    seconds: float
    processor_seconds: float
    peak_mib: int
    code: int
    stopped: bool
    output: bytes
    errors: str


def cost(command: Sequence[str | Path], folder: Path, limit: float, **environment: str) -> Cost:
    """Run a command in `folder`, for `limit` seconds at most, with `environment` beside this process's own."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        stopped = threading.Event()
        begin = time.perf_counter()
        process = subprocess.Popen(
            list(map(str, command)),
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )

        def kill() -> None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

        def stop() -> None:
            stopped.set()
            kill()

        timer = threading.Timer(limit, stop)
        timer.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:  # Ctrl-C reaches this process alone
            kill()
            raise
        finally:
            timer.cancel()
        seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)  # so that subprocess does not wait for it again
        output.seek(0)
        errors.seek(max(0, errors.seek(0, os.SEEK_END) - _LONGEST_END))
        return Cost(
            seconds=round(seconds, 3),
            processor_seconds=round(usage.ru_utime + usage.ru_stime, 3),
            peak_mib=usage.ru_maxrss // (2**20 if sys.platform == "darwin" else 2**10),
            code=process.returncode,
            stopped=stopped.is_set(),
            output=output.read(),
            errors=errors.read().decode(errors="replace").strip(),
        )


def machine() -> Mapping[str, object]:
    """What results of this machine are labelled with."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def _cpu() -> str:
    """The processor's name as Linux knows it, elsewhere its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())
