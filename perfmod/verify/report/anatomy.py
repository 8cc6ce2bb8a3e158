"""One training step of both sides on one scale: how long it is, where the host waits in it, what the device does."""

from __future__ import annotations

import math
from collections.abc import Iterator

from attrs import frozen

from perfmod.verify.evidence import Evidence, SyncRow
from perfmod.verify.report.summary import ORIGINAL, REWRITTEN, was_timed


@frozen
class Segment:
    """A part of a lane; `label` says which line it is of, or is empty."""

    label: str
    ms: float


@frozen
class Lane:
    """What one party does in a step. Its segments are totals in the order of the code, not moments of the step."""

    name: str
    segments: tuple[Segment, ...]

    @property
    def ms(self) -> float:
        """Milliseconds of all segments."""
        return sum(segment.ms for segment in self.segments)


@frozen
class Step:
    """The lanes of one side."""

    side: str
    lanes: tuple[Lane, ...]


def steps(evidence: Evidence) -> tuple[Step, ...]:
    """Both sides, without the lanes that nothing is known of; empty where nothing was profiled."""
    if evidence.why is None:
        return ()
    return tuple(Step(side, lanes) for side in (ORIGINAL, REWRITTEN) if (lanes := tuple(_lanes(evidence, side))))


def longest(sides: tuple[Step, ...]) -> float:
    """Milliseconds of the longest lane: the scale of the drawing."""
    return max((lane.ms for side in sides for lane in side.lanes), default=0.0)


def _lanes(evidence: Evidence, side: str) -> Iterator[Lane]:
    speed, why = evidence.speed, evidence.why
    original = side == ORIGINAL
    profile = why and (why.original if original else why.rewritten)
    length = 0.0
    if speed is not None and was_timed(speed):
        length = speed.original_ms if original else speed.rewritten_ms
        yield Lane("step", (Segment("", length),))
    if why is not None and why.syncs:
        rows = sorted(why.syncs, key=lambda row: (row.path, row.line))
        yield Lane("host waits", tuple(_segments(rows, original=original)))
    if length and profile and profile.busy_share is not None and math.isfinite(profile.busy_share):
        yield Lane("device busy", (Segment("", length * profile.busy_share),))


def _segments(rows: list[SyncRow], *, original: bool) -> Iterator[Segment]:
    for row in rows:
        ms = row.before_ms if original else row.after_ms
        if ms > 0 and math.isfinite(ms):
            yield Segment(f"{row.path}:{row.line}", ms)
