"""What `apply` and `check` do alike: print their rows in the chosen format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perfmod.cli.options import OutputFormat
from perfmod.errors import UsageMistake
from perfmod.report.output import console
from perfmod.report.reasons import reason_rows
from perfmod.report.rows import Report
from perfmod.report.statistics import statistic_rows
from perfmod.report.view import View
from perfmod.roots import project_root

if TYPE_CHECKING:
    from perfmod.report.destination import Destination
    from perfmod.transforms.card import Card


def require_format(output_format: OutputFormat, *, statistics: bool = False, diff: bool = False) -> None:
    """Raise `UsageMistake` where the format has no place for what was asked for."""
    if output_format not in (OutputFormat.TEXT, OutputFormat.JSON):
        for option, is_given in (("--statistics", statistics), ("--diff", diff)):
            if is_given:
                raise UsageMistake(f"{option} needs --output-format text or json, not {output_format.value}")


def view_of(report: Report, rules: Sequence[Card], *, everything: bool = False, statistics: bool = False) -> View:
    """What is printed of a run, and the counts that were asked for."""
    cwd = Path.cwd()
    return View(
        report,
        {rule.code: rule for rule in rules},
        folder=cwd,
        root=project_root(cwd),
        everything=everything,
        reasons=reason_rows(report) if everything else None,
        statistics=statistic_rows(report) if statistics else None,
    )


def print_rows(view: View, output_format: OutputFormat, destination: Destination) -> None:
    """Put the document of a format where the result goes, and tell on stderr what is not in it."""
    from perfmod.report.formats import RENDERERS

    rendering = RENDERERS[output_format.value](view)
    destination.write(rendering.text.encode("utf-8", "backslashreplace"))
    for note in rendering.notes:
        console(stderr=True).print(note, soft_wrap=True, highlight=False, markup=False)
