"""Implicit synchronisations by line of the user's code.

torch's sync debug mode warns of each operation that makes the host wait for the device. The warning comes in Python
once the operation has returned, in the thread and at the line that called it; those of a backward pass come at its
end, at the line that called it. So the stack says where, but not how long: a mark is left for torch's profiler, whose
trace knows the waits (see `chrome_trace`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch.autograd.profiler import record_function

from .chrome_trace import SYNC_MARK
from .heard_warnings import PythonWarnings
from .sync_warnings import PHRASE, PrintedWarnings

_PACKAGES = frozenset(["site-packages", "dist-packages"])


class Place(NamedTuple):
    """Where the host waited.

    Attributes:
        file: relative to the root of the user's tree; empty where no line of the user's is on the stack.
        line: from 1; 0 where unknown.
        function: the user's.
        inside: `path:line` of the library's code that the user's line called; empty where the line itself waits.
    """

    file: str = ""
    line: int = 0
    function: str = ""
    inside: str = ""


class Tree:
    """Tells the user's files from a library's."""

    def __init__(self, root: str) -> None:
        self._root = Path(root).resolve()
        # Python 3.8 keeps the script's path as it was given; a script may change its folder later.
        self._folder = Path.cwd()
        self._known: dict[str, str] = {}

    def relative(self, path: str) -> str:
        """A file of code below the root, relative to it; empty for anything else, such as an installed package."""
        if path not in self._known:
            self._known[path] = self._relative(path)
        return self._known[path]

    def _relative(self, path: str) -> str:
        try:
            relative = (self._folder / path).resolve().relative_to(self._root)
        except (OSError, ValueError):
            return ""
        # Code without a file has a name such as <string>.
        return "" if path.startswith("<") or not _PACKAGES.isdisjoint(relative.parts) else relative.as_posix()

    def place(self, frame: FrameType | None) -> Place:
        """The innermost line of the user's on the stack that ends with `frame`, and what it called."""
        inner = frame
        while frame is not None:
            file = self.relative(frame.f_code.co_filename)
            if file:
                return Place(file, frame.f_lineno, frame.f_code.co_name, "" if frame is inner else _library_line(inner))
            frame = frame.f_back
        return Place(inside=_library_line(inner))


class SyncWatch:
    """Notes the place of every synchronisation between `start` and `stop`."""

    def __init__(self, root: str) -> None:
        self.places: list[Place] = []
        self._tree = Tree(root)
        self._python = PythonWarnings(PHRASE, self._note)
        self._printed = PrintedWarnings()
        self._mode = 0

    def start(self) -> None:
        """Switch the debug mode on."""
        self._mode = torch.cuda.get_sync_debug_mode()
        self._printed.start()
        self._python.start()
        torch.cuda.set_sync_debug_mode("warn")

    def stop(self) -> None:
        """Switch it back. Synchronisations of threads without Python come last in `places`, without a place."""
        torch.cuda.set_sync_debug_mode(self._mode)
        self._python.stop()
        self.places += [Place()] * self._printed.stop()

    def _note(self, _text: str) -> None:
        # The callers are this method and the one that heard the warning; above them stands what waited.
        place = self._tree.place(sys._getframe(2))
        with record_function(SYNC_MARK + str(len(self.places))):
            self.places.append(place)


def rows(places: Sequence[Place], waited: Sequence[float]) -> list[dict[str, Any]]:
    """One row per place: `file`, `line`, `function`, `inside`, `count` and `ms` in all.

    Args:
        places: of each synchronisation.
        waited: milliseconds of each one; may be shorter, where some are unknown.
    """
    found: dict[Place, dict[str, Any]] = {}
    for number, place in enumerate(places):
        row = found.setdefault(place, {**place._asdict(), "count": 0, "ms": 0.0})
        row["count"] += 1
        row["ms"] += waited[number] if number < len(waited) else 0.0
    return list(found.values())


def _library_line(frame: FrameType | None) -> str:
    if frame is None:
        return ""
    path = frame.f_code.co_filename
    for packages in _PACKAGES:
        path = path.rpartition(packages + os.sep)[2]
    return f"{path}:{frame.f_lineno}"
