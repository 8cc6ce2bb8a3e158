"""A budget of time for a piece of work, and room for its recursions: no file may hold up a run.

The work runs in a thread of its own. Its stack is large, because the facts of a file follow chains of assignments as
deep as they are long; and it can be stopped from outside, which a thread cannot do to itself.
"""

from __future__ import annotations

import contextlib
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
_LONGEST_LOOK: Final = 1.0
"""Likewise: a limit may be longer than a thread can wait, and Ctrl-C may wake another thread than this."""
_GRACE: Final = 2.0
"""Seconds in which stopped work has to end: it may be in the middle of a call that is no Python."""
_TRIES: Final = 10
"""How often it is stopped in that time: an exception in the middle of a destructor is lost."""


class OutOfTime(Exception):
    """The work took more time than it was given."""


class _Stop(BaseException):
    """Raised in the middle of the work; nobody who handles errors there takes it for one."""


def within(seconds: float, work: Callable[[], Result]) -> Result:
    """What `work` returns; processor time of this process is counted, so that a busy machine changes nothing.

    Raises:
        OutOfTime: it was stopped after so many `seconds`.
    """
    end = time.process_time() + seconds
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _DEEPEST))
    try:
        running = _Running(work)
        try:
            while not running.ended.is_set() and (left := end - time.process_time()) > 0:
                running.ended.wait(min(max(left, _SHORTEST_LOOK), _LONGEST_LOOK))
        finally:
            running.stop()  # also where somebody presses Ctrl-C meanwhile
    finally:
        sys.setrecursionlimit(before)
    return running.result()


class _Running(threading.Thread, Generic[Result]):
    """Work under way.

    Attributes:
        ended: set when it is over; a thread whose `join` was interrupted takes itself for stopped.
    """

    def __init__(self, work: Callable[[], Result]) -> None:
        super().__init__(daemon=True)
        self.ended = threading.Event()
        self._work = work
        self._returned: list[Result] = []
        self._raised: BaseException | None = None
        before = threading.stack_size(_STACK)
        try:
            self.start()
        finally:
            threading.stack_size(before)

    def run(self) -> None:
        with contextlib.suppress(_Stop):  # it may also come when the work has just ended
            try:
                self._returned.append(self._work())
            except _Stop:
                raise
            except BaseException as error:  # noqa: BLE001, raised again where the work was asked for
                self._raised = error
            finally:
                self.ended.set()

    def stop(self) -> None:
        """Raise an exception in the thread until it ends, or so much time has passed that it will not."""
        assert self.ident is not None
        for _ in range(_TRIES):
            if self.ended.is_set():
                self.join()
                break
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident), ctypes.py_object(_Stop))
            self.ended.wait(_GRACE / _TRIES)

    def result(self) -> Result:
        if not self._returned and self._raised is None:
            raise OutOfTime
        if self._raised is not None:
            raise self._raised
        (returned,) = self._returned
        return returned
