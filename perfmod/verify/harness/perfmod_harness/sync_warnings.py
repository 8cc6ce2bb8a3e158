"""Hears the warnings of torch's sync debug mode, however the script filters its warnings meanwhile."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import IO, Any

PHRASE = "called a synchronizing CUDA operation"
# Every function of `warnings` that changes the filters calls this one afterwards; Python 3.14 renamed it.
_CHANGED = "_filters_mutated_lock_held" if hasattr(warnings, "_filters_mutated_lock_held") else "_filters_mutated"


class PythonWarnings:
    """Calls `heard` for each such warning in Python, and shows none of them.

    The two functions that it replaces are the lowest ones written in Python: a script that ignores warnings, records
    them with `catch_warnings` or sends them to its log changes what lies above, and goes on doing so with the others.
    """

    def __init__(self, heard: Callable[[], None]) -> None:
        self._heard = heard
        self._filter = ("always", re.compile(PHRASE), Warning, None, 0)
        self._module: Any = warnings
        self._show = self._module._showwarnmsg
        self._changed = getattr(warnings, _CHANGED)

    def start(self) -> None:
        """Hear every warning from now on."""
        self._module._showwarnmsg = self._shown
        setattr(warnings, _CHANGED, self._keep_first)
        self._keep_first()

    def stop(self) -> None:
        """Leave warnings as the script has them."""
        self._module._showwarnmsg = self._show
        setattr(warnings, _CHANGED, self._changed)
        self._module.filters[:] = [each for each in self._module.filters if each is not self._filter]
        self._changed()

    def _shown(self, message: warnings.WarningMessage) -> None:
        if str(message.message).startswith(PHRASE):
            self._heard()
        else:
            self._show(message)

    def _keep_first(self) -> None:
        filters = self._module.filters
        if not filters or filters[0] is not self._filter:
            filters.insert(0, self._filter)
        self._changed()


class PrintedWarnings:
    """Counts those that threads without Python print to file descriptor 2.

    What else is written there meanwhile arrives when it is over.
    """

    def __init__(self) -> None:
        self._saved = -1
        self._caught: IO[bytes] | None = None

    def start(self) -> None:
        """Send the descriptor into a temporary file; nothing happens where it is closed."""
        _flush()
        try:
            self._saved = os.dup(2)
        except OSError:
            return
        self._caught = tempfile.TemporaryFile()  # noqa: SIM115 (`stop` closes it)
        os.dup2(self._caught.fileno(), 2)

    def stop(self) -> int:
        """Give the descriptor back, pass the rest of the text on, and say how many warnings there were."""
        if self._caught is None:
            return 0
        _flush()
        os.dup2(self._saved, 2)
        os.close(self._saved)
        with self._caught as caught:
            caught.seek(0)
            lines = caught.readlines()
        self._caught = None
        others = [line for line in lines if PHRASE.encode() not in line]
        with open(2, "wb", closefd=False) as stderr:
            stderr.writelines(others)
        return len(lines) - len(others)


def _flush() -> None:
    # A script may have closed or replaced it, or set it to None.
    flush = getattr(sys.stderr, "flush", None)
    if flush is not None and not getattr(sys.stderr, "closed", False):
        flush()
