"""Where the result of a run goes: standard output, or a file that is written as a whole at the end."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

from perfmod.errors import Failure, UsageMistake, explain
from perfmod.report.output import console, write_diff, write_file, write_result
from perfmod.roots import shown
from perfmod.writing import permissions, write_new

if TYPE_CHECKING:
    from rich.console import Console


class Destination:
    """Standard output, or a file, of which at any moment the old or the new one is there.

    Attributes:
        console: prints there; into a file without colours.
    """

    console: Console

    def __init__(self, path: Path | None) -> None:
        """Standard output if there is no path. Raises `UsageMistake` where the file cannot be written."""
        self._path = path
        self._collected = io.BytesIO()
        if path is None:
            self.console = console(stderr=False)
            return
        from rich.console import Console

        _require_writable(path)
        text = io.TextIOWrapper(self._collected, "utf-8", "backslashreplace", newline="", write_through=True)
        self.console = Console(file=text, force_terminal=False, color_system=None)

    def write(self, data: bytes) -> None:
        """Put bytes there as they are."""
        if self._path is None:
            write_result(data)
        else:
            self._collected.write(data)

    def write_diff(self, data: bytes) -> None:
        """Put a diff there as it is; on a terminal with colours."""
        if self._path is None:
            write_diff(data)
        else:
            self._collected.write(data)

    def finish(self) -> None:
        """Write the file. Raises `Failure`, and leaves the old one then."""
        if self._path is None:
            return
        data = self._collected.getvalue()
        if _is_special(self._path):
            write_file(self._path, data)
            return
        try:
            write_new(self._path.resolve(), data, mode=permissions(self._path))
        except OSError as error:
            raise Failure(f"{shown(self._path)}: cannot be written: {explain(error)}") from error


def _require_writable(path: Path) -> None:
    """Raise `UsageMistake` where nothing can be written, as far as that can be told before anything is done."""
    folder = path.resolve().parent
    if path.is_dir():
        reason = "is a folder"
    elif not folder.is_dir():
        reason = f"there is no folder {shown(path.parent)}"
    elif not os.access(path if _is_special(path) else folder, os.W_OK):
        reason = "permission denied"
    else:
        return
    raise UsageMistake(f"--output-file {shown(path)}: {reason}")


def _is_special(path: Path) -> bool:
    """Whether it is a pipe or a device, which cannot be replaced."""
    return path.exists() and not path.is_file()
