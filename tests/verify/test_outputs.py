"""What trainings leave behind: checkpoints, and figures that they print."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from attrs import evolve
from traced_training import Recipe, train

from perfmod.transforms.finding import Numerics
from perfmod.verify.evidence import Check, Verdict
from perfmod.verify.judging import Controls, judge
from perfmod.verify.outputs import compare_printed
from perfmod.verify.runs import Runs
from perfmod.verify.trace import Leaf, Saved, Trace

PLAIN = train(Recipe(steps=4))


def printing(*lines: str) -> Trace:
    return evolve(PLAIN, printed="\n".join(lines))


def printed(
    original: Sequence[str],
    rewritten: Sequence[str],
    again: Sequence[str] | None = None,
    shaken: Sequence[str] | None = None,
) -> Check | None:
    runs = Runs(
        printing(*original), printing(*rewritten), (printing(*(again or original)),), (printing(*(shaken or original)),)
    )
    return next(iter(compare_printed(runs)), None)


@pytest.mark.parametrize(("old", "new"), [
    ("step 3: loss 1.2345", "step 3: loss 1.2345"),
    ("step 3: loss 1.2345", "step 3: loss 1.2346"),
    ("loss 1.234567e-3", "loss 1.234568e-3"),
    ("[*->......]1.6094", "[*->......]1.6104"),
    ("acc 0.50, loss nan", "acc 0.51, loss nan"),
    ("epoch 1 took 3.1 s, loss 2.0", "epoch 1 took 9.7 s, loss 1.0"),
    ("loss 2.0 (12.5 it/s)", "loss 2.0 (18.2 it/s)"),
    ("[00:03<00:12] loss 1.0", "[00:09<00:12] loss 1.0"),
    ("iter_dt 41.90ms; iter 10: train loss 2.3", "iter_dt 9.03ms; iter 10: train loss 2.3"),
    ("batch_time 0.4 loss 1.0", "batch_time 0.1 loss 1.0"),
    ("no figures", "no figures"),
])  # fmt: skip
def test_a_rounding_and_what_tells_the_time_are_no_difference(old: str, new: str) -> None:
    row = printed([old, "then 1"], [new, "then 1"])
    assert row is not None
    assert row.verdict is Verdict.PROVEN, row.reason


@pytest.mark.parametrize(("old", "new"), [
    ("step 3: loss 1.2345", "step 3: loss 1.2445"),
    ("step 3: loss 1.2345", "step 4: loss 1.2345"),
    ("loss 1.2345", "loss nan"),
    ("loss 1.2345", "error 1.2345"),
    ("loss_min 1.2345, time_loss 0.5", "loss_min 1.4345, time_loss 0.5"),
])  # fmt: skip
def test_another_figure_is_not_proven(old: str, new: str) -> None:
    row = printed(["begin 0", old], ["begin 0", new])
    assert row is not None
    assert (row.verdict, row.reason) == (
        Verdict.INCONCLUSIVE,
        f"line 2 of the output is {new!r}, and {old!r} in the original",
    )


def test_what_the_original_does_not_repeat_says_nothing() -> None:
    assert printed(["id 4711", "x 1"], ["id 12", "x 1"], again=["id 99", "x 1"]) == Check(
        "printed figures", Verdict.PROVEN
    )
    assert printed(["x 1"], ["x 2"], again=["x 1", "x 2"]) is None
    assert printed(["hello"], ["you"]) is None
    # What rounding on the inputs moves by as much is no more than rounding.
    assert printed(["worst 3.25"], ["worst 4.25"], shaken=["worst 2.25"]) == Check("printed figures", Verdict.PROVEN)


@pytest.mark.parametrize(("last", "verdict"), [("1.10", Verdict.PROVEN), ("1.30", Verdict.INCONCLUSIVE)])
def test_noise_that_has_moved_a_figure_once_may_move_it_later(last: str, verdict: Verdict) -> None:
    row = printed(
        ["[*->..]1.00", "[**->.]1.00"], ["[*->..]1.00", f"[**->.]{last}"], shaken=["[*->..]1.10", "[**->.]1.00"]
    )
    assert row is not None
    assert row.verdict is verdict


def test_of_a_long_line_the_part_is_shown_that_differs() -> None:
    bar = "*" * 80
    row = printed([f"{bar} loss 1.0 {bar}", "x 1"], [f"{bar} loss 2.0 {bar}", "x 1"])
    assert row is not None
    assert " loss 2.0 *" in row.reason
    assert " loss 1.0 *" in row.reason
    assert row.reason.count("...") == 4


def test_lines_that_are_missing_are_not_proven() -> None:
    row = printed(["loss 1.0", "loss 2.0"], ["loss 1.0"])
    assert row is not None
    assert (row.verdict, row.reason) == (Verdict.INCONCLUSIVE, "it prints 1 lines, and 2 in the original")


def saving(*saved: Saved) -> Trace:
    return evolve(PLAIN, events=(*PLAIN.events, *saved))


def tensor(value: float, dtype: str = "float32") -> Leaf:
    return Leaf((2,), dtype, f"{value}", (value, 1.0))


def judged(other: Trace, numerics: Numerics = Numerics.ROUNDING) -> tuple[Verdict, str]:
    original = saving(Saved(4, (tensor(1.0), Leaf((), "int", "3"))))
    noisy = saving(Saved(4, (tensor(1.0 + 1e-6), Leaf((), "int", "3"))))
    equality = judge(original, other, Controls((original,), (noisy,)), numerics)
    return equality.verdict, equality.reason


@pytest.mark.parametrize(("saved", "verdict", "reason"), [
    (Saved(4, (tensor(1.0), Leaf((), "int", "3"))), Verdict.PROVEN, "bitwise equal over 4 steps"),
    (Saved(4, (tensor(1.0 + 2e-6), Leaf((), "int", "3"))), Verdict.PROVEN, "equal within the limits over 4 steps"),
    (Saved(4, (tensor(1.5), Leaf((), "int", "3"))), Verdict.REFUTED, "checkpoints differ: save 1.0 by 3.5e-01"),
    (Saved(4, (tensor(1.0), Leaf((), "int", "4"))), Verdict.REFUTED, "another whole number or text is saved"),
    (Saved(3, (tensor(1.0), Leaf((), "int", "3"))), Verdict.INCONCLUSIVE, "something else is saved, or at other"),
    (Saved(4, (tensor(1.0), Leaf((), "bool", "1"), Leaf((), "int", "3"))), Verdict.PROVEN, "bitwise equal over"),
    (Saved(4, (tensor(1.0, "float16"), Leaf((), "int", "3"))), Verdict.INCONCLUSIVE,
     "something else is saved, or at other steps"),
])  # fmt: skip
def test_checkpoints(saved: Saved, verdict: Verdict, reason: str) -> None:
    found = judged(saving(saved))
    assert found[0] is verdict
    assert found[1].startswith(reason)


def test_checkpoints_of_other_classes_are_left_alone() -> None:
    assert judged(saving(Saved(4, (tensor(1.1), Leaf((), "int", "3")))), Numerics.PRECISION)[0] is Verdict.PROVEN
    assert math.isfinite(PLAIN.losses()[0])
