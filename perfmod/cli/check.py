"""`perfmod check`: say what could be rewritten, and change nothing."""

from __future__ import annotations

from typing import Annotated

import typer

from perfmod.cli.options import (
    Format,
    Ignore,
    Isolated,
    Jobs,
    NoCache,
    OutputFormat,
    Paths,
    Select,
    Unsafe,
    options,
)

ExplainAll = Annotated[
    bool,
    typer.Option(
        "--explain-all",
        help="List every occurrence of a pattern, also silenced ones, and count the reasons at the end.",
    ),
]


def check(
    paths: Paths,
    select: Select = None,
    ignore: Ignore = None,
    unsafe: Unsafe = None,
    output_format: Format = OutputFormat.TEXT,
    jobs: Jobs = None,
    no_cache: NoCache = False,
    isolated: Isolated = False,
    explain_all: ExplainAll = False,
) -> int:
    """List what makes the steps of training code slow, and change nothing.

    Exits with 1 if something could be rewritten or is held back; refusals and advice alone do not count.
    With a file, those of its project that it imports are examined as well, as `apply` does.
    """
    from perfmod.cli.examining import examined
    from perfmod.codemods import catalog
    from perfmod.report import json, text
    from perfmod.report.output import console, write_result
    from perfmod.report.reasons import reason_rows
    from perfmod.report.rows import report

    results = examined(paths, options(select, ignore, unsafe), jobs, use_cache=not no_cache, isolated=isolated)
    rows = report("check", results, catalog.rules())
    reasons = reason_rows(rows) if explain_all else None
    if output_format is OutputFormat.JSON:
        write_result(json.render(rows, reasons).encode())
    else:
        text.render_findings(rows, console(stderr=False), everything=explain_all)
        text.render_reasons(reasons or (), console(stderr=False))
        text.render_summary(rows, console(stderr=True))
    return rows.exit_code
