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
    assert {finding.code for finding in preset.applied} >= catalog.PRESETS["fast"] - {"PM306"}
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


def test_half_types() -> None:
    found = written("PM301", Policy(half_type=HalfType.FLOAT16))
    assert "float16 needs its gradients scaled" in found.refused[0].reason


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
