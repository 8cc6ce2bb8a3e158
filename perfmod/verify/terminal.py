"""The terminal that a script finds at its standard input, at which nobody sits."""

from __future__ import annotations

import contextlib
import os
import struct
import subprocess
from collections.abc import Iterator

try:
    import fcntl
    import termios
except ImportError:  # not POSIX
    HAS_TERMINALS = False
else:
    HAS_TERMINALS = True

LINES, COLUMNS = 24, 80


@contextlib.contextmanager
def nobodys() -> Iterator[int]:
    """A standard input for `Popen`: a pseudo-terminal of 80 columns whose input is at its end; else empty.

    It has to stay open as long as the script runs. It is nobody's controlling terminal: no signal comes from it.
    """
    with contextlib.ExitStack() as stack:
        ends = _pair()
        for end in ends:
            stack.callback(os.close, end)
        yield _at_its_end(ends[1]) if ends else subprocess.DEVNULL


def _pair() -> tuple[int, ...]:
    """Both ends of a pseudo-terminal; none where there are no more of them."""
    try:
        return os.openpty() if HAS_TERMINALS else ()
    except OSError:
        return ()


def _at_its_end(terminal: int) -> int:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    settings = termios.tcgetattr(terminal)
    settings[3] &= ~(termios.ICANON | termios.ECHO)
    # Do not wait for a first character, nor any time: whoever reads finds the end, as often as he reads.
    settings[6][termios.VMIN] = settings[6][termios.VTIME] = 0
    termios.tcsetattr(terminal, termios.TCSANOW, settings)
    return terminal
