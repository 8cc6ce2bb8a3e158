"""Comparing two trainings that started alike: the first step, then the curves, then what is left at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import evolve

from perfmod.verify.curves import (
    Column,
    Usual,
    compare_curves,
    gradient_norms,
    lacks_gradients,
    loss_points,
    of_first_steps,
    seen_by_all,
)
from perfmod.verify.evidence import Check, Verdict
from perfmod.verify.gaps import Gap
from perfmod.verify.runs import Runs, Spread
from perfmod.verify.tensor_checks import Kind, compare_tensors, nothing_but_rounding
from perfmod.verify.tolerances import Course, Tolerance
from perfmod.verify.trace import Trace
from perfmod.verify.vectors import Naming, Vectors, align, distance, fill, movements, norm, values

COPIES: Final = "copies"
"""The name of the snapshots of what is kept beside the model."""
_REFERENCE: Final = 1e-2
"""How far the original's gradients may lie from those in float64 for the latter to be the same computation."""
_HALF_REFERENCE: Final = 0.25
"""The same where half types take part."""
_AGAINST: Final = " against float64"
_AVERAGED: Final = 16.0
"""How much more averages of an optimizer are rounded: in float32, 1 - 0.999 is off by 5e-5 of itself."""
_BENT: Final = 4.0
"""How much further a gradient's norm jumps at a kink, where the loss itself only bends."""


def compare_first_step(runs: Runs[Trace], double: Trace | None, tolerance: Tolerance) -> tuple[list[Check], Course]:
    """The rows of the first step, in the order of cause and effect, and what they showed for later ones."""
    course = Course()
    first, summed = runs.map(lambda trace: of_first_steps(loss_points(trace))), _of_sums(tolerance)
    checks = compare_curves("losses of step 1", "loss", first, summed, course, 0.0)
    checks += _compare_gradients(runs, double, tolerance, course, "gradients of step 1")
    checks += _compare_states(runs, 1, tolerance, course, " of step 1")
    against = [check for check in checks if check.name.endswith(_AGAINST)]
    course.same_start = course.exact and all(check.measured == 0.0 for check in checks if check not in against)
    return checks, course


def compare_later_steps(runs: Runs[Trace], tolerance: Tolerance, course: Course) -> list[Check]:
    """The rows of the curves and of what is left at the end; what neither side has is left out."""
    summed, bent = _of_sums(tolerance).grown(), _BENT * tolerance.kink
    checks = compare_curves("loss curve", "loss", runs.map(loss_points), summed, course, tolerance.kink)
    norms = runs.map(gradient_norms)
    if lacks_gradients(runs):
        norms = seen_by_all(norms)
    checks += compare_curves("norms of gradients", "norm of the gradients", norms, tolerance.grown(), course, bent)
    last = runs.original.last
    if last > 1:
        checks += _compare_states(runs, last, tolerance.grown(), course, f" of {last} steps")
    return checks + _compare_copies(runs, tolerance.grown(), course)


def compare_single(
    runs: Runs[Trace], double: Trace | None, tolerance: Tolerance, losses: Mapping[Column, Usual]
) -> list[Check]:
    """The rows of traces that consist of one step each, in a training that has begun long before.

    There is none of the gradients where a side has replayed the step and does not hold them any more; the limits of
    what is behind them are the same.

    Args:
        runs: of one step.
        double: the original's in float64.
        tolerance: the limits.
        losses: what they are like in all steps that are compared alone.
    """
    course = Course()
    checks = compare_curves("losses", "loss", runs.map(loss_points), _of_sums(tolerance), course, 0.0, losses)
    if not lacks_gradients(runs):
        checks += _compare_gradients(runs, double, tolerance, course, "gradients")
    elif not lacks_gradients(evolve(runs, rewritten=runs.original)):
        # How far rounding reaches in them, and what it may turn over, the original's own runs tell.
        _compare_gradients(evolve(runs, rewritten=runs.original), double, tolerance, course, "gradients")
    return checks + _compare_states(runs, 1, tolerance, course, "")


def updates(runs: Runs[Trace], step: int) -> Runs[Vectors]:
    """How far the parameters moved in so many steps, by the original's keys."""
    names = _naming(runs, "parameters")
    moved = runs.map(lambda trace: movements(trace.snapshot("parameters", 0), trace.snapshot("parameters", step), step))
    return moved.map_rewritten(names.rename)


def _of_sums(tolerance: Tolerance) -> Tolerance:
    return evolve(tolerance, floor=tolerance.floor_of_sums)


def _compare_gradients(
    runs: Runs[Trace], double: Trace | None, tolerance: Tolerance, course: Course, name: str
) -> list[Check]:
    """The rows of the sides against each other, and of both against float64."""
    taken = _taken(runs, "gradients", 1)
    against = []
    if double is not None and not tolerance.bitwise:
        reference = fill(values(double.snapshot("gradients", 1)), taken.original)
        off = distance(reference, taken.original)
        if off <= (_HALF_REFERENCE if tolerance.half else _REFERENCE) * norm(taken.original):
            against = [_against_reference(reference, taken, tolerance, name)]
            # How far the original is off the exact result is how far its own rounding reaches.
            taken = taken.with_control(reference)
    taken = taken.map(lambda vectors: fill(vectors, {**taken.rewritten, **taken.original}))
    course.rounding = nothing_but_rounding(taken)
    checks = compare_tensors(Kind(name), taken, tolerance, course)
    if checks and checks[0].verdict is Verdict.PROVEN:
        course.stretch = max(course.stretch, _ratio(checks[0], tolerance))
        course.turned = max(checks[0].measured or 0.0, checks[0].noise or 0.0, checks[0].control or 0.0)
    return checks + against


def _against_reference(reference: Vectors, taken: Runs[Vectors], tolerance: Tolerance, name: str) -> Check:
    old = distance(reference, taken.original)
    new = distance(reference, fill(taken.rewritten, taken.original))
    scale = norm(reference)
    gap = Gap("", Spread(new, 0.0, old), tolerance.factor * old + tolerance.floor * scale, scale)
    reason = f"{name} are off those in float64 by {gap.shown}, the original's by {old / gap.scale:.1e}"
    return gap.check(f"{name}{_AGAINST}", tolerance, reason)


def _compare_states(runs: Runs[Trace], step: int, tolerance: Tolerance, course: Course, of_step: str) -> list[Check]:
    """What steps leave behind: parameters, buffers, states of optimizers."""
    normalised, settled = _normalises(runs.original), not of_step
    averaged = evolve(tolerance, floor=_AVERAGED * tolerance.floor)
    kind = Kind(f"parameter updates{of_step}", normalised=normalised, settled=settled, late=step > 1)
    checks = compare_tensors(kind, updates(runs, step), averaged if normalised and settled else tolerance, course)
    if step == 1 and not normalised and checks and checks[0].verdict is Verdict.PROVEN:
        course.stretch = max(course.stretch, _ratio(checks[0], tolerance))
    for what, bends in (("buffers", step > 1), ("optimizer state", True)):
        kind = Kind(what if not of_step else f"{what} after step {step}", alike=False, bends=bends, late=step > 1)
        own = averaged if what == "optimizer state" else tolerance
        checks += compare_tensors(kind, _taken(runs, what, step), own, course)
    return checks


def _compare_copies(runs: Runs[Trace], tolerance: Tolerance, course: Course) -> list[Check]:
    """The rows of what the script keeps beside its model: how far moving averages went after the first step."""
    seen = [step for what, step in runs.original.snapshots if what == COPIES and runs.original.snapshot(what, step)]
    if not seen or max(seen) == 1:
        return []
    first, last = min(seen), max(seen)
    moved = runs.map(lambda trace: movements(trace.snapshot(COPIES, first), trace.snapshot(COPIES, last), last - first))
    own = {key: vector for key, vector in moved.original.items() if all(key in each for each in moved.repeats)}
    name = "moving averages and other copies of the weights"
    # Lists are made for an operation, and hold gradients as well.
    named = [key for key in own if not key.rpartition(".")[2].isdigit()]
    lacking = next((key for key in named if key not in moved.rewritten), None)
    if lacking is not None:
        reason = f"a copy of the weights is not kept where the original keeps it: {lacking}"
        return [Check(name, Verdict.INCONCLUSIVE, reason=reason)]
    kind = Kind(name, normalised=_normalises(runs.original), late=True)
    kept = {key: vector for key, vector in own.items() if key in moved.rewritten}
    return compare_tensors(kind, moved.map(lambda vectors: fill(vectors, kept)), tolerance, course)


def _taken(runs: Runs[Trace], what: str, step: int) -> Runs[Vectors]:
    """The tensors of a snapshot by the original's keys."""
    names = _naming(runs, "buffers" if what == "buffers" else "parameters")
    return runs.map(lambda trace: values(trace.snapshot(what, step))).map_rewritten(names.rename)


def _naming(runs: Runs[Trace], what: str) -> Naming:
    return align(runs.original.snapshot(what, 0), runs.rewritten.snapshot(what, 0)) or Naming({})


def _normalises(trace: Trace) -> bool:
    """Whether an optimizer divides by the gradient's size; momentum alone does not need any other state."""
    states = {key.partition("/")[2] for key in trace.snapshot("optimizer state", 1)}
    return bool(states - {"momentum_buffer"})


def _ratio(check: Check, tolerance: Tolerance) -> float:
    """How many times further apart the sides lie than the original's own runs."""
    base = tolerance.base(Spread(check.measured or 0.0, check.noise or 0.0, check.control or 0.0))
    return (check.measured or 0.0) / base if base else 1.0
