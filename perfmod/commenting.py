"""Comments for what was found in files: new ones that silence it, and those away that silence nothing.

What comes back is meant for `perfmod.applying.write`, and holds nothing else than these changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import evolve

from perfmod.codemods.results import FileResult, Given, Outcome, Unused
from perfmod.codemods.silencing import newly_unused, silence, without_unused
from perfmod.examined import Examined
from perfmod.files import Unreadable, read
from perfmod.task import Task
from perfmod.transforms.decoding import SourceError
from perfmod.transforms.finding import Finding

_MOST_ROUNDS = 10
"""How often silencing may bring up what was hidden by it: rewrites that the silenced ones made needless."""


def with_ignores(examined: Sequence[Examined], reason: str) -> list[Examined]:
    """The files in which something would be rewritten, with comments that silence it; failed where that cannot be.

    Raises:
        Failure: a file was edited since it was examined.
    """
    by_path = {each.result.path: each for each in examined}
    tasks = {id(task): task for each in examined if (task := each.task) is not None}
    changed: list[Examined] = []
    for task in tasks.values():
        results = [by_path[file.path].result for file in task.files if file.path in by_path]
        silenced, problems = _silenced(task, results, reason)
        for old, new in zip(task.files, silenced.files, strict=True):
            if old.path in problems or old.data != new.data:
                changed.append(_changed(by_path[old.path], old.data, new.data, problems.get(old.path, "")))
    return changed


def with_ignore(each: Examined, findings: Sequence[Finding], reason: str) -> Examined:
    """One file with comments that silence some of its findings; failed where that cannot be."""
    data = b""
    try:
        data = read(each.file)
        return _changed(each, data, silence(data, each.result.path, findings, reason))
    except (SourceError, Unreadable) as error:
        return _changed(each, data, data, error.reason)


def without_unused_ignores(examined: Sequence[Examined]) -> list[Examined]:
    """The files with comments that silence nothing, without these; failed where that cannot be."""
    return [_without_unused(each) for each in examined if each.result.unused]


def _silenced(task: Task, results: Iterable[FileResult], reason: str) -> tuple[Task, dict[str, str]]:
    """The task with comments in its files, and by path why some could not get theirs."""
    given, problems = task, dict[str, str]()
    known = {result.path: result.unused for result in results}
    for _ in range(_MOST_ROUNDS):
        found = {result.path: result.applied for result in results if result.applied and result.path not in problems}
        if not found:
            break
        files = [_commented(file, found.get(file.path, ()), reason, problems) for file in task.files]
        task = evolve(task, files=tuple(files))
        results = task.run()
    # What only another rewrite would have brought about needs no comment once that one is silenced.
    unused = {result.path: result.unused for result in results}
    pairs = zip(given.files, task.files, strict=True)
    files = [_spared(old, known.get(old.path, ()), new, unused.get(new.path, ())) for old, new in pairs]
    return evolve(task, files=tuple(files)), problems


def _commented(file: Given, findings: Sequence[Finding], reason: str, problems: dict[str, str]) -> Given:
    try:
        return evolve(file, data=silence(file.data, file.path, findings, reason)) if findings else file
    except SourceError as error:
        problems[file.path] = error.reason
        return file


def _spared(before: Given, known: Sequence[Unused], file: Given, unused: Sequence[Unused]) -> Given:
    """A file without the comments that came and are of no use."""
    if not unused or file.data == before.data:
        return file
    needless = newly_unused(file.path, before.data, known, file.data, unused)
    return evolve(file, data=without_unused(file.data, file.path, needless)) if needless else file


def _without_unused(each: Examined) -> Examined:
    data = b""
    try:
        data = read(each.file)
        return _changed(each, data, without_unused(data, each.result.path, each.result.unused))
    except (SourceError, Unreadable) as error:
        return _changed(each, data, data, error.reason)


def _changed(each: Examined, before: bytes, after: bytes, problem: str = "") -> Examined:
    if problem:
        return evolve(each, result=FileResult(each.result.path, Outcome.FAILED, before, before, problem))
    return evolve(each, result=FileResult(each.result.path, Outcome.CHANGED, before, after))
