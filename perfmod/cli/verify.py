"""`perfmod verify`: is the training the same, and is it faster?"""

from __future__ import annotations

import enum
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfmod.cli.options import (
    ExtendSelect,
    Format,
    Ignore,
    Isolated,
    LowImpact,
    Preset,
    Select,
    TextOrJson,
    Unsafe,
    options,
)
from perfmod.cli.script_arguments import script_arguments
from perfmod.cli.verifying import (
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
    from perfmod.verify.evidence import Evidence


class Closeness(str, enum.Enum):
    """How far two given scripts may lie apart; the names are those of the rules' numerics."""

    BITWISE = "bitwise"
    ROUNDING = "rounding"
    SAMPLING = "sampling"
    PRECISION = "precision"


class Propose(str, enum.Enum):
    """Which findings are judged."""

    DEFAULT = "default"
    """Those that `apply` writes with the same options."""
    ALL = "all"
    """Those that `apply --verify` proposes."""


Script = Annotated[str, typer.Argument(metavar="SCRIPT", help="The training script, or a folder (with --entry).")]
Against = Annotated[
    str | None,
    typer.Option("--against", metavar="OTHER", help="Compare with this script or folder instead of rewriting."),
]
ClosenessName = Annotated[
    Closeness, typer.Option("--numerics", help="With --against: how much the results may differ.")
]

Proposed = Annotated[
    Propose,
    typer.Option(
        "--propose",
        help="What to judge: what apply would write by default, or all that apply --verify would try.",
    ),
]

Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show how long each phase took.")]

Earlier = Annotated[
    Path | None,
    typer.Option(
        "--read",
        metavar="FILE",
        help="Run nothing: show the evidence.json of an earlier verification, and what has changed since.",
        dir_okay=False,
        exists=True,
    ),
]


def verify(
    context: typer.Context,
    script: Script,
    against: Against = None,
    entry: Entry = None,
    device: DeviceName = Device.CUDA,
    python: Python = None,
    steps: Steps = None,
    horizon: Horizon = None,
    quick: Quick = False,
    nproc: NProc = None,
    timeout: Timeout = 600.0,
    report: ReportFolder = None,
    numerics: ClosenessName = Closeness.ROUNDING,
    select: Select = None,
    extend_select: ExtendSelect = None,
    preset: Preset = None,
    ignore: Ignore = None,
    unsafe: Unsafe = None,
    low_impact: LowImpact = None,
    isolated: Isolated = False,
    propose: Proposed = Propose.DEFAULT,
    link: Link = None,
    read: Earlier = None,
    verbose: Verbose = False,
    output_format: Format = TextOrJson.TEXT,
) -> int:
    """Run a training script before and after the rewrites, and check that it trains the same and faster.

    Arguments of the script go after --. Both versions run in scratch copies; your files are not changed.
    Exits with 0 if the training is the same and not slower, with 4 if it differs or is slower, with 5 if this
    could not be decided, with 3 if the script could not be run.
    """
    from attrs import evolve

    from perfmod.cli.examining import examined
    from perfmod.cli.verifying import needs_extra
    from perfmod.report.output import console, status, write_result
    from perfmod.review.settling import Settling
    from perfmod.transforms.finding import Numerics

    with needs_extra():
        from perfmod.verify import staleness, verification
        from perfmod.verify.phases import Phases
        from perfmod.verify.report import evidence_json, files, text
        from perfmod.verify.stacks import Rewriting

    def told(evidence: Evidence) -> int:
        if output_format is TextOrJson.JSON:
            write_result(evidence_json.render(evidence).encode())
        else:
            text.render(evidence, console(stderr=False), report)
        return verification.exit_code(evidence)

    if read is not None:
        return told(staleness.read(read, python or sys.executable))
    asked = request(
        script,
        against=against,
        entry=entry,
        arguments=script_arguments(context),
        device=device,
        python=python,
        steps=steps,
        horizon=horizon,
        quick=quick,
        nproc=nproc,
        timeout=timeout,
        numerics=numerics.value if against is not None else None,
        links=link,
    )
    with status("Verifying") as tell:
        progress = Phases(tell)
        if against is not None:
            evidence = verification.compare(asked, progress)
        else:
            chosen = options(select, extend_select, ignore, unsafe=unsafe, low_impact=low_impact, preset=preset)
            found = examined(
                [script],
                evolve(chosen, proposing=Numerics.ROUNDING if propose is Propose.ALL else None),
                isolated=isolated,
                settle=Settling.of(None, use_cache=True),
            )
            evidence = verification.verify(asked, Rewriting.of(found), progress)
    progress.end()
    if verbose:
        talk = console(stderr=True)
        for phase, seconds in progress.seconds.items():
            talk.print(f"{phase}: {seconds:.1f} s", highlight=False)
    if report is not None:
        files.write(evidence, report)
    return told(evidence)
