"""How far the sides lie apart in one thing, and the row of evidence that says so."""

from __future__ import annotations

import math
from typing import Generic, TypeVar

from attrs import field, frozen

from perfmod.verify.evidence import Check, Verdict
from perfmod.verify.runs import Spread
from perfmod.verify.tolerances import Tolerance

K = TypeVar("K")


def _or_one(scale: float) -> float:
    return scale or 1.0


@frozen
class Gap(Generic[K]):
    """The sides at one place.

    Attributes:
        place: a tensor's key, or a place in the training.
        spread: distances of the runs.
        allowed: largest distance that passes, in the same unit.
        unclear: largest distance that may still be bad luck, if that is more.
        scale: what both are shown relative to; 1.0 where the thing itself is zero.
    """

    place: K
    spread: Spread
    allowed: float
    scale: float = field(converter=_or_one)
    unclear: float = 0.0

    @property
    def excess(self) -> float:
        """How many times the allowed distance it is; above 1.0 is too far."""
        measured = self.spread.measured
        if math.isnan(measured):
            return math.inf
        if self.allowed == 0.0:
            return math.inf if measured else 0.0
        return measured / self.allowed

    @property
    def shown(self) -> str:
        """For a reason."""
        return f"{self.spread.measured / self.scale:.1e} (allowed {self.allowed / self.scale:.1e})"

    def check(self, name: str, tolerance: Tolerance, reason: str, passed: str = "") -> Check:
        """The row. `reason` explains a failure; one that more control runs may explain is inconclusive."""
        over = self.spread.over(self.scale)
        verdict = Verdict.PROVEN
        if self.excess > 1.0:
            verdict = Verdict.REFUTED
            if tolerance.blind and over.measured <= tolerance.beyond_rounding:
                verdict = Verdict.INCONCLUSIVE
                reason += "; no control run shows how much rounding is amplified in this script"
            elif self.spread.measured <= self.unclear:
                verdict = Verdict.INCONCLUSIVE
                reason += "; a single unit that switches sides at its kink (as in ReLU) would explain it"
        return Check(
            name=name,
            verdict=verdict,
            measured=over.measured,
            allowed=self.allowed / self.scale,
            noise=over.noise,
            control=over.control,
            reason=passed if verdict is Verdict.PROVEN else reason,
        )
