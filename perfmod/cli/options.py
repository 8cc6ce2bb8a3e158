"""The arguments that several commands share. Only typer is imported, so that `--help` is quick."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from perfmod.config import Options


class OutputFormat(str, enum.Enum):
    """How a command prints its result."""

    TEXT = "text"
    JSON = "json"


Paths = Annotated[
    list[str],
    typer.Argument(help="Python files, notebooks, folders (files ignored by git are skipped), or - for stdin."),
]
Select = Annotated[
    list[str] | None,
    typer.Option("--select", metavar="RULE", help="Run only these rules: code, name or prefix, such as PM101 or PM1."),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option("--ignore", metavar="RULE", help="Skip these rules: code, name or prefix."),
]
Unsafe = Annotated[
    bool | None,
    typer.Option("--unsafe/--no-unsafe", help="Include rewrites that are usually right but could not be proven."),
]
Format = Annotated[OutputFormat, typer.Option("--output-format", help="Output format.")]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", min=1, metavar="N", help="Maximum number of processes.", show_default="processors"),
]
Isolated = Annotated[
    bool, typer.Option("--isolated", help="Analyse each given file on its own, without the rest of its project.")
]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        metavar="SECONDS",
        min=0.1,
        help="Skip files whose analysis (with the files they belong to) takes longer.",
        show_default="20",
    ),
]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Also show held-back and refused findings and advice, each with its reason."),
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Ignore cached results and analyse every file again.")]


def options(
    select: list[str] | None, ignore: list[str] | None, unsafe: bool | None, time_limit: float | None = None
) -> Options:
    """The settings that the command line gives; rules may be listed with commas."""
    from perfmod.config import Options

    return Options(_split(select), _split(ignore), unsafe, time_limit)


def _split(values: list[str] | None) -> tuple[str, ...]:
    return tuple(part.strip() for value in values or () for part in value.split(",") if part.strip())
