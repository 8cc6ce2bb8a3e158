"""What ends a verification before its time."""

from __future__ import annotations

import signal
import time

import pytest

from perfmod.verify.interrupts import TimeIsUp, held_back, limited


def test_time_ends_what_takes_longer() -> None:
    began = time.monotonic()
    with pytest.raises(TimeIsUp), limited(0.05):
        time.sleep(10.0)
    assert time.monotonic() - began < 5.0


def test_time_that_is_up_already() -> None:
    with pytest.raises(TimeIsUp), limited(-1.0):
        time.sleep(10.0)


def test_the_clock_is_stopped_at_the_end() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with limited(60.0):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0.0
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
    assert signal.getsignal(signal.SIGALRM) is before


def test_who_cleans_up_is_not_disturbed() -> None:
    cleaned = []

    def clean() -> None:
        with held_back():
            time.sleep(0.2)
            cleaned.append(True)

    with pytest.raises(TimeIsUp), limited(0.05):
        clean()
    assert cleaned
