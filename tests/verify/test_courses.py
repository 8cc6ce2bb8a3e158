"""Trainings over many steps beside those with other seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest
import traced_training
from attrs import evolve

from perfmod.transforms.finding import Numerics
from perfmod.verify.courses import compare_courses, compare_unobserved
from perfmod.verify.evidence import Check, Verdict
from perfmod.verify.runs import Runs
from perfmod.verify.tolerances import tolerance_for
from perfmod.verify.trace import Backward, Step, Trace

STEPS = 64
TRAINED = traced_training.train(steps=2)


def course(seed: int = 0, *, shaken: int = 0, change: Callable[[int, float], float] | None = None) -> Trace:
    """A loss that falls from 2.0, as a seed would have it, with noise of another precision, and changed."""
    drawn, noise = Random(seed), Random(shaken)
    events: list[Backward | Step] = []
    printed = []
    level = drawn.uniform(-0.05, 0.05)
    for step in range(STEPS):
        loss = 2.0 * 0.98**step + level + drawn.gauss(0.0, 0.05)
        loss *= 1.0 + (noise.gauss(0.0, 1e-3) if shaken else 0.0)
        loss = loss if change is None else change(step, loss)
        events += [Backward(step, (loss,)), Step(step, 0, 0.5 * loss, ({"lr": 0.1},))]
        if step % 8 == 7:
            printed.append(f"step {step}: loss {loss:.4f}, {drawn.randrange(900)} images/s")
            printed.append(f"accuracy {1.0 - loss / 3.0:.3f}")
    return evolve(TRAINED, events=tuple(events), printed="\n".join(printed))


def judged(rewritten: Trace, seeds: Sequence[int] = (1, 2, 3)) -> dict[str, Check]:
    """The rows, by the beginnings of their names."""
    runs = Runs(course(), rewritten, (course(),), (course(shaken=1), course(shaken=2)))
    tolerance = tolerance_for(Numerics.PRECISION, runs.original, rewritten, blind=False)
    rows = compare_courses(runs, [course(seed) for seed in seeds], tolerance)
    return {row.name.partition(" over ")[0].partition(" of ")[0]: row for row in rows}


def test_noise_of_the_precision_is_the_same_training() -> None:
    rows = judged(course(shaken=3))
    assert {row.verdict for row in rows.values()} == {Verdict.PROVEN}, rows
    assert len(rows) == 5


@pytest.mark.parametrize(("factor", "side"), [(1.5, "larger"), (0.5, "smaller")])
def test_better_than_all_seeds_is_as_suspicious_as_worse(factor: float, side: str) -> None:
    rows = judged(course(shaken=3, change=lambda step, loss: loss * factor if step >= 40 else loss))
    assert rows["losses"].verdict is Verdict.REFUTED
    assert f"{side} than all of the original's" in rows["losses"].reason
    assert rows["printed figures"].verdict is Verdict.INCONCLUSIVE
    assert "accuracy #" in rows["printed figures"].reason


def test_what_only_another_seed_would_explain_is_not_proven() -> None:
    rows = judged(course(shaken=3, change=lambda step, loss: loss + 0.02 if step >= 40 else loss))
    assert rows["losses"].verdict is Verdict.INCONCLUSIVE
    assert "with the same seed" in rows["losses"].reason


@pytest.mark.parametrize(("parts", "verdict"), [(1, Verdict.PROVEN), (2, Verdict.INCONCLUSIVE)])
def test_one_part_of_a_run_may_be_off_by_less_than_seeds_move_it(parts: int, verdict: Verdict) -> None:
    rows = judged(course(shaken=3, change=lambda step, loss: loss + 0.02 if step < 8 * parts else loss))
    assert rows["losses"].verdict is verdict


@pytest.mark.parametrize(("noise", "is_proven"), [(0.02, True), (0.002, False)])
def test_one_part_may_lie_beyond_all_seeds_where_noise_explains_it(noise: float, *, is_proven: bool) -> None:
    def ended(by: float) -> Trace:
        return course(change=lambda step, loss: loss + by if step >= 56 else loss)

    runs = Runs(course(), ended(0.045), (course(),), (ended(noise), ended(-noise)))
    tolerance = tolerance_for(Numerics.PRECISION, runs.original, runs.rewritten, blind=False)
    rows = compare_courses(runs, [ended(-0.02), ended(-0.04), ended(-0.06)], tolerance)
    (losses,) = [row for row in rows if row.name.startswith("losses")]
    assert (losses.verdict is Verdict.PROVEN) is is_proven, losses


@pytest.mark.parametrize(("factor", "verdict"), [(1.4, Verdict.PROVEN), (3.0, Verdict.REFUTED), (0.2, Verdict.REFUTED)])
def test_losses_that_fall_far_vary_in_proportion(factor: float, verdict: Verdict) -> None:
    def fallen(by: float) -> Trace:
        return course(change=lambda step, loss: by * loss * 0.9**step)

    runs = Runs(fallen(1.0), fallen(factor), (fallen(1.0),), (fallen(1.2), fallen(0.8)))
    tolerance = tolerance_for(Numerics.PRECISION, runs.original, runs.rewritten, blind=False)
    rows = compare_courses(runs, [fallen(0.4), fallen(0.6), fallen(0.9)], tolerance)
    (losses,) = [row for row in rows if row.name.startswith("losses")]
    assert losses.verdict is verdict, losses


def test_a_difference_is_not_refuted_without_seeds() -> None:
    rows = judged(course(change=lambda _, loss: 2.0 * loss), seeds=())
    assert rows["losses"].verdict is Verdict.INCONCLUSIVE
    assert "printed figures" not in rows


def test_a_loss_that_is_not_finite_refutes() -> None:
    rows = judged(course(change=lambda step, loss: float("nan") if step == 50 else loss))
    assert rows["losses"].verdict is Verdict.REFUTED


def test_steps_in_which_nothing_is_learnt_are_counted() -> None:
    idle = course(change=lambda step, loss: 0.0 if step == 50 else loss)
    row = judged(idle)["steps without a gradient"]
    assert (row.verdict, row.reason[:7]) == (Verdict.REFUTED, "1 steps")


def alone(rewritten: str) -> Check | None:
    own = [course().printed] * 2
    return compare_unobserved(own, rewritten, course().printed, [course(seed).printed for seed in (1, 2, 3)])


def test_what_is_printed_when_nobody_looks_on() -> None:
    same = alone(course(shaken=4).printed)
    assert same is not None
    assert same.verdict is Verdict.PROVEN
    less = alone(course(change=lambda _, loss: 1.3 * loss).printed)
    assert less is not None
    assert less.verdict is Verdict.INCONCLUSIVE
    assert less.reason.startswith("when nobody looks on, lines that read")
    silent = alone("")
    assert silent is not None
    assert "0 lines are printed" in silent.reason
