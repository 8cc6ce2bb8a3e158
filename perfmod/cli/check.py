"""`perfmod check`: say what could be rewritten, and change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfmod.cli.options import (
    ExtendSelect,
    FindingsFormat,
    ForceExclude,
    Ignore,
    Isolated,
    Jobs,
    LowImpact,
    NoCache,
    OutputFile,
    OutputFormat,
    Paths,
    Preset,
    Select,
    Statistics,
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
Diff = Annotated[
    bool, typer.Option("--diff", help="Print the diff of the rewrites on stdout, and the findings on stderr.")
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
    preset: Preset = None,
    ignore: Ignore = None,
    unsafe: Unsafe = None,
    low_impact: LowImpact = None,
    force_exclude: ForceExclude = None,
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
    from perfmod import applying
    from perfmod.cli import comments
    from perfmod.cli.examining import examined
    from perfmod.cli.known import Known
    from perfmod.cli.printing import print_rows, require_format, view_of
    from perfmod.errors import ExitCode
    from perfmod.memory import cards
    from perfmod.report import text
    from perfmod.report.destination import Destination
    from perfmod.report.output import console
    from perfmod.report.rows import finding_rows, report
    from perfmod.review.settling import Settling

    require_format(output_format, statistics=statistics, diff=diff)
    result, talk = Destination(output_file), console(stderr=True)
    is_text, verbose = output_format is OutputFormat.TEXT, verbose or explain_all
    out = talk if diff else result.console
    rules = cards(use_cache=not no_cache)

    def told(new: Sequence[Examined]) -> None:
        if is_text and not statistics:
            text.render_findings(finding_rows(new, rules), out, verbose=verbose, everything=explain_all)

    def examine(told: Told | None) -> list[Examined]:
        beside = out if told is not None and is_text else None
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
        preset=preset,
    )
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
    patches = applying.patch(results, Path.cwd()) if diff else {}
    rows = report("check", results, rules, patches=patches)
    notes: tuple[str, ...] = ()
    if known:
        rows, notes = known.apart(rows, results)
        if is_text and not statistics:
            text.render_findings(rows.findings, out, verbose=verbose, everything=explain_all)
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
        text.render_notes(notes, talk)
    return (rows.exit_code_of_files if exit_zero else rows.exit_code) or code
