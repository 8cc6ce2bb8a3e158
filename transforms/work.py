"""Counts the work of an analysis, so that a limit holds on every machine alike, whatever else that machine does.

A unit is about one node that was looked at. What takes long without looking at nodes is not counted; the clock ends
that (`perfmod.budget`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final, TypeVar

Result = TypeVar("Result")

UNLIMITED: Final = sys.maxsize


class TooMuchWork(BaseException):
    """An analysis needs more work than it may. No `Exception`: those who handle the errors of a rule let it pass."""


_left = UNLIMITED


def spend(units: int) -> None:
    """Note that so much was done. Raises `TooMuchWork` where that is more than was left."""
    global _left
    _left -= units
    if _left < 0:
        raise TooMuchWork


def within(units: int, work: Callable[[], Result]) -> Result:
    """What `work` returns, if that takes no more than so many units; else `TooMuchWork` is raised."""
    global _left
    before, _left = _left, units
    try:
        return work()
    finally:
        _left = before


def left() -> int:
    """The units that are left."""
    return _left
