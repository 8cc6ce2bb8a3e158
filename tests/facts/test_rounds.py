"""When code runs: what no step is known to come by is held back where a rewrite saves nothing but time in steps."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import pytest

from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite_together
from perfmod.codemods.results import Choice, Given
from tests.support.snippets import dotted_names

LOSS = """\
import torch


def hinge_losses(outputs):
    total, values = 0, []
    for output in outputs:
        loss = torch.relu(1 - output).mean()
        total = total + loss
        values.append(loss.item())
    return total, values


def on_gpu(model):
    return model.cuda()
"""
STEP = """\
import torch
from losses import hinge_losses

for x in loader:
    optimizer.zero_grad()
    total, values = hinge_losses(model(x.cuda()))
    total.backward()
    optimizer.step()
"""


def held_back(files: Mapping[str, str], path: str) -> list[str]:
    """The reasons of what all rules hold back in a file."""
    given = [Given(name, textwrap.dedent(code).encode(), dotted_names(name)) for name, code in files.items()]
    results = {result.path: result for result in rewrite_together(given, catalog.rules(), Choice())}
    return [finding.reason for finding in results[path].held_back]


def test_loops_that_no_step_is_known_to_run() -> None:
    reason = "no training step runs the loop on line 6"
    assert held_back({"losses.py": LOSS}, "losses.py") == [reason]
    assert reason not in held_back({"losses.py": LOSS, "train.py": STEP}, "losses.py")


@pytest.mark.parametrize("decorator", ["@torch.no_grad()", "@timed"])
@pytest.mark.parametrize("switch", ["model.eval()", "print(len(batches))"])
def test_evaluations_in_files_of_their_own(switch: str, decorator: str) -> None:
    code = f"""\
import torch

{decorator}
def evaluate(model, batches):
    {switch}
    total = 0.0
    for x, y in batches:
        total += torch.nn.functional.mse_loss(model(x.cuda()), y.cuda()).item()
    return total
"""
    assert not any("no training step" in reason for reason in held_back({"engine.py": code}, "engine.py"))


@pytest.mark.parametrize(("device", "is_cpu"), [('"cpu"', True), ('"cuda"', False), ("args.device", False)])
def test_batches_that_a_script_moves_to_the_cpu(device: str, *, is_cpu: bool) -> None:
    code = f"""\
import torch
from nets import layer

loader = torch.utils.data.DataLoader(data)
device = {device}
model = layer()
total = 0.0
with torch.no_grad():
    for x, y in loader:
        total += torch.nn.functional.mse_loss(model(x.to(device)), model(y.to(device))).item()
print(total)
"""
    layers = "def on_gpu(layer):\n    return layer.cuda()\n"
    reasons = held_back({"check.py": code, "layers.py": layers}, "check.py")
    assert ("line 10 moves the batch to the CPU, where nothing waits" in reasons) is is_cpu
