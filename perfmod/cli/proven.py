"""`apply --verify`: of what was found, keep what is proven equal and faster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perfmod.cli.verifying import needs_extra
from perfmod.codemods.results import Outcome
from perfmod.errors import ExitCode
from perfmod.examined import Examined
from perfmod.report.output import console, status

if TYPE_CHECKING:
    from perfmod.verify.request import Request


def proven(request: Request, examined: Sequence[Examined], report: Path | None) -> tuple[list[Examined], ExitCode]:
    """The results with the proven rewrites alone, and how the run ends; tells what was withdrawn, and why.

    It is no failure that a rewrite does not pay, or that others were kept.
    """
    with needs_extra():
        from perfmod.verify import verification
        from perfmod.verify.report import files, text
        from perfmod.verify.stacks import Rewriting

    with status("Verifying") as progress:
        evidence, proven = verification.keep_proven(request, Rewriting.of(examined), progress)
    if report is not None:
        files.write(evidence, report)
    text.render(evidence, console(stderr=True), report)
    kept = any(each.result.outcome is Outcome.CHANGED for each in proven)
    return proven, ExitCode.OK if kept else verification.exit_code(evidence)
