"""What the commands of `perfmod migrate` do with their arguments."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from attrs import evolve, frozen

from perfmod import __version__
from perfmod.cli.verifying import needs_extra
from perfmod.errors import ExitCode, Failure, Interrupted, UsageMistake, explain
from perfmod.migrate import targets
from perfmod.migrate.campaign import Campaign
from perfmod.migrate.engines.local import LocalEngine
from perfmod.migrate.jobs import Engine
from perfmod.migrate.lock import locked
from perfmod.migrate.overview import overview
from perfmod.migrate.places import CLONES
from perfmod.migrate.report import page, tables, text
from perfmod.migrate.report.markdown import markdown
from perfmod.migrate.report.progress import Progress
from perfmod.migrate.results import Cause, Outcome
from perfmod.migrate.retrying import Retry
from perfmod.migrate.rows import CampaignRow
from perfmod.migrate.sampling import pilot_of
from perfmod.migrate.settings import Settings
from perfmod.migrate.state import State, now
from perfmod.migrate.targets import Project
from perfmod.migrate.zoo import Zoo
from perfmod.parallel import usable_cpus
from perfmod.records import plain, restored
from perfmod.report.output import console, write_file, write_result
from perfmod.report.text import render_notes
from perfmod.report.wording import counted
from perfmod.roots import from_here, shown
from perfmod.seats import gpus_of_this_machine

_SUFFIXES = {"html": "html", "markdown": "md", "json": "json", "csv": "csv", "parquet": "parquet"}
_ALWAYS = ("html", "markdown", "json", "csv")
"""The reports that every run leaves in the campaign's folder."""
_LISTED = 20
"""Projects that the end of a run tells of."""


@frozen
class Runs:
    """How pieces of work are run, as the command line says it."""

    jobs: int | None
    engine: str
    scheduler: str | None
    gpus: str | None
    shared_folder: bool

    @property
    def ships(self) -> bool:
        """Whether workers do not see the repositories, so that they have to be sent the files of projects."""
        return self.scheduler is not None and not self.shared_folder

    def require_fitting(self) -> None:
        """Raise `UsageMistake` where the options do not go together."""
        if self.scheduler is not None and self.engine != "dask":
            raise UsageMistake("--scheduler goes with --engine dask")
        if self.shared_folder and self.scheduler is None:
            raise UsageMistake("--shared-folder goes with --scheduler")


def require_fitting(
    given: Sequence[str], listing: Path | None, out: Path | None, *, writes: bool, branch: str, author: str, owners: int
) -> None:
    """Raise `UsageMistake` where something is missing, or options do not go together."""
    if not given and listing is None:
        raise UsageMistake("Missing argument 'TARGET': name repositories or folders, or --list FILE")
    if out is None:
        raise UsageMistake("Missing option '--out': the folder that gets the state and the results")
    for name, value in (("--author", author), ("--owners", owners), ("--branch", branch != "perfmod")):
        if value and not writes:
            raise UsageMistake(f"{name} goes with --write")


def start_campaign(out: Path, settings: Settings, runs: Runs) -> ExitCode:
    """`migrate start`."""
    runs.require_fitting()
    folder = out.absolute()
    zoo = Zoo.read(settings.zoo) if settings.zoo is not None else None
    found = targets.projects(settings.targets, settings.listing, folder / CLONES)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(f"{shown(out)}: cannot be made: {explain(error)}") from error
    with locked(folder) as descriptor:
        state = State(folder, create=True)
        if state.fact("created") is None:
            state.keep("created", now())
        state.keep("perfmod", __version__)
        state.keep("settings", plain(settings))
        state.keep("writes", settings.writes)
        state.plan(found)
        if zoo is not None:
            strangers = [
                f"{each.script} of {shown(each.project)}" for each in zoo.without_project(each.name for each in found)
            ]
            if strangers:
                raise UsageMistake(f"{shown(zoo.path)}: {strangers[0]}: the campaign has no such project")
        chosen = pilot_of(found, settings.pilot) if settings.pilot else found
        return _run(folder, state, evolve(settings), zoo, chosen, runs, descriptor, refreshes=True)


def resume_campaign(out: Path, runs: Runs, stop_at: float | None) -> ExitCode:
    """`migrate resume`."""
    runs.require_fitting()
    folder = out.absolute()
    State(folder).close()
    with locked(folder) as descriptor:
        state = State(folder)
        settings = _settings(state)
        if stop_at is not None:
            settings = evolve(settings, stop_at=stop_at)
        return _resume(folder, state, settings, runs, descriptor)


def retry_campaign(out: Path, runs: Runs, *, failed: bool, causes: Sequence[str], projects: Sequence[str]) -> ExitCode:
    """`migrate retry`."""
    runs.require_fitting()
    known = [cause.value for cause in Cause if cause.value]
    for cause in causes:
        if cause not in known:
            raise UsageMistake(f"--cause {shown(cause)}: is none of {', '.join(known)}")
    if not (failed or causes or projects):
        raise UsageMistake("nothing to do again: name it by --failed, --cause CAUSE or --project NAME")
    folder = out.absolute()
    State(folder).close()
    with locked(folder) as descriptor:
        state = State(folder)
        names = [each.name for each in state.projects()]
        for name in projects:
            if name not in names:
                raise UsageMistake(f"--project {shown(name)}: is no project of {shown(out)}")
        count = Retry(failed, causes, projects).forget(state)
        render_notes([f"{counted(count, 'project')} to do again"], console(stderr=True))
        return _resume(folder, state, _settings(state), runs, descriptor)


def show_status(out: Path, *, everything: bool, as_json: bool) -> ExitCode:
    """`migrate status`."""
    folder = out.absolute()
    row = overview(folder, State(folder))
    if as_json:
        write_result(tables.rows_json(row))
    else:
        text.render_status(row, console(stderr=False), folder=str(out), everything=everything)
    return ExitCode.OK


def write_report(out: Path, output_format: str, file: Path | None) -> ExitCode:
    """`migrate report`."""
    folder = out.absolute()
    place = file if file is not None else out / f"report.{_SUFFIXES[output_format]}"
    _write(overview(folder, State(folder)), output_format, place)
    render_notes([f"{shown(place)} is written"], console(stderr=True))
    return ExitCode.OK


def _resume(folder: Path, state: State, settings: Settings, runs: Runs, descriptor: int) -> ExitCode:
    zoo = Zoo.read(settings.zoo) if settings.zoo is not None else None
    return _run(folder, state, settings, zoo, state.projects(), runs, descriptor)


def _run(
    folder: Path,
    state: State,
    settings: Settings,
    zoo: Zoo | None,
    projects: Sequence[Project],
    runs: Runs,
    descriptor: int,
    *,
    refreshes: bool = False,
) -> ExitCode:
    """Run a campaign, write its reports, and tell how it went on."""
    talk, begun, spent = console(stderr=True), time.monotonic(), state.fact("seconds") or 0.0
    state.keep("stopped", "")
    engines = _engine(runs, descriptor, needs_gpus=zoo is not None)
    with engines as engine, Progress(len(projects), stream=talk) as progress:
        campaign = Campaign(folder, state, settings, zoo, engine, progress, ships=runs.ships, refreshes=refreshes)
        try:
            campaign.run(projects)
        except KeyboardInterrupt as error:
            goes_on = f"`{_command('resume', folder)}` goes on"
            raise Interrupted(f"interrupted; what was done until then is kept, and {goes_on}") from error
        finally:
            state.keep("seconds", spent + time.monotonic() - begun)
    state.keep("stopped", campaign.stopped)
    row = overview(folder, state)
    for name in _ALWAYS:
        _write(row, name, folder / f"report.{_SUFFIXES[name]}")
    text.render_status(row, talk, folder=str(from_here(folder)), limit=_LISTED)
    render_notes(_notes(folder, row, campaign.stopped, settings, len(projects)), talk)
    if campaign.stopped:
        return ExitCode.REFUTED
    failed = any(each.outcome is Outcome.FAILED for each in row.projects)
    return ExitCode.FAILED if failed else ExitCode.OK


def _notes(folder: Path, row: CampaignRow, stopped: str, settings: Settings, done: int) -> list[str]:
    """The commands that go on from here."""
    notes = []
    left = sum(each.outcome is None for each in row.projects)
    if stopped:
        notes.append(f"stopped: {stopped}; `{_command('resume', folder)} --stop-at 1` goes on all the same")
    elif settings.pilot and left:
        pilot = f"this was a pilot of {counted(done, 'project')}"
        notes.append(f"{pilot}: `{_command('resume', folder)}` does the other {left}")
    notes.append(f"{shown(from_here(folder / 'report.html'))} shows all of it; `{_command('status', folder)}` in short")
    return notes


def _command(name: str, folder: Path) -> str:
    return shlex.join(["perfmod", "migrate", name, str(from_here(folder))])


@contextlib.contextmanager
def _engine(runs: Runs, descriptor: int, *, needs_gpus: bool) -> Iterator[Engine]:
    """What runs the work; at the end, nothing of it runs any more. Raises `UsageMistake` and `Failure`."""
    jobs = runs.jobs or usable_cpus()
    gpus = _gpus(runs.gpus) if needs_gpus else []
    engine: Engine
    if runs.engine == "dask":
        with needs_extra("cluster"):
            from perfmod.migrate.engines.cluster import ClusterEngine

        engine = ClusterEngine(
            runs.scheduler, jobs=jobs, gpus=gpus, shared_folder=not runs.ships, pass_fds=(descriptor,)
        )
    else:
        engine = LocalEngine(jobs, gpus, pass_fds=(descriptor,))
    try:
        yield engine
    finally:
        engine.close()


def _gpus(listed: str | None) -> list[str]:
    """The GPUs that verifications get; `cpu` stands for none."""
    if listed is None:
        return gpus_of_this_machine() or ["cpu0"]
    names = [name.strip() for name in listed.split(",") if name.strip()]
    return [f"cpu{number}" if name == "cpu" else name for number, name in enumerate(names)]


def _settings(state: State) -> Settings:
    return restored(Settings, state.fact("settings"))


def _write(row: CampaignRow, output_format: str, place: Path) -> None:
    """Raises `Failure`, and `UsageMistake` where pyarrow is missing."""
    if output_format == "parquet":
        tables.rows_parquet(row, place)
        return
    render: Mapping[str, Callable[[CampaignRow], bytes]] = {
        "html": page.render_html,
        "json": tables.rows_json,
        "csv": tables.rows_csv,
        "markdown": lambda row: markdown(row).encode(),
    }
    write_file(place, render[output_format](row))
