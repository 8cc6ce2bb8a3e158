"""Files that are open in the editor, and what was found in them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from attrs import define, field, frozen
from lsprotocol.types import Range
from pygls.uris import to_fs_path

from perfmod.lsp.analysis import Told
from perfmod.lsp.lines import Lines
from perfmod.report.rows import State


@frozen
class Analysed:
    """What was found in one version of a file, with the places for the editor."""

    version: int
    lines: Lines
    told: tuple[tuple[Range, Told], ...]

    @property
    def has_rewrites(self) -> bool:
        """Whether `apply` would write something because of it."""
        return any(told.row.state is State.REWRITTEN for _, told in self.told)


@define(eq=False)
class Document:
    """An open file.

    Attributes:
        uri: as the editor calls it.
        path: where it lies, links followed.
        found: None before it was analysed for the first time.
        pending: counts down to an analysis.
        running: the analysis.
    """

    uri: str
    path: Path
    version: int
    text: str
    found: Analysed | None = None
    pending: asyncio.TimerHandle | None = None
    running: asyncio.Task[None] | None = field(default=None)

    def stop(self) -> None:
        """Stop its analysis, be it pending or running."""
        if self.pending is not None:
            self.pending.cancel()
            self.pending = None
        if self.running is not None:
            self.running.cancel()
            self.running = None


def path_of(uri: str) -> Path | None:
    """The Python file behind an address, links followed; None for anything else, and for what was never saved."""
    path = to_fs_path(uri)
    if path is None or not path.endswith(".py"):
        return None
    real = Path(os.path.realpath(path))
    return real if real.is_file() else None
