"""A step in parts: what it waits for, what the device does, and what would be left of it without either."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import field, frozen

from perfmod.profile.kernels import COMPUTING, Share, shares

SCHEMA_VERSION = 1

_BUSY = 0.8
"""Share of a step from which on a device is busy enough to be what a step waits for."""
_GAINS = 0.02
"""A smaller share is not worth a line."""


class Bound(str, enum.Enum):
    """What a step mostly waits for."""

    LOADER = "starved"
    SYNCS = "synchronising"
    LAUNCHES = "launch-bound"
    COMPUTE = "compute-bound"
    MEMORY = "memory-bound"
    CPU = "on the CPU"
    UNCLEAR = "unclear"

    @property
    def explained(self) -> str:
        """In a few words."""
        return _EXPLAINED[self]


_EXPLAINED = {
    Bound.LOADER: "the step waits for batches",
    Bound.SYNCS: "the CPU waits for values from the GPU, and the GPU then waits for the CPU",
    Bound.LAUNCHES: "the GPU waits for the CPU to launch its kernels",
    Bound.COMPUTE: "the GPU is busy with products and convolutions",
    Bound.MEMORY: "the GPU is busy moving data through its memory",
    Bound.CPU: "no GPU is used",
    Bound.UNCLEAR: "the GPU could not be looked at",
}


@frozen
class Wait:
    """A line that makes the CPU wait for the GPU: how often and how many milliseconds a step.

    Attributes:
        inside: the library line that waited, where it is not the user's own.
        rule: what perfmod says about the line: a code and an outcome, or empty.
    """

    path: str
    line: int
    code: str
    syncs: float
    ms: float
    inside: str = ""
    rule: str = ""


@frozen
class Lever:
    """A way to speed a step up: `ms` is what would be left of it if that were done wholly, so a bound."""

    name: str
    ms: float


@frozen
class Loader:
    """A DataLoader of the script; `batches` is how many it has handed out. None stands for a sampler of batches."""

    workers: int
    prefetch: int
    pin_memory: bool
    persistent: bool
    batch_size: int | None
    batches: int


@frozen
class Breakdown:
    """A training step. Times are in milliseconds a step, and without a profiler but for what the device did.

    Attributes:
        steps: that were timed.
        step_ms: from the end of a step to the end of the next one.
        loader_ms: in which the training process waited for batches.
        busy_ms: in which the device did something; None where that could not be seen.
        sync_ms, syncs: waits for the device that no line asks for by name.
        kernels: launched. shares: what the device did.
        to_device_mib, pageable_mib: copied to the device, and of that from pageable memory.
        free_mib, peak_mib, total_mib: memory of the device; what the script reserved at most.
        loaders: of the script, as they were made.
        notes: what there is to say about how it was measured, one line each.
    """

    bound: Bound
    device: str
    steps: int
    step_ms: float
    loader_ms: float
    busy_ms: float | None = None
    sync_ms: float = 0.0
    syncs: float = 0.0
    kernels: float = 0.0
    to_device_mib: float = 0.0
    pageable_mib: float = 0.0
    shares: tuple[Share, ...] = ()
    waits: tuple[Wait, ...] = ()
    levers: tuple[Lever, ...] = ()
    free_mib: float | None = None
    peak_mib: float | None = None
    total_mib: float | None = None
    loaders: tuple[Loader, ...] = ()
    notes: tuple[str, ...] = ()
    command: str = ""
    torch: str = ""
    perfmod: str = ""
    schema: int = field(default=SCHEMA_VERSION)

    @property
    def idle_ms(self) -> float | None:
        """In which the device did nothing."""
        return None if self.busy_ms is None else max(0.0, self.step_ms - self.busy_ms)


def breakdown(
    record: Mapping[str, Any], waits: Sequence[Wait], *, device: str, is_on_gpu: bool, **told: Any
) -> Breakdown:
    """What a P-run with plain steps has seen; `told` are further fields."""
    plain, trace, memory = record["plain"], record["trace"], record["memory"] or {}
    step_ms, loader_ms = plain["step_ms"], min(plain["loader_ms"], plain["step_ms"])
    loaders = tuple(Loader(**loader) for loader in plain["loaders"])
    sums = {"steps": plain["steps"], "step_ms": step_ms, "loader_ms": loader_ms, "loaders": loaders}
    if trace is None:
        levers = _levers(step_ms, loader_ms, None, 0.0)
        bound = Bound.LOADER if loader_ms > step_ms / 2 else Bound.UNCLEAR if is_on_gpu else Bound.CPU
        return Breakdown(bound, device, **sums, levers=levers, waits=tuple(waits), **told)
    # How long the device works does not depend on the profiler, unlike how long a step takes.
    busy_ms = min(step_ms, trace["busy_share"] * trace["step_ms"])
    seen = shares(record["work"] or {})
    sync_ms = min(trace["sync_ms"], step_ms)
    return Breakdown(
        _bound(step_ms, loader_ms, busy_ms, sync_ms, seen),
        device,
        **sums,
        busy_ms=busy_ms,
        sync_ms=sync_ms,
        syncs=sum(wait.syncs for wait in waits),
        kernels=trace["kernels"],
        to_device_mib=trace["to_device_bytes"] / 2**20,
        pageable_mib=trace["pageable_bytes"] / 2**20,
        shares=seen,
        waits=tuple(waits),
        levers=_levers(step_ms, loader_ms, busy_ms, sync_ms),
        free_mib=memory.get("free_mib"),
        peak_mib=memory.get("peak_reserved_mib"),
        total_mib=memory.get("total_mib"),
        **told,
    )


def _bound(step_ms: float, loader_ms: float, busy_ms: float, sync_ms: float, seen: Sequence[Share]) -> Bound:
    if busy_ms >= _BUSY * step_ms:
        computing = sum(share.ms for share in seen if share.work in COMPUTING)
        return Bound.COMPUTE if 2 * computing >= sum(share.ms for share in seen) else Bound.MEMORY
    idle_ms = step_ms - busy_ms
    # While either is waited for, the device may still work on what came before.
    loader_ms, sync_ms = min(loader_ms, idle_ms), min(sync_ms, idle_ms)
    parts = {Bound.LOADER: loader_ms, Bound.SYNCS: sync_ms, Bound.LAUNCHES: idle_ms - loader_ms - sync_ms}
    return max(parts, key=parts.__getitem__)


def _levers(step_ms: float, loader_ms: float, busy_ms: float | None, sync_ms: float) -> tuple[Lever, ...]:
    """The bound of each way, the best first; ways that gain nothing are left out."""
    floor = 0.0 if busy_ms is None else busy_ms
    found = [Lever("no wait for batches", max(step_ms - loader_ms, floor))]
    if busy_ms is not None:
        found += [
            Lever("the step as one CUDA graph, batches loaded beside it", max(busy_ms, loader_ms)),
            Lever("both", busy_ms),
        ]
        if sync_ms:
            found.append(Lever("no wait for values from the GPU", max(step_ms - sync_ms, floor)))
    return tuple(sorted((each for each in found if each.ms < (1 - _GAINS) * step_ms), key=lambda lever: lever.ms))
