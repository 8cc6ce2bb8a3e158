"""The rules that trade digits for speed: what they write in which settings, and what keeps them away."""

from __future__ import annotations

import pytest

from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, FileResult
from perfmod.transforms.policy import CompileMode, HalfType, Policy

SCRIPT = """\
import copy
import torch
import torch.nn.functional as F
from torch import nn
{extra}

device = torch.device("cuda")
model = {model}
model.to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step, (x, y) in enumerate(loader):
    x, y = x.to(device), y.to(device)
    output = model(x)
    loss = {loss}
    {before}
    loss.backward()
    {stepping}
"""
LOSS = "F.cross_entropy(output, y)"
CONVOLUTION = "nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8, 4))"


def written(code: str, policy: Policy = Policy(), *, preset: str = "fast", **parts: str) -> FileResult:
    """What becomes of the script, with some of its parts."""
    usual = {"extra": "", "model": CONVOLUTION, "before": "pass", "loss": LOSS, "stepping": "optimizer.step()"}
    text = SCRIPT.format(**{**usual, **parts})
    rules = [rule for rule in catalog.rules() if rule.code == code or code == "ALL"]
    opted_in = catalog.opted_in(catalog.rules(), [preset])
    return rewrite(text.encode(), "train.py", rules, Choice(opted_in=opted_in, policy=policy))


def added(result: FileResult) -> list[str]:
    """The lines that a rewrite adds, or changes to."""
    before = result.before.decode().splitlines()
    return [line.strip() for line in result.after.decode().splitlines() if line not in before]


@pytest.mark.parametrize(("code", "lines"), [
    ("PM302", ['torch.set_float32_matmul_precision("high")']),
    ("PM303", ["model.compile()"]),
    ("PM304", ["optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)"]),
    ("PM305", ["model.to(memory_format=torch.channels_last)"]),
    ("PM309", ["torch.backends.cudnn.benchmark = True"]),
    ("PM301", ["with torch.autocast(device.type, dtype=torch.bfloat16):", "output = model(x)",
               "loss = F.cross_entropy(output, y)"]),
])  # fmt: skip
def test_what_each_writes(code: str, lines: list[str]) -> None:
    assert added(written(code)) == lines


def test_all_of_them_together_and_nothing_without_a_request() -> None:
    preset = written("ALL")
    assert {finding.code for finding in preset.applied} >= catalog.PRESETS["fast"] - {"PM306", "PM315"}
    compile(preset.after, "train.py", "exec")
    usual = written("ALL", preset="ALL")
    assert catalog.PRESETS["fast"].isdisjoint({finding.code for finding in usual.applied})


def test_modes_of_compiling() -> None:
    replayed = Policy(compile_mode=CompileMode.REDUCE_OVERHEAD)
    assert added(written("PM303", replayed)) == ['model.compile(mode="reduce-overhead")']
    accumulated = written("PM303", replayed, stepping="if step % 2 == 0: optimizer.step()")
    assert "gradients of several backward passes are added up" in accumulated.refused[0].reason
    twice = written("PM303", replayed, before="loss = loss + model(x + 1).mean()")
    assert "on lines 13, 15, and a replayed call overwrites" in twice.refused[0].reason
    assert added(written("PM303", before="loss = loss + model(x + 1).mean()")) == ["model.compile()"]


def test_what_a_model_gives_may_be_no_tensor() -> None:
    own = "def energy(output, y):\n    return sum(part.sum() for part in output.values())"
    (found,) = written("PM301", model="Detector()", extra=own, loss="energy(output, y)").held_back
    assert [(each.predicate, each.expression) for each in found.questions] == [("is-tensor", "output")]


WRAPPER = """\
class Schedule:
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def step(self):
        self.optimizer.param_groups[0]["lr"] *= 0.9
        self.optimizer.step()
"""
FLOAT16 = Policy(half_type=HalfType.FLOAT16)


def test_float16_is_scaled() -> None:
    found = written("PM301", FLOAT16)
    assert added(found) == [
        "scaler = torch.amp.GradScaler(device.type)",
        "with torch.autocast(device.type, dtype=torch.float16):",
        "output = model(x)",
        "loss = F.cross_entropy(output, y)",
        "scaler.scale(loss).backward()",
        "scaler.step(optimizer)",
        "scaler.update()",
    ]
    assert found.applied[0].min_torch == "2.3"


@pytest.mark.parametrize(("parts", "lines"), [
    ({"stepping": "scheduler.step(); optimizer.step()"},
     ["scheduler.step(); scaler.step(optimizer)", "scaler.update()"]),
    ({"stepping": "average_gradients(model)\n    optimizer.step()"},
     ["scaler.unscale_(optimizer)", "scaler.step(optimizer)", "scaler.update()"]),
    ({"stepping": "nn.utils.clip_grad_value_(model.parameters(), 1.0)\n    optimizer.step()"},
     ["scaler.unscale_(optimizer)", "scaler.step(optimizer)", "scaler.update()"]),
    ({"stepping": "for p in model.parameters():\n        p.grad.add_(0.1)\n    optimizer.step()"},
     ["scaler.unscale_(optimizer)", "scaler.step(optimizer)", "scaler.update()"]),
    ({"stepping": "optimizer.step()\n    for p in model.parameters():\n        p.grad = None"},
     ["scaler.step(optimizer)", "scaler.update()"]),
    ({"stepping": "if step % 2:\n        optimizer.step()\n    else:\n        optimizer.step()"},
     ["scaler.step(optimizer)", "scaler.update()", "scaler.step(optimizer)", "scaler.update()"]),
    ({"stepping": "if step % 2:\n        if step % 4:\n            optimizer.step()\n        print(step)"},
     ["scaler.step(optimizer)", "scaler.update()"]),
    ({"extra": "scaler = object()", "stepping": "optimizer.step()"},
     ["grad_scaler.step(optimizer)", "grad_scaler.update()"]),
])  # fmt: skip
def test_what_scales_the_steps(parts: dict[str, str], lines: list[str]) -> None:
    found = added(written("PM301", FLOAT16, **parts))
    assert [line for line in found if "torch.amp" not in line][-len(lines) :] == lines
    compile(written("PM301", FLOAT16, **parts).after, "train.py", "exec")


@pytest.mark.parametrize(("stepping", "reason"), [
    ("if step % 2 == 0: optimizer.step()", "stands in one line with its condition"),
    ("optimizer.step(lambda: loss)", "is given the function that evaluates the loss"),
    ("optimizer.step(); agent.step()", "whether `agent` on line 17 is an optimizer is not seen"),
    ("optimizer.step(); opt_sched.step()", "whether `opt_sched` on line 17 is an optimizer is not seen"),
    ("pass", "is elsewhere"),
    ("clip(optimizer)\n    optimizer.step()", "what `clip` on line 17 does with the optimizer is not seen"),
    ("optimizer.first_step()\n    optimizer.step()", "what `optimizer.first_step` on line 17 does"),
    ("optimizer.step()\n    optimizer.step()", "several steps in one iteration (lines 17, 18)"),
    ("for _ in range(2):\n        optimizer.step()", "in a loop of their own (line 17)"),
    ("print(model[0].weight.grad)\n    if step % 2:\n        optimizer.step()", "where no step has to follow"),
    ("if step % 2:\n        optimizer.step()\n    if step % 3:\n        optimizer.step()",
     "under a condition of its own"),
    ("if step:\n        optimizer.step()\n        continue\n    optimizer.step()", "is left out in some iterations"),
    ("norm = nn.utils.clip_grad_norm_(model.parameters(), 1)\n    if norm > 9:\n        continue\n    optimizer.step()",
     "line 19 leaves out the step after gradients were read"),
])  # fmt: skip
def test_what_cannot_be_scaled(stepping: str, reason: str) -> None:
    found = written("PM301", FLOAT16, stepping=stepping)
    assert not found.applied
    assert reason in found.refused[0].reason


def test_steps_without_gradients_are_refused() -> None:
    text = SCRIPT.format(extra="", model=CONVOLUTION, loss=LOSS, before="pass", stepping="optimizer.step()")
    text = text.replace("    loss.backward()", "    if step % 2:\n        loss.backward()")
    rules = [rule for rule in catalog.rules() if rule.code == "PM301"]
    found = rewrite(text.encode(), "train.py", rules, Choice(opted_in=frozenset({"PM301"}), policy=FLOAT16))
    assert not found.applied
    assert all("may be made without gradients" in each.reason for each in found.refused)


def test_what_wraps_an_optimizer_is_none() -> None:
    found = written("PM301", FLOAT16, extra=WRAPPER, before="opt = Schedule(optimizer)", stepping="opt.step()")
    assert not found.applied
    assert "whether `opt` on line 24 is an optimizer is not seen" in found.refused[0].reason


@pytest.mark.parametrize(("extra", "reason"), [
    ("import wandb\nwandb.watch(nn.Linear(1, 1))", "may read gradients while they are scaled"),
    ("from torch.distributed.fsdp import fully_shard", "takes a scaler of its own"),
    ("nn.Linear(1, 1).weight.register_hook(print)", "may read gradients while they are scaled"),
    ("from torch.autograd import grad; torch.autograd.grad", "would have to be scaled"),
    ("scaler = grad_scaler = gradient_scaler = None", "no usual name for a scaler is free"),
])  # fmt: skip
def test_what_keeps_float16_away(extra: str, reason: str) -> None:
    found = written("PM301", FLOAT16, extra=extra)
    assert not found.applied
    assert reason in found.refused[0].reason


@pytest.mark.parametrize(("code", "parts", "reason"), [
    ("PM301", {"extra": "scaler = torch.amp.GradScaler('cuda')"}, "line 5 chooses a precision already"),
    ("PM301", {"before": "output.detach().cpu().numpy()"}, "NumPy has no bfloat16"),
    ("PM303", {"before": "loss.backward(create_graph=True)"}, "differentiates twice"),
    ("PM304", {"extra": "table = nn.Embedding(9, 3, sparse=True)"}, "the embedding on line 5 may be sparse"),
    ("PM305", {"before": "x.stride(0)"}, "depends on the order of memory"),
    ("PM302", {"extra": "torch.backends.cuda.matmul.allow_tf32 = False"}, "`allow_tf32` on line 5 decides"),
    ("PM309", {"extra": "torch.use_deterministic_algorithms(True)"}, "on line 5 decides that already"),
])  # fmt: skip
def test_what_keeps_them_away(code: str, parts: dict[str, str], reason: str) -> None:
    found = written(code, **parts)
    assert not found.applied
    assert reason in found.refused[0].reason
