"""`apply --verify`: of what was found, keep what is proven equal and faster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perfmod.cli.verifying import needs_extra
from perfmod.errors import ExitCode
from perfmod.examine import Examined
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

    rewriting = Rewriting.of(examined)
    with status("Verifying") as progress:
        evidence, kept = verification.keep_proven(request, rewriting, progress)
    if report is not None:
        files.write(evidence, report)
    text.render(evidence, console(stderr=True), report)
    left = {each.file.real: each for each in rewriting.under(kept)}
    code = ExitCode.OK if kept else verification.exit_code(evidence)
    return [left.get(each.file.real, each) for each in examined], code
