"""The P-run: which lines wait, how long, and what a step copies."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import harness_child
import pytest

from perfmod.verify.job import Mode

ON_CPU = """
import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range({steps}):
    optimizer.zero_grad()
    loss = model(torch.randn(2, 4)).sum()
    loss.backward()
    loss.item()
    optimizer.step()
print("the end")
"""


def profiled(folder: Path, script: str, device: str = "cpu", **job: Any) -> harness_child.Child:
    settings = {"warmup_steps": 3, "sync_steps": 4, "profile_steps": 5, **job}
    return harness_child.run(folder, script, Mode.PROFILE, device, **settings)


def test_on_the_cpu_nothing_waits(tmp_path: Path) -> None:
    child = profiled(tmp_path, ON_CPU.format(steps=50))
    expected = {"sync_steps": 4, "syncs": [], "profile_steps": 5, "trace": None, "own_profiler": False}
    assert {name: child.record[name] for name in expected} == expected
    assert (child.record["ended"], child.record["steps"], child.stdout) == ("steps", {"0": 12}, "")


def test_steps_of_which_only_the_time_is_taken(tmp_path: Path) -> None:
    child = profiled(tmp_path, ON_CPU.format(steps=50), plain_steps=6)
    assert child.record["steps"] == {"0": 18}
    plain = child.record["plain"]
    assert (plain["steps"], plain["loader_ms"], plain["loaders"]) == (6, 0.0, [])
    assert plain["step_ms"] > 0
    assert (child.record["work"], child.record["memory"], child.record["on_cpu"]) == (None, None, False)


@pytest.mark.parametrize(("steps", "watched", "profiled_steps"), [(2, 0, 0), (5, 2, 0), (10, 4, 3)])
def test_a_script_that_ends_early(tmp_path: Path, steps: int, watched: int, profiled_steps: int) -> None:
    child = profiled(tmp_path, ON_CPU.format(steps=steps))
    assert (child.record["ended"], child.stdout) == ("exit", "the end\n")
    assert (child.record["sync_steps"], child.record["profile_steps"]) == (watched, profiled_steps)


def test_a_script_with_a_profiler_of_its_own(tmp_path: Path) -> None:
    script = ON_CPU.format(steps=50).replace(
        "for step in range(50):",
        "profiler = torch.profiler.profile(schedule=torch.profiler.schedule(wait=2, warmup=1, active=9))\n"
        "profiler.start()\nfor step in range(50):\n    profiler.step()",
    )
    child = profiled(tmp_path, script)
    assert child.record["own_profiler"] is True
    assert (child.record["ended"], child.status) == ("steps", 0)


# On a device

HEAD = """
import warnings

import torch
from torch.nn.utils import clip_grad_norm_

device = torch.device("cuda")
generator = torch.Generator().manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
host = torch.randn(64, 256, generator=generator)
pinned = host.pin_memory()
inputs = host.to(device)
target = torch.randint(0, 2, (64, 4), generator=generator).to(device)
mask = target > 0
heavy = torch.randn(4096, 4096, device=device)


def penalty(weights):
    values, _ = torch.unique(weights > 0, return_inverse=True)
    return values.sum()


def train(step):
    optimizer.zero_grad()
    output = model(inputs)
    loss = (output - target).square().mean()
    {line}
    loss.backward()
    optimizer.step()


for step in range({steps}):
    if step == 1:  # before the harness looks: how often does torch itself warn?
        torch.cuda.set_sync_debug_mode("warn")
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            train(step)
        torch.cuda.set_sync_debug_mode("default")
        print(len(seen))
    train(step)
"""
LINE = HEAD[: HEAD.index("{line}")].count("\n") + 1


def waiting(folder: Path, line: str) -> dict[str, Any]:
    """The record of 4 steps whose synchronisations were watched, as many as torch itself has told the script of."""
    child = profiled(folder, HEAD.format(line=line, steps=50), "cuda")
    record = child.record
    assert record["ended"] == "steps", child.stderr
    assert record["sync_steps"] == 4
    assert sum(row["count"] for row in record["syncs"]) == 4 * int(child.stdout)
    return record


@pytest.mark.cuda
@pytest.mark.parametrize(("line", "at_least"), [
    ("loss.item()", 1),
    ("found = torch.nonzero(mask)", 1),
    ("chosen = output[mask]", 1),
    ("again = host.to(device)", 1),
    ("again = pinned.to(device)", 1),
    ("good = 1 if loss > 0 else 0", 1),
    ("text = f'{loss:.4f}'", 1),
    ("one = loss.item() + output.sum().item()", 2),
    ("again = pinned.to(device, non_blocking=True)", 0),
    ("output = output.masked_fill(mask, 0.0)", 0),
    ("norm = clip_grad_norm_(model.parameters(), 1.0)", 0),
])  # fmt: skip
def test_the_line_that_waits(tmp_path: Path, line: str, at_least: int) -> None:
    record = waiting(tmp_path, line)
    rows = [(row["file"], row["line"], row["function"]) for row in record["syncs"]]
    assert rows == ([("train.py", LINE, "train")] if at_least else [])
    assert sum(row["count"] for row in record["syncs"]) >= 4 * at_least


@pytest.mark.cuda
def test_a_library_that_waits_for_the_user_s_line(tmp_path: Path) -> None:
    record = waiting(
        tmp_path,
        "loss.backward(retain_graph=True); clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)",
    )
    (row,) = record["syncs"]
    assert (row["file"], row["line"], row["function"], row["count"]) == ("train.py", LINE, "train", 4)
    assert row["inside"].startswith("torch/nn/utils/clip_grad.py:")


@pytest.mark.cuda
def test_the_innermost_line_of_the_user_s(tmp_path: Path) -> None:
    record = waiting(tmp_path, "extra = penalty(model[0].weight)")
    places = {(row["file"], row["function"]) for row in record["syncs"]}
    assert places == {("train.py", "penalty")}
    assert all(row["line"] < LINE for row in record["syncs"])


@pytest.mark.cuda
def test_a_hook_that_waits_in_the_thread_of_the_backward_pass(tmp_path: Path) -> None:
    hook = "loss.register_hook(lambda gradient: torch.nonzero(mask)[0, 0] * 0.0 + gradient)"
    record = waiting(tmp_path, hook)
    assert {(row["file"], row["line"], row["function"]) for row in record["syncs"]} == {("train.py", LINE, "<lambda>")}


@pytest.mark.cuda
def test_how_long_a_line_waits(tmp_path: Path) -> None:
    # 2e12 operations come before the first and nothing before the second: more than 5 ms on any device of today.
    work = "for _ in range(16): heavy @ heavy\n    "
    record = waiting(tmp_path, f"{work}loss.item()\n    output.sum().item()")
    first, second = sorted(record["syncs"], key=lambda row: row["line"])
    assert (first["count"], second["count"]) == (4, 4)
    assert first["ms"] / 4 > 5.0 > 10 * second["ms"] / 4
    trace = record["trace"]
    assert 0.5 * first["ms"] / 4 < trace["sync_ms"] < trace["step_ms"]
    assert trace["busy_share"] > 0.7


@pytest.mark.cuda
@pytest.mark.parametrize(("line", "pageable", "to_device", "from_device"), [
    ("again = host.to(device)", 65536, 65536, 0),
    ("again = pinned.to(device, non_blocking=True)", 0, 65536, 0),
    ("back = inputs.cpu()", 0, 0, 65536),
    ("pass", 0, 0, 0),
])  # fmt: skip
def test_what_a_step_copies(tmp_path: Path, line: str, pageable: int, to_device: int, from_device: int) -> None:
    trace = waiting(tmp_path, line)["trace"]
    assert (trace["pageable_bytes"], trace["to_device_bytes"], trace["from_device_bytes"]) == (
        pageable,
        to_device,
        from_device,
    )
    assert trace["kernels"] == int(trace["kernels"]) > 5
    assert 0 < trace["busy_share"] < 1
    assert trace["step_ms"] > 0


@pytest.mark.cuda
def test_what_the_device_does_and_has(tmp_path: Path) -> None:
    script = HEAD.format(line="loss.item()", steps=60)
    record = profiled(tmp_path, script, "cuda", plain_steps=5).record
    assert record["plain"]["steps"] == 5
    assert sum(row[0] for row in record["work"].values()) >= record["trace"]["kernels"]
    busy = record["trace"]["busy_share"] * record["trace"]["step_ms"]
    assert sum(row[1] for row in record["work"].values()) >= 0.99 * busy
    assert 0 < record["memory"]["peak_reserved_mib"] < record["memory"]["total_mib"]


@pytest.mark.cuda
def test_what_the_script_does_with_warnings_hides_nothing(tmp_path: Path) -> None:
    quiet = "import warnings; warnings.simplefilter('ignore')\n    "
    record = profiled(tmp_path, HEAD.format(line=f"{quiet}loss.item()", steps=50), "cuda").record
    assert Counter({row["line"]: row["count"] for row in record["syncs"]}) == {LINE + 1: 4}


@pytest.mark.cuda
def test_a_profiler_of_the_script_s_own_on_a_device(tmp_path: Path) -> None:
    for name, line in (
        ("before", "torch.autograd.profiler.profile().__enter__() if step == 0 else None; loss.item()"),
        ("meanwhile", "torch.autograd.profiler.profile().__enter__() if step == 5 else None; loss.item()"),
    ):
        (tmp_path / name).mkdir()
        record = waiting(tmp_path / name, line)
        assert (record["own_profiler"], record["trace"]) == (True, None)
        assert [(row["line"], row["count"], row["ms"]) for row in record["syncs"]] == [(LINE, 4, 0.0)]


@pytest.mark.cuda
def test_what_comes_after_the_last_step_belongs_to_none(tmp_path: Path) -> None:
    script = HEAD.format(line="loss.item()", steps=5) + "print(inputs.sum().item() != 0)\n"
    record = profiled(tmp_path, script, "cuda").record
    assert (record["ended"], record["sync_steps"], record["trace"]) == ("exit", 3, None)
    assert [(row["line"], row["count"]) for row in record["syncs"]] == [(LINE, 3)]
