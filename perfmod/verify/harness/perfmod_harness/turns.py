"""Runs that are warm at the same time are timed one at a time: each waits until it is told to go on."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .job import Job

_POLL = 0.05


class Turns:
    """Those of one run, among others that share a folder.

    A file says that the run is ready for its next turn, which is also the end of the one before, another one lets it go
    on, and a third one lets it open the window. A file `free` lets everybody go on for good, and so does the end of the
    process that started this one.
    """

    def __init__(self, job: Job) -> None:
        self._folder = Path(job.turns)
        self._place = job.place
        self._count = job.turn_count
        self._parent = os.getppid()
        self._next = 0

    def take(self) -> bool:
        """Wait for the next turn, or for all others where there is none left. Returns whether there is one."""
        number = self._next
        self._next += 1
        self._say_ready(number)
        self._wait(f"{self._place}-{number}.go")
        return number < self._count

    def may_open(self) -> bool:
        """Whether the machine is this run's alone by now, so that it may measure."""
        number = self._next - 1
        return not self._folder.exists() or any(
            path.exists() for path in (self._folder / f"{self._place}-{number}.open", self._folder / "free")
        )

    def leave(self) -> None:
        """Give up what is left, and wait for all others: to end takes processor and device time."""
        for number in range(self._next, self._count + 1):
            self._say_ready(number)
        self._next = self._count + 1
        self._wait("free")

    def _say_ready(self, number: int) -> None:
        if self._folder.exists():
            (self._folder / f"{self._place}-{number}.ready").touch()

    def _wait(self, name: str) -> None:
        awaited = self._folder / name, self._folder / "free"
        while self._folder.exists() and os.getppid() == self._parent and not any(path.exists() for path in awaited):
            time.sleep(_POLL)
