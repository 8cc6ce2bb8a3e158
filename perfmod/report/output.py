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
_DIFF_STYLES = {"diff ": "bold", "--- ": "bold", "+++ ": "bold", "@@": "cyan", "+": "green", "-": "red"}
"""By how the lines of a diff begin; the first that fits counts."""


def write_result(data: bytes) -> None:
    """Put bytes on stdout as they are."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def write_diff(data: bytes) -> None:
    """Put a diff on stdout as it is; on a terminal with colours."""
    out = console(stderr=False)
    if not out.is_terminal:
        write_result(data)
        return
    from rich.text import Text

    for line in data.decode("utf-8", "replace").removesuffix("\n").split("\n"):
        style = next((style for start, style in _DIFF_STYLES.items() if line.startswith(start)), "")
        out.print(Text(line, style), soft_wrap=True, highlight=False)


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
def status(label: str, *, verbose: bool = False) -> Iterator[Callable[[str], None]]:
    """A function to tell what is done next; a terminal shows it, with the time that has passed.

    Elsewhere, as in the log of a job, it is a line with the seconds that have passed if `verbose`, and nothing if not.
    """
    if not sys.stderr.isatty():
        began = time.monotonic()

        def line(what: str) -> None:
            if verbose:
                print(f"{label}, {time.monotonic() - began:.0f} s: {what}", file=sys.stderr, flush=True)

        yield line
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as shown:
        task = shown.add_task(label)
        yield lambda what: shown.update(task, description=f"{label}: {what}")


@contextmanager
def progress_bar(label: str, beside: Console | None = None) -> Iterator[Callable[[int, int], None]]:
    """A function to tell the numbers of done and all; on a terminal it shows a bar once that takes long.

    `beside` is the console on which other things are printed meanwhile, so that the bar stays below them.
    """
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    shared = beside if beside is not None and beside.is_terminal else console(stderr=True)
    bar = Progress(*columns, console=shared, transient=True)
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
