"""What `apply` and `check` do alike: examine the given paths, or standard input."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perfmod.config import Options
from perfmod.errors import UsageMistake
from perfmod.examine import examine, examine_bytes
from perfmod.examined import Examined, in_order
from perfmod.files import STDIN
from perfmod.report.output import progress_bar

if TYPE_CHECKING:
    from rich.console import Console

Told = Callable[[Sequence[Examined]], None]
"""What is done with files as soon as they are examined."""
Settle = Callable[[Sequence[Examined]], list[Examined]]
"""What files that belong together come to, once decisions about their findings are heeded."""


def examined(
    paths: list[str],
    options: Options,
    jobs: int | None = None,
    *,
    use_cache: bool = True,
    isolated: bool = False,
    settle: Settle = list,
    told: Told | None = None,
    beside: Console | None = None,
) -> list[Examined]:
    """Results of all files, settled, each handed to `told` as soon as it is there.

    Where `told` prints to a terminal, `beside` is its console, which then also shows how far it is.

    Raises:
        UsageMistake: a wrong path, rule or configuration.
    """
    cwd = Path.cwd()
    if STDIN in paths:
        if len(paths) > 1:
            raise UsageMistake("- stands for standard input and cannot be combined with other paths")
        results = settle([examine_bytes(sys.stdin.buffer.read(), options, cwd=cwd)])
        if told is not None:
            told(results)
        return results
    settled: dict[Path, Examined] = {}
    with progress_bar("Reading", beside) as show:

        def progress(done: int, total: int, new: Sequence[Examined]) -> None:
            ready = settle(new)
            settled.update((each.file.real, each) for each in ready)
            if told is not None:
                told(ready)
            show(done, total)

        found = examine(
            paths,
            options,
            cwd=cwd,
            isolated=isolated,
            jobs=jobs,
            use_cache=use_cache,
            progress=progress,
        )
        old = [settled.get(each.file.real, each) for each in found if not each.result.is_new]
        # Decisions take new files away, or bring them.
        return in_order([*old, *(each for each in settled.values() if each.result.is_new)])
