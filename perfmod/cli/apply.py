"""`perfmod apply`: rewrite files, or show what would be rewritten."""

from __future__ import annotations

from pathlib import Path
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
from perfmod.cli.script_arguments import script_arguments
from perfmod.cli.verifying import (
    Device,
    DeviceName,
    Entry,
    Link,
    NProc,
    Python,
    Quick,
    ReportFolder,
    Steps,
    Timeout,
    request,
)

DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing; print a diff for `git apply` on stdout.")]
PatchFile = Annotated[
    Path | None,
    typer.Option("--patch", metavar="FILE", help="Change nothing; write the diff to FILE.", dir_okay=False),
]
Verify = Annotated[
    bool,
    typer.Option("--verify", help="Keep only what is proven equal and faster; the script's arguments behind --."),
]


def apply(
    context: typer.Context,
    paths: Paths,
    dry_run: DryRun = False,
    select: Select = None,
    ignore: Ignore = None,
    unsafe: Unsafe = None,
    patch: PatchFile = None,
    output_format: Format = OutputFormat.TEXT,
    jobs: Jobs = None,
    no_cache: NoCache = False,
    isolated: Isolated = False,
    verify: Verify = False,
    entry: Entry = None,
    device: DeviceName = Device.CUDA,
    python: Python = None,
    steps: Steps = None,
    quick: Quick = False,
    nproc: NProc = None,
    timeout: Timeout = 600.0,
    report: ReportFolder = None,
    link: Link = None,
) -> int:
    """Rewrite training code so that its steps run faster on CUDA.

    Only what is proven to leave the training as it is; the rest is listed with its reason.
    With a file, those of its project that it imports are rewritten as well. Files that import these are read, and
    changed only where a rewrite needs it; such rewrites in several files are written together or not at all.
    From stdin (-), the new code goes to stdout. `perfmod revert` takes the changes back.
    """
    from perfmod import applying
    from perfmod.cli.examining import examined
    from perfmod.cli.proven import proven
    from perfmod.codemods import catalog
    from perfmod.errors import ExitCode, UsageMistake
    from perfmod.files import STDIN
    from perfmod.report import json, text
    from perfmod.report.output import console, write_file, write_result
    from perfmod.report.rows import report as rows_of

    cwd = Path.cwd()
    if verify and (len(paths) != 1 or paths == [STDIN]):
        raise UsageMistake("--verify takes one script, or one folder with --entry; its arguments stand behind --")
    results = examined(paths, options(select, ignore, unsafe), jobs, use_cache=not no_cache, isolated=isolated)
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
            quick=quick,
            nproc=nproc,
            timeout=timeout,
            numerics=None,
            links=link,
        )
        results, code = proven(asked, results, report)
    from_stdin = paths == [STDIN]
    wrote = not (dry_run or patch or from_stdin)
    as_json = output_format is OutputFormat.JSON
    diffs = {} if wrote and not as_json else applying.patch(results, cwd)
    if wrote:
        results = applying.write(results, cwd)
    elif patch:
        write_file(patch, b"".join(diffs.values()))

    rows = rows_of("apply", results, catalog.rules(), wrote=wrote, patches=diffs)
    if as_json:
        write_result(json.render(rows).encode())
        return rows.exit_code or code
    talk = console(stderr=True)
    text.render_findings(rows, talk)
    text.render_summary(rows, talk)
    if dry_run and not patch:
        write_result(b"".join(diffs.values()))
    elif from_stdin and not patch:
        write_result(b"".join(each.result.after for each in results))
    return rows.exit_code or code
