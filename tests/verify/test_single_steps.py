"""Steps that begin with the original's state: what is wrong by little shows there, and rounding does not grow."""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping

import pytest
from attrs import evolve
from torch import nn
from traced_training import Recipe, scaled, train, with_digest

from perfmod.transforms.finding import Numerics
from perfmod.verify.evidence import Check, Equality, Verdict
from perfmod.verify.judging import Controls, judge
from perfmod.verify.single_steps import draw_steps
from perfmod.verify.trace import Backward, Step, Trace

HANDED = (2, 5, 6, 9)


@functools.cache
def trained(**changes: object) -> Trace:
    return train(Recipe(handed=HANDED), **changes)


@functools.cache
def controls(optimizer: str) -> Controls:
    perturbed = tuple(trained(optimizer=optimizer, noise_seed=seed) for seed in (1, 2))
    return Controls((trained(optimizer=optimizer),), perturbed)


def judged(other: Trace, optimizer: str = "sgd") -> Equality:
    return judge(trained(optimizer=optimizer), other, controls(optimizer), Numerics.ROUNDING)


def singles(equality: Equality) -> Mapping[str, Check]:
    prefix = "single steps: "
    return {row.name.removeprefix(prefix): row for row in equality.checks if row.name.startswith(prefix)}


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_right_ones_hold_in_every_step(optimizer: str) -> None:
    itself = judged(trained(optimizer=optimizer), optimizer)
    assert (itself.verdict, itself.reason) == (Verdict.PROVEN, "bitwise equal over 12 steps")
    assert itself.single_steps == (3, 6, 7, 10)
    reordered = judged(trained(optimizer=optimizer, reordered=True), optimizer)
    assert reordered.verdict is Verdict.PROVEN, reordered.reason
    rows = singles(reordered)
    assert list(rows) == [
        "losses",
        "gradients",
        "gradients, tensor by tensor",
        "parameter updates",
        "parameter updates, tensor by tensor",
        "buffers",
        "optimizer state",
        "common factor of the updates",
    ]
    assert {row.verdict for row in rows.values()} == {Verdict.PROVEN}
    # Nothing grows, so that the limits of the last step looked at are still those of rounding.
    assert rows["gradients"].allowed is not None
    assert rows["gradients"].allowed < 1e-4


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_loss_that_is_off_by_little_from_the_second_step_on(optimizer: str) -> None:
    off = trained(optimizer=optimizer, loss=lambda step, loss: loss * (1.002 if step > 1 else 1.0))
    equality = judged(off, optimizer)
    assert equality.verdict is Verdict.REFUTED
    assert singles(equality)["losses"].verdict is Verdict.REFUTED
    was, now = trained(optimizer=optimizer).losses()[2], off.losses()[2]
    assert singles(equality)["losses"].reason.startswith(
        f"loss first differs at step 3: {now:.7g} against {was:.7g}, off by 2.0e-03 (allowed "
    )


def _off(other: Trace, *by: float) -> Trace:
    """With losses that are off by a share in those steps that are compared alone."""
    shares = dict(zip(HANDED, by, strict=True))
    events = [
        evolve(event, losses=tuple(loss * (1.0 + shares[event.step]) for loss in event.losses))
        if isinstance(event, Backward) and event.step in shares
        else event
        for event in other.events
    ]
    return evolve(other, events=tuple(events))


@pytest.mark.parametrize(("by", "verdict"), [(4e-4, Verdict.PROVEN), (2e-3, Verdict.REFUTED)])
def test_noise_that_moves_a_loss_by_nothing_in_one_step_moves_it_in_others(by: float, verdict: Verdict) -> None:
    noisy = tuple(_off(trained(noise_seed=seed), 2e-4, 1e-8, -3e-4, 1e-4) for seed in (1, 2))
    equality = judge(trained(), _off(trained(), 0.0, by, 0.0, 0.0), Controls((trained(),), noisy), Numerics.PRECISION)
    assert singles(equality)["losses"].verdict is verdict


def _decayed(step: int, model: nn.Module) -> None:
    """Half of what a weight decay of 0.01 takes away at a learning rate of 0.005."""
    if step > 1:
        for parameter in model.parameters():
            parameter.data.mul_(1.0 - 0.5 * 0.01 * 0.005)


def test_a_decay_of_weights_shows_in_their_updates() -> None:
    equality = judged(trained(optimizer="adam", model=_decayed), "adam")
    assert equality.verdict is Verdict.REFUTED
    assert {name for name, row in singles(equality).items() if row.verdict is not Verdict.PROVEN} == {
        "parameter updates",
        "parameter updates, tensor by tensor",
    }


@pytest.mark.parametrize(("off_in", "verdict"), [(1, Verdict.PROVEN), (3, Verdict.INCONCLUSIVE)])
def test_a_unit_at_its_kink_is_no_alarm_unless_there_is_one_in_most_steps(off_in: int, verdict: Verdict) -> None:
    other = trained()
    for step in HANDED[:off_in]:
        # One tensor only: what is wrong with the loss reaches all of them.
        other = with_digest(other, "gradients", step + 1, "0.first.weight", scaled(1.0005))
    equality = judged(other)
    assert equality.verdict is verdict, equality.reason
    if verdict is not Verdict.PROVEN:
        assert equality.reason.endswith("; so in 3 of 4 steps")


def _longer(other: Trace, step: int, by: float, optimizer: str, *keys: str) -> Trace:
    """With an update of a step that is longer by a share, in some parameters or in all."""
    starts = trained(optimizer=optimizer).snapshot("parameters at the start", step + 1)
    for key in keys or starts:
        end = other.snapshot("parameters", step + 1)[key]
        sketch = [new + by * (new - old) for new, old in zip(end.sketch, starts[key].sketch, strict=True)]
        changed = evolve(end, bits=f"{end.bits}+", sketch=sketch)
        other = with_digest(other, "parameters", step + 1, key, lambda _, changed=changed: changed)  # type: ignore[misc]
    return other


@pytest.mark.parametrize(("by", "verdict"), [(0.01, Verdict.PROVEN), (0.5, Verdict.REFUTED)])
@pytest.mark.parametrize("is_replayed", [False, True])
def test_what_rounding_turns_over_is_no_alarm_in_a_replayed_step_either(
    by: float, verdict: Verdict, *, is_replayed: bool
) -> None:
    other = _longer(trained(optimizer="adam"), HANDED[1], by, "adam", "0.second.weight")
    if is_replayed:
        events = [
            evolve(event, gradient_norm=None) if isinstance(event, Step) and event.step >= HANDED[0] else event
            for event in other.events
        ]
        other = evolve(other, events=tuple(events))
        assert "gradients" not in singles(judged(other, "adam"))
    assert judged(other, "adam").verdict is verdict


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_updates_that_are_all_longer_have_a_factor_in_common(optimizer: str) -> None:
    other = trained(optimizer=optimizer)
    for step in HANDED:
        other = _longer(other, step, 0.005, optimizer)
    row = singles(judged(other, optimizer))["common factor of the updates"]
    assert row.verdict is Verdict.REFUTED
    assert row.measured == pytest.approx(0.005, rel=0.01)
    assert row.reason.startswith("all updates are 1.00500 times as long as the original's")


def test_who_cannot_take_a_state_over_is_not_proven() -> None:
    fewer = judged(evolve(trained(), handed=HANDED[:-1]))
    assert (fewer.verdict, fewer.reason) == (
        Verdict.INCONCLUSIVE,
        "the state of the original after step 9 could not be handed over to the other version",
    )
    other = with_digest(trained(), "parameters at the start", 7, "0.last.bias", scaled(1.1))
    assert judged(other).reason == "the state of the original after step 6 was not taken over: 0.last.bias differs"


@pytest.mark.parametrize(("steps", "count", "drawn"), [(20, 6, 6), (10, 4, 4), (4, 6, 3), (2, 6, 1), (1, 6, 0)])
def test_steps_are_drawn_from_all_parts_of_the_run(steps: int, count: int, drawn: int) -> None:
    seen = {draw_steps(steps, count, random.Random(seed)) for seed in range(200)}
    assert all(len(each) == len(set(each)) == drawn and list(each) == sorted(each) for each in seen)
    assert {step for each in seen for step in each} == set(range(1, steps))
    if drawn > 1 and steps > 4:
        part = (steps - 1) / drawn
        assert all(abs(step - part * (index + 0.5)) <= part for each in seen for index, step in enumerate(each))
