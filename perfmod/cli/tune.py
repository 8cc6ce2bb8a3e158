"""`perfmod tune`: which rewrites together make this training fastest, and is it still the same?"""

from __future__ import annotations

import enum
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfmod.cli.options import Format, Ignore, TextOrJson, options
from perfmod.cli.script_arguments import script_arguments
from perfmod.cli.verifying import Device, DeviceName, Entry, Horizon, Link, Python, Steps, Timeout, request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfmod.examined import Examined
    from perfmod.tune.tuning import Settings

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}


class Allowed(str, enum.Enum):
    """How far results may differ; the names are those of the rules' numerics."""

    BITWISE = "bitwise"
    ROUNDING = "rounding"
    SAMPLING = "sampling"
    PRECISION = "precision"
    BEHAVIOURAL = "behavioural"


Script = Annotated[str, typer.Argument(metavar="SCRIPT", help="The training script, or a folder (with --entry).")]
Budget = Annotated[
    str, typer.Option("--budget", metavar="TIME", help="How long to search, with proofs: 90s, 10m or 1h.")
]
Allow = Annotated[
    Allowed,
    typer.Option("--allow", help="How far results may differ at most; narrower classes are shown as well."),
]
StepsPlanned = Annotated[
    int | None,
    typer.Option(
        "--steps-planned",
        min=1,
        metavar="N",
        help="Steps that your training takes: what compiling costs then counts.",
    ),
]
ReportEvery = Annotated[
    int | None,
    typer.Option(
        "--report-every",
        min=1,
        metavar="N",
        help="Also try to report every N steps what is reported in each (with --allow behavioural).",
    ),
]
Batch = Annotated[
    int | None,
    typer.Option(
        "--batch",
        min=1,
        metavar="N",
        help="Train with batches of N samples: both sides are run with it. The diff leaves the batch size to you.",
    ),
]
Report = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="DIR",
        help="Write tune.json, tune.md, the evidence of the best stack and the journal to DIR.",
    ),
]
Write = Annotated[bool, typer.Option("--write", help="Write the best stack to your files; `perfmod revert` undoes it.")]
Resume = Annotated[
    bool, typer.Option("--resume/--no-resume", help="Go on where an earlier call with the same code ended.")
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="List all that was tried.")]


def tune(
    context: typer.Context,
    script: Script,
    entry: Entry = None,
    budget: Budget = "10m",
    allow: Allow = Allowed.PRECISION,
    steps_planned: StepsPlanned = None,
    batch: Batch = None,
    report_every: ReportEvery = None,
    ignore: Ignore = None,
    report: Report = None,
    write: Write = False,
    resume: Resume = True,
    device: DeviceName = Device.CUDA,
    python: Python = None,
    steps: Steps = None,
    horizon: Horizon = None,
    timeout: Timeout = 600.0,
    link: Link = None,
    verbose: Verbose = False,
    output_format: Format = TextOrJson.TEXT,
) -> int:
    """Search for the fastest training that is still the same, by running the script on your GPU.

    Tries mixed precision, compilation, fused optimizers, loader settings and all other rewrites together, takes out
    what does not pay, and compares the training under the fastest stack with the original's. Prints the diff on
    stdout. Arguments of the script go after --. It runs in scratch copies; your files change only with --write.
    """
    from attrs import evolve

    from perfmod import applying
    from perfmod.cli.examining import examined
    from perfmod.cli.verifying import needs_extra
    from perfmod.errors import ExitCode, UsageMistake
    from perfmod.report.output import console, status, write_diff, write_result
    from perfmod.transforms.finding import Numerics

    with needs_extra():
        from perfmod.tune import report as reports
        from perfmod.tune.stack import NOT_TRIED
        from perfmod.tune.tuning import Terms
        from perfmod.tune.tuning import tune as search
        from perfmod.verify.phases import Phases

    if report_every is not None and allow is not Allowed.BEHAVIOURAL:
        raise UsageMistake("--report-every changes what the script shows: add --allow behavioural")
    asked = request(
        script,
        against=None,
        entry=entry,
        arguments=script_arguments(context),
        device=device,
        python=python,
        steps=steps,
        horizon=horizon,
        quick=True,
        nproc=None,
        timeout=timeout,
        numerics=None,
        links=link,
    )
    terms = Terms(_seconds(budget), Numerics(allow.value), steps_planned, batch, resume=resume, folder=report)
    left_out = [*(ignore or ()), *NOT_TRIED]
    chosen = evolve(options(None, None, left_out, unsafe=None, low_impact=None), proposing=terms.allow)
    every = (("report_every", report_every),) if report_every is not None else ()

    def examine(settings: Settings) -> Sequence[Examined]:
        return examined([str(asked.script)], evolve(chosen, instead=(*every, *settings)))

    with status("Tuning", verbose=verbose) as tell:
        progress = Phases(tell)
        found = search(asked, terms, examine, progress)
    progress.end()
    files = list(found.files)
    if output_format is TextOrJson.JSON:
        write_result(reports.render_json(found.tuning).encode())
    else:
        talk = console(stderr=True)
        reports.render(found.tuning, talk, verbose=verbose)
        for phase, seconds in progress.seconds.items() if verbose else ():
            talk.print(f"{phase}: {seconds:.1f} s", highlight=False)
        if not write:
            write_diff(b"".join(applying.patch(files, Path.cwd()).values()))
    if report is not None:
        reports.write(found.tuning, found.evidence, report)
    if write:
        files = applying.write(files, Path.cwd())
    return ExitCode.INTERRUPTED if found.tuning.interrupted else ExitCode.OK


def _seconds(text: str) -> float:
    """A time such as `90s` or `10m`. Raises `UsageMistake`."""
    from perfmod.errors import UsageMistake

    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if match is None or not float(match[1]):
        raise UsageMistake(f"--budget {text}: not a time; write 90s, 10m or 1h")
    return float(match[1]) * _SECONDS[match[2]]
