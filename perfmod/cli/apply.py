"""`perfmod apply`: rewrite files, or show what would be rewritten."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfmod.cli.options import (
    DecisionsFile,
    ExtendSelect,
    FindingsFormat,
    ForceExclude,
    Ignore,
    Isolated,
    Jobs,
    LowImpact,
    NoCache,
    OptionalPaths,
    OutputFile,
    OutputFormat,
    Select,
    Statistics,
    TimeLimit,
    Unsafe,
    Verbose,
    apply_command,
    options,
)
from perfmod.cli.patching import Branch, Commits, FromPatch, Grouping, Partial, PatchSeries
from perfmod.cli.script_arguments import script_arguments
from perfmod.cli.verifying import (
    Budget,
    Device,
    DeviceName,
    Entry,
    Horizon,
    Link,
    NProc,
    Python,
    Quick,
    ReportFolder,
    Steps,
    Timeout,
    request,
)

if TYPE_CHECKING:
    from perfmod.examined import Examined

DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing; print a diff for `git apply` on stdout.")]
PatchFile = Annotated[
    Path | None,
    typer.Option("--patch", metavar="FILE", help="Change nothing; write the diff to FILE.", dir_okay=False),
]
Verify = Annotated[
    bool,
    typer.Option(
        "--verify",
        help="Prove rewrites by running the script, and keep what is equal and faster; script arguments after --.",
    ),
]


def apply(
    context: typer.Context,
    paths: OptionalPaths = None,
    dry_run: DryRun = False,
    select: Select = None,
    extend_select: ExtendSelect = None,
    ignore: Ignore = None,
    unsafe: Unsafe = None,
    low_impact: LowImpact = None,
    force_exclude: ForceExclude = None,
    patch: PatchFile = None,
    patch_series: PatchSeries = None,
    commits: Commits = False,
    by: Grouping = None,
    branch: Branch = None,
    reviewed: FromPatch = None,
    partial: Partial = False,
    decisions: DecisionsFile = None,
    output_format: FindingsFormat = OutputFormat.TEXT,
    output_file: OutputFile = None,
    statistics: Statistics = False,
    jobs: Jobs = None,
    no_cache: NoCache = False,
    isolated: Isolated = False,
    time_limit: TimeLimit = None,
    verbose: Verbose = False,
    verify: Verify = False,
    entry: Entry = None,
    device: DeviceName = Device.CUDA,
    python: Python = None,
    steps: Steps = None,
    horizon: Horizon = None,
    quick: Quick = False,
    nproc: NProc = None,
    timeout: Timeout = 600.0,
    report: ReportFolder = None,
    budget: Budget = 12,
    link: Link = None,
) -> int:
    """Rewrite training code so that its steps run faster on CUDA.

    By default only what leaves the training as it is and is worth it; the summary names the options for more.
    Given a file, the project files that it imports are rewritten as well, and no others. Rewrites that span
    several files are written together or not at all. From stdin (-), the new code goes to stdout.
    `perfmod revert` undoes the changes. Options from --entry on go with --verify.
    """
    from attrs import evolve

    from perfmod import applying
    from perfmod.cli.examining import examined
    from perfmod.cli.patching import Patching, apply_reviewed, require_fitting
    from perfmod.cli.printing import print_rows, require_format, view_of
    from perfmod.cli.proven import proven
    from perfmod.errors import ExitCode, UsageMistake
    from perfmod.files import STDIN
    from perfmod.memory import cards, memory
    from perfmod.report import text
    from perfmod.report.destination import Destination
    from perfmod.report.output import console, write_file
    from perfmod.report.rows import finding_rows
    from perfmod.report.rows import report as rows_of
    from perfmod.review.settling import Settling
    from perfmod.roots import shown

    paths = paths or []
    require_fitting(context, paths)
    if reviewed is not None:
        return apply_reviewed(reviewed, paths, partial=partial, dry_run=dry_run)
    cwd = Path.cwd()
    patching = Patching(patch_series, commits=commits, branch=branch, by=by)
    if verify and (len(paths) != 1 or paths == [STDIN]):
        raise UsageMistake("--verify takes one script, or one folder with --entry; arguments of the script go after --")
    from_stdin = paths == [STDIN]
    is_text = output_format is OutputFormat.TEXT
    require_format(output_format, statistics=statistics)
    if output_file and is_text and (patch or not (dry_run or from_stdin)):
        raise UsageMistake("--output-file gets what goes to stdout: add --dry-run without --patch, or --output-format")
    result, talk = Destination(output_file), console(stderr=True)
    rules = cards(use_cache=not no_cache)
    chosen = options(
        select,
        extend_select,
        ignore,
        unsafe=unsafe,
        low_impact=low_impact,
        time_limit=time_limit,
        force_exclude=force_exclude,
    )
    settle = Settling.of(decisions, use_cache=not no_cache)

    def told(new: Sequence[Examined]) -> None:
        if is_text and not statistics:
            text.render_findings(finding_rows(new, rules), talk, verbose=verbose)

    results = examined(
        paths,
        # What a run can decide is proposed to it, and only what is proven is written.
        evolve(settle.options(chosen), proposing=verify),
        jobs,
        use_cache=not no_cache,
        isolated=isolated,
        settle=settle,
        # What does not pay is taken back below, and nobody should read of it before.
        told=None if verify else told,
        beside=talk if is_text and not verify else None,
    )
    code = ExitCode.OK
    if verify:
        asked = request(
            paths[0],
            against=None,
            entry=entry,
            arguments=script_arguments(context),
            device=device,
            python=python,
            steps=steps,
            horizon=horizon,
            quick=quick,
            nproc=nproc,
            timeout=timeout,
            numerics=None,
            links=link,
            budget=budget,
        )
        results, code = proven(asked, results, report)
        told(results)
    wrote = not (dry_run or patch or patch_series or from_stdin)
    diffs = {} if wrote and output_format is not OutputFormat.JSON else applying.patch(results, cwd)
    made: Sequence[str] = ()
    if patching.is_wanted:
        made = patching.make(results, rules, memory(use_cache=not no_cache))
    elif wrote:
        results = applying.write(results, cwd)
    elif patch:
        write_file(patch, b"".join(diffs.values()))
        made = (f"`perfmod apply --from {shlex.quote(str(patch))}` applies {shown(patch)}",) if diffs else ()

    rows = rows_of("apply", results, rules, wrote=wrote, patches=diffs)
    view = view_of(rows, rules, statistics=statistics)
    if not is_text:
        print_rows(view, output_format, result)
    else:
        text.render_statistics(view.statistics or (), talk)
    if is_text and dry_run and not patch:
        result.write_diff(b"".join(diffs.values()))
    elif is_text and from_stdin and not patch:
        result.write(b"".join(each.result.after for each in results))
    if output_format is not OutputFormat.JSON:
        text.render_unfit(settle.unfit, talk)
        text.render_summary(rows, talk, command=apply_command(paths, chosen, isolated=isolated), verbose=verbose)
        text.render_notes(made, talk)
    result.finish()
    return rows.exit_code or code
