"""The two streams: stdout is the result, stderr the talk."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from perfmod.errors import Failure, explain
from perfmod.roots import shown

if TYPE_CHECKING:
    from rich.console import Console

_PATIENCE = 1.0
"""Seconds before a progress bar appears."""


def write_result(data: bytes) -> None:
    """Put bytes on stdout as they are."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def write_file(path: Path, data: bytes) -> None:
    """Write a result to a file, which may be a pipe or a device. Raises `Failure`."""
    try:
        path.write_bytes(data)
    except OSError as error:
        raise Failure(f"{shown(path)}: cannot be written: {explain(error)}") from error


def console(*, stderr: bool) -> Console:
    """A stream with colours where it is a terminal and `NO_COLOR` is not set."""
    from rich.console import Console

    return Console(stderr=stderr)


@contextmanager
def status(label: str) -> Iterator[Callable[[str], None]]:
    """A function to tell what is done next; a terminal shows it, with the time that has passed."""
    if not sys.stderr.isatty():
        yield lambda _what: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as shown:
        task = shown.add_task(label)
        yield lambda what: shown.update(task, description=f"{label}: {what}")


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """A function to tell the numbers of done and all; on a terminal it shows a bar once that takes long."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console(stderr=True), transient=True)
    task = bar.add_task(label)
    began = time.monotonic()

    def show(done: int, total: int) -> None:
        if time.monotonic() - began > _PATIENCE:
            bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield show
    finally:
        bar.stop()
