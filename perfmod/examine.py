"""Targets and options in, one result per file out: settings, files, projects, cache, engine. Writes nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Protocol

from attrs import evolve, frozen

from perfmod import disk, parallel, planning
from perfmod.codemods import catalog
from perfmod.codemods.results import Choice, FileResult, Given, Outcome, Part
from perfmod.config import Options, Settings, settings_for
from perfmod.examined import Examined
from perfmod.files import FoundFile, Unreadable, discover, read
from perfmod.memory import Asked, Done, Memory, Request, memory
from perfmod.planning import Member, Unit
from perfmod.project.pins import Pins
from perfmod.project.settings_files import SettingsFiles
from perfmod.selection import require, rules_for
from perfmod.task import Task, matters
from perfmod.transforms.card import Card


@frozen(eq=False)
class _Plan:
    """What `Settings` mean for the engine."""

    rules: tuple[Card, ...]
    choice: Choice


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
    request = Request(tuple(targets), options, cwd, isolated)
    remembered = memory(use_cache=use_cache)
    known = remembered.run(request) if remembered is not None else None
    if known is not None:
        progress(len(known), len(known), known)
        return sorted(known, key=_path_of)
    with disk.noting() as noted:
        found = discover(targets, options, cwd)
        cards = remembered.cards() if remembered is not None else catalog.cards()
        require(options, cards)
        plans = {
            settings: _Plan(*rules_for(settings, cards))
            for settings in dict.fromkeys(file.settings for file in found.files)
        }
        if isolated:
            units = planning.alone(found.files)
        else:
            # Of all rules, whichever are selected: what one finds in a file depends on the files that are read with it.
            units = planning.together(found.files, lambda data: matters(data, cards), cwd)
        done = _run(units, plans, jobs or parallel.usable_cpus(), progress, remembered)
        if remembered is not None:
            remembered.keep_run(request, noted if not found.unlisted else {}, done)
    unlisted = [_unlisted(path, reason) for path, reason in found.unlisted]
    return [*sorted((one for each in done for one in each.examined), key=_path_of), *unlisted]


def examine_bytes(data: bytes, options: Options, *, cwd: Path) -> Examined:
    """Run the engine over code from standard input, under the settings of `cwd`. Raises `UsageMistake`."""
    # A script that begins with a brace and speaks of that is none that anybody has written.
    suffix = ".ipynb" if data.lstrip().startswith(b"{") and b'"nbformat"' in data else ""
    file = FoundFile(f"<stdin>{suffix}", cwd / f"stdin{suffix or '.py'}", True, settings_for(cwd, options), cwd)
    cards = catalog.cards()
    require(options, cards)
    rules, choice = rules_for(file.settings, cards)
    given, named = (Given(file.shown, data),), frozenset({file.shown})
    (result,) = Task(given, named, rules, choice, file.settings.time_limit).run()
    return Examined(file, result)


@frozen
class _Opened:
    """A unit whose files were read.

    Attributes:
        found: the files of the task, in its order.
        task: None where there is nothing to do.
        settled: files that were not read, or need not be examined, with the result.
        known: the results of the task, where an earlier run had them.
    """

    found: tuple[FoundFile, ...]
    task: Task | None
    settled: tuple[Examined, ...]
    known: tuple[FileResult, ...] | None = None

    @classmethod
    def of(cls, unit: Unit, plan: _Plan, pins: Pins, outside: SettingsFiles, known: Memory | None) -> _Opened:
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
        answer = known.answer(task) if known is not None else None
        return cls(tuple(member.file for member in kept), task, settled, answer)

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
        return Done(tuple(sorted(examined, key=_path_of)), asked)


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


def _run(
    units: Sequence[Unit], plans: Mapping[Settings, _Plan], jobs: int, progress: Progress, known: Memory | None
) -> list[Done]:
    opened: deque[tuple[Unit, _Opened]] = deque()
    pins, outside = Pins(), SettingsFiles()

    def items() -> Iterator[Task | tuple[FileResult, ...]]:
        for unit in units:
            opened.append((unit, _Opened.of(unit, plans[unit.settings], pins, outside, known)))
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


def _path_of(each: Examined) -> tuple[str, ...]:
    return each.file.real.parts


def _unchanged(file: FoundFile) -> Examined:
    return Examined(file, FileResult(file.shown, Outcome.UNCHANGED, b"", b""))


def _unlisted(path: str, reason: str) -> Examined:
    file = FoundFile(path, Path(path), False, Settings(), Path(path))
    return Examined(file, FileResult(path, Outcome.FAILED, b"", b"", reason))
