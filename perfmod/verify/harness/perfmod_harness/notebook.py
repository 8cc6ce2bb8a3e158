"""What a notebook's exported code talks to: the export writes `%magics` as calls of a shell that Python alone lacks."""

from __future__ import annotations

import builtins
import sys
from pathlib import Path

_AROUND_CODE = frozenset({"capture", "time"})
"""Magics whose code is part of the notebook. What `timeit` measures leaves nothing behind; others are for display."""


def begin() -> None:
    """Offer `get_ipython` to the script of this process, if it asks for one; libraries look for it, too.

    In a notebook's cells the name is built in. A script that imports it from IPython gets what IPython has.
    """
    try:
        text = Path(sys.argv[0]).read_text(encoding="utf-8", errors="replace")
    except (OSError, IndexError):
        return
    if "get_ipython()" in text:
        shell = _Shell()
        builtins.get_ipython = lambda: shell  # type: ignore[attr-defined]


class _Shell:
    """Runs the notebook's own code, and neither shows figures nor starts commands (`!pip install`)."""

    def run_line_magic(self, name: str, line: str) -> None:
        """`%name line`."""
        self.run_cell_magic(name, "", line)

    def run_cell_magic(self, name: str, line: str, cell: str) -> None:
        """`%%name line`, with the cell's code below it."""
        if name in _AROUND_CODE:
            exec(compile(cell, f"<%{name}>", "exec"), vars(sys.modules["__main__"]))

    def magic(self, line: str) -> None:
        """`%line`, as older exports write it."""
        name, _, rest = line.partition(" ")
        self.run_line_magic(name, rest)

    def system(self, command: str) -> None:
        """`!command`."""

    def getoutput(self, command: str) -> list[str]:
        """`lines = !command`."""
        return []
