"""The T-run: its warm-up, its window, and what it says of scripts that end early."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import harness_child
import pytest

from perfmod.verify.harness.perfmod_harness.warm_up import WarmUp
from perfmod.verify.job import Mode

SCRIPT = """
import sys, time
import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{before}
for step in range({steps}):
    optimizer.zero_grad()
    model(torch.randn(2, 4)).sum().backward()
    time.sleep(0.002)
    optimizer.step()
    {after}
print("the end")
"""


def timed(folder: Path, steps: int, before: str = "", after: str = "pass", **job: Any) -> harness_child.Child:
    script = SCRIPT.format(steps=steps, before=before, after=after)
    settings = {"warmup_steps": 12, "warmup_seconds": 0.0, "window_steps": 20, "window_seconds": 0.1, **job}
    return harness_child.run(folder, script, Mode.TIMING, **settings)


# The warm-up


def warm_after(durations: list[float], steps: int, seconds: float, compiled: int = 0, prepared: int = 0) -> int:
    """Number of the step after which the training is warm, when its steps take so long, the last one for ever."""
    warm_up = WarmUp(steps, seconds)
    now = 0.0
    endless = itertools.chain(durations, itertools.repeat(durations[-1]))
    for step, duration in enumerate(itertools.islice(endless, 1000), start=1):
        now += duration if step > 1 else 0.0
        if warm_up.step(now, min(step, compiled), prepared):
            return step
    raise AssertionError("never warm")


def test_equal_steps_are_warm_when_the_steps_asked_for_are_done() -> None:
    assert warm_after([0.1], steps=30, seconds=1.0) == 30


def test_and_when_the_seconds_asked_for_have_passed_since_the_end_of_the_first_step() -> None:
    assert warm_after([0.125], steps=3, seconds=5.0) == 41


def test_ten_steps_are_compared_even_where_fewer_were_asked_for() -> None:
    assert warm_after([0.1], steps=8, seconds=0.0) == 11


def test_slower_steps_at_the_beginning_are_waited_for() -> None:
    # From step 12 on they are fast; those are most of the older five of ten at step 19.
    assert warm_after([0.3] * 11 + [0.1], steps=14, seconds=0.0) == 19


def test_what_never_settles_is_warm_after_three_times_the_time() -> None:
    growing = [0.01 * 1.25**step for step in range(60)]
    steps = warm_after(growing, steps=12, seconds=0.0)
    elapsed = [sum(growing[1:step]) for step in range(len(growing))]
    assert elapsed[steps - 1] < 3 * elapsed[12] <= elapsed[steps]


def test_but_not_later_than_half_a_minute_after_it() -> None:
    swinging = [1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0] * 50
    assert warm_after(swinging, steps=40, seconds=0.0) == 60


def test_nothing_may_have_been_compiled_during_the_last_five_steps() -> None:
    assert warm_after([0.1], steps=20, seconds=0.0, compiled=18) == 23


def test_batches_that_the_workers_had_ready_are_used_up() -> None:
    assert warm_after([0.1], steps=20, seconds=0.0, prepared=32) == 33


# The run


def test_the_window_is_as_long_as_the_job_says(tmp_path: Path) -> None:
    child = timed(tmp_path, steps=5000)
    record = child.record
    assert (record["ended"], child.status, child.stdout) == ("steps", 0, "")
    assert record["window_steps"] == len(record["step_ms"]) >= 20
    assert record["window_ms"] == [pytest.approx(1000 * record["window_seconds"] / record["window_steps"])]
    assert record["window_seconds"] >= 0.1
    assert sum(record["step_ms"]) / 1000 == pytest.approx(record["window_seconds"], rel=0.02)
    assert all(2.0 <= step < 1000 for step in record["step_ms"])
    assert record["warmup_steps"] >= 12
    assert record["steps"] == {"0": record["warmup_steps"] + record["window_steps"]}
    assert 0 < record["first_step_seconds"] < record["seconds"]
    assert record["compile_seconds"] == record["recompiled_in_window"] == 0
    assert record["peak_allocated_mib"] is record["peak_reserved_mib"] is None


def test_the_steps_of_the_optimizer_that_stepped_first_are_timed(tmp_path: Path) -> None:
    other = "other = torch.optim.Adam(model.parameters())"
    record = timed(tmp_path, steps=5000, before=other, after="other.step(); other.step()").record
    assert record["steps"] == {"0": record["warmup_steps"] + record["window_steps"]}
    assert min(record["step_ms"]) >= 2.0


def test_the_window_is_longer_than_three_times_what_the_workers_prepare(tmp_path: Path) -> None:
    loader = "loader = torch.utils.data.DataLoader([0], num_workers=4, prefetch_factor=5)"
    record = timed(tmp_path, steps=5000, before=loader).record
    assert record["window_steps"] == 61
    assert record["warmup_steps"] > 20
    known = {"workers": 4, "prefetch": 5, "pin_memory": False, "persistent": False, "batch_size": 1, "batches": None}
    assert record["loaders"] == [known]


def test_the_longest_time_ends_the_window_once_it_has_ten_steps(tmp_path: Path) -> None:
    record = timed(tmp_path, steps=5000, window_steps=1000, longest_seconds=0.2).record
    assert record["ended"] == "steps"
    assert 10 <= record["window_steps"] < 150
    assert record["window_seconds"] >= 0.2
    (tmp_path / "slow").mkdir()
    slow = timed(tmp_path / "slow", steps=5000, after="time.sleep(0.03)", window_steps=1000, longest_seconds=0.1)
    assert slow.record["window_steps"] == 10


def test_a_script_that_swallows_the_stop_is_stopped_at_every_further_step(tmp_path: Path) -> None:
    script = SCRIPT.format(steps=2000, before="", after="pass").replace(
        "    optimizer.step()",
        """
    try:
        optimizer.step()
    except BaseException as stop:
        print("swallowed", type(stop).__name__)
        if step % 3 == 0: raise
""",
    )
    settings = {"warmup_steps": 12, "warmup_seconds": 0.0, "window_steps": 20, "window_seconds": 0.1}
    child = harness_child.run(tmp_path, script, Mode.TIMING, **settings)
    assert set(child.stdout.splitlines()) == {"swallowed Enough"}
    assert child.status == 0
    assert sum(child.record["steps"].values()) == child.record["warmup_steps"] + child.record["window_steps"]


def test_a_window_that_was_begun_is_used(tmp_path: Path) -> None:
    record = timed(tmp_path, steps=80, window_seconds=60.0).record
    assert record["ended"] == "exit"
    assert record["warmup_steps"] + record["window_steps"] == 80
    assert record["window_steps"] >= 10
    assert record["window_seconds"] == pytest.approx(sum(record["step_ms"]) / 1000)


def test_without_a_window_the_steps_after_the_warm_up_are_used(tmp_path: Path) -> None:
    record = timed(tmp_path, steps=30, warmup_seconds=60.0).record
    assert (record["ended"], record["warmup_steps"], record["window_steps"]) == ("exit", 12, 18)


@pytest.mark.parametrize(("steps", "ended", "fewest"), [(5000, "steps", 40), (60, "exit", 5), (4, "exit", 0)])
def test_each_turn_has_a_warm_up_and_a_window(tmp_path: Path, steps: int, ended: str, fewest: int) -> None:
    folder = tmp_path / "turns"
    folder.mkdir()
    (folder / "free").touch()
    turns = {"turns": str(folder), "turn_count": 2, "window_seconds": 0.0}
    record = timed(tmp_path, steps=steps, **turns).record
    assert record["ended"] == ended
    assert record["window_steps"] == len(record["step_ms"])
    assert record["window_steps"] >= fewest
    # What was made beside others is left out, and a script that ends so early is not timed.
    assert record["warmup_steps"] >= min(steps, 24)
    assert len(list(folder.glob("0-*.ready"))) == 3


@pytest.mark.parametrize(("steps", "warm"), [(21, 7), (16, 5), (8, 2)])
def test_of_few_steps_those_after_the_first_third_are_used(tmp_path: Path, steps: int, warm: int) -> None:
    record = timed(tmp_path, steps=steps).record
    assert (record["ended"], record["warmup_steps"], record["window_steps"]) == ("exit", warm, steps - warm)


def test_fewer_than_five_are_no_measurement(tmp_path: Path) -> None:
    child = timed(tmp_path, steps=5)
    record = child.record
    assert (record["ended"], record["window_steps"], record["step_ms"]) == ("exit", 0, [])
    assert child.stdout == "the end\n"


def test_a_script_without_a_step(tmp_path: Path) -> None:
    record = timed(tmp_path, steps=0).record
    assert (record["ended"], record["window_steps"], record["warmup_steps"]) == ("exit", 0, 0)


def test_an_error_is_kept_with_what_was_measured(tmp_path: Path) -> None:
    child = timed(tmp_path, steps=80, after="1 / (79 - step)", window_seconds=60.0)
    assert child.record["ended"] == "error"
    assert child.record["window_steps"] >= 10
    assert child.record["error"]["type"] == "ZeroDivisionError"
    assert "ZeroDivisionError" in child.stderr
    assert child.status == 1


def test_compilations_are_waited_for_and_their_time_is_kept(tmp_path: Path) -> None:
    compiled = "model = torch.compile(model, backend='eager'); torch.compile(optimizer.step, backend='eager')"
    record = timed(tmp_path, steps=5000, before=compiled).record
    assert record["ended"] == "steps"
    assert record["compile_seconds"] > 0
    assert record["recompiled_in_window"] == 0
    assert record["compile_seconds"] < record["seconds"]


def test_a_compilation_within_the_window_is_counted(tmp_path: Path) -> None:
    late = "if step == 60: torch.compile(lambda x: x + 1, backend='eager')(torch.ones(3))"
    record = timed(tmp_path, steps=5000, after=late, window_steps=100).record
    assert record["warmup_steps"] < 60
    assert record["recompiled_in_window"] == 1


@pytest.mark.parametrize(("own", "wanted"), [("", [3, 1]), ("if step == 2: torch.set_num_threads(5)", [5, 5])])
def test_few_threads_are_used_beside_others(tmp_path: Path, own: str, wanted: list[int]) -> None:
    folder = tmp_path / "turns"
    folder.mkdir()
    (folder / "free").touch()
    turns = {"turns": str(folder), "turn_count": 1, "window_seconds": 0.0, "threads": 3}
    # Of itself it has a single thread.
    after = f"{own}\n    if step in (5, 60): print(torch.get_num_threads())"
    child = timed(tmp_path, steps=5000, after=after, **turns)
    assert [int(each) for each in child.stdout.split() if each.isdigit()] == wanted


def test_a_turn_in_which_something_is_compiled_is_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "turns"
    folder.mkdir()
    (folder / "free").touch()
    late = "if step == 200: torch.compile(lambda x: x + 1, backend='eager')(torch.ones(3))"
    turns = {"turns": str(folder), "turn_count": 2, "window_seconds": 0.0, "window_steps": 150}
    record = timed(tmp_path, steps=5000, after=late, **turns).record
    assert (record["window_steps"], record["recompiled_in_window"]) == (150, 0)
    assert max(record["step_ms"]) < 1000 * record["compile_seconds"]


def test_ranks_that_are_done_at_different_steps_wait_for_each_other(tmp_path: Path) -> None:
    script = """
import os, sys, time
import torch
from torch import distributed, multiprocessing


def work(rank, rendezvous):
    distributed.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=2)
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while True:
        model(torch.randn(2, 4)).sum().backward()
        for parameter in model.parameters():
            distributed.all_reduce(parameter.grad)
        optimizer.step()
        time.sleep(0.005 * rank)  # the next step begins for both when this one is over


if __name__ == "__main__":
    multiprocessing.spawn(work, ("file://" + os.path.abspath("meeting"),), nprocs=2)
"""
    settings = {"warmup_steps": 12, "warmup_seconds": 0.0, "window_steps": 20, "window_seconds": 0.2}
    first = harness_child.run(tmp_path, script, Mode.TIMING, **settings).record
    second = json.loads((tmp_path / "out" / "rank1.json").read_text(encoding="utf-8"))
    assert [each["ended"] for each in (first, second)] == ["steps", "steps"]
    assert min(first["window_steps"], second["window_steps"]) >= 20


CUDA_SCRIPT = """
import torch

model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(8)]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
data = torch.randn(4096, 2048, device="cuda")
warm = torch.empty(2**28, device="cuda")  # 1 GiB, for a moment
del warm
while True:
    optimizer.zero_grad()
    model(data).square().mean().backward()
    optimizer.step()
"""


@pytest.mark.cuda
def test_on_a_device_the_steps_are_as_long_as_the_work(tmp_path: Path) -> None:
    child = harness_child.run(tmp_path, CUDA_SCRIPT, Mode.TIMING, "cuda", window_seconds=1.0)
    record = child.record
    assert record["ended"] == "steps"
    assert child.status == 0
    # The host runs ahead: its own clock would show steps far shorter than the device's.
    assert sum(record["step_ms"]) / 1000 == pytest.approx(record["window_seconds"], rel=0.02)
    assert record["window_seconds"] >= 1.0
    # Others may use the device as well, which makes some steps longer and none shorter.
    spread = sorted(record["step_ms"])
    assert spread[len(spread) // 10] > 0.5 * spread[len(spread) // 2]
    # The peak is that of the window, not of what came before.
    assert 0 < record["peak_allocated_mib"] < 1024 < record["peak_reserved_mib"]


@pytest.mark.cuda
def test_on_a_device_short_steps_are_timed_together(tmp_path: Path) -> None:
    script = CUDA_SCRIPT.replace("2048", "32").replace("4096", "32")
    record = harness_child.run(tmp_path, script, Mode.TIMING, "cuda", window_seconds=1.0).record
    # Repeated where steps were timed together; the last few may not have been timed alone.
    assert len(set(record["step_ms"])) < 0.5 * len(record["step_ms"])
    assert 0.9 * record["window_steps"] < len(record["step_ms"]) <= record["window_steps"]
    assert sum(record["step_ms"]) / len(record["step_ms"]) == pytest.approx(
        1000 * record["window_seconds"] / record["window_steps"], rel=0.02
    )


@pytest.mark.cuda
def test_a_step_in_a_cuda_graph_is_left_alone(tmp_path: Path) -> None:
    script = """
import torch

weight = torch.nn.Parameter(torch.zeros(8, device="cuda"))
weight.grad = torch.ones(8, device="cuda")
optimizer = torch.optim.SGD([weight], lr=1.0)
for step in range(3):
    optimizer.step()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    optimizer.step()
for step in range(5):
    graph.replay()
torch.cuda.synchronize()
print(weight[0].item())
"""
    child = harness_child.run(tmp_path, script, Mode.TIMING, "cuda", warmup_steps=1, warmup_seconds=0.0)
    assert (child.record["ended"], child.stdout, child.status) == ("exit", "-8.0\n", 0)
