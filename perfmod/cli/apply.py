"""`perfmod apply`: rewrite files, or show what would be rewritten."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
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
    Preset,
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
    from perfmod.cli.patching import Patching
    from perfmod.examined import Examined
    from perfmod.memory import Memory
    from perfmod.report.destination import Destination
    from perfmod.transforms.card import Card

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
    preset: Preset = None,
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

    from perfmod.cli.examining import examined
    from perfmod.cli.patching import Patching, apply_reviewed, require_fitting
    from perfmod.cli.printing import print_rows, require_format, view_of
    from perfmod.cli.proven import proven
    from perfmod.errors import ExitCode
    from perfmod.files import STDIN
    from perfmod.memory import cards, memory
    from perfmod.report import text
    from perfmod.report.destination import Destination
    from perfmod.report.output import console
    from perfmod.report.rows import finding_rows
    from perfmod.report.rows import report as rows_of
    from perfmod.review.settling import Settling
    from perfmod.transforms.finding import Numerics

    paths = paths or []
    require_fitting(context, paths)
    if reviewed is not None:
        return apply_reviewed(reviewed, paths, partial=partial, dry_run=dry_run)
    require_format(output_format, statistics=statistics)
    patching = Patching(patch_series, commits=commits, branch=branch, by=by)
    outlet = _Outlet(patching, patch, dry_run=dry_run, from_stdin=paths == [STDIN])
    is_text = output_format is OutputFormat.TEXT
    _require_sensible(paths, outlet, output_file if is_text else None, verify=verify)
    result, talk, use_cache = Destination(output_file), console(stderr=True), not no_cache
    rules = cards(use_cache=use_cache)
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
    settle = Settling.of(decisions, use_cache=use_cache)

    def told(new: Sequence[Examined]) -> None:
        if is_text and not statistics:
            text.render_findings(finding_rows(new, rules), talk, verbose=verbose)

    results = examined(
        paths,
        # What a run can decide is proposed to it, unless people have decided; only what is proven is written.
        evolve(settle.options(chosen), proposing=Numerics.ROUNDING if verify and decisions is None else None),
        jobs,
        use_cache=use_cache,
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
    diffs = outlet.diffs(results, output_format)
    results, made = outlet.put(results, diffs, rules, memory(use_cache=use_cache))

    rows = rows_of("apply", results, rules, wrote=outlet.writes, patches=diffs)
    view = view_of(rows, rules, statistics=statistics)
    if is_text:
        text.render_statistics(view.statistics or (), talk)
    else:
        print_rows(view, output_format, result)
    if output_format is not OutputFormat.JSON:
        text.render_unfit(settle.unfit, talk)
        text.render_summary(rows, talk, command=apply_command(paths, chosen, isolated=isolated), verbose=verbose)
        text.render_notes(made, talk)
    if is_text:
        outlet.print(results, diffs, result)
    result.finish()
    return rows.exit_code or code


def _require_sensible(paths: Sequence[str], outlet: _Outlet, text_file: Path | None, *, verify: bool) -> None:
    """Raise `UsageMistake` where the paths or the file for the text do not go with what is wanted."""
    from perfmod.errors import UsageMistake

    if verify and (len(paths) != 1 or outlet.from_stdin):
        raise UsageMistake("--verify takes one script, or one folder with --entry; arguments of the script go after --")
    if text_file is not None and not outlet.prints:
        raise UsageMistake("--output-file gets what goes to stdout: add --dry-run without --patch, or --output-format")


class _Outlet:
    """Where rewrites go: into the files, a patch, a series of patches, commits, or to standard output."""

    def __init__(self, patching: Patching, patch: Path | None, *, dry_run: bool, from_stdin: bool) -> None:
        self._patching, self._patch, self._dry_run, self.from_stdin = patching, patch, dry_run, from_stdin

    @property
    def writes(self) -> bool:
        """Whether the files are changed, in commits or not."""
        is_elsewhere = self._patch or self._dry_run or self.from_stdin
        return self._patching.commits or not (is_elsewhere or self._patching.is_wanted)

    @property
    def prints(self) -> bool:
        """Whether the rewrites go to standard output, as a diff or as new code."""
        return not self._patch and (self._dry_run or self.from_stdin)

    def diffs(self, results: Sequence[Examined], output_format: OutputFormat) -> Mapping[Path, bytes]:
        """The diffs of changed files by real path, where somebody gets to see them."""
        from perfmod import applying

        is_seen = not self.writes or output_format is OutputFormat.JSON
        return applying.patch(results, Path.cwd()) if is_seen else {}

    def put(
        self, results: list[Examined], diffs: Mapping[Path, bytes], rules: Sequence[Card], remembered: Memory | None
    ) -> tuple[list[Examined], Sequence[str]]:
        """Put rewrites where they go, other than to standard output; the results then, and what there is to say.

        Raises `UsageMistake`, `Failure` and `Interrupted`.
        """
        from perfmod import applying
        from perfmod.report.output import write_file
        from perfmod.roots import git_root, shown

        if self._patching.is_wanted:
            return results, self._patching.make(results, rules, remembered)
        if self.writes:
            return applying.write(results, Path.cwd()), ()
        if self._patch is None:
            return results, ()
        write_file(self._patch, b"".join(diffs.values()))
        root, here = applying.patch_folder(results, Path.cwd()), Path.cwd()
        # From anywhere else, its paths would not be found.
        is_here = root in (here, git_root(here))
        command = f"perfmod apply --from {shlex.quote(str(self._patch if is_here else self._patch.absolute()))}"
        there = "" if is_here else f"cd {shlex.quote(str(root))} && "
        return results, (f"`{there}{command}` applies {shown(self._patch)}",) if diffs else ()

    def print(self, results: Sequence[Examined], diffs: Mapping[Path, bytes], destination: Destination) -> None:
        """Put rewrites to standard output, or the file that stands for it, where they go there."""
        if self.prints and self._dry_run:
            destination.write_diff(b"".join(diffs.values()))
        elif self.prints:
            destination.write(b"".join(each.result.after for each in results))
