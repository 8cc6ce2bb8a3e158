"""The processes that descend from a piece of work: with psutil all of them, without it those of its process group."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from perfmod.verify.job import RUN_VARIABLE

try:
    from perfmod.verify.family import Family
except ModuleNotFoundError:  # psutil comes with perfmod[verify]
    HAS_FAMILIES = False
else:
    HAS_FAMILIES = True

MARK = RUN_VARIABLE
"""The environment variable by which processes are known that cut every other tie."""
_PATIENCE = 5.0
_POLL = 0.02


class Relatives:
    """Those of the process `top`, which leads a session of its own and whose environment has `mark` as `MARK`."""

    def __init__(self, top: int, mark: str) -> None:
        self._top = top
        self._family = Family(top, mark) if HAS_FAMILIES else None

    def look(self) -> None:
        """Note who has come since the last look, so that he is known when his parents are gone."""
        if self._family is not None:
            self._family.look()

    def end(self) -> None:
        """End them all, those first that listen to SIGTERM. Raises `Failure` where one cannot be ended."""
        if self._family is not None:
            self._family.end()
        else:
            self._kill_group()

    def kill(self) -> None:
        """Kill all but the process that calls this, as far as that can be done in some seconds."""
        deadline = time.monotonic() + _PATIENCE
        while (others := self._others()) and time.monotonic() < deadline:
            for pid in others:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_POLL)

    def _others(self) -> list[int]:
        if self._family is None:
            return []
        return [process.pid for process in self._family.look(thorough=True) if process.pid != os.getpid()]

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._top, signal.SIGKILL)
