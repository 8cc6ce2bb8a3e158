"""The warnings of torch's sync debug mode that are printed by threads without Python."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import IO

PHRASE = "called a synchronizing CUDA operation"


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
