"""What has to hold before two trainings can be compared: the same number of steps, the same start, the same settings.

Batches are compared by their own module.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Final

from perfmod.verify.evidence import Check, Verdict
from perfmod.verify.trace import Digest, Step, Trace
from perfmod.verify.vectors import align, shown, values

DROPOUTS: Final = "dropouts"
_IMPLEMENTATION: Final = frozenset({"foreach", "fused", "capturable", "differentiable"})
"""Options of optimizers that choose a kernel and leave the mathematics alone."""

_HALF_BITS: Final = 11
"""Of float16; bfloat16 has eight."""


def captured(side: str, trace: Trace) -> Check | None:
    """What is missing in a run, of which `side` says whose it is, for anything to be judged."""
    reason = ""
    if trace.ended == "error":
        reason = f"the {side} script failed: {trace.error}"
    elif trace.ended == "stuck":
        reason = f"the {side} script reached no further optimizer step"
    elif not any(trace.steps.values()):
        reason = f"no optimizer step was recorded in the {side} script"
    elif not trace.losses():
        reason = f"no loss was recorded in the {side} script"
    return Check("something to compare", Verdict.INCONCLUSIVE, reason=reason) if reason else None


def compare_counts(original: Trace, other: Trace) -> Check:
    """Steps of each optimizer, backward passes, steps that a scaler skipped, and samples."""
    pairs = [
        (f"steps of optimizer {key}", original.steps.get(key, 0), other.steps.get(key, 0))
        for key in dict.fromkeys((*original.steps, *other.steps))
    ]
    pairs += [
        ("backward passes", original.backwards, other.backwards),
        ("skipped steps", original.skipped, other.skipped),
    ]
    if not any(original.batches()) and not any(other.batches()):
        # Where batches are seen, they tell which samples were drawn ahead.
        pairs.append(("samples", original.samples, other.samples))
    for what, old, new in pairs:
        if old != new:
            reason = f"unequal numbers: {new} {what}, and {old} in the original"
            return Check("counts", Verdict.INCONCLUSIVE, float(abs(new - old)), 0.0, reason=reason)
    return Check("counts", Verdict.PROVEN, 0.0, 0.0)


def compare_start(what: str, original: Mapping[str, Digest], other: Mapping[str, Digest]) -> Check | None:
    """Parameters or buffers before the first step; None where neither side has any."""
    if not original and not other:
        return None
    name = f"initial {what}"
    naming = align(original, other)
    if naming is None:
        reason = f"the {what} do not correspond: {len(other)} tensors, and {len(original)} in the original"
        return Check(name, Verdict.INCONCLUSIVE, reason=reason)
    old, new = values(original), naming.rename(values(other))
    differing = [key for key, vector in old.items() if not vector.equals(new[key])]
    if differing:
        more = f" and {len(differing) - 1} more" if len(differing) > 1 else ""
        reason = f"{name} differ: {shown(differing[0])}{more}; other random numbers were drawn before training"
        return Check(name, Verdict.INCONCLUSIVE, float(len(differing)), 0.0, reason=reason)
    return Check(name, Verdict.PROVEN, 0.0, 0.0, reason=f"{len(old)} tensors with equal bits")


def compare_settings(original: Trace, other: Trace) -> Check:
    """Learning rates and the other numbers of every parameter group at every step."""
    name = "learning rates and other settings"
    done: dict[int, int] = {}
    mine, theirs = _steps(original), _steps(other)
    for old, new in zip(mine, theirs, strict=False):
        done[old.optimizer] = done.get(old.optimizer, 0) + 1
        at = f"at step {done[old.optimizer]}" + (f" of optimizer {old.optimizer}" if old.optimizer else "")
        if old.optimizer != new.optimizer or len(old.hyper) != len(new.hyper):
            reason = f"other optimizers or parameter groups are used {at}"
            return Check(name, Verdict.INCONCLUSIVE, reason=reason)
        for group, (one, two) in enumerate(zip(old.hyper, new.hyper, strict=True)):
            for key in dict.fromkeys((*one, *two)):
                if key not in _IMPLEMENTATION and not _same(one.get(key), two.get(key)):
                    where = f"{at}, group {group}" if len(old.hyper) > 1 else at
                    reason = f"{key} is {two.get(key)} {where}, and {one.get(key)} in the original"
                    return Check(name, Verdict.REFUTED, _off(one.get(key), two.get(key)), 0.0, reason=reason)
    return Check(name, Verdict.PROVEN, 0.0, 0.0)


def compare_dropouts(original: Trace, other: Trace) -> Check | None:
    """How often, and how likely, the runs without dropout would have dropped something; None where it is not known."""
    if original.left_out is None or other.left_out is None:
        return None
    for probability in sorted({*original.left_out, *other.left_out}):
        old, new = original.left_out.get(probability, 0), other.left_out.get(probability, 0)
        if old != new:
            reason = f"drops with probability {probability} {new} times, and {old} times in the original"
            return Check(DROPOUTS, Verdict.INCONCLUSIVE, float(abs(new - old)), 0.0, reason=reason)
    return Check(DROPOUTS, Verdict.PROVEN, 0.0, 0.0)


def compare_formats(original: Trace, other: Trace) -> Check | None:
    """What is rounded to a half type and is not in the original, though it hides or loses what changes by less."""
    old, new = (max(map(_significant_bits, trace.losses()), default=0) for trace in (original, other))
    if 0 < new <= _HALF_BITS < old:
        reason = f"the losses have {new} significant bits, and {old} in the original: compute them in float32"
    elif other.adds_up_in_half and not original.adds_up_in_half:
        reason = "a part of the loss is summed up in a half type, and in float32 in the original"
    elif other.held_in_half > original.held_in_half:
        tensors = f"{other.held_in_half} parameters hold values of a half type, and {original.held_in_half}"
        reason = f"{tensors} in the original: updates that are smaller than its rounding are lost"
    else:
        return None
    return Check("number formats", Verdict.INCONCLUSIVE, reason=reason)


def compare_workers(original: Trace, other: Trace) -> Check | None:
    """Workers that draw the same random numbers, as no two do of themselves; None where the original's do as well."""
    for shared in _shared_streams(other):
        if shared not in _shared_streams(original):
            return Check("random streams of workers", Verdict.INCONCLUSIVE, reason=shared)
    return None


def compare_replays(original: Trace, other: Trace) -> Check | None:
    """Replays of a CUDA graph of which not all is known; None where it is, or where the original's are no better."""
    if not other.replays_unseen or other.replays_unseen == original.replays_unseen:
        return None
    return Check("replayed steps", Verdict.INCONCLUSIVE, reason=other.replays_unseen)


def _shared_streams(trace: Trace) -> list[str]:
    """What is drawn more than once, in the words of a reason."""
    found = []
    for name in dict.fromkeys(name for worker in trace.workers for name in worker.streams):
        of_workers = Counter((worker.epoch, worker.streams.get(name)) for worker in trace.workers)
        of_epochs = Counter((worker.loader, worker.number, worker.streams.get(name)) for worker in trace.workers)
        if max(of_workers.values()) > 1:
            found.append(f"all workers of a loader draw the same random numbers from {name} stream")
        elif max(of_epochs.values()) > 1:
            found.append(f"the workers of a loader draw the same random numbers from {name} stream in each epoch")
    return found


def _significant_bits(value: float) -> int:
    if not value or not math.isfinite(value):
        return 0
    whole = int(abs(math.frexp(value)[0]) * 2**53)
    return 53 - ((whole & -whole).bit_length() - 1)


def _steps(trace: Trace) -> list[Step]:
    return [event for event in trace.events if isinstance(event, Step)]


def _same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return one == other


def _off(one: object, other: object) -> float | None:
    """How far the values differ, where they are numbers."""
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return abs(other - one) / (abs(one) or 1.0)
    return None
