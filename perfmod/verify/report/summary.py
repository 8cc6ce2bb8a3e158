"""Figures that every rendering shows, derived from the record."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from operator import attrgetter

from attrs import frozen

from perfmod.verify.evidence import Check, Environment, Equality, Evidence, Speed, SyncRow, TimedRun, Verdict, Why
from perfmod.verify.report import wording

ORIGINAL, REWRITTEN = "original", "rewritten"


def compared(equality: Equality) -> str:
    """What the equality was judged on: `20 steps, 20 backward passes, 640 samples`."""
    amounts = (equality.steps, "step"), (equality.backwards, "backward pass"), (equality.samples, "sample")
    return ", ".join(wording.counted(number, noun) for number, noun in amounts)


def found(check: Check) -> str:
    """What a check saw, in a few words."""
    if check.measured is None:
        return "" if check.verdict is Verdict.PROVEN else check.verdict.value
    if check.measured == 0:
        return "equal" if check.allowed else "equal bits"
    return f"{wording.difference(check.measured)} apart"


def not_timed(evidence: Evidence) -> str:
    """Why there is no speed to show; empty where there is."""
    if evidence.speed is not None:
        return ""
    if evidence.device == "cpu":
        return "Speed was not judged: that needs --device cuda."
    return "Speed was not measured."


def was_timed(speed: Speed | None) -> bool:
    """Whether there are times of both sides."""
    return speed is not None and speed.original_ms > 0 and speed.rewritten_ms > 0


def noise(speed: Speed) -> str:
    """How far the original strays from itself."""
    return f"+/- {wording.percent(speed.spread)}"


def processes(speed: Speed, side: str) -> tuple[TimedRun, ...]:
    """The processes of one side, in the order in which they ran."""
    return tuple(sorted((run for run in speed.runs if run.side == side), key=attrgetter("order")))


def sync_counts(why: Why | None) -> tuple[float, float] | None:
    """Implicit synchronisations per step of both sides: as the profiles count them, else the sum over the lines."""
    if why is None or (why.original is None and why.rewritten is None and not why.syncs):
        return None
    before = why.original.syncs if why.original else sum(row.before for row in why.syncs)
    after = why.rewritten.syncs if why.rewritten else sum(row.after for row in why.syncs)
    return before, after


def sync_waits(why: Why) -> tuple[float, float]:
    """Milliseconds per step that the host waited at the lines that are listed."""
    return sum(row.before_ms for row in why.syncs), sum(row.after_ms for row in why.syncs)


def costly(rows: Sequence[SyncRow]) -> list[SyncRow]:
    """The rows, those that cost most first."""
    return sorted(rows, key=lambda row: (-_finite(max(row.before_ms, row.after_ms)), -row.before, row.path, row.line))


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0


@frozen
class Memory:
    """Peak use of one kind of memory in MiB, the median over the processes; None for a side that was not measured."""

    kind: str
    original: float | None
    rewritten: float | None


_KINDS = (
    ("device, allocated", "peak_allocated_mib"),
    ("device, reserved", "peak_reserved_mib"),
    ("host, resident set of all processes", "peak_resident_mib"),
    ("host, growth of /dev/shm", "peak_shm_mib"),
)


def memory(speed: Speed | None) -> Iterator[Memory]:
    """The kinds of memory that were measured on either side."""
    for kind, attribute in _KINDS if speed else ():
        sides = []
        for side in (ORIGINAL, REWRITTEN):
            values = [getattr(run, attribute) for run in processes(speed, side)] if speed else []
            known = [value for value in values if value is not None]
            sides.append(statistics.median(known) if known else None)
        if sides != [None, None]:
            yield Memory(kind, *sides)


def environment(where: Environment) -> list[tuple[str, str]]:
    """What is known of the machine, as labels and values."""
    rows = [
        ("GPU", where.gpu),
        ("driver", where.driver),
        ("CUDA", where.cuda),
        ("clocks", where.clocks),
        ("throttling", where.throttle),
        ("torch", where.torch),
        ("Python", where.python),
        ("CPU", where.cpu),
        ("platform", where.platform),
        *where.packages,
    ]
    return [(label, value) for label, value in rows if value]
