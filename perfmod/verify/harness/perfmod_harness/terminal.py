"""Standard output is collected, and yet to the script it is like the terminal at its standard input."""

from __future__ import annotations

import errno
import io
import os
import sys

_COLLECTED = (1, 2)
_SIZE = os.terminal_size((80, 24))


def begin() -> None:
    """Standard output has a size, and what is printed comes line by line, before what is then printed as an error."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    if hasattr(os, "openpty"):
        _answer_size()


def _answer_size() -> None:
    ask = os.get_terminal_size

    def get_terminal_size(fd: int = 1, /) -> os.terminal_size:
        try:
            return ask(fd)
        except OSError as error:
            if fd in _COLLECTED and error.errno == errno.ENOTTY:
                return _SIZE
            raise

    os.get_terminal_size = get_terminal_size
