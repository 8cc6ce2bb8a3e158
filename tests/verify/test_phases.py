"""Where the time of a verification goes."""

from __future__ import annotations

import itertools
import time

import pytest

from perfmod.verify.phases import Phases


def test_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    phases = Phases(told.append)
    monkeypatch.setattr(time, "monotonic", itertools.count(phases._began + 2.0, 2.0).__next__)
    steps = ["first runs; 3 of at most 600 s each", "comparing the training; 5 s more", "timing original", "first runs"]
    for step in steps:
        phases(step)
    phases.end()
    assert told == steps
    assert {name: round(seconds, 3) for name, seconds in phases.seconds.items()} == {
        "reading the code": 2.0,
        "first runs": 4.0,
        "comparing the training": 2.0,
        "timing original": 2.0,
    }
