"""`perfmod migrate`: rewrite many projects at once, with a folder that holds the state and the results of it."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

from perfmod.cli.options import (
    ExtendSelect,
    Format,
    Ignore,
    LowImpact,
    NoCache,
    Select,
    TextOrJson,
    Unsafe,
    options,
)
from perfmod.patches.by import By

_START = "start"
_RUNS = "How it runs"


class EngineName(str, enum.Enum):
    """What runs the pieces of work."""

    LOCAL = "local"
    DASK = "dask"


class ReportFormat(str, enum.Enum):
    """How a campaign is reported."""

    HTML = "html"
    MARKDOWN = "markdown"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


class _Migrate(TyperGroup):
    """A group whose first command need not be named."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Name it where the command line does not begin with a command or ask for help."""
        is_named = not args or args[0] in self.commands or args[0] in ("-h", "--help")
        return super().parse_args(ctx, args if is_named else [_START, *args])


migrate = typer.Typer(cls=_Migrate, rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]})


@migrate.callback()
def _migrate() -> None:
    """Rewrite many projects: a patch series or a branch for each, kept in a folder that can be resumed.

    `perfmod migrate TARGET... --out CAMPAIGN` is short for `perfmod migrate start TARGET... --out CAMPAIGN`.
    """


CampaignFolder = Annotated[Path, typer.Argument(metavar="CAMPAIGN", help="The folder of the campaign.")]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        "-j",
        min=1,
        metavar="N",
        help="Analyse at most N projects at a time.",
        show_default="processors",
        rich_help_panel=_RUNS,
    ),
]
EngineOption = Annotated[
    EngineName, typer.Option("--engine", help="Run on this machine, or through Dask.", rich_help_panel=_RUNS)
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="With --engine dask: join this scheduler instead of starting workers here.",
        rich_help_panel=_RUNS,
    ),
]
SharedFolder = Annotated[
    bool,
    typer.Option(
        "--shared-folder",
        help="With --scheduler: workers see the same folders as this machine, so nothing has to be sent to them.",
        rich_help_panel=_RUNS,
    ),
]
Gpus = Annotated[
    str | None,
    typer.Option(
        "--gpus",
        metavar="LIST",
        help="GPUs for verifications, such as 0,1; cpu,cpu stands for two that use none.",
        show_default="all of this machine",
        rich_help_panel=_RUNS,
    ),
]
StopAt = Annotated[
    float | None,
    typer.Option(
        "--stop-at",
        metavar="SHARE",
        min=0.0,
        max=1.0,
        help="Stop when more than this share of verdicts is refuted.",
        show_default="0.2",
    ),
]


@migrate.command(_START, short_help="Start a campaign, or bring one up to date with its projects and options.")
def start(
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="TARGET", help="Repositories, folders that hold repositories, or addresses to clone."),
    ] = None,
    listing: Annotated[
        Path | None,
        typer.Option("--list", metavar="FILE", help="More targets, one a line, each with a revision if wanted."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="CAMPAIGN", help="The folder of the campaign.  [required]")
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Make a branch with commits in each repository; else nothing is touched.")
    ] = False,
    branch: Annotated[str, typer.Option("--branch", metavar="NAME", help="With --write: its name.")] = "perfmod",
    author: Annotated[
        str,
        typer.Option(
            "--author", metavar="AUTHOR", help="With --write: 'Name <address>'.", show_default="as git is configured"
        ),
    ] = "",
    by: Annotated[By, typer.Option("--by", help="What one patch or commit holds.")] = By.RULE,
    owners: Annotated[
        int | None,
        typer.Option(
            "--owners",
            metavar="N",
            min=1,
            help="With --write: a branch for each owner in CODEOWNERS, at most N open at once.",
            show_default="one branch a project",
        ),
    ] = None,
    verify: Annotated[
        Path | None,
        typer.Option(
            "--verify",
            metavar="ZOO.toml",
            help="Run scripts before and after, as this file says (docs/migrate.md). Runs the projects' code.",
        ),
    ] = None,
    pilot: Annotated[
        int | None,
        typer.Option(
            "--pilot", metavar="N", min=1, help="Do N projects of different kinds, and stop.", show_default="all"
        ),
    ] = None,
    stop_at: StopAt = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="S", min=1, help="Give up on a project after this many seconds.")
    ] = 600.0,
    select: Select = None,
    extend_select: ExtendSelect = None,
    ignore: Ignore = None,
    unsafe: Unsafe = None,
    low_impact: LowImpact = None,
    no_cache: NoCache = False,
    jobs: Jobs = None,
    engine: EngineOption = EngineName.LOCAL,
    scheduler: Scheduler = None,
    shared_folder: SharedFolder = False,
    gpus: Gpus = None,
) -> int:
    """Analyse many projects, and keep a patch series, a review page and the outcome of each in a folder.

    What is committed is analysed; working trees do not matter and are not touched. Called again with the same
    folder, it does what has changed. Exits with 3 if a project failed, with 4 if it stopped at refuted verdicts.
    """
    from attrs import evolve

    from perfmod.cli.migrating import Runs, require_fitting, start_campaign
    from perfmod.migrate.settings import Settings

    require_fitting(targets or [], listing, out, writes=write, branch=branch, author=author, owners=owners or 0)
    assert out is not None
    chosen = options(select, extend_select, ignore, unsafe=unsafe, low_impact=low_impact)
    settings = Settings(
        targets=tuple(targets or ()),
        listing=listing.absolute() if listing is not None else None,
        options=chosen,
        by=By.OWNER if owners else by,
        writes=write,
        branch=branch,
        author=author,
        zoo=verify.absolute() if verify is not None else None,
        shards=owners or 0,
        time_limit=timeout,
        pilot=pilot or 0,
        use_cache=not no_cache,
    )
    if stop_at is not None:
        settings = evolve(settings, stop_at=stop_at)
    return start_campaign(out, settings, Runs(jobs, engine.value, scheduler, gpus, shared_folder=shared_folder))


@migrate.command(short_help="Go on with a campaign that was interrupted, or after its pilot.")
def resume(
    campaign: CampaignFolder,
    stop_at: StopAt = None,
    jobs: Jobs = None,
    engine: EngineOption = EngineName.LOCAL,
    scheduler: Scheduler = None,
    shared_folder: SharedFolder = False,
    gpus: Gpus = None,
) -> int:
    """Do what is still to be done of a campaign, and again what depends on something that has changed."""
    from perfmod.cli.migrating import Runs, resume_campaign

    return resume_campaign(campaign, Runs(jobs, engine.value, scheduler, gpus, shared_folder=shared_folder), stop_at)


@migrate.command(short_help="Do again what failed.")
def retry(
    campaign: CampaignFolder,
    failed: Annotated[bool, typer.Option("--failed", help="Everything that failed.")] = False,
    cause: Annotated[
        list[str] | None,
        typer.Option("--cause", metavar="CAUSE", help="What failed, was skipped or needs a person for this cause."),
    ] = None,
    project: Annotated[list[str] | None, typer.Option("--project", metavar="NAME", help="All of this project.")] = None,
    jobs: Jobs = None,
    engine: EngineOption = EngineName.LOCAL,
    scheduler: Scheduler = None,
    shared_folder: SharedFolder = False,
    gpus: Gpus = None,
) -> int:
    """Do again what failed, and then go on with the campaign; `perfmod migrate status` names the causes."""
    from perfmod.cli.migrating import Runs, retry_campaign

    runs = Runs(jobs, engine.value, scheduler, gpus, shared_folder=shared_folder)
    return retry_campaign(campaign, runs, failed=failed, causes=cause or [], projects=project or [])


@migrate.command(short_help="Show what became of each project.")
def status(
    campaign: CampaignFolder,
    everything: Annotated[bool, typer.Option("--all", help="Also list projects that nothing became of.")] = False,
    output_format: Format = TextOrJson.TEXT,
) -> int:
    """Show, for each project: outcome, branch, size of the patch, what is reviewed and what is verified.

    Works at any time, also while the campaign runs.
    """
    from perfmod.cli.migrating import show_status

    return show_status(campaign, everything=everything, as_json=output_format is TextOrJson.JSON)


@migrate.command(short_help="Write the report of a campaign in another format.")
def report(
    campaign: CampaignFolder,
    output_format: Annotated[
        ReportFormat, typer.Option("--output-format", help="Format; parquet needs pyarrow.")
    ] = ReportFormat.HTML,
    output_file: Annotated[
        Path | None,
        typer.Option(
            "--output-file",
            metavar="FILE",
            help="Where to.",
            show_default="report.html, .md, .json, .csv or .parquet in CAMPAIGN",
        ),
    ] = None,
) -> int:
    """Write the report of a campaign: a page, a table, or Markdown for an issue that tracks it.

    Works at any time, also while the campaign runs. Links in the page are from the campaign's folder.
    """
    from perfmod.cli.migrating import write_report

    return write_report(campaign, output_format.value, output_file)
