"""The processes of a run: its top process, all that descend from it, and those that slipped away from it.

A process is one of the family if its parent is, if it is in a session that one of the family leads, or if it carries
the mark of the run in its environment, which survives daemons that cut every other tie. What is passed over: a process
that wiped its environment, left the session and lost its parent, all of it before anybody looked.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable

import psutil

from perfmod.errors import Failure
from perfmod.verify.job import RUN_VARIABLE

GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL."""
_PATIENCE = 10.0
"""Seconds that a killed process may take to go: one in the middle of device or disk work takes some."""
_POLL = 0.02
_MIB = 2**20


class Family:
    """The processes of the run `run`, whose first is `top`, the leader of a session of its own; None where unknown."""

    def __init__(self, top: int | None, run: str) -> None:
        self._mark = run
        self._sessions: set[int] = set()
        self._strangers: set[int] = set()
        self._known: dict[int, psutil.Process] = {}
        if top is not None:
            self._sessions.add(top)
            with contextlib.suppress(psutil.Error):
                self._known[top] = psutil.Process(top)

    def look(self, *, thorough: bool = False) -> list[psutil.Process]:
        """The processes that are alive.

        Args:
            thorough: ask all processes of the machine once more, and for their marks, too. Otherwise only those that
                have come since the last look, which takes a millisecond.
        """
        self._known = {pid: process for pid, process in self._known.items() if alive(process)}
        present = set(psutil.pids())
        self._strangers = set() if thorough else self._strangers & present
        new = present - self._strangers - self._known.keys() - {os.getpid()}
        parents = _parents(new)
        for pid in parents:
            if self._belongs(pid, thorough=thorough):
                self._take(pid)
        while [pid for pid, parent in parents.items() if parent in self._known and self._take(pid)]:
            pass
        self._strangers |= new - self._known.keys()
        return list(self._known.values())

    def resident_mib(self) -> float:
        """Resident memory of all processes that the last look found; pages that they share count for each of them."""
        total = 0
        for process in self._known.values():
            with contextlib.suppress(psutil.Error):
                total += process.memory_info().rss
        return total / _MIB

    def signal(self, number: int) -> None:
        """Send a signal to all processes that the last look found."""
        for process in self._known.values():
            # psutil compares the time of creation: a stranger that got the number of a dead process is safe.
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)

    def end(self) -> None:
        """End all of it: SIGTERM, a short grace, then SIGKILL as often as anything is left.

        Raises:
            Failure: a process does not go even then.
        """
        if self.look(thorough=True):
            self.signal(signal.SIGTERM)
            self._wait(GRACE)
        deadline = time.monotonic() + _PATIENCE
        while left := self.look(thorough=True):
            if time.monotonic() > deadline:
                pids = ", ".join(str(process.pid) for process in left)
                raise Failure(f"process {pids} of the script cannot be stopped; stop it by hand")
            self.signal(signal.SIGKILL)
            self._wait(_PATIENCE / 20)

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        # Not psutil's wait: it would take the exit status away from the one who started the top process.
        while time.monotonic() < deadline and any(alive(process) for process in self._known.values()):
            time.sleep(_POLL)

    def _belongs(self, pid: int, *, thorough: bool) -> bool:
        with contextlib.suppress(OSError, psutil.Error):
            session = os.getsid(pid)
            # The number of a session is not used again while it has members, except by a new leader.
            if session in self._sessions and session != pid:
                return True
            return thorough and psutil.Process(pid).environ().get(RUN_VARIABLE) == self._mark
        return False

    def _take(self, pid: int) -> bool:
        """Note a process; returns whether it is a new one that is alive."""
        if pid in self._known:
            return False
        with contextlib.suppress(OSError, psutil.Error):
            process = psutil.Process(pid)
            if alive(process):
                self._known[pid] = process
                if os.getsid(pid) == pid:
                    self._sessions.add(pid)
                return True
        return False


def alive(process: psutil.Process) -> bool:
    """Whether it is there, and not a zombie."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _parents(pids: Iterable[int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            found[pid] = psutil.Process(pid).ppid()
    return found
