"""Examined files as they are without some of their findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve

from perfmod.again import Answer, answered
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
    `remembered`. New files come and go with the findings that need them. Raises `Failure` where files that an earlier
    run examined were edited meanwhile.
    """
    places = {place.path for place in withheld}
    tasks = {id(task): task for each in examined if each.result.path in places and (task := each.task) is not None}
    answers: dict[int, Answer] = {}
    for key, task in tasks.items():
        remaining = evolve(task, choice=evolve(task.choice, withheld={**task.choice.withheld, **withheld}))
        answers[key] = remaining, _answer(remaining, remembered)
    asked = {result.path for _, results in answers.values() for result in results}
    return [_kept_small(each) if each.result.path in asked else each for each in answered(examined, answers)]


def _kept_small(each: Examined) -> Examined:
    """The same without what nobody asks for: the bytes of a file that stays, and what the engine was asked of it."""
    if each.result.outcome is Outcome.CHANGED:
        return each
    unchanged = evolve(each.result, before=b"", after=b"")
    return evolve(each, result=unchanged, asked=each.asked if each.result.applied else None)


def _answer(task: Task, remembered: Memory | None) -> Sequence[FileResult]:
    known = remembered.answer(task) if remembered is not None else None
    if known is not None:
        return known
    results = task.run()
    if remembered is not None:
        remembered.keep_answer(task, results)
    return results
