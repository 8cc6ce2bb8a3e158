"""Right rewrites are proven, wrong ones refuted with a diagnosis, and what proves nothing is inconclusive."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from attrs import evolve
from torch import Tensor, nn
from traced_training import Recipe, renamed, scaled, train, with_digest, with_events, with_losses

from perfmod.transforms.finding import Numerics
from perfmod.verify.evidence import Check, Equality, Verdict
from perfmod.verify.judging import (
    ALIKE,
    ALIKE_AND_DRAWN_ALIKE,
    DRAWN_ALIKE,
    WITHOUT_DROPOUT,
    Controls,
    judge,
    judge_ranks,
)
from perfmod.verify.trace import Backward, Batch, Event, Forward, Leaf, Step, Trace

STEPS = 12
HALF_NOISE = 2.0**13
"""Rounding units of float32 in half a unit of bfloat16."""


@functools.cache
def trained(**changes: object) -> Trace:
    return train(Recipe(steps=STEPS), **changes)


@functools.cache
def controls(**changes: object) -> Controls:
    noise = HALF_NOISE if changes.get("autocast") else 1.0
    return Controls(
        repeats=tuple(train(Recipe(steps=STEPS), **changes) for _ in range(2)),
        perturbed=tuple(train(Recipe(steps=STEPS), **changes, noise_seed=seed, noise=noise) for seed in (1, 2)),
    )


def judged(rewritten: Trace, numerics: Numerics = Numerics.ROUNDING, **changes: object) -> Equality:
    """Against the original that those changes make."""
    return judge(trained(**changes), rewritten, controls(**changes), numerics)


def without_dropout(equality: Equality) -> dict[str, Equality]:
    return {WITHOUT_DROPOUT: equality}


def check(equality: Equality, name: str) -> Check:
    return next(row for row in equality.checks if row.name == name)


CLASSES = pytest.mark.parametrize(
    "numerics", [Numerics.BITWISE, pytest.param(Numerics.ROUNDING, marks=pytest.mark.exhaustive)]
)
BOTH_OPTIMIZERS = pytest.mark.parametrize("optimizer", ["sgd", pytest.param("adam", marks=pytest.mark.exhaustive)])


@CLASSES
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_the_original_against_itself_is_proven(numerics: Numerics, optimizer: str) -> None:
    equality = judged(train(Recipe(steps=STEPS), optimizer=optimizer), numerics, optimizer=optimizer)
    assert (equality.verdict, equality.reason) == (Verdict.PROVEN, "bitwise equal over 12 steps")
    assert {row.verdict for row in equality.checks} == {Verdict.PROVEN}
    assert (equality.numerics, equality.short_horizon) == (numerics.value, False)
    assert (equality.steps, equality.backwards, equality.samples) == (STEPS, STEPS, 16 * STEPS)
    assert equality.original is not None
    assert equality.rewritten is not None
    assert equality.original.losses == equality.rewritten.losses
    assert [len(curve.losses) for curve in equality.repeats + equality.controls] == 4 * [STEPS]


def test_rows_come_in_the_order_of_cause_and_effect() -> None:
    names = [row.name for row in judged(trained(), Numerics.BITWISE).checks]
    assert names == [
        "counts",
        "initial parameters",
        "initial buffers",
        "batches",
        "learning rates and other settings",
        "losses of step 1",
        "gradients of step 1",
        "parameter updates of step 1",
        "buffers after step 1",
        "optimizer state after step 1",
        "loss curve",
        "norms of gradients",
        "parameter updates of 12 steps",
        "buffers after step 12",
        "optimizer state after step 12",
    ]


@BOTH_OPTIMIZERS
@pytest.mark.parametrize("autocast", [False, True])
def test_another_order_of_sums_is_rounding_and_nothing_more(optimizer: str, autocast: bool) -> None:
    changes = {"optimizer": optimizer, "autocast": autocast}
    rewritten = trained(reordered=True, **changes)
    equality = judged(rewritten, **changes)
    assert equality.verdict is Verdict.PROVEN, equality.reason
    assert "equal within the limits over 12 steps: " in equality.reason
    row = check(equality, "gradients of step 1")
    assert row.measured is not None
    assert row.allowed is not None
    assert 0.0 < row.measured <= row.allowed
    assert row.noise == 0.0
    assert row.control
    assert judged(rewritten, Numerics.BITWISE, **changes).verdict is Verdict.REFUTED


def test_a_bias_in_front_of_a_batch_norm_is_noise_and_no_alarm() -> None:
    gradients = [trace.snapshot("gradients", 1)["0.first.bias"] for trace in (trained(), trained(reordered=True))]
    off = math.dist(gradients[0].sketch, gradients[1].sketch)
    assert off > 0.1 * gradients[0].norm > 0.0
    assert judged(trained(reordered=True)).verdict is Verdict.PROVEN


def test_an_original_that_does_not_repeat_its_bits_is_given_its_own_noise() -> None:
    originals = [train(Recipe(steps=STEPS), jitter=seed) for seed in range(5)]
    assert len({trace.losses() for trace in originals}) > 1
    band = Controls(repeats=(originals[1], originals[2]))
    equality = judge(originals[0], originals[3], band, Numerics.BITWISE)
    assert equality.verdict is Verdict.PROVEN, equality.reason
    assert check(equality, "losses of step 1").allowed == 0.0
    row = check(equality, "gradients of step 1")
    assert row.noise
    assert row.allowed is not None
    assert row.allowed > 2.0 * row.noise
    wrong = train(Recipe(steps=STEPS), jitter=3, head=lambda _, x: 1.01 * x)
    assert judge(originals[0], wrong, band, Numerics.BITWISE).verdict is Verdict.REFUTED


def _detached(_: int, logits: Tensor) -> Tensor:
    return logits.detach() + 0.0 * logits


def _half_batch(_: int, x: Tensor) -> Tensor:
    return x[:8]


def _frozen_statistics(step: int, model: nn.Module) -> None:
    if step == 1:
        model.norm.running_var.mul_(1.001)


def _kicked(step: int, model: nn.Module) -> None:
    if step == 6:
        with torch.no_grad():
            model.last.bias[0] += 0.5


MUTANTS: dict[str, tuple[Callable[[], Trace], str]] = {
    "learning rate": (lambda: trained(lr=0.05 * 1.01), r"^lr is 0.0505 at step 1, and 0.05 in the original$"),
    "divided twice": (lambda: trained(inputs=lambda _, x: x / 255), r"^loss first differs at step 1: "),
    "half of the batch": (lambda: trained(inputs=_half_batch, targets=_half_batch), r"^loss first differs at step 1: "),
    "labels shifted": (lambda: trained(targets=lambda _, y: (y + 1) % 10), r"^loss first differs at step 1: "),
    "scaled gradient": (lambda: trained(loss=lambda _, x: x + 0.01 * (x - x.detach())),
        r"^gradients of step 1 differ: \S+ by (9|1)\S+e-0[23] .*and \d more$"),
    "detached branch": (lambda: trained(head=_detached),
        r"^gradients of step 1 differ: \S+ by 1\.\de\+00 .* and \d more$"),
    "same loss ever after": (lambda: with_losses(trained(), lambda _, __: trained().losses()[0]),
        r"^loss first differs at step 2: "),
    "from step 7 on": (lambda: trained(loss=lambda step, x: 1.02 * x if step >= 7 else x),
        r"^loss first differs at step 7: \S+ against \S+, off by \S+ \(allowed \S+\)$"),
    "parameters touched after step 6": (lambda: trained(model=_kicked), r"^loss first differs at step 7: "),
    "statistics of a batch norm": (lambda: trained(model=_frozen_statistics),
        r"^buffers after step 1 differ: norm.running_var by 1.0e-03 "),
    "NaN from step 3 on": (lambda: trained(loss=lambda step, x: x * math.nan if step >= 3 else x),
        r"^loss at step 3 is nan, and \S+ in the original$"),
    "NaN in a gradient": (
        lambda: with_digest(trained(), "gradients", 1, "0.last.bias", lambda digest: evolve(digest, nan=3)),
        r"^gradients of step 1: last.bias has 3 NaN and 0 infinite values, and 0 NaN and 0 infinite values in the",
    ),
    "a gradient that never arrives": (lambda: with_digest(trained(), "gradients", 1, "0.norm.weight", lambda _: None),
        r"^gradients of step 1 differ: norm.weight by 1.0e\+00 \(allowed \S+\)$"),
    "a small tensor's gradient": (lambda: with_digest(trained(), "gradients", 1, "0.norm.bias", scaled(1.05)),
        r"^gradients of step 1 differ: norm.bias by 5.0e-02 \(allowed \S+\)$"),
    "an update left out": (
        lambda: with_digest(
            trained(), "parameters", 1, "0.norm.bias", lambda _: trained().snapshot("parameters", 0)["0.norm.bias"]
        ),
        r"^parameter updates of step 1 differ: norm.bias by 1.0e\+00 ",
    ),
    "optimizer state": (
        lambda: with_digest(trained(), "optimizer state", STEPS, "0.last.weight/momentum_buffer", scaled(2.0)),
        r"^optimizer state after step 12 differ: last.weight/momentum_buffer by (9\.\de-01|1\.\de\+00) ",
    ),
    "a buffer at the end": (
        lambda: with_digest(trained(), "buffers", STEPS, "0.other.num_batches_tracked", scaled(2.0)),
        r"^buffers after step 12 differ: other.num_batches_tracked by 1.0e\+00 ",
    ),
    "a parameter at the end": (lambda: with_digest(trained(), "parameters", STEPS, "0.last.bias", scaled(1.5)),
        r"^parameter updates of 12 steps differ: last.bias by "),
}  # fmt: skip


@CLASSES
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_rewrite_is_refuted_with_a_diagnosis(mutant: str, numerics: Numerics) -> None:
    make, reason = MUTANTS[mutant]
    equality = judged(make(), numerics)
    assert equality.verdict is Verdict.REFUTED, equality.reason
    assert re.search(reason, equality.reason), equality.reason


@BOTH_OPTIMIZERS
@pytest.mark.parametrize("mutant", ["half of the batch", "labels shifted", "detached branch", "divided twice"])
def test_half_precision_hides_no_gross_mistake(mutant: str, optimizer: str) -> None:
    changed = {
        "half of the batch": {"inputs": _half_batch, "targets": _half_batch},
        "labels shifted": {"targets": lambda _, y: (y + 1) % 10},
        "detached branch": {"head": _detached},
        "divided twice": {"inputs": lambda _, x: x / 255},
    }[mutant]
    changes = {"optimizer": optimizer, "autocast": True}
    equality = judged(trained(**changes, **changed), **changes)
    assert equality.verdict is Verdict.REFUTED, equality.reason


@pytest.mark.parametrize(("factor", "verdict"), [(1.3, Verdict.PROVEN), (0.0, Verdict.REFUTED)])
def test_half_types_that_come_in_may_move_one_tensor_far(factor: float, verdict: Verdict) -> None:
    moved = with_digest(trained(), "gradients", 1, "0.norm.bias", scaled(factor))
    assert judged(evolve(moved, half=True), Numerics.PRECISION).verdict is verdict
    # Of an original that computes in half types itself, a control run tells how far it moves.
    own = evolve(trained(), half=True)
    assert judge(own, evolve(moved, half=True), controls(), Numerics.PRECISION).verdict is Verdict.REFUTED


@pytest.mark.parametrize(("change", "reason"), [
    ({"steps": {"0": 11}}, "unequal numbers: 11 steps of optimizer 0, and 12 in the original"),
    ({"steps": {"0": 12, "1": 3}}, "unequal numbers: 3 steps of optimizer 1, and 0 in the original"),
    ({"backwards": 24}, "unequal numbers: 24 backward passes, and 12 in the original"),
    ({"skipped": 1}, "unequal numbers: 1 skipped steps, and 0 in the original"),
    ({"steps": {}}, "no optimizer step was recorded in the rewritten script"),
    ({"ended": "error", "error": "ValueError: no"}, "the rewritten script failed: ValueError: no"),
    ({"ended": "stuck"}, "the rewritten script reached no further optimizer step"),
])  # fmt: skip
@CLASSES
def test_unequal_counts_are_inconclusive(change: dict[str, object], reason: str, numerics: Numerics) -> None:
    equality = judged(evolve(trained(), **change), numerics)
    assert (equality.verdict, equality.reason) == (Verdict.INCONCLUSIVE, reason)
    assert check(equality, equality.checks[-1].name).verdict is not Verdict.REFUTED


def _without_losses(event: Event) -> Event:
    return evolve(event, losses=()) if isinstance(event, Backward) else event


@CLASSES
def test_without_a_loss_nothing_is_proven(numerics: Numerics) -> None:
    silent = with_events(trained(), _without_losses)
    assert judged(silent, numerics).reason == "no loss was recorded in the rewritten script"
    both = judge(silent, silent, Controls((silent,)), numerics)
    assert (both.verdict, both.reason) == (Verdict.INCONCLUSIVE, "no loss was recorded in the original script")


@CLASSES
def test_nan_everywhere_proves_nothing(numerics: Numerics) -> None:
    changes = {"loss": lambda _, x: x * math.nan}
    nan = train(Recipe(steps=STEPS), **changes)
    equality = judge(nan, nan, Controls((nan,), (nan,)), numerics)
    assert equality.verdict is Verdict.INCONCLUSIVE
    assert equality.reason == "every loss is NaN or infinite, which proves nothing"
    equality = judge(nan, trained(), Controls((nan,), (nan,)), numerics)
    assert (equality.verdict, equality.reason[:15]) == (Verdict.REFUTED, "loss at step 1 ")


@CLASSES
def test_some_nan_in_equal_places_is_no_difference(numerics: Numerics) -> None:
    def broken(step: int, loss: float) -> float:
        return {4: math.nan, 5: -math.inf}.get(step, loss)

    original = with_losses(trained(), broken)
    band = Controls(*(tuple(with_losses(one, broken) for one in some) for some in (controls().repeats, ())))
    assert judge(original, with_losses(trained(), broken), band, numerics).verdict is Verdict.PROVEN
    other = with_losses(trained(), lambda step, loss: -broken(step, loss) if step == 5 else broken(step, loss))
    equality = judge(original, other, band, numerics)
    assert equality.reason == "loss at step 5 is inf, and -inf in the original"


def test_gradients_that_are_all_zero_prove_nothing() -> None:
    idle = train(Recipe(steps=STEPS), loss=lambda _, x: 0.0 * x + 1.0)
    equality = judge(idle, idle, Controls((idle,)), Numerics.BITWISE)
    assert (equality.verdict, equality.reason) == (Verdict.INCONCLUSIVE, "every gradient is zero, which proves nothing")


def test_other_initial_parameters_are_inconclusive() -> None:
    equality = judged(train(Recipe(steps=STEPS), seed=1))
    assert equality.verdict is Verdict.INCONCLUSIVE
    assert equality.reason.startswith("initial parameters differ: first.weight and ")
    assert equality.checks[-1].name == "learning rates and other settings"


@pytest.mark.parametrize(("again", "reason"), [
    (lambda: trained(seed=3), "the original starts with different parameters in every run: set its seeds"),
    (lambda: trained(data_seed=500), "the original reads different batches in every run: set its seeds"),
    (lambda: evolve(trained(), skipped=2), "the original makes a different number of steps in every run"),
    (lambda: trained(lr=0.04), "the original uses different optimizer settings in every run"),
    (lambda: with_losses(trained(), lambda step, loss: math.nan if step == 2 else loss),
     "loss at step 2 is not finite in some runs of the original only"),
    (lambda: evolve(trained(), ended="error", error="E: x"), "the original script failed: E: x"),
])  # fmt: skip
def test_an_original_that_is_not_like_itself_cannot_be_judged(again: Callable[[], Trace], reason: str) -> None:
    equality = judge(trained(), trained(), Controls((trained(), again())), Numerics.BITWISE)
    assert (equality.verdict, equality.reason) == (Verdict.INCONCLUSIVE, reason)


# Batches.


def test_batches_in_another_order() -> None:
    drawn = list(trained().batches())
    swap = {0: 1, 1: 0}
    swapped = with_events(
        trained(),
        lambda event: (
            evolve(event, leaves=drawn[swap.get(event.step, event.step)].leaves) if isinstance(event, Batch) else event
        ),
    )
    equality = judged(swapped, Numerics.BITWISE)
    assert equality.verdict is Verdict.INCONCLUSIVE
    assert equality.reason == "batches differ from step 1 on: the same batches are in another order"


def _rewritten_batches(change: Callable[[Batch], Batch], outputs: Callable[[Forward], Forward] | None = None) -> Trace:
    def changed(event: Event) -> Event:
        if isinstance(event, Batch):
            return change(event)
        return outputs(event) if outputs and isinstance(event, Forward) else event

    return with_events(trained(), changed)


def _other_leaf(index: int, leaf: Leaf, step: int = 0) -> Callable[[Batch], Batch]:
    def change(batch: Batch) -> Batch:
        leaves = list(batch.leaves)
        leaves[index] = leaf
        return evolve(batch, leaves=tuple(leaves)) if batch.step >= step else batch

    return change


BYTES = Leaf((16, 8, 8, 3), "uint8", "b")
OTHER_LABELS = Leaf((16,), "int64", "c")


def test_the_same_samples_with_other_contents() -> None:
    images = evolve(next(trained().batches()).leaves[0], bits="other")
    changed = _rewritten_batches(
        _other_leaf(0, images, step=3), lambda event: evolve(event, leaves=(images,)) if event.step >= 3 else event
    )
    assert judged(changed).reason == (
        "batches differ from step 4 on: the same samples seem to be loaded with other values"
        " (tensor 0 of the batch); the model's outputs differ at step 4"
    )


def test_other_samples() -> None:
    reason = judged(trained(data_seed=1000)).reason
    assert reason.startswith("batches differ from step 1 on: other samples, or the same samples in other batches")


def test_another_batch_size() -> None:
    fewer = _rewritten_batches(
        lambda batch: evolve(batch, samples=8, leaves=tuple(evolve(leaf, bits="d") for leaf in batch.leaves))
    )
    assert "it has 8 samples, and 16 in the original" in judged(fewer).reason


@CLASSES
def test_work_that_moved_to_the_device(numerics: Numerics) -> None:
    equality = judged(_rewritten_batches(_other_leaf(0, BYTES)), numerics)
    assert equality.verdict is Verdict.PROVEN, equality.reason
    assert check(equality, "batches").reason == (
        "the loader yields other tensors, but the model computes the same from them"
    )


@pytest.mark.parametrize(("units", "numerics", "verdict"), [
    (8.0, Numerics.ROUNDING, Verdict.PROVEN),
    (8.0, Numerics.BITWISE, Verdict.INCONCLUSIVE),
    (1e4, Numerics.ROUNDING, Verdict.INCONCLUSIVE),
])  # fmt: skip
def test_batches_that_are_made_ready_on_the_device(units: float, numerics: Numerics, verdict: Verdict) -> None:
    def nearly(event: Forward) -> Forward:
        leaf = event.leaves[0]
        assert leaf.sketch is not None
        near = [value * (1.0 + units * 2.0**-23) for value in leaf.sketch]
        return evolve(event, leaves=(evolve(leaf, bits=f"{leaf.bits}~", sketch=near),))

    assert judged(_rewritten_batches(_other_leaf(0, BYTES), nearly), numerics).verdict is verdict


@pytest.mark.parametrize("index", [0, 1])
def test_other_targets_are_never_excused(index: int) -> None:
    changed = _rewritten_batches(_other_leaf(1, OTHER_LABELS)) if index else None
    both = _rewritten_batches(lambda batch: _other_leaf(0, BYTES)(_other_leaf(1, OTHER_LABELS)(batch)))
    assert judged(changed or both).verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(("ahead", "verdict"), [(1, Verdict.PROVEN), (2, Verdict.PROVEN), (3, Verdict.INCONCLUSIVE)])
def test_a_prefetcher_draws_ahead(ahead: int, verdict: Verdict) -> None:
    equality = judged(trained(steps_ahead=ahead), Numerics.BITWISE)
    assert equality.verdict is verdict
    expected = f"12 batches; {ahead} more drawn ahead on one side"
    if verdict is Verdict.INCONCLUSIVE:
        expected = "the rewritten script draws 15 batches, the original 12"
    assert check(equality, "batches").reason == expected


def _no_batches(event: Event) -> Event | None:
    return None if isinstance(event, Batch) else event


def _neither(event: Event) -> Event | None:
    return None if isinstance(event, (Batch, Forward)) else event


def test_loaders_are_numbered_as_they_come() -> None:
    later = _rewritten_batches(lambda batch: evolve(batch, loader=4))
    assert judged(later, Numerics.BITWISE).verdict is Verdict.PROVEN
    split = _rewritten_batches(lambda batch: evolve(batch, loader=batch.step % 2))
    assert judged(split, Numerics.BITWISE).verdict is Verdict.PROVEN


def test_a_data_set_that_moved_to_the_device_needs_no_loader() -> None:
    assert judged(with_events(trained(), _no_batches), Numerics.BITWISE).verdict is Verdict.PROVEN
    other = with_events(trained(inputs=lambda step, x: x + (step == 2)), _no_batches)
    equality = judged(other, Numerics.BITWISE)
    assert equality.verdict is Verdict.INCONCLUSIVE
    assert equality.reason == "only one of the sides reads a DataLoader; the model's outputs differ at step 2"
    assert judged(with_events(trained(), _neither)).reason == "only one of the sides reads a DataLoader"


@pytest.mark.parametrize("without", [_no_batches, _neither])
def test_without_a_loader_it_is_noted_and_not_fatal(without: Callable[[Event], Event | None]) -> None:
    bare = with_events(trained(), without)
    equality = judge(bare, bare, Controls((bare,)), Numerics.BITWISE)
    assert equality.verdict is Verdict.PROVEN
    row = check(equality, "batches")
    assert row.verdict is Verdict.INCONCLUSIVE
    assert row.reason == "no DataLoader was used; judged by losses and gradients"
    wrong = with_events(trained(targets=lambda _, y: (y + 1) % 10), without)
    assert judge(bare, wrong, Controls((bare,)), Numerics.BITWISE).reason.startswith("loss first differs at step 1")
    fewer = evolve(bare, samples=5)
    assert judge(bare, fewer, Controls((bare,)), Numerics.BITWISE).reason.startswith("unequal numbers: 5 samples")


# Settings.


def _with_hyper(change: Callable[[dict[str, object]], dict[str, object]]) -> Trace:
    return with_events(
        trained(),
        lambda event: (
            evolve(event, hyper=tuple(change(dict(group)) for group in event.hyper))
            if isinstance(event, Step)
            else event
        ),
    )


def test_options_that_choose_a_kernel_are_no_settings() -> None:
    assert judged(_with_hyper(lambda group: {**group, "fused": True, "foreach": None})).verdict is Verdict.PROVEN


@pytest.mark.parametrize("change", [{"weight_decay": 1e-4}, {"momentum": 0.8}, {"nesterov": True}, {"new": 1}])
def test_other_settings_are_refuted(change: dict[str, object]) -> None:
    equality = judged(_with_hyper(lambda group: {**group, **change}))
    assert equality.verdict is Verdict.REFUTED
    assert equality.reason.startswith(f"{next(iter(change))} is {next(iter(change.values()))} at step 1, and ")


def test_other_parameter_groups_are_inconclusive() -> None:
    doubled = with_events(
        trained(), lambda event: evolve(event, hyper=event.hyper * 2) if isinstance(event, Step) else event
    )
    assert judged(doubled).reason == "other optimizers or parameter groups are used at step 1"


# Names of tensors.


@CLASSES
def test_tensors_are_found_by_place_where_names_differ(numerics: Numerics) -> None:
    wrapped = renamed(trained(), lambda key: key.replace("0.", "0.inner.", 1))
    assert judged(wrapped, numerics).verdict is Verdict.PROVEN
    wrong = with_digest(wrapped, "gradients", 1, "0.inner.norm.bias", scaled(1.05))
    assert judged(wrong, numerics).reason.startswith("gradients of step 1 differ: norm.bias by 5.0e-02")


def test_tensors_that_do_not_correspond_are_inconclusive() -> None:
    fewer = with_digest(trained(), "parameters", 0, "0.last.bias", lambda _: None)
    assert judged(fewer).reason == "the parameters do not correspond: 9 tensors, and 10 in the original"


def test_signs_of_zeros_are_no_difference() -> None:
    signs = with_digest(trained(), "gradients", 1, "0.last.bias", lambda digest: evolve(digest, bits="-0"))
    assert judged(signs, Numerics.BITWISE).verdict is Verdict.PROVEN
    hidden = with_digest(trained(), "gradients", 1, "0.last.bias", scaled(1.0 + 2.0**-23))
    assert judged(hidden, Numerics.BITWISE).verdict is Verdict.REFUTED


# Controls.


def test_without_a_control_small_differences_stay_open() -> None:
    alone = Controls(repeats=(trained(),))
    off = with_losses(trained(), lambda _, loss: loss * (1.0 + 1e-4))
    equality = judge(trained(), off, alone, Numerics.ROUNDING)
    assert equality.verdict is Verdict.INCONCLUSIVE
    assert equality.reason.endswith("; no control run shows how much rounding is amplified in this script")
    gross = with_losses(trained(), lambda _, loss: loss * 1.01)
    assert judge(trained(), gross, alone, Numerics.ROUNDING).verdict is Verdict.REFUTED
    assert judge(trained(), trained(reordered=True), alone, Numerics.ROUNDING).verdict is Verdict.PROVEN


def test_what_one_kink_explains_stays_open() -> None:
    equality = judged(with_digest(trained(), "gradients", 1, "0.first.weight", scaled(1.0005)))
    assert equality.verdict is Verdict.INCONCLUSIVE
    assert equality.reason.endswith("; a single unit that switches sides at its kink (as in ReLU) would explain it")


def test_what_reaches_the_last_layer_is_no_kink() -> None:
    equality = judged(_with_all_gradients(trained(), 1.0005))
    assert equality.verdict is Verdict.REFUTED
    assert equality.reason.startswith("gradients of step 1 differ: ")


def test_what_differs_only_after_an_equal_start_stays_open() -> None:
    def late(step: int, loss: float) -> float:
        return loss * 1.0005 if step > 6 else loss

    equality = judged(with_losses(trained(), late))
    assert equality.verdict is Verdict.INCONCLUSIVE
    assert equality.reason.startswith("loss first differs at step 7: ")
    # Where rounding began to differ in the first step, a kink may have done it.
    assert judged(with_losses(trained(reordered=True), late)).verdict is Verdict.PROVEN


def test_a_control_that_went_another_way_is_left_out() -> None:
    wild = tuple(evolve(trained(data_seed=77), skipped=1) for _ in range(2))
    wrong = trained(head=lambda _, x: 1.01 * x)
    assert judge(trained(), wrong, Controls(controls().repeats, wild), Numerics.ROUNDING).verdict is Verdict.REFUTED


def test_the_original_in_float64_measures_both_sides() -> None:
    band = evolve(controls(), double=train(Recipe(steps=STEPS), dtype=torch.float64))
    row = check(
        judge(trained(), trained(reordered=True), band, Numerics.ROUNDING), "gradients of step 1 against float64"
    )
    assert row.verdict is Verdict.PROVEN
    assert row.measured
    assert row.control
    wrong = judge(trained(), trained(head=lambda _, x: 1.001 * x), band, Numerics.ROUNDING)
    row = check(wrong, "gradients of step 1 against float64")
    assert row.verdict is Verdict.REFUTED
    assert row.reason.startswith("gradients of step 1 are off those in float64 by ")


def test_a_rewrite_may_be_nearer_to_float64_than_the_original() -> None:
    coarse = _with_all_gradients(trained(), 1.0 + 2e-4)
    band = Controls((coarse,), (_with_all_gradients(trained(noise_seed=1), 1.0 + 2e-4),))
    without = judge(coarse, trained(), band, Numerics.ROUNDING)
    assert check(without, "gradients of step 1").verdict is Verdict.REFUTED
    exact = train(Recipe(steps=STEPS), dtype=torch.float64)
    equality = judge(coarse, trained(), evolve(band, double=exact), Numerics.ROUNDING)
    assert check(equality, "gradients of step 1").verdict is Verdict.PROVEN


def test_float64_that_computes_something_else_is_left_out() -> None:
    other = train(Recipe(steps=STEPS), dtype=torch.float64, head=lambda _, x: 1.5 * x)
    equality = judge(trained(), trained(), evolve(controls(), double=other), Numerics.ROUNDING)
    assert not any("float64" in row.name for row in equality.checks)


def _with_all_gradients(trace: Trace, factor: float) -> Trace:
    for key in trace.snapshot("gradients", 1):
        trace = with_digest(trace, "gradients", 1, key, scaled(factor))
    return trace


# Classes that change results.


def test_precision_is_measured_by_noise_of_that_precision() -> None:
    rewritten = trained(autocast=True)
    noisy = tuple(train(Recipe(steps=STEPS), noise_seed=seed, noise=2.0**15) for seed in (1, 2))
    equality = judge(trained(), rewritten, Controls(controls().repeats, noisy), Numerics.PRECISION)
    assert equality.verdict is Verdict.PROVEN, equality.reason
    assert equality.short_horizon
    assert judged(rewritten).verdict is Verdict.REFUTED
    wrong = trained(autocast=True, head=_detached)
    refuted = judge(trained(), wrong, Controls(controls().repeats, noisy), Numerics.PRECISION)
    assert refuted.verdict is Verdict.REFUTED


def test_sampling_is_proven_without_dropout_only() -> None:
    drawn_anew = trained(head=lambda step, x: x * (1.0 + 0.2 * math.sin(step)))
    alone = judged(drawn_anew, Numerics.SAMPLING)
    assert alone.verdict is Verdict.INCONCLUSIVE
    assert alone.reason.startswith("the rewrite draws other random numbers")
    row = check(alone, "losses of step 1")
    assert row.verdict is Verdict.INCONCLUSIVE
    assert row.measured
    assert row.control is not None
    for strict in (judged(trained(reordered=True)), judged(trained(lr=0.06))):
        equality = judge(trained(), drawn_anew, controls(), Numerics.SAMPLING, without_dropout(strict))
        assert (equality.verdict, equality.short_horizon) == (strict.verdict, True)
        assert equality.reason == f"without dropout: {strict.reason}"
        assert check(equality, "without dropout: losses of step 1") is not None
    nan = trained(loss=lambda _, x: x * math.nan)
    same = without_dropout(judged(trained()))
    assert judge(trained(), nan, controls(), Numerics.SAMPLING, same).verdict is Verdict.REFUTED
    slower = trained(lr=0.04)
    assert judge(trained(), slower, controls(), Numerics.SAMPLING, same).verdict is Verdict.REFUTED


def test_all_conditions_count_under_which_both_sides_are_compared_more_closely() -> None:
    drawn_anew = trained(head=lambda step, x: x * (1.0 + 0.2 * math.sin(step)))
    fine, wrong = judged(trained(reordered=True)), judged(trained(lr=0.06))
    for without, alike, verdict in (
        (fine, fine, Verdict.PROVEN),
        (fine, wrong, Verdict.REFUTED),
        (wrong, fine, Verdict.REFUTED),
    ):
        strict = {**without_dropout(without), ALIKE: alike}
        equality = judge(trained(), drawn_anew, controls(), Numerics.SAMPLING, strict)
        assert equality.verdict is verdict
    assert equality.reason == f"without dropout: {wrong.reason}"


def test_precision_is_proven_without_dropout_where_something_drops() -> None:
    drawn_anew = trained(head=lambda step, x: x * (1.0 + 0.2 * math.sin(step)))
    dropping = judged(trained(reordered=True), Numerics.PRECISION)
    assert dropping.original is not None
    dropping, without = (
        without_dropout(each)
        for each in (dropping, evolve(dropping, original=evolve(dropping.original, losses=(2.0, 1.0))))
    )
    assert judge(trained(), drawn_anew, controls(), Numerics.PRECISION, without).verdict is Verdict.PROVEN
    assert judge(trained(), drawn_anew, controls(), Numerics.PRECISION, dropping).verdict is Verdict.REFUTED
    assert judge(trained(), drawn_anew, controls(), Numerics.PRECISION).verdict is Verdict.REFUTED
    refuted = without_dropout(evolve(without[WITHOUT_DROPOUT], verdict=Verdict.REFUTED))
    assert judge(trained(), trained(), controls(), Numerics.PRECISION, refuted).verdict is Verdict.REFUTED


def test_precision_is_judged_by_what_draws_the_same() -> None:
    drawn_anew = evolve(trained(head=lambda step, x: x * (1.0 + 0.2 * math.sin(step))), drawn=("other",))
    original = evolve(trained(), drawn=("own",))
    for strict, verdict in (
        ({ALIKE_AND_DRAWN_ALIKE: judged(trained(reordered=True))}, Verdict.PROVEN),
        ({ALIKE_AND_DRAWN_ALIKE: judged(trained(lr=0.06))}, Verdict.REFUTED),
        ({}, Verdict.REFUTED),
    ):
        equality = judge(original, drawn_anew, controls(), Numerics.PRECISION, strict)
        assert equality.verdict is verdict
        assert equality.reason.startswith("in float32 and with the same random numbers: ") is bool(strict)


def test_another_behaviour_is_proven_where_the_same_draws_give_the_same_bits() -> None:
    drawn_anew = trained(head=lambda step, x: x * (1.0 + 0.2 * math.sin(step)))
    for same, verdict in ((trained(), Verdict.PROVEN), (trained(reordered=True), Verdict.INCONCLUSIVE)):
        strict = {DRAWN_ALIKE: judged(same)}
        assert judge(trained(), drawn_anew, controls(), Numerics.BEHAVIOURAL, strict).verdict is verdict


def test_as_much_is_dropped() -> None:
    dropping = evolve(trained(), left_out={"0.1": 24})
    same = judge(dropping, dropping, controls(), Numerics.PRECISION)
    assert (same.verdict, check(same, "dropouts").verdict) == (Verdict.PROVEN, Verdict.PROVEN)
    less = judge(dropping, evolve(dropping, left_out={"0.1": 12}), controls(), Numerics.PRECISION)
    assert less.verdict is Verdict.INCONCLUSIVE
    assert less.reason == "drops with probability 0.1 12 times, and 24 times in the original"
    other = judge(dropping, evolve(dropping, left_out={"0.2": 24}), controls(), Numerics.PRECISION)
    assert other.reason == "drops with probability 0.1 0 times, and 24 times in the original"
    compiled = judge(dropping, trained(), controls(), Numerics.PRECISION)
    assert all(row.name != "dropouts" for row in compiled.checks)


@pytest.mark.parametrize(("change", "reason"), [
    ({"adds_up_in_half": True}, "a part of the loss is summed up in a half type, and in float32 in the original"),
    ({"held_in_half": 3}, "3 parameters hold values of a half type, and 1 in the original: updates that"),
])  # fmt: skip
def test_what_is_rounded_to_half_types_and_hides_changes(change: dict[str, Any], reason: str) -> None:
    original = evolve(trained(), held_in_half=1)
    other = judge(original, evolve(original, **change), controls(), Numerics.PRECISION)
    assert (other.verdict, other.reason[: len(reason)]) == (Verdict.INCONCLUSIVE, reason)
    rounded = evolve(original, **change)
    assert judge(rounded, rounded, controls(), Numerics.PRECISION).verdict is Verdict.PROVEN


def test_another_behaviour_is_proven_only_where_it_changes_no_bit_of_the_training() -> None:
    equality = judged(trained(reordered=True), Numerics.BEHAVIOURAL)
    assert equality.verdict is Verdict.INCONCLUSIVE
    assert equality.reason.startswith("the rewrite changes the training itself")
    shown = judged(evolve(trained(), printed="every tenth step\n"), Numerics.BEHAVIOURAL)
    assert (shown.verdict, shown.reason[:13]) == (Verdict.PROVEN, "bitwise equal")


# Ranks.


def test_the_worst_rank_decides() -> None:
    good, bad = trained(), trained(lr=0.06)
    both = judge_ranks((good, good), (good, bad), (controls(), controls()), Numerics.ROUNDING)
    assert (both.verdict, both.reason[:14]) == (Verdict.REFUTED, "rank 1: lr is ")
    fine = judge_ranks((good, good), (good, good), (controls(), controls()), Numerics.ROUNDING)
    assert (fine.verdict, fine.reason) == (Verdict.PROVEN, "all 2 ranks: bitwise equal over 12 steps")
    fewer = judge_ranks((good, good), (good,), (controls(), controls()), Numerics.ROUNDING)
    assert (fewer.verdict, fewer.reason) == (
        Verdict.INCONCLUSIVE,
        "unequal numbers: 1 ranks trained, and 2 in the original",
    )
    alone = judge_ranks((good,), (bad,), (controls(),), Numerics.ROUNDING)
    assert alone == judged(bad)
    with pytest.raises(ValueError, match="0 controls for 0 ranks"):
        judge_ranks((), (), (), Numerics.ROUNDING)


# Several optimizers.


def _adversarial(losses: Callable[[int, int], float]) -> Trace:
    """Two optimizers that take turns, the first with two backward passes; `losses` by optimizer and step."""
    events: list[Event] = []
    for step in range(1, STEPS + 1):
        for optimizer, passes in ((0, 2), (1, 1)):
            done = 2 * (step - 1) + optimizer
            events += [Backward(done, (losses(optimizer, step) + at,)) for at in range(passes)]
            events.append(Step(done, optimizer, 1.0, ({"lr": 0.1},)))
    return evolve(trained(), events=tuple(events), steps={"0": STEPS, "1": STEPS}, backwards=3 * STEPS)


def test_losses_belong_to_the_optimizer_that_steps_next() -> None:
    original = _adversarial(lambda optimizer, step: 1.0 + optimizer + 1.0 / step)
    late = _adversarial(lambda optimizer, step: 1.0 + optimizer + 1.0 / step + 0.1 * (optimizer == 1 and step >= 5))
    equality = judge(original, late, Controls((original,)), Numerics.BITWISE)
    assert equality.verdict is Verdict.REFUTED
    assert equality.reason.startswith("loss first differs at step 5 of optimizer 1: 2.3 against 2.2,")
    other = with_events(original, lambda event: evolve(event, optimizer=0) if isinstance(event, Step) else event)
    assert judge(original, other, Controls((original,)), Numerics.BITWISE).verdict is not Verdict.PROVEN


@pytest.mark.parametrize(("bits", "verdict"), [(8, Verdict.INCONCLUSIVE), (11, Verdict.INCONCLUSIVE), (14, None)])
def test_losses_in_a_half_type_hide_what_changes_by_less(bits: int, verdict: Verdict | None) -> None:
    def rounded(_step: int, loss: float) -> float:
        whole, exponent = math.frexp(loss)
        return math.ldexp(round(whole * 2**bits) / 2**bits, exponent)

    half = judged(with_losses(trained(), rounded), Numerics.PRECISION)
    rows = [check.verdict for check in half.checks if check.name == "number formats"]
    assert rows == ([] if verdict is None else [verdict])
    assert half.reason.startswith(f"the losses have {bits} significant bits, and 24 in the") is (verdict is not None)


# How often chance raises an alarm.


@BOTH_OPTIMIZERS
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(1, 8))])
def test_right_rewrites_raise_no_alarm_by_chance(optimizer: str, seed: int) -> None:
    recipe = Recipe(steps=STEPS, optimizer=optimizer, seed=seed, data_seed=1000 * seed, lr=0.2)
    original = train(recipe)
    band = Controls((original,), tuple(train(recipe, noise_seed=at) for at in (1, 2)))
    rounding = judge(original, train(recipe, reordered=True), band, Numerics.ROUNDING)
    atomic = [train(recipe, jitter=at) for at in range(4)]
    bitwise = judge(atomic[0], atomic[1], Controls(tuple(atomic[2:])), Numerics.BITWISE)
    assert [one.reason for one in (rounding, bitwise) if one.verdict is not Verdict.PROVEN] == []
