"""Reads a trace of torch's profiler: how long the host waited, what was copied, how busy the device was.

The trace is what `export_chrome_trace` writes: complete events with `ts` and `dur` in microseconds, whole numbers in
torch 2.1 and fractions in later versions. Calls of the CUDA runtime have the category `cuda_runtime` (`cuda_driver`
where the driver was called directly); what the device did has `kernel`, `gpu_memcpy` or `gpu_memset`; a call and the
work that it asked for have the same `correlation`. The profiled run leaves marks among them: empty annotations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

SYNC_MARK = "perfmod:sync:"
"""Followed by the synchronisation's number, from 0; stands after the operation that waited."""
FIRST_MARK, LAST_MARK, IDLE_MARK = "perfmod:first", "perfmod:last", "perfmod:idle"
"""The profiled steps: the device is idle at the first mark, the last step ends at the second, its work at the third."""

_CALLS = frozenset(["cuda_runtime", "cuda_driver"])
_WORK = frozenset(["kernel", "gpu_memcpy", "gpu_memset"])
_STREAM_WAITS = frozenset(["cudaStreamSynchronize", "cuStreamSynchronize"])
_WAITS = _STREAM_WAITS | {
    "cudaDeviceSynchronize",
    "cudaEventSynchronize",
    "cudaMemcpy",
    "cuCtxSynchronize",
    "cuEventSynchronize",
}
# CUPTI may append the version of the interface: cudaStreamSynchronize_v3020, cudaStreamSynchronize_ptsz.
_SUFFIX = re.compile(r"(_v\d+)?(_ptsz)?$")


class Span(NamedTuple):
    """A complete event, from `start` to `end` in microseconds."""

    start: float
    end: float
    category: str
    name: str
    correlation: int
    bytes: int


class Trace:
    """What a trace tells about the host's waiting and the device's work."""

    def __init__(self, events: Iterable[dict[str, Any]]) -> None:
        self.marks: dict[str, Span] = {}
        self.work: list[Span] = []
        self._threads: dict[object, list[Span]] = {}
        for event in events:
            category = event.get("cat")
            if category in _WORK:
                self.work.append(_span(event))
            elif category in _CALLS:
                self._threads.setdefault(event.get("tid"), []).append(_span(event))
            elif category == "user_annotation" and event["name"].startswith("perfmod:"):
                self.marks[event["name"]] = _span(event)
        for calls in self._threads.values():
            calls.sort()
        # The driver reads or writes pageable memory itself, before such a call returns.
        self._copying = {span.correlation for span in self.work if "Pageable" in span.name} - {-1}

    def is_whole(self) -> bool:
        """Whether the marks are there, and the device was seen: a profiler may lack the library or the permission."""
        marked = self.marks.keys() >= {FIRST_MARK, LAST_MARK, IDLE_MARK}
        return marked and any(span.category == "kernel" for span in self.work)

    def waited_for(self, syncs: int) -> list[float]:
        """Milliseconds of waiting that belong to each of the marked synchronisations.

        A warning comes once its operation has returned to Python, and those of a backward pass all come at its
        end: a mark answers for every wait for a stream since the mark before it. Waits that the script asks
        for by name (for a device, for an event) are not implicit and count for no line. A synchronisation
        without a mark (of a thread that the profiler does not follow) gets 0.0.

        Args:
            syncs: how many there were since the trace began.
        """
        waits = sorted(self._stream_waits())
        found, position = [], 0
        for number in range(syncs):
            mark, waited = self.marks.get(SYNC_MARK + str(number)), 0.0
            while mark is not None and position < len(waits) and waits[position][0] <= mark.start:
                waited += waits[position][1]
                position += 1
            found.append(waited / 1000)
        return found

    def per_step(self, steps: int) -> dict[str, float]:
        """The profiled steps of a whole trace.

        Args:
            steps: between the first and the last mark.

        Returns:
            Per step: `step_ms`; `sync_ms`, in which a thread of the host waited; bytes copied, `to_device_bytes` (of
            which `pageable_bytes` from pageable memory) and `from_device_bytes`; `kernels`. And `busy_share`, the share
            of the time in which the device did something, from 0 to 1.
        """
        first, last, idle = self.marks[FIRST_MARK].end, self.marks[LAST_MARK].start, self.marks[IDLE_MARK].start
        work = [span for span in self.work if first <= span.start < idle]
        copies = [span for span in work if span.category == "gpu_memcpy"]
        to_device = [span for span in copies if "HtoD" in span.name]
        waits = [(call.start, call.end) for call in self._waits() if first <= call.start < last]
        return {
            "step_ms": (idle - first) / 1000 / steps,
            "sync_ms": covered(waits) / 1000 / steps,
            "to_device_bytes": sum(span.bytes for span in to_device) / steps,
            "pageable_bytes": sum(span.bytes for span in to_device if "Pageable" in span.name) / steps,
            "from_device_bytes": sum(span.bytes for span in copies if "DtoH" in span.name) / steps,
            "kernels": sum(span.category == "kernel" for span in work) / steps,
            "busy_share": covered([(span.start, min(span.end, idle)) for span in work]) / (idle - first),
        }

    def work_by_name(self, steps: int) -> dict[str, list[float]]:
        """What the device did in the profiled steps: how often and for how many milliseconds a step, by name."""
        first, idle = self.marks[FIRST_MARK].end, self.marks[IDLE_MARK].start
        found: dict[str, list[float]] = {}
        for span in self.work:
            if first <= span.start < idle:
                row = found.setdefault(span.name, [0.0, 0.0])
                row[0] += 1
                row[1] += span.end - span.start
        return {name: [count / steps, duration / 1000 / steps] for name, (count, duration) in found.items()}

    def _waits(self) -> Iterable[Span]:
        for calls in self._threads.values():
            for call in calls:
                if call.name in _WAITS or call.correlation in self._copying:
                    yield call

    def _stream_waits(self) -> Iterable[tuple[float, float]]:
        """Waits for a stream as (end, duration), with the pageable copy right before them: that is how torch copies."""
        for calls in self._threads.values():
            copying = 0.0
            for call in calls:
                duration = call.end - call.start
                if call.name in _STREAM_WAITS:
                    yield call.end, copying + duration
                copying = duration if call.correlation in self._copying else 0.0


def covered(intervals: Sequence[tuple[float, float]]) -> float:
    """Length of the union of intervals."""
    length, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        if end > reached:
            length += end - max(start, reached)
            reached = end
    return length


def _span(event: dict[str, Any]) -> Span:
    start, details = float(event["ts"]), event.get("args", {})
    return Span(
        start,
        start + float(event.get("dur", 0)),
        event["cat"],
        _SUFFIX.sub("", event["name"]) if event["cat"] in _CALLS else event["name"],
        int(details.get("correlation", -1)),
        int(details.get("bytes", 0)),
    )
