"""What others take of the machine while steps are timed. Other tests may be busy beside these."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from perfmod.verify import load, machine
from perfmod.verify.evidence import TimedRun, Verdict
from perfmod.verify.load import Meter, OwnTime
from perfmod.verify.schedule import mirrored
from perfmod.verify.speed import compare

BUSY = """
import os, sys, time
if not os.fork():
    os.setsid()
    if not os.fork():
        end = time.monotonic() + float(sys.argv[1])
        while time.monotonic() < end:
            pass
os._exit(0)
"""
"""A process that is busy for some seconds, and does not descend from the one that starts it."""


@pytest.fixture
def one_processor() -> Iterator[None]:
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(usable)})
    yield
    os.sched_setaffinity(0, usable)


def timed(side: str, order: int, *, busy: bool) -> TimedRun:
    """Steps of the same work, whichever the side is; beside some, another process is busy."""
    if busy:
        subprocess.run([sys.executable, "-c", BUSY, "0.8"], check=True)
    meter, steps = Meter(), []
    with meter.span():
        end = time.perf_counter() + 0.6
        while len(steps) < 5 or time.perf_counter() < end:
            began = time.perf_counter()
            hashlib.pbkdf2_hmac("sha256", b"", b"", 20_000)
            steps.append(1000 * (time.perf_counter() - began))
    if busy:
        time.sleep(0.3)
    return TimedRun(side, order, tuple(steps), sum(steps) / len(steps), load=meter.share)


@pytest.mark.usefixtures("one_processor")
def test_the_same_work_is_not_faster_because_others_were_busy_beside_one_side() -> None:
    runs = [
        timed(side, order, busy=side == "original") for order, side in enumerate(mirrored(["original", "rewritten"], 3))
    ]
    original, rewritten = ([run for run in runs if run.side == side] for side in ("original", "rewritten"))
    speed = compare(original, rewritten, seed=1)
    assert speed.verdict in (Verdict.INCONCLUSIVE, Verdict.NO_CHANGE), speed.reason
    assert all(run.load > 0.3 for run in original)
    assert "other processes took" in speed.reason


@pytest.mark.parametrize("ours", [True, False])
def test_what_descends_from_this_process_is_ours(*, ours: bool) -> None:
    own = OwnTime()
    own.look()
    before = own.seconds()
    code = "import time\nwhile time.process_time() < 0.4: pass" if ours else BUSY
    subprocess.run([sys.executable, "-c", code, "0.4"], check=True)
    own.look()
    taken = max(now - then for now, then in zip(own.seconds(), before, strict=True))
    assert (taken > 0.3) is ours


@pytest.mark.parametrize(("busy", "share"), [([0.0], 0.0), ([0.9, 0.0], 0.0), ([0.9, 0.5], 0.5)])
def test_the_afterglow_of_our_own_work_is_no_load(
    monkeypatch: pytest.MonkeyPatch, busy: list[float], share: float
) -> None:
    said = iter([machine.Activity(each) for each in busy])
    monkeypatch.setattr(machine, "device_activity", lambda: next(said))
    monkeypatch.setattr(load, "_AFTERGLOW", 0.0)
    assert load.device_load() == share
