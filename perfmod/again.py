"""Examined files after the engine was asked again: with other rules, in other files, or without some findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve

from perfmod.beside import found_beside
from perfmod.codemods.results import FileResult, Outcome
from perfmod.examined import Examined, in_order
from perfmod.task import Task

Answer = tuple[Task, Sequence[FileResult]]
"""What the engine was asked instead, and its results."""


def answered(examined: Sequence[Examined], answers: Mapping[int, Answer]) -> list[Examined]:
    """The files with the results of other tasks, which are given by the identity of those that they stand for.

    A new file is among them as long as one of the others needs it, whether or not it was before.
    """
    results = {result.path: (task, result) for task, found in answers.values() for result in found}

    def told(each: Examined) -> Examined:
        if each.result.path not in results:
            return each
        task, result = results[each.result.path]
        return evolve(each, result=result, asked=lambda: task)

    old = [told(each) for each in examined if not each.result.is_new]
    offered = {each.result.path: each for each in examined if each.result.is_new}
    for task, found in answers.values():
        for result in found:
            made = _made(result, task, old)
            if made is not None:
                offered[result.path] = made
    # One that is gone from one answer may be needed by files that were not read together with those.
    users = {path: each for each in old if each.result.outcome is Outcome.CHANGED for path in each.result.together}
    new = [evolve(each, asked=users[path].asked) for path, each in offered.items() if path in users]
    return in_order([*old, *new])


def _made(result: FileResult, task: Task, old: Sequence[Examined]) -> Examined | None:
    """The new file that a result of a task is about, beside one of the old ones; None where it is of none."""
    if not result.is_new or result.outcome is not Outcome.CHANGED:
        return None
    places = {given.path: given.beside for given in task.files}
    for each in old:
        place = places.get(each.result.path)
        if place is not None and place.path == result.path:
            return Examined(found_beside(place, each.file), result)
    return None
