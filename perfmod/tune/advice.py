"""What would change the training, so that a person has to decide it: what was measured of it, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from perfmod.tune.result import Batch
from perfmod.tune.search import Trial
from perfmod.tune.stack import WORKERS, Stack
from perfmod.tune.switches import switches
from perfmod.verify.report.wording import counted, mebibytes, milliseconds, percent, plain, ratio

Trials = Mapping[tuple[Stack, bool], Trial]
_MATTERS: Final = 1.1
"""Ratio from which on something is worth a line."""


def advice(trials: Trials, best: Stack, without_feeding: Stack, batches: Sequence[Batch]) -> Iterator[str]:
    """Sentences without a full stop, about the best stack; `without_feeding` is it as timed with batches at hand."""
    yield from _of_batches(batches)
    yield from _of_the_loader(trials, best, without_feeding)
    yield from _of_workers(trials, best)


def of_chosen_batch(own: int, chosen: int, original_ms: float, ms: float) -> str:
    """What a batch size that the user asked for brings, together with the rewrites; times are those of a step."""
    before, after = 1000.0 * own / original_ms, 1000.0 * chosen / ms
    return (
        f"batches of {chosen} instead of {own}, with the rewrites, give {ratio(after / before)} as many samples a"
        f" second as the script as written ({plain(after, 0)} and {plain(before, 0)}); everything above was compared"
        f" with the script at batches of {chosen}, and the diff leaves the batch size to you"
    )


def of_waits(step_ms: float, loader_ms: float) -> Iterator[str]:
    """How long the script waits for batches, where nothing faster is proven; milliseconds of a step."""
    if step_ms >= _MATTERS * (step_ms - loader_ms):
        yield (
            f"as written, {milliseconds(loader_ms)} of a step's {milliseconds(step_ms)} pass in waiting for batches:"
            f" data that is prepared beforehand, or kept in memory, would save up to {percent(loader_ms / step_ms)}"
        )


def of_switches(code: bytes, arguments: Sequence[str]) -> Iterator[str]:
    """What a script could be told: it compiles its model itself, but not in this call."""
    for each in switches(code):
        if each.seems_off(arguments):
            yield (
                f"the script compiles its model where `{each.code}` holds (line {each.line}), which seems to be off in"
                " this call: turn it on and compare, since perfmod compiles no model of a script that can do so itself"
            )


def _of_batches(batches: Sequence[Batch]) -> Iterator[str]:
    usual = batches[0] if batches else None
    if usual is None or not usual.per_second:
        return
    most = max(batches, key=lambda batch: batch.per_second)
    gain = most.per_second / usual.per_second
    if gain < _MATTERS:
        tried = max((batch.size for batch in batches if batch.ms), default=usual.size)
        if tried > usual.size:
            yield f"larger batches bring nothing: with {tried} samples, each takes as long as with {usual.size}"
        return
    memory = f", with {mebibytes(most.peak_mib)} of memory" if most.peak_mib is not None else ""
    yield (
        f"batches of {most.size} instead of {usual.size} give {ratio(gain)} as many samples a second{memory}; an epoch"
        f" then has {percent(usual.size / most.size)} of the updates, so that learning rate and schedule have to be"
        " chosen anew"
    )


def _of_the_loader(trials: Trials, best: Stack, without_feeding: Stack) -> Iterator[str]:
    at_hand, with_loader = trials.get((without_feeding, True)), trials.get((best, False))
    if at_hand is None or with_loader is None or not (at_hand.ms and with_loader.ms):
        return
    if with_loader.ms >= _MATTERS * at_hand.ms:
        saved = with_loader.ms - at_hand.ms
        yield (
            f"with batches at hand the step takes {milliseconds(at_hand.ms)} instead of {milliseconds(with_loader.ms)}:"
            f" data that is prepared beforehand, or kept in memory, would save up to {percent(saved / with_loader.ms)}"
        )


def _of_workers(trials: Trials, best: Stack) -> Iterator[str]:
    """What fewer or more workers cost, where perfmod chose how many there are."""
    if WORKERS not in best.codes:
        return
    times = {
        stack.workers: trial.ms
        for (stack, at_hand), trial in trials.items()
        if not at_hand and trial.ms and (stack.codes, stack.compile_mode) == (best.codes, best.compile_mode)
    }
    if len(times) > 1:
        told = ", ".join(f"{milliseconds(ms)} with {counted(number, 'worker')}" for number, ms in sorted(times.items()))
        yield f"the step takes {told}; each worker takes a processor and its own memory"
