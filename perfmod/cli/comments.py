"""`check --add-ignore` and `check --remove-unused-ignores`: the comments in files, before they are checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perfmod import applying
from perfmod.codemods.results import Outcome
from perfmod.errors import ExitCode, UsageMistake
from perfmod.examined import Examined
from perfmod.files import STDIN
from perfmod.report.text import render_notes
from perfmod.report.wording import counted

if TYPE_CHECKING:
    from rich.console import Console

Edit = Callable[[Sequence[Examined]], Sequence[Examined]]
"""Makes of examined files those of them whose comments change."""


def wanted(paths: Sequence[str], *, add: bool, reason: str | None, remove: bool, is_all: bool) -> Edit | None:
    """What the command line asks for; `is_all` is whether all findings are reported, not only new ones.

    Raises:
        UsageMistake: the options do not go together.
    """
    if reason is not None and not add:
        raise UsageMistake("--reason stands behind the comments that --add-ignore writes: add it")
    if reason is not None and not (reason.strip() and reason.isprintable()):
        raise UsageMistake("--reason has to be one line of text")
    if not (add or remove):
        return None
    if STDIN in paths:
        raise UsageMistake("comments are written into files: name one instead of -")
    if add and remove:
        raise UsageMistake("--add-ignore and --remove-unused-ignores are two steps: run one after the other")
    if add and not is_all:
        raise UsageMistake("--add-ignore silences all findings: leave out the baseline, --new-only and --since")
    from perfmod import commenting

    if remove:
        return commenting.without_unused_ignores
    return lambda examined: commenting.with_ignores(examined, (reason or "").strip())


def write(edit: Edit, examined: Sequence[Examined], console: Console) -> ExitCode:
    """Change the comments of files, and tell how many; whether a file could not be changed.

    Raises:
        Failure: the journal cannot be written; nothing was changed.
    """
    done = applying.write(edit(examined), Path.cwd())
    failed = [each.result for each in done if each.result.outcome is Outcome.FAILED]
    written = len(done) - len(failed)
    notes = [f"{result.path}: failed: {result.reason}" for result in failed]
    if written:
        notes.append(f"comments changed in {counted(written, 'file')}; `perfmod revert` takes them back")
    render_notes(notes, console)
    return ExitCode.FAILED if failed else ExitCode.OK
