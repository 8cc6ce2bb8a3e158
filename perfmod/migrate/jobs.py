"""A piece of work as an engine sees it: a folder that goes in, and the same folder with the result when it comes out.

Before it runs, the folder holds `request.json` and whatever files the request speaks of; then `python -m
perfmod.migrate.work KIND FOLDER` runs in a process of its own, here or on another machine. It leaves `result.json`, and
files in `out/`; what it printed is in `log.txt`.
"""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Protocol

from attrs import frozen

from perfmod.errors import Failure, explain, is_full

REQUEST, RESULT, OUT, LOG = "request.json", "result.json", "out", "log.txt"
NO_ROOM = 73
"""Exit status of a piece of work whose result does not fit on the disk; what the BSDs call EX_CANTCREAT."""
SNAPSHOT = "snapshot.tar"
"""The files of the project, in the folder of a job that does not read them from the repository itself."""


class Kind(str, enum.Enum):
    """What is done."""

    CLONE = "clone"
    ANALYSIS = "analysis"
    VERIFICATION = "verification"
    BRANCHES = "branches"


class Ending(str, enum.Enum):
    """Why a job is over."""

    FINISHED = "finished"
    """There is a result."""
    CRASHED = "crashed"
    """It ended without one."""
    TIMEOUT = "timeout"
    """It took too long and was killed, with all that it had started."""
    LOST = "worker lost"
    """The worker that ran it went away, more often than is tried again."""
    DISK = "disk full"
    """There was no room for its result."""


@frozen
class Job:
    """One piece of work.

    Attributes:
        name: unique in a campaign, such as `analysis owner/project`.
        timeout: seconds until it is killed.
        gpus: how many GPUs it has to itself, with processor cores of their own; 0 for work that needs none.
        is_local: whether it has to run on this machine, because it works on repositories that lie here.
    """

    name: str
    kind: Kind
    folder: Path
    timeout: float
    gpus: int = 0
    is_local: bool = False


@frozen
class Done:
    """A job that is over; its folder holds what came back.

    Attributes:
        reason: in one line, where it is not finished: exit code or signal, with the last line that it printed.
        seconds: that it ran. peak_mib: the most resident memory of its process; None where unknown.
        worker: the machine, or the worker of a cluster, that ran it.
    """

    job: Job
    ending: Ending
    reason: str = ""
    seconds: float = 0.0
    peak_mib: float | None = None
    worker: str = ""

    @classmethod
    def hindered(cls, job: Job, what: str, error: Failure | OSError, worker: str = "") -> Done:
        """One to which an error happened on the way: `what` says which way."""
        if not isinstance(error, OSError):
            return cls(job, Ending.CRASHED, f"{what}: {error}", worker=worker)
        return cls(job, Ending.DISK if is_full(error) else Ending.CRASHED, f"{what}: {explain(error)}", worker=worker)


class Engine(Protocol):
    """Runs jobs, several at a time."""

    @property
    def room(self) -> int:
        """How many more jobs without GPUs it can take before some would only wait."""

    def submit(self, job: Job) -> None:
        """Take a job; jobs with GPUs wait for free ones without holding up the others. Raises `Failure`."""

    def next(self, timeout: float) -> Done | None:
        """The next job that is over, waiting for at most so many seconds; None where there is none by then.

        Raises `Failure` where no job can ever end: a scheduler without workers, say.
        """

    def close(self) -> None:
        """End what still runs, with everything that it started."""
