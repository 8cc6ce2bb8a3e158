"""The options that say how a script is run and compared; `verify` and `apply --verify` share them."""

from __future__ import annotations

import contextlib
import enum
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from perfmod.verify.request import Request


_PANEL = "Verification"
_FURTHER = 3
"""Times the usual number of steps, up to which they are compared where that takes little time."""
_COURSE = 200
"""Steps at most over which another precision is compared with other seeds."""


class Device(str, enum.Enum):
    """Where the script trains."""

    CUDA = "cuda"
    CPU = "cpu"


Entry = Annotated[
    str | None,
    typer.Option(
        "--entry", metavar="FILE", help="The training script inside the given folder.", rich_help_panel=_PANEL
    ),
]
DeviceName = Annotated[
    Device,
    typer.Option(
        "--device", help="Where to train; on cpu only equality is checked, not speed.", rich_help_panel=_PANEL
    ),
]
Python = Annotated[
    str | None,
    typer.Option(
        "--python",
        metavar="PY",
        help="Python interpreter that runs the script.",
        show_default="this one",
        rich_help_panel=_PANEL,
    ),
]
Steps = Annotated[
    int | None,
    typer.Option(
        "--steps",
        min=2,
        metavar="N",
        help="Number of optimizer steps to compare.",
        show_default="20; 10 with --quick",
        rich_help_panel=_PANEL,
    ),
]
Horizon = Annotated[
    int | None,
    typer.Option(
        "--horizon",
        min=2,
        metavar="N",
        help="Compare more steps where they take little time: a number drawn at random, up to this.",
        show_default="three times the default of --steps; 200 for what is compared with other seeds",
        rich_help_panel=_PANEL,
    ),
]
Quick = Annotated[bool, typer.Option("--quick", help="Fewer repeats, and no results per rule.", rich_help_panel=_PANEL)]
NProc = Annotated[
    int | None,
    typer.Option(
        "--nproc",
        min=1,
        metavar="N",
        help="Run under torchrun with N processes on this machine.",
        rich_help_panel=_PANEL,
    ),
]
Timeout = Annotated[
    float,
    typer.Option("--timeout", min=1, metavar="S", help="Stop a run after this many seconds.", rich_help_panel=_PANEL),
]
ReportFolder = Annotated[
    Path | None,
    typer.Option(
        "--report", metavar="DIR", help="Write evidence.json, report.md and report.html to DIR.", rich_help_panel=_PANEL
    ),
]
Link = Annotated[
    list[Path] | None,
    typer.Option(
        "--link",
        metavar="DIR",
        help="Folder of read-only data: linked into the scratch copies, not copied.",
        rich_help_panel=_PANEL,
    ),
]


Budget = Annotated[
    int,
    typer.Option(
        "--budget",
        min=1,
        metavar="N",
        help="Try at most N versions of the script to find the rewrites that are proven together.",
        rich_help_panel=_PANEL,
    ),
]


@contextlib.contextmanager
def needs_extra(extra: str = "verify") -> Iterator[None]:
    """Around imports that need what only an extra installs. Raises `UsageMistake` where it is missing."""
    from perfmod.errors import UsageMistake

    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "perfmod").partition(".")[0]
        if missing == "perfmod":
            raise
        raise UsageMistake(f"{missing} is missing: pip install 'perfmod[{extra}]'") from error


def request(
    script: str,
    *,
    against: str | None,
    entry: str | None,
    arguments: tuple[str, ...],
    device: Device,
    python: str | None,
    steps: int | None,
    horizon: int | None,
    quick: bool,
    nproc: int | None,
    timeout: float,
    numerics: str | None,
    links: list[Path] | None,
    budget: int = 1,
) -> Request:
    """What the command line asks to have verified. Raises `UsageMistake`."""
    from perfmod.transforms.finding import Numerics
    from perfmod.verify.request import Request, resolve_script

    cwd = Path.cwd()
    usual = 10 if quick else 20
    course = horizon or (_COURSE if steps is None else None)
    if horizon is None:
        horizon = _FURTHER * usual if steps is None else steps
    return Request(
        script=resolve_script(script, entry, cwd),
        against=resolve_script(against, entry, cwd) if against is not None else None,
        arguments=arguments,
        device=device.value,
        python=python or sys.executable,
        steps=min(steps or usual, horizon),
        horizon=horizon,
        quick=quick,
        nproc=nproc,
        timeout=timeout,
        numerics=Numerics(numerics) if numerics else None,
        links=tuple((cwd / link).absolute() for link in links or ()),
        budget=budget,
        course=course,
        command=shlex.join(["perfmod", *sys.argv[1:]]),
    )
