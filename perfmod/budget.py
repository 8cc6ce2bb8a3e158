"""A budget of time for a piece of work, and room for its recursions: no file may hold up a run.

The work runs in a thread of its own. Its stack is large, because the facts of a file follow chains of assignments as
deep as they are long; and it can be stopped from outside, which a thread cannot do to itself.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

Result = TypeVar("Result")

_STACK: Final = 256 * 1024 * 1024
"""Bytes that are set aside, not used, for the stack of the thread."""
_DEEPEST: Final = 40_000
"""Python's frames that fit into such a stack, with a good margin; by default a thousand are allowed."""
_SHORTEST_LOOK: Final = 0.02
"""Seconds between two looks at the clock."""
_GRACE: Final = 2.0
"""Seconds in which stopped work has to end: it may be in the middle of a call that is no Python."""


class OutOfTime(Exception):
    """The work took more time than it was given."""


class _Stop(BaseException):
    """Raised in the middle of the work; nobody who handles errors there takes it for one."""


def within(seconds: float, work: Callable[[], Result]) -> Result:
    """What `work` returns; processor time of this process is counted, so that a busy machine changes nothing.

    Raises:
        OutOfTime: it was stopped after so many `seconds`.
    """
    running = _Running(work)
    end = time.process_time() + seconds
    try:
        while running.is_alive() and (left := end - time.process_time()) > 0:
            running.join(max(left, _SHORTEST_LOOK))
    finally:
        if running.is_alive():  # also where somebody presses Ctrl-C meanwhile
            running.stop()
    return running.result()


class _Running(threading.Thread, Generic[Result]):
    """Work under way."""

    def __init__(self, work: Callable[[], Result]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._returned: list[Result] = []
        self._raised: BaseException | None = None
        before = threading.stack_size(_STACK)
        try:
            self.start()
        finally:
            threading.stack_size(before)

    def run(self) -> None:
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(_DEEPEST)
        try:
            self._returned.append(self._work())
        except BaseException as error:  # noqa: BLE001, raised again where the work was asked for
            self._raised = error
        finally:
            sys.setrecursionlimit(before)

    def stop(self) -> None:
        """Raise an exception in the thread, and wait a while for its end."""
        if self.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident), ctypes.py_object(_Stop))
            self.join(_GRACE)

    def result(self) -> Result:
        if not self._returned and (self._raised is None or isinstance(self._raised, _Stop)):
            raise OutOfTime
        if self._raised is not None:
            raise self._raised
        (returned,) = self._returned
        return returned
