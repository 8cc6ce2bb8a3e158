"""Did several processes, each with its part of every batch, train as one process did with the whole?

What they computed is put together: their losses are averaged, their parts of a batch are one batch, and what any of
them printed or saved counts, and of buffers those of the first one, which all take over before the next step. The
gradients that a process steps along, its parameters and its optimizer's states have
to be the original's in each of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from attrs import evolve

from perfmod.transforms.finding import Numerics
from perfmod.verify.evidence import Check, Equality, Verdict
from perfmod.verify.judging import Controls, judge_ranks
from perfmod.verify.tolerances import tolerance_for
from perfmod.verify.trace import Backward, Batch, Event, Saved, Trace
from perfmod.verify.vectors import distance, norm, shown, values

_SAMPLES: Final = "samples of the processes"
_PARAMETERS: Final = "parameters of the processes"


def judge_spread(
    originals: Sequence[Trace],
    ranks: Sequence[Trace],
    controls: Sequence[Controls],
    numerics: Numerics,
    strict: Mapping[str, Equality],
) -> Equality:
    """The judgement of the rank that fared worst against the one process of the original.

    The arguments are those of `judge_ranks`, but that there is one original.
    """
    (original,), (its,) = originals, controls
    judged = judge_ranks([original] * len(ranks), _put_together(original, ranks), [its] * len(ranks), numerics, strict)
    normalising = next((key for key in original.snapshot("buffers", 0) if key.endswith("running_mean")), None)
    if normalising is not None and judged.verdict is not Verdict.PROVEN:
        reason = (
            f"one process cannot be compared with several: the model normalises by the statistics of a batch "
            f"({shown(normalising)}), of which each process has its part, and it may not be under DataParallel here"
        )
        judged = evolve(judged, verdict=Verdict.INCONCLUSIVE, reason=reason)
    samples, parameters = _compare_samples(original, ranks), _compare_parameters(ranks)
    judged = evolve(judged, checks=(*filter(None, (samples, parameters)), *judged.checks))
    doubt = samples or parameters
    return judged if doubt.verdict is Verdict.PROVEN else evolve(judged, verdict=doubt.verdict, reason=doubt.reason)


def _put_together(original: Trace, ranks: Sequence[Trace]) -> list[Trace]:
    """Each rank, with what all of them did in the place of what it did alone."""
    losses = [[event.losses for event in rank.events if isinstance(event, Backward)] for rank in ranks]
    means = [
        tuple(sum(each) / len(ranks) for each in zip(*found, strict=False)) for found in zip(*losses, strict=False)
    ]
    batches = [_as_original(batch, parts) or _whole(parts) for batch, parts in _batches(original, ranks)]
    saved = [event for rank in ranks for event in rank.events if isinstance(event, Saved)]
    printed = "".join(rank.printed for rank in ranks)
    samples = sum(rank.samples for rank in ranks)
    buffers = {key: tensors for key, tensors in ranks[0].snapshots.items() if key[0].startswith("buffers")}
    return [
        evolve(
            rank,
            snapshots={**rank.snapshots, **buffers},
            events=(*batches, *_with_losses(rank, means), *saved),
            samples=samples,
            printed=printed,
        )
        for rank in ranks
    ]


def _with_losses(rank: Trace, means: Sequence[tuple[float, ...]]) -> Iterator[Event]:
    """The events of one rank that are its own, with the losses of all."""
    following = iter(means)
    for event in rank.events:
        if isinstance(event, Backward):
            yield evolve(event, losses=next(following, event.losses))
        elif not isinstance(event, (Batch, Saved)):
            yield event


def _batches(original: Trace, ranks: Sequence[Trace]) -> Iterator[tuple[Batch | None, tuple[Batch, ...]]]:
    """What a loader handed out in the original, and in each of the ranks."""
    mine = _by_loader(original)
    for loader, streams in _by_all(ranks).items():
        own = mine.get(loader, [])
        for place, parts in enumerate(zip(*streams, strict=False)):
            yield own[place] if place < len(own) else None, parts


def _by_loader(trace: Trace) -> dict[int, list[Batch]]:
    found: dict[int, list[Batch]] = {}
    for batch in trace.batches():
        found.setdefault(batch.loader, []).append(batch)
    return found


def _by_all(ranks: Sequence[Trace]) -> dict[int, list[list[Batch]]]:
    first, *others = map(_by_loader, ranks)
    return {loader: [own, *(each.get(loader, []) for each in others)] for loader, own in first.items()}


def _as_original(batch: Batch | None, parts: Sequence[Batch]) -> Batch | None:
    """The original's batch where the parts make it up, or where each is the whole, as in evaluations; else None."""
    if batch is None:
        return None
    is_whole = all(part.leaves == batch.leaves for part in parts)
    return batch if is_whole or (batch.single and _samples(*parts) == _samples(batch)) else None


def _samples(*batches: Batch) -> Counter[str]:
    return Counter(sample for batch in batches for sample in batch.single)


def _whole(parts: Sequence[Batch]) -> Batch:
    leaves = tuple(leaf for part in parts for leaf in part.leaves)
    return evolve(parts[0], samples=sum(part.samples for part in parts), leaves=leaves)


def _compare_samples(original: Trace, ranks: Sequence[Trace]) -> Check | None:
    """The row of samples that come twice, which the original was given once; None where there are none."""
    for batch, parts in _batches(original, ranks):
        if batch is None or _as_original(batch, parts) is not None:
            continue
        at = f"in step {batch.step + 1}"
        given, own = _samples(*parts), _samples(batch)
        if given >= own > Counter():
            reason = f"batches cannot be compared {at}: the processes fill up an epoch's last one with samples twice"
            return Check(_SAMPLES, Verdict.INCONCLUSIVE, reason=reason)
        if given - own and set(given) <= set(own):
            reason = f"several processes are given the same samples {at}, and others of the batch none is given"
            return Check(_SAMPLES, Verdict.REFUTED, reason=reason)
    return None


def _compare_parameters(ranks: Sequence[Trace]) -> Check:
    """Whether the processes still have one and the same model."""
    first, *others = ranks
    for step in sorted(step for what, step in first.snapshots if what == "parameters"):
        for rank in others:
            if not _are_alike(first, rank, "parameters", step):
                when = f"after step {step}" if step else "from the start"
                stepped = step and not _are_alike(first, rank, "gradients", 1)
                why = ": they do not average their gradients" if stepped else ""
                reason = f"the parameters of rank {rank.rank} are not those of rank {first.rank} {when}{why}"
                return Check(_PARAMETERS, Verdict.REFUTED, reason=reason)
    return Check(_PARAMETERS, Verdict.PROVEN, reason=f"{len(ranks)} processes have equal parameters")


def _are_alike(one: Trace, other: Trace, what: str, step: int) -> bool:
    """Whether two processes have the same tensors, up to rounding."""
    own, its = values(one.snapshot(what, step)), values(other.snapshot(what, step))
    floor = tolerance_for(Numerics.ROUNDING, one, other, blind=False).floor
    return own.keys() == its.keys() and distance(own, its) <= floor * norm(own)
