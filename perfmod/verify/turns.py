"""Times processes that are warm at the same time, one at a time.

To start a process and to warm it up takes longer than to time some steps of it, so that this is done side by side. Then
each has its turns, while the others wait with an idle device: in order, backwards, and in order again, so that a
machine that drifts slows all of them alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from attrs import Factory, frozen

from perfmod.verify import machine
from perfmod.verify.load import Load, Meter

COUNT: Final = 3
"""Turns of a process."""
_POLL: Final = 0.05
"""Seconds; to look more often disturbs the run that is timed."""


@frozen
class Turns:
    """The turns of some runs.

    Attributes:
        folder: in which the runs and this process tell each other how far they are.
        runs: how many there are.
        card: which they use; the one that a script sees first where it is empty.
        meters, throttled: of each run, what went on beside its turns, and what held the clocks down in them.
    """

    folder: Path
    runs: int
    card: str = ""
    meters: list[Meter] = Factory(lambda self: [Meter() for _ in range(self.runs)], takes_self=True)
    throttled: list[str] = Factory(lambda self: [""] * self.runs, takes_self=True)

    def conduct(self, over: Callable[[int], bool]) -> None:
        """Give all runs their turns, once each is ready or over."""
        try:
            for place in range(self.runs):
                self._await(place, 0, over)
            for number in range(COUNT):
                for place in range(self.runs)[:: -1 if number % 2 else 1]:
                    if not over(place):
                        self._give(place, number, over)
        finally:
            (self.folder / "free").touch()

    def loads(self) -> list[Load]:
        """What each run had beside it."""
        pairs = zip(self.meters, self.throttled, strict=True)
        return [Load(meter.share, throttled) for meter, throttled in pairs]

    def _give(self, place: int, number: int, over: Callable[[int], bool]) -> None:
        with self.meters[place].span():
            (self.folder / f"{place}-{number}.go").touch()
            # While the run warms up again, for as long as this takes: an idle GPU's clocks tell nothing.
            if number == 0:
                self.throttled[place] = machine.device_activity(self.card).throttled
            (self.folder / f"{place}-{number}.open").touch()
            self._await(place, number + 1, over)

    def _await(self, place: int, number: int, over: Callable[[int], bool]) -> None:
        ready = self.folder / f"{place}-{number}.ready"
        while not (ready.exists() or over(place)):
            time.sleep(_POLL)
