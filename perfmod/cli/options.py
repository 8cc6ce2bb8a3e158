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
    typer.Argument(help="Python files, notebooks, folders (without what git ignores), or - for stdin."),
]
Select = Annotated[
    list[str] | None,
    typer.Option("--select", metavar="RULE", help="Run only these rules: code, name or prefix, as PM101 or PM1."),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option("--ignore", metavar="RULE", help="Leave these rules out: code, name or prefix."),
]
Unsafe = Annotated[
    bool | None,
    typer.Option("--unsafe/--no-unsafe", help="Include rewrites that are usually right but could not be proven."),
]
Format = Annotated[OutputFormat, typer.Option("--output-format", help="How to print the result.")]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", min=1, metavar="N", help="The most processes to use.", show_default="processors"),
]
Isolated = Annotated[
    bool, typer.Option("--isolated", help="Keep to the given files, and read each for itself, without its project.")
]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        metavar="SECONDS",
        min=0.1,
        help="Leave files alone that take longer to analyse together.",
        show_default="20",
    ),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Say why: also what is held back, what is refused, and advice.")
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Read every file anew.")]


def options(
    select: list[str] | None, ignore: list[str] | None, unsafe: bool | None, time_limit: float | None = None
) -> Options:
    """The settings that the command line gives; rules may be listed with commas."""
    from perfmod.config import Options

    return Options(_split(select), _split(ignore), unsafe, time_limit)


def _split(values: list[str] | None) -> tuple[str, ...]:
    return tuple(part.strip() for value in values or () for part in value.split(",") if part.strip())
