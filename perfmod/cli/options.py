"""The arguments that several commands share. Only typer is imported, so that `--help` is quick."""

from __future__ import annotations

import enum
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfmod.cli import completing

if TYPE_CHECKING:
    from perfmod.config import Options


class OutputFormat(str, enum.Enum):
    """How `apply` and `check` print what they found."""

    TEXT = "text"
    CONCISE = "concise"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"
    GITLAB = "gitlab"
    MARKDOWN = "markdown"
    CSV = "csv"


class TextOrJson(str, enum.Enum):
    """How other commands print their result."""

    TEXT = "text"
    JSON = "json"


class PresetName(str, enum.Enum):
    """Rules on request that are selected together; `perfmod.codemods.catalog` says which."""

    FAST = "fast"


Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH", help="Python files, notebooks, folders (files ignored by git are skipped), or - for stdin."
    ),
]
OptionalPaths = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PATH", help="Python files, notebooks, folders (files ignored by git are skipped), or - for stdin."
    ),
]
Select = Annotated[
    list[str] | None,
    typer.Option(
        "--select",
        metavar="RULE",
        help="Run these rules instead of the default ones: code, name or prefix, such as PM101 or PM1.",
        autocompletion=completing.rules,
    ),
]
ExtendSelect = Annotated[
    list[str] | None,
    typer.Option(
        "--extend-select",
        metavar="RULE",
        help="Run these rules as well; a code or name also selects a rule that is off by default.",
        autocompletion=completing.rules,
    ),
]
Preset = Annotated[
    PresetName | None,
    typer.Option(
        "--preset",
        help="Run rules on request as well; fast: mixed precision, compilation, fused kernels, data on the device.",
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore",
        metavar="RULE",
        help="Skip these rules: code, name or prefix.",
        autocompletion=completing.rules,
    ),
]
Unsafe = Annotated[
    bool | None,
    typer.Option("--unsafe/--no-unsafe", help="Also make rewrites with an open question, as if the answer were yes."),
]
LowImpact = Annotated[
    bool | None,
    typer.Option("--low-impact/--no-low-impact", help="Also make rewrites that are safe but gain little."),
]
FindingsFormat = Annotated[
    OutputFormat, typer.Option("--output-format", help="How findings are printed (docs/outputs.md).")
]
OutputFile = Annotated[
    Path | None,
    typer.Option("--output-file", metavar="FILE", help="Write the result to FILE instead of standard output."),
]
Statistics = Annotated[
    bool,
    typer.Option("--statistics", help="Count findings by rule and outcome instead of listing them; also in json."),
]
Format = Annotated[TextOrJson, typer.Option("--output-format", help="Output format.")]
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
        help="Skip files whose analysis takes longer, with the files that they belong to.",
        show_default="120",
    ),
]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", "-v", help="Give reasons; also show open questions, low impact, rewrites on request and advice."
    ),
]
ForceExclude = Annotated[
    bool | None,
    typer.Option(
        "--force-exclude/--no-force-exclude",
        help="Leave out what the configuration excludes, also where it is given by name.",
    ),
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Ignore cached results and analyse every file again.")]

DecisionsFile = Annotated[
    Path | None,
    typer.Option(
        "--decisions",
        metavar="FILE",
        help="Make the rewrites that FILE says were accepted in a review, and no others.",
        dir_okay=False,
        exists=True,
    ),
]


def options(
    select: list[str] | None,
    extend_select: list[str] | None,
    ignore: list[str] | None,
    *,
    unsafe: bool | None,
    low_impact: bool | None,
    time_limit: float | None = None,
    force_exclude: bool | None = None,
    preset: PresetName | None = None,
) -> Options:
    """The settings that the command line gives; rules may be listed with commas."""
    from perfmod.config import Options

    return Options(
        select=_split(select),
        extend_select=(*_split(extend_select), *((preset.value,) if preset is not None else ())),
        ignore=_split(ignore),
        unsafe=unsafe,
        low_impact=low_impact,
        time_limit=time_limit,
        force_exclude=force_exclude,
    )


def apply_command(paths: list[str], options: Options, *, isolated: bool, command: str = "apply") -> str:
    """The `perfmod apply`, or another command, of these arguments, to which hints add theirs."""
    words = ["perfmod", command, *paths]
    for name, rules in (
        ("--select", options.select),
        ("--extend-select", options.extend_select),
        ("--ignore", options.ignore),
    ):
        words += [name, ",".join(rules)] if rules else []
    flags = {"unsafe": options.unsafe, "low-impact": options.low_impact, "force-exclude": options.force_exclude}
    for name, given in flags.items():
        words += [] if given is None else [f"--{name}" if given else f"--no-{name}"]
    words += ["--time-limit", f"{options.time_limit:g}"] if options.time_limit is not None else []
    return shlex.join([*words, *(["--isolated"] if isolated else [])])


def _split(values: list[str] | None) -> tuple[str, ...]:
    return tuple(part.strip() for value in values or () for part in value.split(",") if part.strip())
