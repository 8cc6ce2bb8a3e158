"""Examined files as they are without some of their findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve

from perfmod.codemods.results import FileResult, Outcome, Withheld
from perfmod.examined import Examined
from perfmod.memory import Memory
from perfmod.task import Task
from perfmod.transforms.finding import Finding, Place


def place_of(each: Examined, finding: Finding) -> Place:
    """What tells a finding of a file apart."""
    return Place(each.result.path, finding.code, finding.start)


def without(
    examined: Sequence[Examined], withheld: Mapping[Place, Withheld], remembered: Memory | None = None
) -> list[Examined]:
    """The same files with some findings left out, which are reported with the reason instead.

    The engine is asked again about files that are read together with one whose finding is left out, unless that is
    `remembered`. Raises `Failure` where files that an earlier run examined were edited meanwhile.
    """
    places = {place.path for place in withheld}
    tasks = {id(task): task for each in examined if each.result.path in places and (task := each.task) is not None}
    results: dict[str, tuple[Task, FileResult]] = {}
    for task in tasks.values():
        choice = evolve(task.choice, withheld={**task.choice.withheld, **withheld})
        remaining = evolve(task, choice=choice)
        results.update((result.path, (remaining, result)) for result in _answer(remaining, remembered))

    def left(each: Examined) -> Examined:
        if each.result.path not in results:
            return each
        task, result = results[each.result.path]
        if result.outcome is Outcome.CHANGED:
            return evolve(each, result=result, asked=lambda: task)
        unchanged = evolve(result, before=b"", after=b"")
        return evolve(each, result=unchanged, asked=(lambda: task) if result.applied else None)

    found = [left(each) for each in examined]
    # A new file that is gone from one answer may be needed by files that were not read together with those.
    needed = {path for each in found if each.result.outcome is Outcome.CHANGED for path in each.result.together}
    return [
        old if new.result.is_new and new.result.path in needed and new.result.outcome is not Outcome.CHANGED else new
        for old, new in zip(examined, found, strict=True)
    ]


def _answer(task: Task, remembered: Memory | None) -> Sequence[FileResult]:
    known = remembered.answer(task) if remembered is not None else None
    if known is not None:
        return known
    results = task.run()
    if remembered is not None:
        remembered.keep_answer(task, results)
    return results
