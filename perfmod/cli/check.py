"""`perfmod check`: say what could be rewritten, and change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfmod.cli.options import (
    ExtendSelect,
    ForceExclude,
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
    from perfmod.cli.examining import Told
    from perfmod.examined import Examined

ExplainAll = Annotated[
    bool,
    typer.Option(
        "--explain-all",
        help="Like -v, plus what is left as it is or silenced by comments, and a count of all reasons.",
    ),
]
ExitZero = Annotated[bool, typer.Option("--exit-zero", help="Exit with 0 even if something would be rewritten.")]
BaselineFile = Annotated[
    Path | None,
    typer.Option("--baseline", metavar="FILE", help="Report only findings that are not in FILE.", dir_okay=False),
]
WriteBaseline = Annotated[
    bool, typer.Option("--write-baseline", help="Write what is found into the baseline, and report nothing.")
]
NewOnly = Annotated[
    bool, typer.Option("--new-only", help="Report only findings on lines that changed since the last commit in git.")
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="REVISION",
        help="Likewise, on lines that changed since the branch left REVISION, such as origin/main.",
    ),
]
AddIgnore = Annotated[
    bool, typer.Option("--add-ignore", help="Write `# perfmod: ignore` comments that silence what would be rewritten.")
]
Reason = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="With --add-ignore: stands behind the comments.")
]
RemoveUnusedIgnores = Annotated[
    bool, typer.Option("--remove-unused-ignores", help="Remove `# perfmod:` comments that silence nothing.")
]


def check(
    paths: Paths,
    select: Select = None,
    extend_select: ExtendSelect = None,
    ignore: Ignore = None,
    unsafe: Unsafe = None,
    low_impact: LowImpact = None,
    force_exclude: ForceExclude = None,
    output_format: Format = OutputFormat.TEXT,
    jobs: Jobs = None,
    no_cache: NoCache = False,
    isolated: Isolated = False,
    time_limit: TimeLimit = None,
    verbose: Verbose = False,
    explain_all: ExplainAll = False,
    exit_zero: ExitZero = False,
    baseline: BaselineFile = None,
    write_baseline: WriteBaseline = False,
    new_only: NewOnly = False,
    since: Since = None,
    add_ignore: AddIgnore = False,
    reason: Reason = None,
    remove_unused_ignores: RemoveUnusedIgnores = False,
) -> int:
    """List what makes training steps slow, and change nothing but comments where an option asks for that.

    Exits with 1 if `apply` with the same options would rewrite something that is reported. Given a file, the project
    files that it imports are examined as well, as in `apply`.
    """
    from perfmod.cli import comments
    from perfmod.cli.examining import examined
    from perfmod.cli.known import Known
    from perfmod.errors import ExitCode
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

    def examine(told: Told | None) -> list[Examined]:
        beside = out if told is not None and not as_json else None
        return examined(
            paths,
            chosen,
            jobs,
            use_cache=not no_cache,
            isolated=isolated,
            settle=Settling.of(None, use_cache=not no_cache),
            told=told,
            beside=beside,
        )

    chosen = options(
        select,
        extend_select,
        ignore,
        unsafe=unsafe,
        low_impact=low_impact,
        time_limit=time_limit,
        force_exclude=force_exclude,
    )
    talk = console(stderr=True)
    known = Known.of(
        paths,
        baseline,
        writes=write_baseline,
        since=since or ("HEAD" if new_only else None),
        command=apply_command(paths, chosen, isolated=isolated, command="check"),
    )
    edit = comments.wanted(paths, add=add_ignore, reason=reason, remove=remove_unused_ignores, is_all=not known)
    code = ExitCode.OK if edit is None else comments.write(edit, examine(None), talk)
    results = examine(None if known else told)
    rows = report("check", results, rules)
    notes: tuple[str, ...] = ()
    if known:
        rows, notes = known.apart(rows, results)
        if not as_json:
            text.render_findings(rows.findings, out, verbose=verbose, everything=explain_all)
    reasons = reason_rows(rows) if explain_all else None
    if as_json:
        write_result(json.render(rows, reasons).encode())
    else:
        text.render_reasons(reasons or (), out)
        command = apply_command(paths, chosen, isolated=isolated)
        text.render_summary(rows, talk, command=command, verbose=verbose, everything=explain_all)
        text.render_notes(notes, talk)
    return (rows.exit_code_of_files if exit_zero else rows.exit_code) or code
