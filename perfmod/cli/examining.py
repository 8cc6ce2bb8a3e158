"""What `apply` and `check` do alike: examine the given paths, or standard input."""

from __future__ import annotations

import sys
from pathlib import Path

from perfmod.config import Options
from perfmod.errors import UsageMistake
from perfmod.examine import Examined, examine, examine_bytes
from perfmod.files import STDIN
from perfmod.report.output import progress_bar


def examined(
    paths: list[str], options: Options, jobs: int | None = None, *, use_cache: bool = True, isolated: bool = False
) -> list[Examined]:
    """Results of all files. Raises `UsageMistake` for a wrong path, rule or configuration."""
    cwd = Path.cwd()
    if STDIN in paths:
        if len(paths) > 1:
            raise UsageMistake("- stands for standard input and cannot be combined with other paths")
        return [examine_bytes(sys.stdin.buffer.read(), options, cwd=cwd)]
    with progress_bar("Reading") as progress:
        return examine(paths, options, cwd=cwd, isolated=isolated, jobs=jobs, use_cache=use_cache, progress=progress)
