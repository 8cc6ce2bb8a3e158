"""Ctrl-C, SIGTERM and time that is up: nothing is left behind, however and however often a verification is ended."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGHUP)
_HELD = (signal.SIGINT, signal.SIGALRM, *_ENDING)

_AT_ONCE = 1e-3
"""Seconds; none at all would never ring."""


class TimeIsUp(KeyboardInterrupt):
    """The clock has pressed Ctrl-C."""


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `TimeIsUp` if the block takes longer. Only the main thread may enter."""

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise TimeIsUp

    previous = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, _AT_ONCE))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, previous)


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the stack like Ctrl-C does, as `SystemExit` with 128 + signal.

    Python would die on the spot instead, and leave processes and scratch folders behind. Only the main thread may
    enter.
    """

    def unwind(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    previous = [(number, signal.signal(number, unwind)) for number in _ENDING]
    try:
        yield
    finally:
        for number, handler in previous:
            signal.signal(number, handler)


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """What ends a verification waits until the block, which cleans up, is done.

    Python runs handlers in the main thread alone, so that in another one there is nothing to hold back.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[int] = []
    previous = [(number, signal.signal(number, lambda number, _: caught.append(number))) for number in _HELD]
    try:
        yield
    finally:
        for number, handler in previous:
            signal.signal(number, handler)
        # Who is on the way out already stays on it.
        if caught and not isinstance(sys.exc_info()[1], KeyboardInterrupt | SystemExit):
            signal.raise_signal(caught[0])
