"""Were both sides trained on the same batches?

A loader's tensors have to be equal, in order. A rewrite may move work from the dataset to the device, so that the
loader hands over other tensors; then the model has to return the same at every step, because it was given the same in
the end. A side may draw a batch or two ahead of its steps, and what it drew without using it does not count.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from attrs import frozen

from perfmod.verify.evidence import Check, Verdict
from perfmod.verify.runs import Runs, Spread
from perfmod.verify.tolerances import EPSILON, Tolerance
from perfmod.verify.trace import Batch, Forward, Leaf, Trace

_AHEAD: Final = 2
"""Batches that a side may draw ahead."""
_TIMES_CONTROL: Final = 10.0
"""Times the control that what a model returns may differ."""
_LATER: Final = 2.0**-6
"""Relative difference that differences of earlier steps may have grown to; other samples differ by more."""
_NAME: Final = "batches"

Stream: TypeAlias = Sequence[Batch]


@frozen
class _Parting:
    """The first batch in which a pair of loaders differs."""

    old: Batch
    new: Batch
    permuted: bool

    @property
    def text(self) -> str:
        """What seems to have happened."""
        if self.permuted:
            return "the same batches are in another order"
        if self.old.samples != self.new.samples:
            return f"it has {self.new.samples} samples, and {self.old.samples} in the original"
        same = [one.content == other.content for one, other in zip(self.old.leaves, self.new.leaves, strict=False)]
        if any(same):
            return f"the same samples seem to be loaded with other values (tensor {same.index(False)} of the batch)"
        return "other samples, or the same samples in other batches"


def compare_batches(runs: Runs[Trace], tolerance: Tolerance) -> Check | None:
    """One row; the reason names the step at which the sides part. Never refutes: other data is another question.

    None where no loader was seen. What a model returns would tell about the model as much as about the data then.
    """
    old, new = list(runs.original.batches()), list(runs.rewritten.batches())
    if not old and not new:
        return None
    pairs = _pair(old, new)
    for one, other in pairs:
        if abs(len(one) - len(other)) > _AHEAD:
            return _inconclusive(f"the rewritten script draws {len(other)} batches, the original {len(one)}")
    partings = [parting for one, other in pairs if (parting := _part(one, other)) is not None]
    count = sum(min(len(one), len(other)) for one, other in pairs)
    if not partings and count:
        surplus = len(new) - len(old)
        return _equal(f"{count} batches" + (f"; {abs(surplus)} more drawn ahead on one side" if surplus else ""))
    outputs = _compare_outputs(runs, tolerance)
    if outputs == "" and all(_excused(one, other) for one, other in pairs):
        return _equal("the loader yields other tensors, but the model computes the same from them")
    first = min(partings, key=lambda parting: parting.old.step, default=None)
    reason = "only one of the sides reads a DataLoader"
    if first is not None:
        reason = f"batches differ from step {first.old.step + 1} on: {first.text}"
    return _inconclusive(f"{reason}; {outputs}" if outputs else reason)


def _equal(reason: str) -> Check:
    return Check(_NAME, Verdict.PROVEN, measured=0.0, allowed=0.0, reason=reason)


def _inconclusive(reason: str) -> Check:
    return Check(_NAME, Verdict.INCONCLUSIVE, reason=reason)


def _pair(old: Stream, new: Stream) -> list[tuple[Stream, Stream]]:
    """Loaders of both sides that correspond: by number, by their order where the numbers differ, or all at once."""
    mine, theirs = _by_loader(old), _by_loader(new)
    if mine.keys() == theirs.keys():
        return [(stream, theirs[loader]) for loader, stream in mine.items()]
    if len(mine) == len(theirs):
        return list(zip(mine.values(), theirs.values(), strict=True))
    return [(old, new)] if old and new else []


def _by_loader(batches: Stream) -> Mapping[int, list[Batch]]:
    streams: dict[int, list[Batch]] = {}
    for batch in batches:
        streams.setdefault(batch.loader, []).append(batch)
    return streams


def _part(old: Stream, new: Stream) -> _Parting | None:
    for one, other in zip(old, new, strict=False):
        if _contents(one) != _contents(other):
            length = min(len(old), len(new))
            permuted = Counter(map(_contents, old[:length])) == Counter(map(_contents, new[:length]))
            return _Parting(one, other, permuted)
    return None


def _contents(batch: Batch) -> tuple[object, ...]:
    return tuple(leaf.content for leaf in batch.leaves)


def _excused(old: Stream, new: Stream) -> bool:
    """Whether the tensors that differ may be the same data before work that was moved to the device."""
    return all(
        len(one.leaves) == len(other.leaves) and all(map(_prepared_elsewhere, one.leaves, other.leaves))
        for one, other in zip(old, new, strict=False)
    )


def _prepared_elsewhere(old: Leaf, new: Leaf) -> bool:
    """Equal, or of another type, or floating: targets of one integer type have to be equal."""
    return old.content == new.content or old.dtype != new.dtype or old.dtype in EPSILON


def _compare_outputs(runs: Runs[Trace], tolerance: Tolerance) -> str | None:
    """How what the model returns first at each step differs; empty where it is equal, None where it was not seen."""
    firsts = runs.map(_first_calls)
    shared = [step for step in firsts.original if step in firsts.rewritten]
    if not shared:
        return None
    for step in shared:
        again = [calls[step] for calls in firsts.repeats if step in calls]
        noisy = [calls[step] for calls in firsts.perturbed if step in calls]
        if not _same_outputs(firsts.original[step], firsts.rewritten[step], again, noisy, tolerance):
            return f"the model's outputs differ at step {step + 1}"
    return ""


def _first_calls(trace: Trace) -> Mapping[int, Forward]:
    calls: dict[int, Forward] = {}
    for forward in trace.forwards():
        calls.setdefault(forward.step, forward)
    return calls


def _same_outputs(
    old: Forward, new: Forward, again: Sequence[Forward], noisy: Sequence[Forward], tolerance: Tolerance
) -> bool:
    if len(old.leaves) != len(new.leaves):
        return False
    for index, (one, other) in enumerate(zip(old.leaves, new.leaves, strict=True)):
        noise = max((_distance(one, call.leaves[index]) for call in again if len(call.leaves) > index), default=0.0)
        control = max((_distance(one, call.leaves[index]) for call in noisy if len(call.leaves) > index), default=0.0)
        size = math.hypot(*(one.sketch or ()))
        spread = Spread(_distance(one, other), noise, control)
        floor = max(tolerance.floor, _LATER if old.step else 0.0) * size
        if tolerance.bitwise and noise == 0.0:
            floor = 0.0
        if spread.measured > _TIMES_CONTROL * tolerance.base(spread) + floor:
            return False
    return True


def _distance(one: Leaf, other: Leaf) -> float:
    if one.content == other.content:
        return 0.0
    if one.sketch is None or other.sketch is None or one.shape != other.shape:
        return math.inf
    return math.dist(one.sketch, other.sketch)
