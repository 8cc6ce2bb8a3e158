"""Runs a campaign: decides for each project what is still to be done, and has it done, several projects at a time.

One process decides and records; everything that takes time, or could hang or crash, is a job of an engine. Whatever
happens to a project is recorded for that project and stops no other.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from attrs import define, evolve, field, frozen

from perfmod.errors import Failure, PerfmodError, explain
from perfmod.memory import rules_version
from perfmod.migrate import branching, snapshot
from perfmod.migrate.jobs import LOG, OUT, REQUEST, SNAPSHOT, Done, Ending, Engine, Job, Kind
from perfmod.migrate.overview import is_refuted, project_row
from perfmod.migrate.places import WORK, decisions_of, folder_of, script_folder_of
from perfmod.migrate.results import (
    Analysis,
    AnalysisRequest,
    Branches,
    BranchesRequest,
    Cause,
    CloneRequest,
    Outcome,
    Refused,
    Request,
    Result,
    VerificationRequest,
)
from perfmod.migrate.rows import ProjectRow
from perfmod.migrate.settings import Settings
from perfmod.migrate.shards import Shards
from perfmod.migrate.state import Piece, State, now
from perfmod.migrate.stepped import CONTENTS
from perfmod.migrate.steps import ANALYSIS, BRANCHES, EVIDENCE, script_of, verification_of
from perfmod.migrate.targets import Project, folder_name, is_repository
from perfmod.migrate.work import read_result
from perfmod.migrate.zoo import Script, Zoo, digest
from perfmod.records import plain, restored
from perfmod.roots import shown

_CLONE_LIMIT = 1800.0
"""Seconds that the clone of one repository may take."""
_PATIENCE = 0.5
"""Seconds until it is looked again whether there is something to start."""
_FEWEST_VERDICTS = 5
"""Verdicts from which on a share of them says something."""
_BROKEN = {
    Ending.CRASHED: Cause.CRASH,
    Ending.TIMEOUT: Cause.TIMEOUT,
    Ending.LOST: Cause.WORKER_LOST,
    Ending.DISK: Cause.DISK,
}


class Progress(Protocol):
    """Is told how far a campaign is."""

    def update(self, done: ProjectRow) -> None:
        """A project is done."""

    def running(self, names: Sequence[str]) -> None:
        """These jobs are under way."""


@frozen
class _Started:
    """A job that is under way: for which project and step, and under which key its result counts."""

    project: Project
    step: str
    key: str
    commit: str


@define
class Campaign:
    """One run of a campaign, which holds its lock.

    Attributes:
        folder: of the campaign.
        ships: whether jobs get the files of projects along, because workers do not see the repositories.
        refreshes: whether repositories that were cloned earlier are brought up to date.
        stopped: why it stopped before its end; empty where it did not.
    """

    folder: Path
    state: State
    settings: Settings
    zoo: Zoo | None
    engine: Engine
    progress: Progress
    ships: bool = False
    refreshes: bool = False
    stopped: str = ""
    _under_way: dict[str, _Started] = field(factory=dict, init=False)
    _cloned: set[str] = field(factory=set, init=False)
    _shards: Shards = field(init=False)
    _verdicts: list[bool] = field(factory=list, init=False)
    """Whether each script that this run has verified was refuted."""

    def __attrs_post_init__(self) -> None:
        self._shards = Shards.of(self.state, self.settings.shards, self.settings.branch)

    def run(self, projects: Sequence[Project]) -> None:
        """Do what is still to be done of these projects.

        Raises `Failure` where the state cannot be written or the engine cannot work, and `KeyboardInterrupt`; what was
        done until then is kept.
        """
        self._clear()
        waiting = deque(projects)
        while (waiting and not self.stopped) or self._under_way:
            while waiting and not self.stopped and self.engine.room > 0:
                self._begin(waiting.popleft())
            self.progress.running(list(self._under_way))
            done = self.engine.next(_PATIENCE) if self._under_way else None
            if done is not None:
                self._end(done)
        shutil.rmtree(self.folder / WORK, ignore_errors=True)

    def _clear(self) -> None:
        """Remove what a killed run has left, in repositories as well."""
        work = self.folder / WORK
        for request in work.glob(f"*/{REQUEST}"):
            with contextlib.suppress(ValueError, OSError, PerfmodError):
                asked = restored(BranchesRequest, json.loads(request.read_text("utf-8")))
                branching.clear(asked.repository, request.parent)
        shutil.rmtree(work, ignore_errors=True)

    def _begin(self, project: Project) -> None:
        """Start the first thing that is missing of a project."""
        if project.is_remote and project.name not in self._cloned:
            self._cloned.add(project.name)
            if self.refreshes or not project.repository.exists():
                clone = CloneRequest(project.location, project.repository, project.revision)
                self._start(project, _CLONE, "", "", clone, Kind.CLONE, _CLONE_LIMIT, is_local=True)
                return
        try:
            commit, decisions = _commit(project), self._decisions(project)
        except snapshot.NoCommits as error:
            self._refuse(project, ANALYSIS, Outcome.SKIPPED, Cause.NO_COMMITS, str(error))
            return
        except PerfmodError as error:
            cause = Cause.GIT if project.repository.exists() else Cause.VANISHED
            self._refuse(project, ANALYSIS, Outcome.FAILED, cause, str(error))
            return
        pieces = self.state.pieces(project.name)
        key = self._key(project, commit, decisions)
        first = pieces.get(ANALYSIS)
        if first is not None and first.key == key:
            self._follow(project, pieces)
            return
        self.state.forget(project.name, pieces)
        request = self._analysis(project, commit, decisions)
        self._start(project, ANALYSIS, key, commit, request, Kind.ANALYSIS, self.settings.time_limit)

    def _follow(self, project: Project, pieces: Mapping[str, Piece]) -> None:
        """Start what comes next for a project whose analysis is done."""
        first = pieces[ANALYSIS]
        analysis = first.result
        if not isinstance(analysis, Analysis) or analysis.outcome is not Outcome.CHANGED:
            self._complete(project)
            return
        scripts = {verification_of(each.script): each for each in self._scripts(project)}
        first = self._with_wanted(first, scripts)
        keys = {step: _digest(first.key, digest(script)) for step, script in scripts.items()}
        missing = [step for step in scripts if step not in pieces or pieces[step].key != keys[step]]
        for step in missing:
            self._verify(project, first.commit, scripts[step], keys[step])
        if missing:
            return
        row = project_row(project, pieces)
        seen = _digest(first.key, *(pieces[step].finished for step in scripts))
        if scripts and (EVIDENCE not in pieces or pieces[EVIDENCE].key != seen):
            self._tell_evidence(project, first.commit, seen, list(scripts.values()))
        elif self.settings.writes and not is_refuted(row.verdicts):
            last = pieces.get(EVIDENCE, first).result
            assert isinstance(last, (Analysis, Refused))
            self._branch(project, first, last, pieces.get(BRANCHES))
        else:
            self._complete(project)

    def _with_wanted(self, first: Piece, scripts: Iterable[str]) -> Piece:
        """The piece of an analysis, which says from now on what is to follow."""
        wanted = (*scripts, *([EVIDENCE] if scripts else []), *([BRANCHES] if self.settings.writes else []))
        if first.wanted != wanted:
            first = evolve(first, wanted=wanted)
            self.state.finish(first)
        return first

    def _verify(self, project: Project, commit: str, script: Script, key: str) -> None:
        request = VerificationRequest(
            project.name,
            self._repository(project),
            commit if is_repository(project.repository) else "",
            self.settings.options,
            script,
            self._decisions(project),
        )
        step = verification_of(script.script)
        self._start(project, step, key, commit, request, Kind.VERIFICATION, script.timeout, gpus=max(1, script.gpus))

    def _tell_evidence(self, project: Project, commit: str, key: str, scripts: Sequence[Script]) -> None:
        """Make patches and pages once more, which speak of what was verified."""
        records = [self.folder / script_folder_of(project.name, each.script) / "evidence.json" for each in scripts]
        files = {f"evidence-{number}.json": path for number, path in enumerate(records) if path.is_file()}
        request = evolve(self._analysis(project, commit, self._decisions(project)), evidence=tuple(files))
        limit = self.settings.time_limit
        self._start(project, EVIDENCE, key, commit, request, Kind.ANALYSIS, limit, files=files)

    def _branch(self, project: Project, first: Piece, last: Analysis | Refused, made: Piece | None) -> None:
        """Put the steps on branches, as many of them as may be open."""
        if isinstance(last, Refused):
            self._complete(project)
            return
        if not is_repository(project.repository):
            reason = "is in no git repository, so it cannot have a branch; its patches are there"
            self._refuse(project, BRANCHES, Outcome.SKIPPED, Cause.NO_REPOSITORY, reason)
            return
        tips = self.state.tips(project.name)
        waiting = self._shards.waiting(project, last.steps)
        key = _digest(first.key, self.settings.branch, self.settings.author, *waiting)
        if made is not None and made.key == key:
            self._complete(project)
            return
        request = BranchesRequest(
            project.name,
            project.repository,
            first.commit,
            last.steps,
            self.folder / folder_of(project.name) / CONTENTS,
            self.settings.branch,
            self.settings.author,
            tips,
            waiting,
            self.settings.time_limit,
        )
        limit = self.settings.time_limit * (len({each.branch for each in last.steps}) + 1)
        self._start(project, BRANCHES, key, first.commit, request, Kind.BRANCHES, limit, is_local=True)

    def _start(
        self,
        project: Project,
        step: str,
        key: str,
        commit: str,
        request: Request,
        kind: Kind,
        timeout: float,
        *,
        gpus: int = 0,
        is_local: bool = False,
        files: Mapping[str, Path] | None = None,
    ) -> None:
        """Have a piece of work done; what prevents that is what it comes to."""
        folder = self.folder / WORK / folder_name(f"{step} {project.name}")
        try:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            (folder / REQUEST).write_text(json.dumps(plain(request)), "utf-8")
            for name, path in (files or {}).items():
                shutil.copyfile(path, folder / name)
            if self.ships and not is_local:
                everything = kind is Kind.VERIFICATION
                (folder / SNAPSHOT).write_bytes(_packed(project, commit, everything=everything))
        except OSError as error:
            reason = f"{shown(folder)}: cannot be written: {explain(error)}"
            self._refuse(project, step, Outcome.FAILED, Cause.DISK, reason, key, commit)
            return
        except PerfmodError as error:
            self._refuse(project, step, Outcome.FAILED, Cause.GIT, str(error), key, commit)
            return
        name = f"{step} {project.name}"
        self._under_way[name] = _Started(project, step, key, commit)
        self.engine.submit(Job(name, kind, folder, timeout, gpus, is_local))

    def _end(self, done: Done) -> None:
        """Record what a job came to, and go on with its project."""
        started = self._under_way.pop(done.job.name)
        project = started.project
        try:
            result = self._result(done)
            self._keep(started, done, result)
        except OSError as error:
            result = Refused(Outcome.FAILED, Cause.DISK, f"its results cannot be kept: {explain(error)}")
        if done.job.kind is Kind.BRANCHES and done.ending is not Ending.FINISHED:
            with contextlib.suppress(PerfmodError):
                branching.clear(project.repository, done.job.folder)
        with contextlib.suppress(OSError):
            shutil.rmtree(done.job.folder)
        if started.step == _CLONE:
            if isinstance(result, Refused):
                self._refuse(project, ANALYSIS, result.outcome, result.cause, result.reason)
            else:
                self._begin(project)
            return
        tips = {}
        if isinstance(result, Branches):
            tips = {each.name: each.tip for each in result.branches if each.tip}
        piece = Piece(project.name, started.step, started.key, result, now(), done.seconds, done.peak_mib, done.worker)
        self.state.finish(evolve(piece, commit=started.commit), tips)
        pieces = self.state.pieces(project.name)
        if script_of(started.step):
            self._count(project, pieces)
            if any(each.project == project for each in self._under_way.values()):
                return
        self._follow(project, pieces)

    def _result(self, done: Done) -> Result:
        if done.ending is Ending.FINISHED:
            return read_result(done.job.folder)
        return Refused(Outcome.FAILED, _BROKEN[done.ending], done.reason)

    def _keep(self, started: _Started, done: Done, result: Result) -> None:
        """Move what a job has made to where it belongs, and its log where something went wrong. Raises `OSError`."""
        out, name = done.job.folder / OUT, started.project.name
        if script_of(started.step):
            place = self.folder / script_folder_of(name, script_of(started.step))
            _replace(place, out)
        elif started.step in (ANALYSIS, EVIDENCE):
            place = self.folder / folder_of(name)
            verified = place / "verify"
            if verified.exists() and out.exists() and started.step == EVIDENCE:
                verified.rename(out / "verify")
            _replace(place, out)
        else:
            place = self.folder / folder_of(name)
        log = done.job.folder / LOG
        if isinstance(result, Refused) and log.is_file():
            place.mkdir(parents=True, exist_ok=True)
            log.replace(place / f"{started.step.split()[0]}.log")

    def _count(self, project: Project, pieces: Mapping[str, Piece]) -> None:
        """Stop where too many verdicts are refuted."""
        rows = project_row(project, pieces).verdicts
        self._verdicts.append(is_refuted(rows))
        refuted, of = sum(self._verdicts), len(self._verdicts)
        if of >= _FEWEST_VERDICTS and refuted > self.settings.stop_at * of and not self.stopped:
            self.stopped = f"{refuted} of {of} verdicts are refuted, more than a share of {self.settings.stop_at:g}"

    def _refuse(
        self,
        project: Project,
        step: str,
        outcome: Outcome,
        cause: Cause,
        reason: str,
        key: str = "",
        commit: str = "",
    ) -> None:
        """Record that a step cannot be taken; unless it has a key, it is tried again by every run."""
        refused = Refused(outcome, cause, reason)
        if step == ANALYSIS:
            self.state.forget(project.name, self.state.pieces(project.name))
        self.state.finish(Piece(project.name, step, key, refused, now(), commit=commit))
        self._complete(project)

    def _complete(self, project: Project) -> None:
        self.progress.update(project_row(project, self.state.pieces(project.name)))

    def _analysis(self, project: Project, commit: str, decisions: str) -> AnalysisRequest:
        return AnalysisRequest(
            project.name,
            self._repository(project),
            commit if is_repository(project.repository) else "",
            self.settings.options,
            self.settings.by,
            decisions,
            is_sharded=self.settings.shards > 0,
            use_cache=self.settings.use_cache,
            author=self.settings.author,
            date=self.state.fact("created"),
        )

    def _repository(self, project: Project) -> Path | None:
        return None if self.ships else project.repository

    def _scripts(self, project: Project) -> Sequence[Script]:
        return self.zoo.scripts_of(project.name) if self.zoo is not None else ()

    def _decisions(self, project: Project) -> str:
        """What people have put beside the campaign's results; empty where nothing. Raises `Failure`."""
        path = self.folder / decisions_of(project.name)
        try:
            return path.read_text("utf-8") if path.exists() else ""
        except (OSError, UnicodeDecodeError) as error:
            raise Failure(f"{shown(path)}: cannot be read: {error}") from error

    def _key(self, project: Project, commit: str, decisions: str) -> str:
        settings = self.settings
        return _digest(
            commit,
            rules_version(),
            json.dumps(plain(settings.options)),
            settings.by.value,
            str(settings.shards > 0),
            decisions,
        )


_CLONE = "clone"


def _commit(project: Project) -> str:
    if is_repository(project.repository):
        # The HEAD of a clone of ours is at the revision that was asked for.
        return snapshot.commit_of(project.repository, "" if project.is_remote else project.revision)
    return snapshot.content_digest(project.repository)


def _packed(project: Project, commit: str, *, everything: bool) -> bytes:
    return snapshot.pack(project.repository, commit if is_repository(project.repository) else "", everything=everything)


def _replace(place: Path, out: Path) -> None:
    """Make `out` what lies at a place. Raises `OSError`."""
    if place.exists():
        shutil.rmtree(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    if out.is_dir():
        out.rename(place)


def _digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
