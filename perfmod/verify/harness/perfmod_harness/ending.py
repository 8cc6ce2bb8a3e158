"""Notices how a process ends: by itself, by an error, at once, or as a child of multiprocessing."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import sys
from multiprocessing import util
from typing import TYPE_CHECKING, Any, Callable, NoReturn

if TYPE_CHECKING:
    from types import TracebackType


class Ending:
    """Calls `at_end` with the exception that nobody caught, or None, whenever the process comes to an end.

    It may be called more than once: those who end a process hard may be stopped by others.
    """

    def __init__(self, at_end: Callable[[BaseException | None], None]) -> None:
        self._at_end = at_end
        self._error: BaseException | None = None
        self._former_hook: Callable[..., Any] | None = None

    def begin(self) -> None:
        """Take notice from now."""
        self._wrap_excepthook()
        self._wrap_hard_exit()
        atexit.register(self._exits)

    def renew(self) -> None:
        """Take notice again, where the script's own hooks may have come between.

        multiprocessing forgets what was to be done at the end when it begins with a child's work, and ends children
        without the interpreter's ado.
        """
        if sys.excepthook != self._excepted:
            self._wrap_excepthook()
        if multiprocessing.parent_process() is not None:
            util.Finalize(None, self._child_exits, exitpriority=100)

    def _wrap_excepthook(self) -> None:
        self._former_hook = sys.excepthook
        sys.excepthook = self._excepted

    def _wrap_hard_exit(self) -> None:
        leave = os._exit

        def exit_at_once(status: int) -> NoReturn:
            self._exits()
            leave(status)

        os._exit = exit_at_once

    def _excepted(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        self._error = error
        if self._former_hook is not None:
            self._former_hook(kind, error, trace)

    def _exits(self) -> None:
        self._at_end(self._error)

    def _child_exits(self) -> None:
        # Called while the exception that ended the child's work is still being handled. torch.multiprocessing turns
        # an error into an exit with a status, to which the error is the context.
        error = sys.exc_info()[1]
        if isinstance(error, SystemExit):
            error = error.__context__ if error.code else None
        self._at_end(error)
