"""Work gets the time that it is given, room for its recursions, and an end."""

from __future__ import annotations

import _thread
import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from perfmod.budget import OutOfTime, within


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """No thread, and none of what was set for it."""
    threads, limit, stack = threading.active_count(), sys.getrecursionlimit(), threading.stack_size()
    yield
    assert (threading.active_count(), sys.getrecursionlimit(), threading.stack_size()) == (threads, limit, stack)


def busy() -> None:
    for _ in itertools.count():
        pass


def depth(frames: int) -> int:
    return 0 if frames == 0 else 1 + depth(frames - 1)


def test_what_the_work_returns() -> None:
    assert within(10, lambda: 41 + 1) == 42
    assert within(10, lambda: None) is None


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, RecursionError])
def test_what_the_work_raises(error: type[BaseException]) -> None:
    def fail() -> None:
        raise error("mine")

    with pytest.raises(error, match="mine") as caught:
        within(10, fail)
    assert caught.traceback[-1].name == "fail"


def test_a_loop_ends_with_its_time() -> None:
    began = time.process_time()
    with pytest.raises(OutOfTime):
        within(0.2, busy)
    assert 0.2 <= time.process_time() - began < 2


def test_handlers_of_errors_do_not_hold_it_up() -> None:
    """Nor do they take the end of the work for an error of its own."""
    caught: list[Exception] = []

    def stubborn() -> None:
        try:
            busy()
        except Exception as error:  # noqa: BLE001
            caught.append(error)

    with pytest.raises(OutOfTime):
        within(0.1, stubborn)
    assert not caught


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_destructors_do_not_hold_it_up() -> None:
    """What is raised in them is lost, so that once is not enough."""
    ended: list[str] = []

    class Slow:
        def __del__(self) -> None:
            try:
                busy()
            finally:
                ended.append("destructor")

    def collect() -> None:
        Slow()
        busy()

    with pytest.raises(OutOfTime):
        within(0.1, collect)
    assert ended == ["destructor"]


def test_waiting_costs_nothing() -> None:
    """Processor time counts: a machine that is busy with others changes no result."""

    def wait() -> str:
        time.sleep(0.3)
        return "done"

    assert within(0.2, wait) == "done"


@pytest.mark.parametrize("seconds", [1e12, float("inf")])
def test_no_limit(seconds: float) -> None:
    within(seconds, lambda: time.sleep(0.05))


def test_deep_recursion() -> None:
    with pytest.raises(RecursionError):
        depth(5_000)
    assert within(10, lambda: depth(5_000)) == 5_000
    with pytest.raises(RecursionError):
        within(10, lambda: depth(1_000_000))


def test_there_is_a_stack_for_it() -> None:
    """In a process of its own: one that runs out of it dies. Some versions of Python allow fewer such calls."""
    code = """
from perfmod.budget import within

def depth(frames):
    return 0 if frames == 0 else 1 + max(map(depth, [frames - 1]))

try:
    print(within(60, lambda: depth(19_000)))
except RecursionError:
    print("too deep")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) in ((0, "19000\n"), (0, "too deep\n"))


def test_ctrl_c_ends_the_work() -> None:
    """Also where the thread that waits hears of it only when it looks up."""
    timer = threading.Timer(0.1, _thread.interrupt_main)
    timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        within(60, busy)
    timer.join()
    assert time.monotonic() - began < 30
