"""Is it faster? T-runs of the sides in fresh processes, one after the other, until the interval decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import define, evolve, field

from perfmod.verify.evidence import Speed, TimedRun, Verdict
from perfmod.verify.job import SEED
from perfmod.verify.laboratory import Laboratory
from perfmod.verify.schedule import ROUNDS, mirrored
from perfmod.verify.sides import Side
from perfmod.verify.speed import compare, more_would_help

_ROUNDS_OF_RULES: Final = 2


class NoWindow(Exception):
    """A side cannot be timed; the message is one line."""


@define
class Stopwatch:
    """Times an original and a rewritten side, and the stacks of rules between them.

    Attributes:
        runs: by the name of the side, in the order in which they were made.
    """

    lab: Laboratory
    original: Side
    rewritten: Side
    between: Sequence[Side] = ()
    runs: dict[str, list[TimedRun]] = field(factory=dict)
    _ended_after: int = 0

    def speed(self) -> Speed:
        """Measure, and say what it means. Sides that cannot be timed are inconclusive."""
        first, most = ROUNDS[self.lab.request.quick]
        sides = [self.original, self.rewritten]
        try:
            self._time(mirrored(sides, first // 2))
            # The stacks stand in the middle, between as many runs of both ends.
            self._time(mirrored(self.between, _ROUNDS_OF_RULES))
            self._time(mirrored(sides, first - first // 2, first=first // 2))
            found = self._compared()
            for number in range(first, most):
                if not more_would_help(found):
                    break
                self._time(mirrored(sides, 1, first=number))
                found = self._compared()
        except NoWindow as error:
            return Speed(Verdict.INCONCLUSIVE, str(error), runs=self._all())
        if self._ended_after:
            fewest = min(len(run.step_ms) for run in found.runs)
            few = f"the script ends after {self._ended_after} steps: as few as {fewest} of a process were timed"
            found = evolve(found, reason=f"{found.reason}; {few}")
        return found

    def between_stacks(self, before: Side, after: Side) -> Speed | None:
        """What the step from one timed side to another brings; None where one was not timed."""
        if before.name not in self.runs or after.name not in self.runs:
            return None
        return compare(self.runs[before.name], self.runs[after.name], SEED)

    def _compared(self) -> Speed:
        return compare(self.runs[self.original.name], self.runs[self.rewritten.name], SEED)

    def _time(self, sides: Sequence[Side]) -> None:
        for side in sides:
            order = sum(map(len, self.runs.values()))
            self.lab.progress(f"timing {side.name}")
            self.runs.setdefault(side.name, []).append(self._timed(side, order))

    def _timed(self, side: Side, order: int) -> TimedRun:
        ran = self.lab.time(side)
        if ran.trouble is not None:
            raise NoWindow(f"{side.name}: {ran.trouble.reason}")
        # Ranks wait for each other: the slowest is the pace of all.
        record = max(ran.records, key=_mean_ms)
        if not record["window_steps"]:
            steps = sum(record["steps"].values())
            raise NoWindow(f"{side.name}: it ended after {steps} steps, too few to time")
        if record["ended"] == "exit":
            self._ended_after = record["steps"]["0"]
        return TimedRun(
            side=side.name,
            order=order,
            step_ms=tuple(record["step_ms"]),
            mean_ms=_mean_ms(record),
            first_step_seconds=record["first_step_seconds"],
            compile_seconds=record["compile_seconds"],
            peak_allocated_mib=_largest(ran.records, "peak_allocated_mib"),
            peak_reserved_mib=_largest(ran.records, "peak_reserved_mib"),
            peak_resident_mib=ran.peak_resident_mib,
            peak_shm_mib=ran.peak_shm_mib,
        )

    def _all(self) -> tuple[TimedRun, ...]:
        return tuple(sorted((run for runs in self.runs.values() for run in runs), key=lambda run: run.order))


def _mean_ms(record: Mapping[str, Any]) -> float:
    return 1000.0 * float(record["window_seconds"]) / max(1, int(record["window_steps"]))


def _largest(records: Sequence[Mapping[str, Any]], name: str) -> float | None:
    return max((float(record[name]) for record in records if record[name] is not None), default=None)
