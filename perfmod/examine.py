"""Targets and options in, one result per file out: settings, files, projects, cache, engine. Writes nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Protocol

from attrs import evolve, field, frozen

from perfmod import parallel, planning
from perfmod.cache import Cache, fingerprint
from perfmod.codemods import catalog
from perfmod.codemods.results import Choice, FileResult, Given, Outcome, Part
from perfmod.config import Options, Settings, settings_for
from perfmod.errors import UsageMistake
from perfmod.files import FoundFile, Unreadable, discover, read
from perfmod.planning import Member, Unit
from perfmod.project.pins import Pins
from perfmod.project.settings_files import SettingsFiles
from perfmod.roots import shown
from perfmod.task import Task, matters
from perfmod.transforms.policy import Policy
from perfmod.transforms.rule import Rule


@frozen
class Examined:
    """One file and what became of it.

    Attributes:
        result: holds the bytes of the file only where it is changed.
        task: what the engine was asked, for a file that is changed or whose findings change others; else None.
    """

    file: FoundFile
    result: FileResult
    task: Task | None = field(default=None, eq=False)

    def left_alone(self) -> Examined:
        """The same without its rewrites."""
        if self.task is None:
            return self
        result = evolve(self.result, outcome=Outcome.UNCHANGED, before=b"", after=b"", applied=(), together=())
        return evolve(self, result=result, task=None)


@frozen(eq=False)
class _Plan:
    """What `Settings` mean for the engine."""

    rules: tuple[Rule, ...]
    choice: Choice
    cache: Cache | None


class Progress(Protocol):
    """Told what is done."""

    def __call__(self, done: int, total: int, new: Sequence[Examined]) -> None:
        """So many of all files are done, and these were done last."""


def _silent(done: int, total: int, new: Sequence[Examined]) -> None:
    """Somebody who does not want to know."""


def examine(
    targets: Sequence[str],
    options: Options,
    *,
    cwd: Path,
    isolated: bool = False,
    jobs: int | None = None,
    use_cache: bool = True,
    progress: Progress = _silent,
) -> list[Examined]:
    """Run the engine over every file that `targets` lead to, and over what belongs to the trainings in them.

    At most `jobs` processes are used, by default as many as there are processors. `isolated` keeps to the given
    files, each for itself. `progress` is told of files as they are done, those that are read together at once, in an
    order that does not depend on the processes; the result is in the order of their paths.

    Raises:
        UsageMistake: a wrong path, rule or configuration; nothing was read then.
    """
    found = discover(targets, options, cwd)
    plans = {
        settings: _plan(settings, options, use_cache)
        for settings in dict.fromkeys(file.settings for file in found.files)
    }
    if isolated:
        units = planning.alone(found.files)
    else:
        # Of all rules, whichever are selected: what one finds in a file depends on the files that are read with it.
        rules = tuple(catalog.rules())
        units = planning.together(found.files, lambda data: matters(data, rules), cwd)
    examined = _run(units, plans, jobs or parallel.usable_cpus(), progress)
    for plan in plans.values():
        if plan.cache is not None:
            plan.cache.save()
    unlisted = [_unlisted(path, reason) for path, reason in found.unlisted]
    return [*sorted(examined, key=_path_of), *unlisted]


def examine_bytes(data: bytes, options: Options, *, cwd: Path) -> Examined:
    """Run the engine over code from standard input, under the settings of `cwd`. Raises `UsageMistake`."""
    # A script that begins with a brace and speaks of that is none that anybody has written.
    suffix = ".ipynb" if data.lstrip().startswith(b"{") and b'"nbformat"' in data else ""
    file = FoundFile(f"<stdin>{suffix}", cwd / f"stdin{suffix or '.py'}", True, settings_for(cwd, options), cwd)
    plan = _plan(file.settings, options, use_cache=False)
    given, named = (Given(file.shown, data),), frozenset({file.shown})
    (result,) = Task(given, named, plan.rules, plan.choice, file.settings.time_limit).run()
    return Examined(file, result)


def rules_for(settings: Settings) -> tuple[tuple[Rule, ...], Choice]:
    """The rules that run under `settings`, and which of their findings may be applied. Raises `UsageMistake`."""
    try:
        rules = tuple(catalog.select(settings.select, settings.ignore, settings.extend_select))
    except catalog.SelectionError as error:
        raise UsageMistake(f"{shown(settings.origin or '')}: [tool.perfmod]: {error}") from error
    return rules, Choice(
        unsafe=settings.unsafe,
        opted_in=catalog.opted_in((*settings.select, *settings.extend_select)),
        low_impact=settings.low_impact,
        proposing=settings.proposing,
        policy=Policy(settings.target),
    )


@frozen
class _Opened:
    """A unit whose files were read.

    Attributes:
        found: the files of the task, in its order.
        task: None where there is nothing to do.
        settled: files that were not read, or need not be examined, with the result.
        is_clean: whether it is known that there is nothing to report about the files of the task.
    """

    found: tuple[FoundFile, ...]
    task: Task | None
    settled: tuple[Examined, ...]
    is_clean: bool = False

    @classmethod
    def of(cls, unit: Unit, plan: _Plan, pins: Pins, outside: SettingsFiles) -> _Opened:
        if unit.is_clear:
            return cls((), None, tuple(_unchanged(member.file) for member in unit.members))
        contents = {member.file.real: _content(member.file) for member in unit.members}
        settled = tuple(
            Examined(member.file, content)
            for member in unit.members
            if member.part is Part.ASKED and isinstance(content := contents[member.file.real], FileResult)
        )
        readable = {real: content for real, content in contents.items() if isinstance(content, bytes)}
        kept = [member for member in unit.members if member.file.real in readable]
        if not any(member.part is Part.ASKED for member in kept):
            return cls((), None, settled)
        paths = {member.file.real: member.file.shown for member in kept}
        files = tuple(_given(member, readable[member.file.real], paths, pins, outside) for member in kept)
        named = frozenset(member.file.shown for member in kept if member.file.named)
        task = Task(files, named, plan.rules, plan.choice, unit.settings.time_limit)
        is_clean = plan.cache is not None and plan.cache.is_clean(task.digest)
        return cls(tuple(member.file for member in kept), task, settled, is_clean)

    def item(self) -> Task | tuple[FileResult, ...]:
        """What is left to do, or the results."""
        if self.task is None:
            return ()
        if self.is_clean:
            return tuple(FileResult(file.path, Outcome.UNCHANGED, b"", b"") for file in self.task.files)
        return self.task

    def examined(self, results: Sequence[FileResult]) -> Iterator[Examined]:
        """What is said about the files: those that were asked about, and those that are changed along with them."""
        yield from self.settled
        for file, given, result in zip(self.found, self.task.files if self.task else (), results, strict=True):
            if result.outcome is Outcome.CHANGED:
                yield Examined(file, result, self.task)
            elif given.part is Part.ASKED:
                yield Examined(file, evolve(result, before=b"", after=b""), self.task if result.applied else None)


def _content(file: FoundFile) -> bytes | FileResult:
    """The bytes of a file, or what is said about one that cannot be read."""
    try:
        return read(file)
    except Unreadable as error:
        outcome = Outcome.FAILED if error.failed else Outcome.SKIPPED
        return FileResult(file.shown, outcome, b"", b"", error.reason)


def _given(member: Member, data: bytes, paths: Mapping[Path, str], pins: Pins, outside: SettingsFiles) -> Given:
    """A file as the engine gets it; `paths` are those of the files that it gets."""
    imports = None
    if member.imports is not None:
        imports = {name: paths[real] for name, real in member.imports.items() if real in paths}
    return Given(
        member.file.shown,
        data,
        imports=imports,
        part=member.part,
        imported_elsewhere=member.imported_elsewhere,
        is_beside_training=member.is_beside_training,
        pin=pins.of(member.file.real),
        forks_by_default=pins.forks_by_default(member.file.real),
        outside=outside.of(member.file, data),
        why_read=member.why_read,
    )


def _run(units: Sequence[Unit], plans: dict[Settings, _Plan], jobs: int, progress: Progress) -> list[Examined]:
    opened: deque[tuple[_Plan, _Opened]] = deque()
    pins, outside = Pins(), SettingsFiles()

    def items() -> Iterator[Task | tuple[FileResult, ...]]:
        for unit in units:
            plan = plans[unit.settings]
            opened.append((plan, _Opened.of(unit, plan, pins, outside)))
            yield opened[-1][1].item()

    examined: list[Examined] = []
    total = sum(member.part is Part.ASKED for unit in units for member in unit.members)
    results = parallel.run(items(), jobs)
    with closing(results):
        for each in results:
            plan, unit = opened.popleft()
            new = sorted(unit.examined(each), key=_path_of)
            if plan.cache is not None and unit.task is not None and all(_is_clean(one.result) for one in new):
                plan.cache.add_clean(unit.task.digest)
            examined += new
            progress(min(total, len(examined)), total, new)
    return examined


def _path_of(each: Examined) -> tuple[str, ...]:
    return each.file.real.parts


def _plan(settings: Settings, options: Options, use_cache: bool) -> _Plan:
    try:
        for selector in (*options.select, *options.extend_select, *options.ignore):
            catalog.require(selector, catalog.rules())
    except catalog.SelectionError as error:
        raise UsageMistake(str(error)) from error
    rules, choice = rules_for(settings)
    codes = [rule.code for rule in rules]
    return _Plan(rules, choice, Cache(fingerprint(codes, choice)) if use_cache else None)


def _is_clean(result: FileResult) -> bool:
    found = result.applied or result.held_back or result.refused or result.suppressed or result.warnings
    return result.outcome is Outcome.UNCHANGED and not found


def _unchanged(file: FoundFile) -> Examined:
    return Examined(file, FileResult(file.shown, Outcome.UNCHANGED, b"", b""))


def _unlisted(path: str, reason: str) -> Examined:
    file = FoundFile(path, Path(path), False, Settings(), Path(path))
    return Examined(file, FileResult(path, Outcome.FAILED, b"", b"", reason))
