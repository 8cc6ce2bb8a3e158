"""Figures that every rendering shows, derived from the record."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter

from attrs import frozen

from perfmod.verify.evidence import Check, Equality, Evidence, Speed, SyncRow, TimedRun, Verdict, Why
from perfmod.verify.report import wording

ORIGINAL, REWRITTEN = "original", "rewritten"


_NEAREST = 3


def compared(equality: Equality) -> str:
    """What the equality was judged on: `20 steps, 20 backward passes, 640 samples; compared one by one: steps 3, 8`."""
    amounts = (equality.steps, "step"), (equality.backwards, "backward pass"), (equality.samples, "sample")
    told = ", ".join(wording.counted(number, noun) for number, noun in amounts)
    singles = ", ".join(map(str, equality.single_steps))
    return f"{told}; compared one by one: steps {singles}" if singles else told


def found(check: Check) -> str:
    """What a check saw, in a few words."""
    if check.measured is None:
        return "" if check.verdict is Verdict.PROVEN else check.verdict.value
    if check.measured == 0:
        return "equal" if check.allowed else "equal bits"
    return "not finite" if math.isnan(check.measured) else f"{wording.difference(check.measured)} apart"


def telling(checks: Sequence[Check]) -> list[Check]:
    """What a reader in a hurry has to know: what did not hold, and what came nearest to what is allowed."""
    failed = [check for check in checks if check.verdict is not Verdict.PROVEN]
    near = [check for check in checks if check.verdict is Verdict.PROVEN and check.measured and check.allowed]
    nearest = sorted(near, key=lambda check: -(check.measured or 0) / (check.allowed or 1))[:_NEAREST]
    return [check for check in checks if check in failed or check in nearest]


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
    """How far the original strays from itself, and what its steps may have lost to other processes."""
    load = f", and {wording.percent(speed.load)} for the load beside it" if speed.load else ""
    return f"+/- {wording.percent(speed.spread)}{load}"


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


RESERVED = "device, reserved"
_KINDS = (
    ("device, allocated", "peak_allocated_mib"),
    (RESERVED, "peak_reserved_mib"),
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


def median_ms(run: TimedRun) -> float:
    """The median step of a process; its mean where no steps were kept."""
    return statistics.median(run.step_ms) if run.step_ms else run.mean_ms


def profile_rows(why: Why) -> Iterator[tuple[str, str, str]]:
    """What the profiler saw per step, as label, original and rewritten."""
    quantities: tuple[tuple[str, str, Callable[[float], str]], ...] = (
        ("waiting in synchronising calls", "sync_ms", wording.milliseconds),
        ("host to device", "to_device_bytes", wording.byte_count),
        ("of it from pageable memory", "pageable_bytes", wording.byte_count),
        ("device to host", "from_device_bytes", wording.byte_count),
        ("device busy", "busy_share", wording.percent),
        ("kernels launched", "kernels", wording.per_step),
    )
    for label, attribute, shown in quantities:
        values = [getattr(profile, attribute, None) for profile in (why.original, why.rewritten)]
        before, after = ("-" if value is None else shown(value) for value in values)
        yield label, before, after


def environment(evidence: Evidence) -> list[tuple[str, str]]:
    """When, on what and with what it was run, as labels and values."""
    where = evidence.environment
    rows = [
        ("GPU", where.gpu),
        ("driver", where.driver),
        ("CUDA", where.cuda),
        ("clocks", where.clocks),
        ("throttling", where.throttle),
        ("torch", where.torch),
        ("Python", where.python),
        *where.packages,
        ("CPU", where.cpu),
        ("platform", where.platform),
        ("device", evidence.device),
        ("commit", evidence.commit),
        ("perfmod", evidence.perfmod),
        ("run at", evidence.created),
        ("took", wording.duration(evidence.seconds) if evidence.seconds else ""),
    ]
    return [(label, value) for label, value in rows if value]
