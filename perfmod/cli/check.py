"""`perfmod check`: say what could be rewritten, and change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfmod.cli.options import (
    ExtendSelect,
    FindingsFormat,
    Ignore,
    Isolated,
    Jobs,
    LowImpact,
    NoCache,
    OutputFile,
    OutputFormat,
    Paths,
    Select,
    Statistics,
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
Diff = Annotated[
    bool, typer.Option("--diff", help="Print the diff of the rewrites on stdout, and the findings on stderr.")
]
ExitZero = Annotated[bool, typer.Option("--exit-zero", help="Exit with 0 even if something would be rewritten.")]


def check(
    paths: Paths,
    select: Select = None,
    extend_select: ExtendSelect = None,
    ignore: Ignore = None,
    unsafe: Unsafe = None,
    low_impact: LowImpact = None,
    output_format: FindingsFormat = OutputFormat.TEXT,
    output_file: OutputFile = None,
    statistics: Statistics = False,
    diff: Diff = False,
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
    from perfmod import applying
    from perfmod.cli.examining import examined
    from perfmod.cli.printing import print_rows, require_format, view_of
    from perfmod.memory import cards
    from perfmod.report import text
    from perfmod.report.destination import Destination
    from perfmod.report.output import console
    from perfmod.report.rows import finding_rows, report

    require_format(output_format, statistics=statistics, diff=diff)
    result, talk = Destination(output_file), console(stderr=True)
    is_text, verbose = output_format is OutputFormat.TEXT, verbose or explain_all
    out = talk if diff else result.console
    rules = cards(use_cache=not no_cache)

    def told(new: Sequence[Examined]) -> None:
        if is_text and not statistics:
            text.render_findings(finding_rows(new, rules), out, verbose=verbose, everything=explain_all)

    chosen = options(select, extend_select, ignore, unsafe=unsafe, low_impact=low_impact, time_limit=time_limit)
    results = examined(
        paths, chosen, jobs, use_cache=not no_cache, isolated=isolated, told=told, beside=out if is_text else None
    )
    patches = applying.patch(results, Path.cwd()) if diff else {}
    rows = report("check", results, rules, patches=patches)
    view = view_of(rows, rules, everything=explain_all, statistics=statistics)
    if is_text:
        text.render_reasons(view.reasons or (), out)
        text.render_statistics(view.statistics or (), out)
        if diff:
            result.write_diff(b"".join(patches.values()))
    else:
        print_rows(view, output_format, result)
    result.finish()
    if output_format is not OutputFormat.JSON:
        command = apply_command(paths, chosen, isolated=isolated)
        text.render_summary(rows, talk, command=command, verbose=verbose, everything=explain_all)
    return rows.exit_code_of_files if exit_zero else rows.exit_code
