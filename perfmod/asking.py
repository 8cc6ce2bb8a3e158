"""A run from its start: files, projects, what is known of files that are read together, and the engine for the rest."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from attrs import evolve, frozen

from perfmod import disk, parallel, planning
from perfmod.beside import beside, found_beside
from perfmod.codemods import catalog
from perfmod.codemods.results import Choice, FileResult, Given, Outcome, Part
from perfmod.config import Settings
from perfmod.examined import Examined, Progress, path_of
from perfmod.files import FoundFile, Unreadable, discover, read
from perfmod.memory import Asked, Done, Memory, Request
from perfmod.planning import Member, Unit
from perfmod.project.pins import Pins
from perfmod.project.settings_files import SettingsFiles
from perfmod.selection import FileIgnores, require, rules_for
from perfmod.task import Task, matters
from perfmod.transforms.card import Card


@frozen(eq=False)
class _Plan:
    """What `Settings` mean for the engine."""

    rules: tuple[Card, ...]
    choice: Choice
    ignores: FileIgnores

    @classmethod
    def of(cls, settings: Settings, cards: Sequence[Card]) -> _Plan:
        return cls(*rules_for(settings, cards), FileIgnores.of(settings, cards))


def ask(request: Request, jobs: int, progress: Progress, remembered: Memory | None) -> list[Examined]:
    """The results of all files in the order of their paths, which are `remembered`. Raises `UsageMistake`."""
    with disk.noting() as noted:
        found = discover(request.targets, request.options, request.cwd)
        cards = remembered.cards() if remembered is not None else catalog.cards()
        require(request.options, cards)
        if request.isolated:
            units = planning.alone(found.files)
        else:
            # Of all rules, whichever are selected: what one finds in a file depends on the files that are read with it.
            units = planning.together(found.files, lambda data: matters(data, cards), request.cwd, found.configurations)
        known = dict.fromkeys(member.file.settings for unit in units for member in unit.members)
        plans = {settings: _Plan.of(settings, cards) for settings in known}
        done = _run(units, plans, jobs, progress, remembered, creates=request.creates)
        if remembered is not None:
            remembered.keep_run(request, None if found.unlisted else noted, done)
    unlisted = [_unlisted(path, reason) for path, reason in found.unlisted]
    return [*sorted((one for each in done for one in each.examined), key=path_of), *unlisted]


@frozen
class _Opened:
    """A unit whose files were read.

    Attributes:
        found: the files of the task, in its order; those that are not there yet come last.
        task: None where there is nothing to do.
        settled: files that were not read, or need not be examined, with the result.
        known: the results of the task, where an earlier run had them.
    """

    found: tuple[FoundFile, ...]
    task: Task | None
    settled: tuple[Examined, ...]
    known: tuple[FileResult, ...] | None = None

    @classmethod
    def of(
        cls,
        unit: Unit,
        plans: Mapping[Settings, _Plan],
        pins: Pins,
        outside: SettingsFiles,
        known: Memory | None,
        *,
        creates: bool,
    ) -> _Opened:
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
        ignored = [plans[member.file.settings].ignores.codes(member.file.real) for member in kept]
        files = tuple(
            evolve(_given(member, readable[member.file.real], paths, pins, outside), ignored=codes)
            for member, codes in zip(kept, ignored, strict=True)
        )
        found = [member.file for member in kept]
        if creates:
            files, new = _with_new(files, found, unit)
            found += new
        named = frozenset(member.file.shown for member in kept if member.file.named)
        plan = plans[unit.settings]
        task = Task(files, named, plan.rules, plan.choice, unit.settings.time_limit)
        answer = known.answer(task) if known is not None else None
        return cls(tuple(found), task, settled, answer)

    def item(self) -> Task | tuple[FileResult, ...]:
        """What is left to do, or the results."""
        if self.task is None:
            return ()
        return self.task if self.known is None else self.known

    def done(self, results: Sequence[FileResult], settings: Settings) -> Done:
        """What is said about the files: those that were asked about, and those that are changed along with them."""
        if self.task is None:
            return Done(self.settled)
        task = self.task
        rewritten = any(result.applied or result.outcome is Outcome.CHANGED for result in results)
        asked = Asked.of(task, self.found, settings) if rewritten else None
        examined = [*self.settled]
        for file, given, result in zip(self.found, task.files, results, strict=True):
            if result.outcome is Outcome.CHANGED:
                examined.append(Examined(file, result, lambda: task))
            elif given.part is Part.ASKED:
                shown_result = evolve(result, before=b"", after=b"")
                examined.append(Examined(file, shown_result, (lambda: task) if result.applied else None))
        return Done(tuple(sorted(examined, key=path_of)), asked)


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


def _with_new(
    files: Sequence[Given], found: Sequence[FoundFile], unit: Unit
) -> tuple[tuple[Given, ...], list[FoundFile]]:
    """The files that are asked about with those that may be written beside them, and where the latter will lie."""
    known = {file.real for file in found}
    whole: list[Given] = []
    new: dict[Path, FoundFile] = {}
    for given, file in zip(files, found, strict=True):
        place = None
        if given.part is Part.ASKED:
            links = [
                (each.file.real, name, real) for each in unit.members for name, real in (each.imports or {}).items()
            ]
            imported_as = {name for _, name, real in links if real == file.real}
            imports = {name: target for real, name, target in links if real == file.real}
            place = beside(file.real, file.shown, given.data, imported_as, imports)
        whole.append(evolve(given, beside=place))
        if place is not None and not (place.is_present or place.problem):
            made = found_beside(place, file)
            if made.real not in known:
                new.setdefault(made.real, made)
    return (*whole, *(Given(file.shown, b"", part=Part.NEW) for file in new.values())), [*new.values()]


def _run(
    units: Sequence[Unit],
    plans: Mapping[Settings, _Plan],
    jobs: int,
    progress: Progress,
    known: Memory | None,
    *,
    creates: bool,
) -> list[Done]:
    opened: deque[tuple[Unit, _Opened]] = deque()
    pins, outside = Pins(), SettingsFiles()

    def items() -> Iterator[Task | tuple[FileResult, ...]]:
        for unit in units:
            opened.append((unit, _Opened.of(unit, plans, pins, outside, known, creates=creates)))
            yield opened[-1][1].item()

    done: list[Done] = []
    told = 0
    total = sum(member.part is Part.ASKED for unit in units for member in unit.members)
    results = parallel.run(items(), jobs)
    with closing(results):
        for each in results:
            unit, one = opened.popleft()
            if known is not None and one.task is not None and one.known is None:
                known.keep_answer(one.task, each)
            done.append(one.done(each, unit.settings))
            told += len(done[-1].examined)
            progress(min(total, told), total, done[-1].examined)
    return done


def _unchanged(file: FoundFile) -> Examined:
    return Examined(file, FileResult(file.shown, Outcome.UNCHANGED, b"", b""))


def _unlisted(path: str, reason: str) -> Examined:
    file = FoundFile(path, Path(path), False, Settings(), Path(path))
    return Examined(file, FileResult(path, Outcome.FAILED, b"", b"", reason))
