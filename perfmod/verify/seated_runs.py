"""Runs on several cards of a machine at a time, or on stand-ins for them; each card has processor cores of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue

from attrs import frozen

from perfmod.verify.job import Job
from perfmod.verify.running import Conduct, Ran, Runner, together
from perfmod.verify.sides import Side


@frozen
class Group:
    """Runs that go on together on one card, and who conducts them."""

    runner: Runner
    runs: Sequence[tuple[Side, Job]]
    conduct: Conduct


def run_beside(groups: Sequence[Group]) -> list[list[Ran]]:
    """Run groups beside each other, each with its own conductor. Raises and repeats like `Runner.run_all`."""
    calls = [call for group in groups for call in group.runner.calls(group.runs)]
    starts = [sum(len(group.runs) for group in groups[:at]) for at in range(len(groups))]

    pool = ThreadPoolExecutor(len(groups))

    def conduct(over: Callable[[int], bool]) -> None:
        for done in [
            pool.submit(group.conduct, partial(_shifted, over, start))
            for group, start in zip(groups, starts, strict=True)
        ]:
            done.result()

    try:
        found = together(calls, len(calls), conduct)
    finally:
        # By now all runs have ended, on Ctrl-C as well, so that nobody has anything to conduct.
        pool.shutdown()
    return [
        group.runner.repeated(group.runs, found[start : start + len(group.runs)])
        for group, start in zip(groups, starts, strict=True)
    ]


def _shifted(over: Callable[[int], bool], start: int, number: int) -> bool:
    return over(start + number)


def run_on_any(runners: Sequence[Runner], at_once: int, runs: Sequence[tuple[Side, Job]]) -> list[Ran]:
    """Run all of it, each on a card that is free, up to `at_once` at a time on each; else like `Runner.run_all`."""
    free: SimpleQueue[Runner] = SimpleQueue()
    for _ in range(at_once):
        for runner in runners:
            free.put(runner)

    def call(side: Side, job: Job, cancelled: threading.Event) -> Ran:
        runner = free.get()
        try:
            return runner.run_on_cores(side, job, cancelled)
        finally:
            free.put(runner)

    found = together([partial(call, side, job) for side, job in runs], at_once * len(runners))
    return runners[0].repeated(runs, found)
