"""`perfmod check`: say what could be rewritten, and change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from perfmod.cli.options import (
    ExtendSelect,
    Format,
    Ignore,
    Isolated,
    Jobs,
    LowImpact,
    NoCache,
    OutputFormat,
    Paths,
    Select,
    TimeLimit,
    Unsafe,
    Verbose,
    apply_command,
    options,
)

if TYPE_CHECKING:
    from perfmod.examined import Examined

ExplainAll = Annotated[
    bool,
    typer.Option(
        "--explain-all",
        help="Like -v, plus what is left as it is or silenced by comments, and a count of all reasons.",
    ),
]
ExitZero = Annotated[bool, typer.Option("--exit-zero", help="Exit with 0 even if something would be rewritten.")]


def check(
    paths: Paths,
    select: Select = None,
    extend_select: ExtendSelect = None,
    ignore: Ignore = None,
    unsafe: Unsafe = None,
    low_impact: LowImpact = None,
    output_format: Format = OutputFormat.TEXT,
    jobs: Jobs = None,
    no_cache: NoCache = False,
    isolated: Isolated = False,
    time_limit: TimeLimit = None,
    verbose: Verbose = False,
    explain_all: ExplainAll = False,
    exit_zero: ExitZero = False,
) -> int:
    """List what makes training steps slow, and change nothing.

    Exits with 1 if `apply` with the same options would rewrite something. Given a file, the project files that it
    imports are examined as well, as in `apply`.
    """
    from perfmod.cli.examining import examined
    from perfmod.memory import cards
    from perfmod.report import json, text
    from perfmod.report.output import console, write_result
    from perfmod.report.reasons import reason_rows
    from perfmod.report.rows import finding_rows, report
    from perfmod.review.settling import Settling

    as_json = output_format is OutputFormat.JSON
    rules = cards(use_cache=not no_cache)
    out, verbose = console(stderr=False), verbose or explain_all

    def told(new: Sequence[Examined]) -> None:
        if not as_json:
            text.render_findings(finding_rows(new, rules), out, verbose=verbose, everything=explain_all)

    chosen = options(select, extend_select, ignore, unsafe=unsafe, low_impact=low_impact, time_limit=time_limit)
    results = examined(
        paths,
        chosen,
        jobs,
        use_cache=not no_cache,
        isolated=isolated,
        settle=Settling.of(None, use_cache=not no_cache),
        told=told,
        beside=None if as_json else out,
    )
    rows = report("check", results, rules)
    reasons = reason_rows(rows) if explain_all else None
    if as_json:
        write_result(json.render(rows, reasons).encode())
    else:
        text.render_reasons(reasons or (), out)
        command = apply_command(paths, chosen, isolated=isolated)
        text.render_summary(rows, console(stderr=True), command=command, verbose=verbose, everything=explain_all)
    return rows.exit_code_of_files if exit_zero else rows.exit_code
