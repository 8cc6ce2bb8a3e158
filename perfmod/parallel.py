"""Runs the engine over many tasks: here, or in several processes where that pays. Results keep order."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain

from perfmod.codemods.results import FileResult
from perfmod.errors import Failure
from perfmod.task import Task

Results = tuple[FileResult, ...]
"""Those of the files of one task."""
WORTH_A_POOL = 200_000
"""Bytes of files to parse from which on starting processes (about 0.4 s each) pays."""
_AHEAD = 4
"""Tasks per process that are read ahead of the one whose result is awaited."""


def usable_cpus() -> int:
    """The processors this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run(items: Iterable[Results | Task], jobs: int) -> Generator[Results, None, None]:
    """The results of `items` in their order; those that are results already pass through.

    Raises:
        Failure: a process died, most likely for want of memory.
    """
    rest = iter(items)
    waiting: list[Results | Task] = []
    weight = 0
    while jobs > 1 and weight < WORTH_A_POOL and (item := next(rest, None)) is not None:
        waiting.append(item)
        if isinstance(item, Task) and item.is_candidate:
            weight += item.size
    everything = chain(waiting, rest)
    if weight < WORTH_A_POOL:
        yield from (item.run() if isinstance(item, Task) else item for item in everything)
    else:
        yield from _spread(everything, jobs)


def _spread(items: Iterable[Results | Task], jobs: int) -> Generator[Results, None, None]:
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=follow_the_parent)
    ahead: deque[Results | Future[Results]] = deque()
    try:
        for item in items:
            if isinstance(item, Task):
                ahead.append(pool.submit(item.run) if item.is_candidate else item.run())
            else:
                ahead.append(item)
            if len(ahead) > _AHEAD * jobs:
                yield _settled(ahead.popleft())
        while ahead:
            yield _settled(ahead.popleft())
    except BrokenProcessPool as error:
        raise Failure("a worker process died, perhaps out of memory; try --jobs 1") from error
    except BaseException:
        # Nobody will ask for what the workers are at, and the interpreter would wait for it at its end.
        for worker in multiprocessing.active_children():
            worker.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    # Without a wait, the interpreter may meet the pool half closed at its end: "Bad file descriptor".
    pool.shutdown()


def _settled(item: Results | Future[Results]) -> Results:
    return item.result() if isinstance(item, Future) else item


def follow_the_parent() -> None:
    """Leave Ctrl-C, which reaches every process of a terminal, to the parent; end when it was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_parent, daemon=True).start()


def _end_with_the_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
