"""The E-run on a device: nothing in a step waits for it, and a run is equal to itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import harness_child
import pytest

from perfmod.verify.job import Mode
from perfmod.verify.trace import Trace

pytestmark = pytest.mark.cuda

TRAINING = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Dropout(0.2), nn.Flatten(), nn.Linear(16 * 36, 5)
).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=FUSED)
scaler = torch.amp.GradScaler("cuda", enabled=HALF)
x = torch.randn(64, 3, 8, 8, device="cuda")
y = torch.arange(64, device="cuda") % 5


def step():
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16, enabled=HALF):
        loss = nn.functional.cross_entropy(model(x + torch.randn_like(x)), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


def recorded(folder: Path, script: str, *, fused: bool = False, half: bool = False, **job: Any) -> Trace:
    folder.mkdir(exist_ok=True)
    script = script.replace("FUSED", str(fused)).replace("HALF", str(half))
    child = harness_child.run(folder, script, Mode.EQUALITY, device="cuda", steps=5, **job)
    assert child.status == 0, child.stderr
    assert child.record["on_cpu"] is False
    environment = json.loads((child.out / "rank0.json").read_text(encoding="utf-8"))["environment"]
    assert environment["gpu"]
    assert environment["cuda"]
    return Trace.load(child.out / "rank0.json")


def test_no_step_waits_for_the_device(tmp_path: Path) -> None:
    # In the last step it is asked whether weights are held in half precision, and all is fetched.
    script = TRAINING + "for at in range(9): torch._C._cuda_set_sync_debug_mode(2 if at < 4 else 0); step()\n"
    trace = recorded(tmp_path, script)
    assert (trace.ended, trace.steps, len(trace.losses())) == ("steps", {"0": 5}, 5)
    assert 1.0 < trace.losses()[0] < 3.0
    noisy = recorded(tmp_path / "noisy", script, perturb=1.0)
    assert noisy != trace
    assert noisy.losses()[0] == pytest.approx(trace.losses()[0], rel=1e-4)


@pytest.mark.parametrize(("fused", "half"), [(False, False), (False, True), (True, True)])
def test_a_run_is_equal_to_itself(tmp_path: Path, *, fused: bool, half: bool) -> None:
    script = TRAINING + "for _ in range(12): step()\n"
    one, other = (recorded(tmp_path / name, script, fused=fused, half=half) for name in ("one", "other"))
    assert one == other
    assert one.half is half
    assert one.steps == {"0": 5}
    assert one.backwards == 5 + one.skipped


CAPTURED = """
stream = torch.cuda.Stream()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    for _ in range(2):
        step()
torch.cuda.current_stream().wait_stream(stream)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    step()
for _ in range(5):
    graph.replay()
print(next(model.parameters()).sum().item())
"""


def test_nothing_gets_into_a_graph_that_is_captured(tmp_path: Path) -> None:
    script = (TRAINING + CAPTURED).replace("fused=FUSED", "capturable=True")
    trace = recorded(tmp_path, script)
    # Replays call nothing; the two steps before, and the one that was captured, are all that can be seen.
    assert (trace.ended, trace.steps) == ("exit", {"0": 3})
    assert len(trace.losses()) == 2


@pytest.mark.parametrize(("dropout", "noise"), [(True, False), (False, True), (False, False)])
def test_whether_steps_draw_on_the_device(tmp_path: Path, *, dropout: bool, noise: bool) -> None:
    script = TRAINING if dropout else TRAINING.replace("nn.Dropout(0.2), ", "")
    script = script if noise else script.replace(" + torch.randn_like(x)", "")
    script = script.replace("FUSED", "False").replace("HALF", "False") + "for _ in range(9): step()\n"
    child = harness_child.run(tmp_path, script, Mode.EQUALITY, device="cuda", steps=5)
    assert child.record["draws_on_devices"] is (dropout or noise)


def test_training_on_the_cpu_beside_a_device(tmp_path: Path) -> None:
    script = TRAINING.replace('"cuda"', '"cpu"').replace(").cuda()", ")").replace("fused=FUSED", "fused=False")
    script += "torch.cuda.init()\nfor _ in range(9): step()\n"
    child = harness_child.run(tmp_path, script.replace("HALF", "False"), Mode.EQUALITY, device="cuda", steps=5)
    assert child.record["on_cpu"] is True
