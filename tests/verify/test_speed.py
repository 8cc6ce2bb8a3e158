"""The verdict on timed processes, tried on machines that drift, stutter and burst."""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Mapping
from typing import Any

import pytest
from attrs import evolve, frozen

from perfmod.verify.evidence import Speed, TimedRun, Verdict
from perfmod.verify.schedule import mirrored
from perfmod.verify.speed import compare, more_would_help, too_good

EXPERIMENTS = 60


@frozen
class Machine:
    """What happens to the processes.

    Attributes:
        noise: standard deviation of a process's figure.
        heavy: that noise has the tails of Student's t with three degrees of freedom.
        slope: standard deviation of a linear drift over all processes.
        wander: standard deviation of a random walk from process to process.
        warming: how much slower the first process is.
        jump: by how much all processes are slower from a random one on.
        disturbed: share of processes that a neighbour slows down by 3 to 40 %.
        bursty: seven of eight steps are short, because the loader delivers in bursts.
    """

    noise: float = 0.005
    heavy: bool = False
    slope: float = 0.0
    wander: float = 0.0
    warming: float = 0.0
    jump: float = 0.0
    disturbed: float = 0.0
    bursty: bool = False


MACHINES: Mapping[str, Machine] = {
    "calm": Machine(),
    "heavy tails": Machine(heavy=True),
    "linear drift": Machine(slope=0.03),
    "random walk": Machine(wander=0.005),
    "warming up": Machine(warming=0.05),
    "throttled from some process on": Machine(jump=0.05),
    "disturbed by neighbours": Machine(disturbed=0.15),
    "bursts": Machine(bursty=True),
    "all of it": Machine(heavy=True, slope=0.02, wander=0.005, disturbed=0.1, bursty=True),
}


def run(machine: Machine, processes: int, seed: str, gain: float = 0.0) -> tuple[list[TimedRun], list[TimedRun]]:
    """Interleaved processes of both sides."""
    draw = random.Random(seed)
    order = mirrored(("original", "rewritten"), processes)
    slope = draw.gauss(0.0, machine.slope) / len(order)
    jumps = draw.randrange(len(order) + 1)
    walk = 0.0
    sides: dict[str, list[TimedRun]] = {"original": [], "rewritten": []}
    for place, side in enumerate(order):
        walk += draw.gauss(0.0, machine.wander)
        tail = math.sqrt(draw.gammavariate(1.5, 1.0 / 1.5)) if machine.heavy else 1.0
        shift = draw.gauss(0.0, machine.noise) / tail + slope * place + walk
        shift += machine.warming * math.exp(-place) + (machine.jump if place >= jumps else 0.0)
        shift += draw.uniform(0.03, 0.4) if draw.random() < machine.disturbed else 0.0
        step = 20.0 * math.exp(shift) / (1.0 + (gain if side == "rewritten" else 0.0))
        steps = tuple(step * _shape(machine, at) * draw.lognormvariate(0.0, 0.01) for at in range(32))
        sides[side].append(TimedRun(side, place, steps, sum(steps) / len(steps)))
    return sides["original"], sides["rewritten"]


def _shape(machine: Machine, step: int) -> float:
    if not machine.bursty:
        return 1.0
    return 5.9 if step % 8 == 0 else 0.3


@pytest.mark.parametrize("processes", [3, 4, 5])
def test_equal_sides_are_hardly_ever_told_apart(processes: int) -> None:
    false = {
        name: sum(
            compare(*run(machine, processes, f"{name} {seed}"), seed=seed).verdict is not Verdict.NO_CHANGE
            for seed in range(EXPERIMENTS)
        )
        for name, machine in MACHINES.items()
    }
    assert sum(false.values()) <= 0.02 * EXPERIMENTS * len(MACHINES), false
    assert max(false.values()) <= 0.05 * EXPERIMENTS, false


def test_two_processes_do_not_claim_more() -> None:
    false = sum(
        compare(*run(machine, 2, f"{name} {seed}"), seed=seed).verdict is not Verdict.NO_CHANGE
        for name, machine in MACHINES.items()
        for seed in range(EXPERIMENTS)
    )
    assert false <= 0.05 * EXPERIMENTS * len(MACHINES)


def test_adding_processes_until_it_is_clear_claims_no_more() -> None:
    false = 0
    for name, machine in MACHINES.items():
        for seed in range(EXPERIMENTS // 2):
            original, rewritten = run(machine, 6, f"{name} {seed}")
            speed = compare(original[:3], rewritten[:3], seed=seed)
            for processes in range(4, 7):
                if more_would_help(speed):
                    speed = compare(original[:processes], rewritten[:processes], seed=seed)
            false += speed.verdict is not Verdict.NO_CHANGE
    assert false <= 0.05 * EXPERIMENTS // 2 * len(MACHINES)


@pytest.mark.parametrize(("gain", "noise", "processes"), [(0.03, 0.005, 4), (0.05, 0.005, 3), (0.4, 0.02, 3)])
def test_a_gain_above_the_noise_is_found(gain: float, noise: float, processes: int) -> None:
    speeds = [compare(*run(Machine(noise), processes, f"gain {seed}", gain), seed=seed) for seed in range(EXPERIMENTS)]
    assert sum(speed.verdict is Verdict.PROVEN for speed in speeds) >= 0.9 * EXPERIMENTS
    assert sum(speed.low <= 1.0 + gain <= speed.high for speed in speeds) >= 0.9 * EXPERIMENTS


def test_a_loss_is_found_as_well() -> None:
    speeds = [compare(*run(Machine(), 4, f"loss {seed}", -0.04), seed=seed) for seed in range(EXPERIMENTS)]
    assert sum(speed.verdict is Verdict.REFUTED for speed in speeds) >= 0.9 * EXPERIMENTS
    assert all(speed.saved_ms < 0.0 and speed.break_even_step is None for speed in speeds)


def _timed(side: str, figures: list[float], start: float = 1.0, compiled: float = 0.0) -> list[TimedRun]:
    return [
        TimedRun(side, 2 * at + (side == "rewritten"), (figure,) * 20, figure, start, compiled)
        for at, figure in enumerate(figures)
    ]


def test_the_figures() -> None:
    original, rewritten = _timed("original", [10.0, 10.1, 9.9]), _timed("rewritten", [5.0, 5.05, 4.95])
    speed = compare(original, rewritten, seed=1)
    assert speed.verdict is Verdict.PROVEN
    assert (speed.ratio, speed.original_ms, speed.rewritten_ms, speed.saved_ms) == (2.0, 10.0, 5.0, 5.0)
    assert 1.9 < speed.low < 2.0 < speed.high < 2.1
    assert speed.spread == pytest.approx(0.0195, abs=0.001)
    assert [timed.order for timed in speed.runs] == list(range(6))
    assert "2.000x" in speed.reason
    assert compare(original, rewritten, seed=1) == speed
    assert compare(original[::-1], rewritten, seed=2).spread == speed.spread


def test_a_change_below_half_a_percent_is_none() -> None:
    speed = compare(_timed("original", [10.0] * 3), _timed("rewritten", [9.96] * 3), seed=1)
    assert (speed.verdict, speed.break_even_step) == (Verdict.NO_CHANGE, None)
    assert not more_would_help(speed)
    assert compare(_timed("original", [10.0] * 3), _timed("rewritten", [9.9] * 3), seed=1).verdict is Verdict.PROVEN


def test_more_processes_help_where_a_gain_is_not_clear_yet() -> None:
    unclear = compare(_timed("original", [10.0, 10.2, 10.1]), _timed("rewritten", [9.9, 10.1, 9.8]), seed=1)
    assert unclear.verdict is Verdict.NO_CHANGE
    assert more_would_help(unclear)
    within = compare(_timed("original", [10.0, 10.2, 10.1]), _timed("rewritten", [10.0, 10.1, 9.9]), seed=1)
    assert more_would_help(within)
    clear = compare(_timed("original", [10.0] * 3), _timed("rewritten", [5.0] * 3), seed=1)
    assert not more_would_help(clear)


@pytest.mark.parametrize(("original", "rewritten", "reason"), [
    ([10.0], [5.0, 5.0], "1 timed processes of the original"),
    ([10.0, 10.0], [], "0 timed processes of the rewritten"),
    ([10.0, 10.0], [5.0, math.nan], "process 3 of the rewritten script timed no steps"),
    ([10.0, 0.0], [5.0, 5.0], "process 2 of the original script timed no steps"),
])  # fmt: skip
def test_what_was_not_timed_is_inconclusive(original: list[float], rewritten: list[float], reason: str) -> None:
    speed = compare(_timed("original", original), _timed("rewritten", rewritten), seed=1)
    assert speed.verdict is Verdict.INCONCLUSIVE
    assert reason in speed.reason


def test_an_empty_window_is_inconclusive() -> None:
    original, rewritten = _timed("original", [10.0] * 3), _timed("rewritten", [5.0] * 3)
    rewritten[1] = evolve(rewritten[1], step_ms=())
    assert compare(original, rewritten, seed=1).verdict is Verdict.INCONCLUSIVE


def test_a_longer_start_is_earned_back() -> None:
    original = _timed("original", [10.0, 10.1, 9.9], start=2.0)
    slow = _timed("rewritten", [8.0, 8.1, 7.9], start=12.0, compiled=9.0)
    assert compare(original, slow, seed=1).break_even_step == 5000
    compiled_later = _timed("rewritten", [8.0, 8.1, 7.9], start=2.0, compiled=32.0)
    assert compare(original, compiled_later, seed=1).break_even_step == 15000
    quick = _timed("rewritten", [8.0, 8.1, 7.9], start=1.9)
    assert compare(original, quick, seed=1).break_even_step is None
    original[0] = evolve(original[0], first_step_seconds=20.0)
    assert compare(original, slow, seed=1).break_even_step is None


@pytest.mark.parametrize(("figures", "beside", "verdict", "reason"), [
    ((12.7, 10.0), {}, Verdict.PROVEN, "beyond the noise of"),
    ((12.7, 10.0), {"load": 0.01}, Verdict.PROVEN, "beyond the noise of"),
    ((12.7, 10.0), {"load": 0.4}, Verdict.INCONCLUSIVE, "took 40% of the processors' time; time it"),
    ((12.7, 10.0), {"device_load": 0.3}, Verdict.INCONCLUSIVE, "other processes took 30% of the GPU's time; time"),
    ((12.7, 10.0), {"throttled": "thermal slowdown"}, Verdict.INCONCLUSIVE, r"in 3 of 6 processes \(thermal"),
    ((10.0, 12.7), {"load": 0.4}, Verdict.INCONCLUSIVE, "slower: .* other processes took 40%"),
    ((40.0, 10.0), {"load": 0.4}, Verdict.PROVEN, "beyond the noise of 68.7%"),
    ((10.0, 10.0), {"load": 0.4}, Verdict.NO_CHANGE, "within the noise of .*; other processes took 40%"),
])  # fmt: skip
def test_what_ran_beside_one_side_has_to_be_cleared_too(
    figures: tuple[float, float], beside: dict[str, Any], verdict: Verdict, reason: str
) -> None:
    original, rewritten = (
        _timed(side, [figure, 1.01 * figure, figure])
        for side, figure in zip(("original", "rewritten"), figures, strict=True)
    )
    for loaded, other in (
        ([evolve(run, **beside) for run in original], rewritten),
        (original, [evolve(run, **beside) for run in rewritten]),
    ):
        speed = compare(loaded, other, seed=1)
        assert speed.verdict is verdict, speed.reason
        assert re.search(reason, speed.reason)


def test_too_good_is_suspicious() -> None:
    speed = compare(_timed("original", [10.0] * 3), _timed("rewritten", [0.5] * 3), seed=1)
    assert speed.verdict is Verdict.PROVEN
    assert "20.0x" in too_good(speed)
    assert "20.0x" in too_good(speed, before_ms=2.6)
    assert too_good(speed, before_ms=2.4) == ""
    plain = compare(_timed("original", [10.0] * 3), _timed("rewritten", [5.0] * 3), seed=1)
    assert too_good(plain, busy_ms=4.9) == ""
    assert "less than the 7 ms" in too_good(plain, busy_ms=7.0)
    assert too_good(Speed(Verdict.INCONCLUSIVE, "no processes"), busy_ms=7.0) == ""


def test_it_is_quick() -> None:
    original, rewritten = run(Machine(), 5, "quick")
    long = [[evolve(timed, step_ms=timed.step_ms * 200) for timed in side] for side in (original, rewritten)]
    start = time.process_time()
    compare(long[0], long[1], seed=1)
    assert time.process_time() - start < 1.0
