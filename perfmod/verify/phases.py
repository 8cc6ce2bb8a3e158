"""What a verification spends its time on."""

from __future__ import annotations

import time

from attrs import define, field

from perfmod.verify.laboratory import Progress


@define
class Phases:
    """Passes on what is done next, and notes how long it takes: a `Progress`.

    Attributes:
        seconds: by what was done, in the order in which it was first begun.
    """

    tell: Progress
    seconds: dict[str, float] = field(factory=dict, init=False)
    _began: float = field(factory=time.monotonic, init=False)
    _phase: str = field(default="reading the code", init=False)

    def __call__(self, what: str) -> None:
        """`what` begins; behind a semicolon or a colon stands what is no part of its name."""
        self.end()
        self._phase = what.partition(";")[0].partition(":")[0]
        self.tell(what)

    def end(self) -> None:
        """The phase is over."""
        now = time.monotonic()
        self.seconds[self._phase] = self.seconds.get(self._phase, 0.0) + now - self._began
        self._began = now
