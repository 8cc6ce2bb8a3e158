"""Is it faster? T-runs of the sides in fresh processes, one at a time, until the interval decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import define, evolve, field

from perfmod.verify.evidence import Speed, TimedRun, Verdict
from perfmod.verify.failures import Kind
from perfmod.verify.job import SEED
from perfmod.verify.laboratory import Laboratory
from perfmod.verify.load import Load, device_load
from perfmod.verify.running import Ran
from perfmod.verify.schedule import ROUNDS, mirrored
from perfmod.verify.sides import Side
from perfmod.verify.speed import compare, more_would_help

_ROUNDS_OF_RULES: Final = 2


def _has_missed_its_turn(ran: Ran) -> bool:
    """Whether a run ended before all were ready, or waited so long for the others that its time was up."""
    if ran.trouble is not None:
        return ran.trouble.kind is Kind.TIME_LIMIT
    return not all(record["window_steps"] for record in ran.records)


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
        before = device_load()
        try:
            if not self._by_turns():
                self._one_by_one()
            self._note_device_load(max(before, device_load()))
            found = self._compared()
        except NoWindow as error:
            return Speed(Verdict.INCONCLUSIVE, str(error), runs=self._all())
        if self._ended_after:
            fewest = min(len(run.step_ms) for run in found.runs)
            few = f"the script ends after {self._ended_after} steps: as few as {fewest} of a process were timed"
            found = evolve(found, reason=f"{found.reason}; {few}")
        return found

    def _by_turns(self) -> bool:
        """Time processes that are warm at the same time. Returns whether these can be timed so."""
        pairs = self.lab.pairs_by_turns()
        if not pairs or self.between:
            return False
        sides = mirrored([self.original, self.rewritten], pairs)
        self.lab.progress(f"timing {len(sides)} processes by turns")
        timed = self.lab.time_by_turns(sides)
        if any(_has_missed_its_turn(ran) for ran, _ in timed):
            return False
        for side, (ran, load) in zip(sides, timed, strict=True):
            self._keep(side, ran, load)
        return True

    def _one_by_one(self) -> None:
        first, most = ROUNDS[self.lab.request.quick]
        sides = [self.original, self.rewritten]
        self._time(mirrored(sides, first // 2))
        # The stacks stand in the middle, between as many runs of both ends.
        self._time(mirrored(self.between, _ROUNDS_OF_RULES))
        self._time(mirrored(sides, first - first // 2, first=first // 2))
        for number in range(first, most):
            if not more_would_help(self._compared()):
                break
            self._time(mirrored(sides, 1, first=number))

    def between_stacks(self, before: Side, after: Side) -> Speed | None:
        """What the step from one timed side to another brings; None where one was not timed."""
        if before.name not in self.runs or after.name not in self.runs:
            return None
        return compare(self.runs[before.name], self.runs[after.name], SEED)

    def _note_device_load(self, share: float) -> None:
        self.runs = {name: [evolve(run, device_load=share) for run in runs] for name, runs in self.runs.items()}

    def _compared(self) -> Speed:
        return compare(self.runs[self.original.name], self.runs[self.rewritten.name], SEED)

    def _time(self, sides: Sequence[Side]) -> None:
        for side in sides:
            self.lab.progress(f"timing {side.name}")
            self._keep(side, *self.lab.time(side))

    def _keep(self, side: Side, ran: Ran, load: Load) -> None:
        if ran.trouble is not None:
            raise NoWindow(f"{side.name}: {ran.trouble.reason}")
        # Ranks wait for each other: the slowest is the pace of all.
        record = max(ran.records, key=_mean_ms)
        if not record["window_steps"]:
            steps = sum(record["steps"].values())
            raise NoWindow(f"{side.name}: it ended after {steps} steps, too few to time")
        if record["ended"] == "exit":
            self._ended_after = record["steps"]["0"]
        timed = TimedRun(
            side=side.name,
            order=sum(map(len, self.runs.values())),
            step_ms=tuple(record["step_ms"]),
            mean_ms=_mean_ms(record),
            first_step_seconds=record["first_step_seconds"],
            compile_seconds=record["compile_seconds"],
            peak_allocated_mib=_largest(ran.records, "peak_allocated_mib"),
            peak_reserved_mib=_largest(ran.records, "peak_reserved_mib"),
            peak_resident_mib=ran.peak_resident_mib,
            peak_shm_mib=ran.peak_shm_mib,
            load=load.processors,
            throttled=load.throttled,
        )
        self.runs.setdefault(side.name, []).append(timed)

    def _all(self) -> tuple[TimedRun, ...]:
        return tuple(sorted((run for runs in self.runs.values() for run in runs), key=lambda run: run.order))


def _mean_ms(record: Mapping[str, Any]) -> float:
    return 1000.0 * float(record["window_seconds"]) / max(1, int(record["window_steps"]))


def _largest(records: Sequence[Mapping[str, Any]], name: str) -> float | None:
    return max((float(record[name]) for record in records if record[name] is not None), default=None)
