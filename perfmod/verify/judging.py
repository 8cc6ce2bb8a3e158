"""Is the training the same? The verdict of the E-runs.

Rows are made in the order of cause and effect, so that the first failing one is the diagnosis: what has to be equal
before the training (counts, parameters, batches, settings), then the first step, before anything could grow, then
the curves, and what is left after the last step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from attrs import evolve, frozen

from perfmod.transforms.finding import Numerics
from perfmod.verify.batches import compare_batches
from perfmod.verify.courses import compare_courses
from perfmod.verify.evidence import Check, Curve, Equality, Verdict
from perfmod.verify.outputs import compare_checkpoints, compare_printed
from perfmod.verify.premises import (
    captured,
    compare_counts,
    compare_dropouts,
    compare_formats,
    compare_replays,
    compare_settings,
    compare_start,
    compare_workers,
)
from perfmod.verify.runs import Runs
from perfmod.verify.single_steps import compare_single_steps
from perfmod.verify.tolerances import Tolerance, tolerance_for
from perfmod.verify.trace import Step, Trace
from perfmod.verify.training import compare_first_step, compare_later_steps

_DRAWN_ANEW: Final = {
    "counts": "the original makes a different number of steps in every run",
    "initial parameters": "the original starts with different parameters in every run: set its seeds",
    "initial buffers": "the original starts with different buffers in every run: set its seeds",
    "batches": "the original reads different batches in every run: set its seeds",
    "learning rates and other settings": "the original uses different optimizer settings in every run",
}
"""Why an original that differs from itself cannot be judged, by the row in which it does."""
UNFIT: Final = "original against itself"
"""The row that says that the original cannot be judged, whatever is compared with it."""
_OTHER: Final = "the original trains differently in every run"
_BATCHES: Final = "batches"
_CHANGING: Final = (Numerics.SAMPLING, Numerics.PRECISION, Numerics.BEHAVIOURAL)
"""Classes that change results, so that only a few steps can be compared."""
_REPORTED: Final = (Numerics.SAMPLING, Numerics.BEHAVIOURAL)
"""Classes whose distances are shown beside the control and decide nothing; `precision` is one where something drops, or
other random numbers are drawn.
"""
WITHOUT_DROPOUT: Final = "without dropout"
ALIKE: Final = "in float32 and with the same dropout"
DRAWN_ALIKE: Final = "with the same random numbers"
WITHOUT_DROPOUT_DRAWN_ALIKE: Final = "without dropout and with the same random numbers"
ALIKE_AND_DRAWN_ALIKE: Final = "in float32 and with the same random numbers"
"""Conditions under which both sides are compared more closely where their class lets them differ."""
_CLOSER: Final = (WITHOUT_DROPOUT, ALIKE, DRAWN_ALIKE, WITHOUT_DROPOUT_DRAWN_ALIKE, ALIKE_AND_DRAWN_ALIKE)
SHORT_EPOCHS: Final = "with short epochs"
"""What comes behind an epoch is compared as well: the next one, evaluations, schedules, the script's end."""
OVER_A_COURSE: Final = "over many steps"
"""What errors come to that add up is compared with what other seeds of the original come to."""
_NONE: Final[Mapping[str, Equality]] = {}
_EXACT_OUTPUT: Final = (Numerics.BITWISE, Numerics.ROUNDING)
"""Classes in which a training saves and prints the same."""
_SEVERITY: Final = (Verdict.REFUTED, Verdict.INCONCLUSIVE)


@frozen
class Controls:
    """What the original does when it runs again.

    Attributes:
        repeats: as it is (A/A).
        perturbed: with noise of one rounding unit on its inputs; for the class `precision`, of the new precision's.
        double: in float64; None where it does not run so.
    """

    repeats: tuple[Trace, ...] = ()
    perturbed: tuple[Trace, ...] = ()
    double: Trace | None = None


def judge(
    original: Trace,
    rewritten: Trace,
    controls: Controls,
    numerics: Numerics,
    strict: Mapping[str, Equality] = _NONE,
) -> Equality:
    """Whether one rank was trained the same way on both sides.

    Args:
        original: the run of the script as it was.
        rewritten: the run of the rewritten one.
        controls: further runs of the original.
        numerics: the widest class of what was rewritten.
        strict: the judgements of both sides under further conditions: `SHORT_EPOCHS`, and for the classes `sampling`
            and `precision` closer ones: `WITHOUT_DROPOUT`, `ALIKE`, and those in which the same numbers are drawn.
    """
    runs = Runs(
        original,
        rewritten,
        controls.repeats,
        tuple(trace for trace in controls.perturbed if _comparable(original, trace)),
    )
    is_drawn_otherwise = bool(_closer(strict) and original.steps_drawn_otherwise(rewritten))
    is_excused = is_drawn_otherwise or _dropout_matters(original, strict)
    reported = numerics in _REPORTED or (numerics is Numerics.PRECISION and is_excused)
    checks, weighing = _checks(runs, controls.double, numerics, reported=reported)
    for name, judged in strict.items():
        verdict = Check(name, judged.verdict, reason=f"{name}: {judged.reason}")
        checks += [*(evolve(check, name=f"{name}: {check.name}") for check in judged.checks), verdict]
        weighing.append(verdict)
    decisive = _decisive(weighing) or _reservation(numerics, strict, checks)
    return Equality(
        verdict=decisive.verdict if decisive else Verdict.PROVEN,
        reason=decisive.reason if decisive else _summary(checks, original, strict),
        numerics=numerics.value,
        checks=tuple(checks),
        short_horizon=numerics in _CHANGING,
        steps=original.last,
        backwards=original.backwards,
        samples=original.samples,
        single_steps=tuple(step + 1 for step in original.handed if step < original.last),
        original=Curve("original", original.losses()),
        rewritten=Curve("rewritten", rewritten.losses()),
        repeats=_curves("original, run again", controls.repeats),
        controls=_curves("original with noise on its inputs", controls.perturbed),
    )


def with_course(judged: Equality, runs: Sequence[Runs[Trace]], seeds: Sequence[Sequence[Trace]]) -> Equality:
    """A judgement with what many steps show, in which nobody took over another one's state.

    Args:
        judged: of a class that changes results.
        runs: by rank.
        seeds: the original with other seeds, by rank.
    """
    for one, others in zip(runs, seeds, strict=True):
        rows = _over_a_course(one, others, Numerics(judged.numerics))
        judged = evolve(judged, checks=(*judged.checks, *rows))
        decisive = _decisive(rows)
        if decisive is not None:
            reason = f"{OVER_A_COURSE}: {decisive.reason}"
            return evolve(judged, verdict=decisive.verdict, reason=reason)
    last = runs[0].original.last
    reason = f"{judged.reason}; over {_steps(runs[0].original)} it keeps to what the original's own runs and seeds give"
    return evolve(judged, reason=reason, short_horizon=False, steps=max(judged.steps, last))


def _over_a_course(runs: Runs[Trace], seeds: Sequence[Trace], numerics: Numerics) -> list[Check]:
    missing = captured("original", runs.original) or captured("rewritten", runs.rewritten) or _unfit(runs)
    if missing is not None:
        return [missing]
    runs = evolve(runs, perturbed=tuple(trace for trace in runs.perturbed if _comparable(runs.original, trace)))
    tolerance = tolerance_for(numerics, runs.original, runs.rewritten, blind=False)
    rows = compare_premises(runs, tolerance)
    if all(row.verdict is Verdict.PROVEN for row in rows):
        able = [trace for trace in seeds if captured("original", trace) is None]
        rows += compare_courses(runs, able, tolerance)
    return [evolve(row, name=f"{OVER_A_COURSE}: {row.name}") for row in rows]


def judge_ranks(
    originals: Sequence[Trace],
    rewritten: Sequence[Trace],
    controls: Sequence[Controls],
    numerics: Numerics,
    strict: Mapping[str, Equality] = _NONE,
) -> Equality:
    """The judgement of the rank that fared worst, the first of them. All arguments but the last two are by rank.

    Raises:
        ValueError: the original has no ranks, or not as many controls.
    """
    if not originals or len(controls) != len(originals):
        raise ValueError(f"{len(controls)} controls for {len(originals)} ranks")
    if len(rewritten) != len(originals):
        reason = f"unequal numbers: {len(rewritten)} ranks trained, and {len(originals)} in the original"
        check = Check("counts", Verdict.INCONCLUSIVE, reason=reason)
        return Equality(check.verdict, reason, numerics.value, (check,))
    judged = [
        judge(one, other, its, numerics, strict) for one, other, its in zip(originals, rewritten, controls, strict=True)
    ]
    order = (*_SEVERITY, Verdict.PROVEN)
    rank = min(range(len(judged)), key=lambda rank: order.index(judged[rank].verdict))
    worst = judged[rank]
    if len(judged) == 1:
        return worst
    where = f"rank {rank}" if worst.verdict is not Verdict.PROVEN else f"all {len(judged)} ranks"
    return evolve(worst, reason=f"{where}: {worst.reason}")


def _dropout_matters(original: Trace, strict: Mapping[str, Equality]) -> bool:
    """Whether the original drops anything: another kernel (fused attention) draws other random numbers for it."""
    without = strict.get(WITHOUT_DROPOUT)
    return without is not None and without.original is not None and without.original.losses != original.losses()


def _checks(
    runs: Runs[Trace], double: Trace | None, numerics: Numerics, *, reported: bool
) -> tuple[list[Check], list[Check]]:
    """The rows, and those of them that decide; distances of the training do not where they are only `reported`."""
    missing = captured("original", runs.original) or captured("rewritten", runs.rewritten) or _unfit(runs)
    if missing is not None:
        return [missing], [missing]
    tolerance = tolerance_for(numerics, runs.original, runs.rewritten, blind=_blind(runs, numerics))
    checks = compare_premises(runs, tolerance)
    weighing = list(checks)
    if all(check.name != _BATCHES for check in checks):
        reason = "no DataLoader was used; judged by losses and gradients"
        checks.append(Check(_BATCHES, Verdict.INCONCLUSIVE, reason=reason))
    if any(check.verdict is Verdict.INCONCLUSIVE for check in weighing):
        return checks, weighing
    training, course = compare_first_step(runs, double, tolerance)
    training += compare_single_steps(runs, double, tolerance)
    training += compare_later_steps(runs, tolerance, course)
    if numerics in _EXACT_OUTPUT:
        training += [*compare_checkpoints(runs, tolerance, course), *compare_printed(runs)]
    if reported:
        training = [_reported(check) for check in training]
    # A row without a distance is about NaN or about what belongs together, and counts in every class.
    weighing += [check for check in training if not reported or check.measured is None]
    hollow = _hollow(runs.original)
    return checks + training + hollow, weighing + hollow


def _reported(check: Check) -> Check:
    """A distance that is shown beside the control and decides nothing."""
    if check.verdict is Verdict.PROVEN or check.measured is None:
        return check
    return evolve(check, verdict=Verdict.INCONCLUSIVE, reason=f"not decisive for this class: {check.reason}")


def compare_premises(runs: Runs[Trace], tolerance: Tolerance) -> list[Check]:
    """The rows of what has to be equal before two trainings can be compared."""
    one, other = runs.original, runs.rewritten
    rows = (
        compare_counts(one, other),
        compare_start("parameters", one.snapshot("parameters", 0), other.snapshot("parameters", 0)),
        compare_start("buffers", one.snapshot("buffers", 0), other.snapshot("buffers", 0)),
        compare_batches(runs, tolerance),
        compare_settings(one, other),
        compare_dropouts(one, other),
        compare_formats(one, other),
        compare_workers(one, other),
        compare_replays(one, other),
    )
    return [row for row in rows if row is not None]


def _unfit(runs: Runs[Trace]) -> Check | None:
    """Why the original cannot be judged, because it is not even like itself."""
    for repeat in runs.repeats:
        failed = captured("original", repeat)
        if failed is not None:
            return failed
        exactly = tolerance_for(Numerics.BITWISE, runs.original, repeat, blind=False)
        for check in compare_premises(Runs(runs.original, repeat), exactly):
            if check.verdict is not Verdict.PROVEN:
                return Check(UNFIT, Verdict.INCONCLUSIVE, reason=_DRAWN_ANEW.get(check.name, _OTHER))
    return None


def _comparable(original: Trace, control: Trace) -> bool:
    """Whether a control went the same way; noise may make a gradient scaler skip a step."""
    return not captured("original", control) and compare_counts(original, control).verdict is Verdict.PROVEN


def _blind(runs: Runs[Trace], numerics: Numerics) -> bool:
    """Whether no further run of the original shows how it spreads rounding."""

    def seen(trace: Trace) -> object:
        return trace.losses(), {key: digest.bits for key, digest in trace.snapshot("gradients", 1).items()}

    others = (*runs.repeats, *runs.perturbed)
    return numerics is not Numerics.BITWISE and all(seen(trace) == seen(runs.original) for trace in others)


def _hollow(original: Trace) -> list[Check]:
    """Why even equal sides would prove nothing."""
    reason = ""
    if not any(map(math.isfinite, original.losses())):
        reason = "every loss is NaN or infinite, which proves nothing"
    elif not any(event.gradient_norm for event in original.events if isinstance(event, Step)):
        reason = "every gradient is zero, which proves nothing"
    elif not _moved(original):
        reason = "no parameter was changed, which proves nothing"
    return [Check("something was trained", Verdict.INCONCLUSIVE, reason=reason)] if reason else []


def _moved(original: Trace) -> bool:
    """Whether any parameter is another after the last step; also where that was not kept."""
    before, after = original.snapshot("parameters", 0), original.snapshot("parameters", original.last)
    return not after or any(key not in before or before[key].bits != digest.bits for key, digest in after.items())


def _decisive(checks: Sequence[Check]) -> Check | None:
    """The first row with the worst verdict; None where all hold."""
    return next((check for verdict in _SEVERITY for check in checks if check.verdict is verdict), None)


def _reservation(numerics: Numerics, strict: Mapping[str, Equality], checks: Sequence[Check]) -> Check | None:
    """Why a class is not proven although no row stands against it.

    A training whose every bit is that of the original does not change, whatever it shows.
    """
    reason = ""
    if DRAWN_ALIKE in strict:
        checks = [check for judged in strict.values() for check in judged.checks]
    if numerics is Numerics.BEHAVIOURAL and any(check.measured for check in checks):
        reason = "the rewrite changes the training itself; only a full training shows whether the result is as good"
    elif numerics is Numerics.SAMPLING and not _closer(strict):
        reason = "the rewrite draws other random numbers, and the two versions were not compared without them"
    return Check(numerics.value, Verdict.INCONCLUSIVE, reason=reason) if reason else None


def _closer(strict: Mapping[str, Equality]) -> list[str]:
    """The conditions under which both sides were compared more closely."""
    return [name for name in _CLOSER if name in strict]


def _summary(checks: Sequence[Check], original: Trace, strict: Mapping[str, Equality]) -> str:
    """What was proven, in one line."""
    closer = _closer(strict)
    if closer:
        return f"{closer[-1]}: {strict[closer[-1]].reason}"
    first = next((check for check in checks if check.measured), None)
    if first is None:
        return f"bitwise equal over {_steps(original)}"
    return (
        f"equal within the limits over {_steps(original)}: {first.name} by {first.measured:.1e}"
        f" (allowed {first.allowed:.1e})"
    )


def _steps(trace: Trace) -> str:
    return "1 step" if trace.last == 1 else f"{trace.last} steps"


def _curves(label: str, traces: Sequence[Trace]) -> tuple[Curve, ...]:
    return tuple(Curve(f"{label} ({number})", trace.losses()) for number, trace in enumerate(traces, start=1))
