"""Comparing two trainings that started alike: the first step, then the curves, then what is left at the end."""

from __future__ import annotations

from typing import Final

from attrs import evolve

from perfmod.verify.curves import compare_curves, gradient_norms, loss_points, of_steps
from perfmod.verify.evidence import Check, Verdict
from perfmod.verify.gaps import Gap
from perfmod.verify.runs import Runs, Spread
from perfmod.verify.tensor_checks import Kind, compare_tensors, nothing_but_rounding
from perfmod.verify.tolerances import Course, Tolerance
from perfmod.verify.trace import Trace
from perfmod.verify.vectors import Naming, Vectors, align, distance, fill, movements, norm, values

_REFERENCE: Final = 1e-2
"""How far the original's gradients may lie from those in float64 for the latter to be the same computation."""
_HALF_REFERENCE: Final = 0.25
"""The same where half types take part."""
_GRADIENTS: Final = "gradients of step 1"
_BENT: Final = 4.0
"""How much further a gradient's norm jumps at a kink, where the loss itself only bends."""


def compare_training(runs: Runs[Trace], double: Trace | None, tolerance: Tolerance) -> list[Check]:
    """The rows, in the order of cause and effect; what neither side has is left out."""
    course = Course()
    losses = runs.map(loss_points)
    first = losses.map(lambda points: of_steps(points, 1))
    summed = evolve(tolerance, floor=tolerance.floor_of_sums)
    checks = compare_curves("losses of step 1", "loss", first, summed, course, 0.0)
    gradients, against = _compare_gradients(runs, double, tolerance, course)
    states = _compare_states(runs, 1, tolerance, course)
    course.same_start = course.exact and all(check.measured == 0.0 for check in (*checks, *gradients, *states))
    checks += gradients + against + states
    checks += compare_curves("loss curve", "loss", losses, summed.grown(), course, tolerance.kink)
    norms = runs.map(gradient_norms)
    bent = _BENT * tolerance.kink
    checks += compare_curves("norms of gradients", "norm of the gradients", norms, tolerance.grown(), course, bent)
    if runs.original.last > 1:
        checks += _compare_states(runs, runs.original.last, tolerance.grown(), course)
    return checks


def _compare_gradients(
    runs: Runs[Trace], double: Trace | None, tolerance: Tolerance, course: Course
) -> tuple[list[Check], list[Check]]:
    """The rows of the sides against each other, and of both against float64."""
    taken = _taken(runs, "gradients", 1)
    against = []
    if double is not None and not tolerance.bitwise:
        reference = fill(values(double.snapshot("gradients", 1)), taken.original)
        off = distance(reference, taken.original)
        if off <= (_HALF_REFERENCE if tolerance.half else _REFERENCE) * norm(taken.original):
            against = [_against_reference(reference, taken, tolerance)]
            # How far the original is off the exact result is how far its own rounding reaches.
            taken = taken.with_control(reference)
    taken = taken.map(lambda vectors: fill(vectors, {**taken.rewritten, **taken.original}))
    course.rounding = nothing_but_rounding(taken)
    checks = compare_tensors(Kind(_GRADIENTS), taken, tolerance, course)
    if checks and checks[0].verdict is Verdict.PROVEN:
        course.stretch = max(course.stretch, _ratio(checks[0], tolerance))
        course.turned = max(checks[0].measured or 0.0, checks[0].noise or 0.0, checks[0].control or 0.0)
    return checks, against


def _against_reference(reference: Vectors, taken: Runs[Vectors], tolerance: Tolerance) -> Check:
    old = distance(reference, taken.original)
    new = distance(reference, fill(taken.rewritten, taken.original))
    scale = norm(reference)
    gap = Gap("", Spread(new, 0.0, old), tolerance.factor * old + tolerance.floor * scale, scale)
    reason = f"{_GRADIENTS} are off those in float64 by {gap.shown}, the original's by {old / gap.scale:.1e}"
    return gap.check(f"{_GRADIENTS} against float64", tolerance, reason)


def _compare_states(runs: Runs[Trace], step: int, tolerance: Tolerance, course: Course) -> list[Check]:
    """What steps leave behind: parameters, buffers, states of optimizers."""
    after = "of step 1" if step == 1 else f"of {step} steps"
    names = _naming(runs, "parameters")
    moved = runs.map(lambda trace: movements(trace.snapshot("parameters", 0), trace.snapshot("parameters", step), step))
    normalised = _normalises(runs.original)
    kind = Kind(f"parameter updates {after}", normalised=normalised, late=step > 1)
    checks = compare_tensors(kind, moved.map_rewritten(names.rename), tolerance, course)
    if step == 1 and not normalised and checks and checks[0].verdict is Verdict.PROVEN:
        course.stretch = max(course.stretch, _ratio(checks[0], tolerance))
    for what, bends in (("buffers", step > 1), ("optimizer state", True)):
        kind = Kind(f"{what} after step {step}", alike=False, bends=bends, late=step > 1)
        checks += compare_tensors(kind, _taken(runs, what, step), tolerance, course)
    return checks


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
