"""Were both sides trained on the same batches?

A loader's tensors have to be equal, in order. A rewrite may move work from the dataset to the device, so that the
loader hands over other tensors; then what the model receives has to be equal instead. A side may draw a batch or two
ahead of its steps, and what it drew without using it does not count.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final, TypeAlias

from attrs import frozen

from perfmod.verify.evidence import Check, Verdict
from perfmod.verify.runs import Runs
from perfmod.verify.tolerances import EPSILON
from perfmod.verify.trace import Batch, Forward, Leaf, Trace

_AHEAD: Final = 2
"""Batches that a side may draw ahead."""
_ULPS: Final = 8.0
"""Rounding units by which inputs that are made ready in another place may differ."""
_TIMES_CONTROL: Final = 10.0
"""Times the control that inputs may differ which a model made itself, as a generator does for a discriminator."""
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
            return "the same batches come in another order"
        if self.old.samples != self.new.samples:
            return f"it has {self.new.samples} samples, and {self.old.samples} in the original"
        same = [one.content == other.content for one, other in zip(self.old.leaves, self.new.leaves, strict=False)]
        if any(same):
            return f"the same samples seem to be loaded with other contents (tensor {same.index(False)} of the batch)"
        return "other samples, or the same ones mixed in another way"


def compare_batches(runs: Runs[Trace], *, bitwise: bool) -> Check | None:
    """One row; the reason names the step at which the sides part. Never refutes: other data is another question.

    None where neither a loader nor a model's call was seen.
    """
    old, new = list(runs.original.batches()), list(runs.rewritten.batches())
    if not old and not new:
        return _without_loader(runs, bitwise=bitwise)
    pairs = _pair(old, new)
    for one, other in pairs:
        if abs(len(one) - len(other)) > _AHEAD:
            return _inconclusive(f"the rewritten script draws {len(other)} batches, the original {len(one)}")
    partings = [parting for one, other in pairs if (parting := _part(one, other)) is not None]
    count = sum(min(len(one), len(other)) for one, other in pairs)
    if not partings and count:
        surplus = len(new) - len(old)
        return _equal(f"{count} batches" + (f"; {abs(surplus)} more drawn ahead on one side" if surplus else ""))
    inputs = _inputs(runs, bitwise=bitwise)
    if inputs == "" and all(_excused(one, other) for one, other in pairs):
        return _equal("the loader hands over other tensors, the model receives the same ones")
    first = min(partings, key=lambda parting: parting.old.step, default=None)
    if first is None:
        return _inconclusive("only one of the sides reads a DataLoader, and the model's inputs are not the same")
    moved = f"; {inputs}" if inputs else ""
    return _inconclusive(f"batches differ from step {first.old.step + 1} on: {first.text}{moved}")


def _without_loader(runs: Runs[Trace], *, bitwise: bool) -> Check | None:
    inputs = _inputs(runs, bitwise=bitwise)
    if inputs is None:
        return None
    return _inconclusive(inputs) if inputs else _equal("no DataLoader; the model receives the same tensors")


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


def _inputs(runs: Runs[Trace], *, bitwise: bool) -> str | None:
    """How what the model receives first at each step differs; empty where it is equal, None where it was not seen."""
    firsts = runs.map(_first_calls)
    shared = [step for step in firsts.original if step in firsts.rewritten]
    if not shared:
        return None
    for step in shared:
        old, new = firsts.original[step], firsts.rewritten[step]
        others = [calls[step] for calls in chain(firsts.repeats, firsts.perturbed) if step in calls]
        if not _same_inputs(old, new, [] if bitwise else others, ulps=0.0 if bitwise else _ULPS):
            return f"the model's inputs differ at step {step + 1}"
    return ""


def _first_calls(trace: Trace) -> Mapping[int, Forward]:
    calls: dict[int, Forward] = {}
    for forward in trace.forwards():
        calls.setdefault(forward.step, forward)
    return calls


def _same_inputs(old: Forward, new: Forward, others: Sequence[Forward], *, ulps: float) -> bool:
    if len(old.leaves) != len(new.leaves):
        return False
    for index, (one, other) in enumerate(zip(old.leaves, new.leaves, strict=True)):
        if one.content == other.content:
            continue
        if one.shape != other.shape or one.sketch is None or other.sketch is None:
            return False
        epsilon = max(EPSILON.get(one.dtype, 0.0), EPSILON.get(other.dtype, 0.0))
        sketches = (call.leaves[index].sketch for call in others if len(call.leaves) == len(old.leaves))
        moved = [sketch for sketch in sketches if sketch is not None and len(sketch) == len(one.sketch)]
        reach = max((math.dist(one.sketch, sketch) for sketch in moved), default=0.0)
        if math.dist(one.sketch, other.sketch) > ulps * epsilon * math.hypot(*one.sketch) + _TIMES_CONTROL * reach:
            return False
    return True
