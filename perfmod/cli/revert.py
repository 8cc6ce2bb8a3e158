"""`perfmod revert`: take the last apply back."""

from __future__ import annotations

from pathlib import Path


def revert() -> int:
    """Undo the last apply in this repository.

    Files edited since then are left alone and named with the reason; the exit code is then 3.
    """
    from perfmod import journal
    from perfmod.errors import ExitCode
    from perfmod.report import text
    from perfmod.report.output import console
    from perfmod.roots import project_root

    cwd = Path.cwd()
    reverted = journal.revert(project_root(cwd))
    text.render_reverted(reverted, cwd, console(stderr=True))
    return ExitCode.FAILED if reverted.refused else ExitCode.OK
