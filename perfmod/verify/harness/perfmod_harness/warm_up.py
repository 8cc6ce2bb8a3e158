"""When has a training got into its stride?"""

from __future__ import annotations

import math
import statistics

_PATIENCE = 3
_LONGEST_PATIENCE = 30.0
_ALIKE = 0.05
_COMPARED = 5
_COMPARED_SECONDS = 0.1
"""Clocks and caches take longer to settle than a few short steps."""
_MOST_COMPARED = 200


class WarmUp:
    """Told of every step; knows when the steps that follow are worth measuring.

    That is after the steps and seconds asked for, as soon as the median of the last steps (a tenth of a second of them,
    five at least) lies within a twentieth of that of as many before, nothing was compiled during the last five, and the
    batches that workers had ready after the first step have been used. What does not settle is warm after three times
    the time that was asked for, and 30 s after it at the latest.

    Args:
        steps: at least.
        seconds: from the end of the first step, at least.
    """

    def __init__(self, steps: int, seconds: float) -> None:
        self._steps = steps
        self._seconds = seconds
        self._stamps: list[float] = []
        self._compiled = 0
        self._compiled_at = 0
        self._demanded: float | None = None

    def step(self, now: float, compiled: int, prepared: int) -> bool:
        """A step has ended. Returns whether the training is warm.

        Args:
            now: in seconds, on the host's clock: asking the device would be a wait.
            compiled: frames that torch.compile has compiled so far.
            prepared: batches that a loader prepares ahead.
        """
        self._stamps.append(now)
        steps, elapsed = len(self._stamps), now - self._stamps[0]
        if compiled != self._compiled:
            self._compiled, self._compiled_at = compiled, steps
        if steps < self._steps or elapsed < self._seconds:
            return False
        if self._demanded is None:
            self._demanded = elapsed
        if elapsed >= min(_PATIENCE * self._demanded, self._demanded + _LONGEST_PATIENCE):
            return True
        return steps > prepared and steps >= self._compiled_at + _COMPARED and self._is_steady()

    def usual(self) -> float:
        """Seconds of a step, lately; the step may not be over on the device."""
        return statistics.median(self._durations(2 * _COMPARED) or [1.0])

    def _is_steady(self) -> bool:
        count = min(max(_COMPARED, math.ceil(_COMPARED_SECONDS / max(self.usual(), 1e-6))), _MOST_COMPARED)
        durations = self._durations(2 * count)
        if len(durations) < 2 * count:
            return False
        before, now = statistics.median(durations[:count]), statistics.median(durations[count:])
        return abs(now - before) <= _ALIKE * before

    def _durations(self, steps: int) -> list[float]:
        stamps = self._stamps[-steps - 1 :]
        return [end - start for start, end in zip(stamps, stamps[1:])]
