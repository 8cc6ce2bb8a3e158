"""PM314 where a second model is trained in some rounds only: replays leave it the gradients that it had before.

The graphs are those of a recorder that stands in for CUDA's: a replay runs no Python, and writes to the same memory.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from golden_harness.beside import rewrite_with_beside
from torch import nn

from perfmod.codemods import catalog
from perfmod.codemods.results import Choice, FileResult
from perfmod.transforms.compute.recorder.graphed_step import GraphedStep

SCRIPT = """\
import torch
from torch import nn, optim

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [torch.randn(8, 4) for _ in range(24)]
generator = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4)).to(device)
critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
optimizer_G = optim.SGD(generator.parameters(), lr=0.1, momentum=0.9)
optimizer_D = optim.SGD(critic.parameters(), lr=0.1, momentum=0.9)
losses = []
for i, imgs in enumerate(loader):
    real = imgs.to(device)
    {front}
    z = torch.randn(real.shape[0], 2, device=device)
    fake = generator(z){cut}
    loss_D = critic(fake).mean() - critic(real).mean()
    {first}
    loss_D.backward()
    {between}
    optimizer_D.step()
    {behind}
    if i % 5 == 0:
        {inside}
        loss_G = -critic(generator(z)).mean()
        {middle}
        loss_G.backward()
        optimizer_G.step()
        {end}
        losses.append(loss_G.item())
    {after}
    losses.append(loss_D.item())
"""
PLACES = ("front", "first", "between", "behind", "inside", "middle", "end", "after")
OF_CRITIC = ("front", "first")
"""Where gradients of the critic may be set to zero, so that the step can be recorded."""
OF_GENERATOR = ("behind", "inside", "middle")
CASES = [*((place, "inside") for place in PLACES), *(("front", place) for place in PLACES if place != "inside")]
BY = {"optimizers": ("optimizer_D", "optimizer_G"), "models": ("critic", "generator")}


def _stand_in() -> ModuleType:
    path = Path(__file__).parents[1] / "support" / "replaying" / "graphed_step.py"
    spec = importlib.util.spec_from_file_location("recorder_on_the_cpu", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REPLAYING = _stand_in()


def _rewritten(text: str) -> FileResult:
    (rule,) = (rule for rule in catalog.rules() if rule.code == "PM314")
    return rewrite_with_beside(text.encode(), "train.py", [rule], Choice(opted_in=frozenset({"PM314"})))


def _run(code: bytes | str) -> tuple[list[float], list[torch.Tensor], list[int]]:
    """The losses and parameters that a script ends with, and how often each of its steps was replayed."""
    names: dict[str, Any] = {}
    made: list[GraphedStep] = []

    class OnTape(REPLAYING.GraphedStep):  # type: ignore[misc, name-defined]
        def __init__(self, *args: Any, **settings: Any) -> None:
            super().__init__(*args, **settings)
            made.append(self)

        def _all_modules(self) -> list[nn.Module]:
            return [each for each in names.values() if isinstance(each, nn.Module)]

    text = (code.decode() if isinstance(code, bytes) else code).replace("from graphed_step import GraphedStep\n", "")
    names["GraphedStep"] = OnTape
    exec(compile(text, "train.py", "exec"), names)
    parameters = [*names["generator"].state_dict().values(), *names["critic"].state_dict().values()]
    return names["losses"], parameters, [each.replayed for each in made]


@pytest.mark.parametrize("cut", ["", ".detach()"])
@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize(("critic", "generator"), CASES)
def test_trains_as_before_or_stays(critic: str, generator: str, by: str, cut: str) -> None:
    lines = dict.fromkeys(PLACES, "pass")
    for place, name in zip((critic, generator), BY[by], strict=True):
        lines[place] = f"{lines[place]}; {name}.zero_grad()".removeprefix("pass; ")
    text = SCRIPT.format(cut=cut, **lines)
    text = re.sub(r" +pass\n", "", text)
    result = _rewritten(text)
    is_right = critic in OF_CRITIC and generator in OF_GENERATOR
    assert (result.after != result.before) is is_right, [each.reason for each in result.refused]
    if is_right:
        losses, parameters, _ = _run(text)
        replayed_losses, replayed_parameters, replayed = _run(result.after)
        assert replayed == [21, 2]
        assert replayed_losses == losses
        assert all(map(torch.equal, parameters, replayed_parameters))


@pytest.mark.parametrize(("front", "is_right"), [("", False), ("opt_E.zero_grad()", True)])
def test_what_steps_behind_the_loop_finds_its_own_gradients(front: str, is_right: bool) -> None:
    lines = dict.fromkeys(PLACES, "pass") | {"front": "optimizer_D.zero_grad()", "inside": "optimizer_G.zero_grad()"}
    text = SCRIPT.format(cut="", **lines).replace("losses = []", "losses = []\nE = nn.Linear(4, 4).to(device)")
    text = text.replace("critic(real)", "critic(E(real))")
    text = text.replace("for i, imgs", "opt_E = optim.SGD(E.parameters(), lr=0.1)\nfor i, imgs")
    text = re.sub(r" +pass\n", "", text) + f"{front}\nE(loader[0].to(device)).sum().backward()\nopt_E.step()\n"
    result = _rewritten(text)
    assert (result.after != result.before) is is_right, [each.reason for each in result.refused]


def test_an_if_of_one_line_stays() -> None:
    lines = dict.fromkeys(PLACES, "pass") | {"front": "optimizer_D.zero_grad()"}
    text = re.sub(r" +pass\n", "", SCRIPT.format(cut="", **lines)).partition("    if i % 5")[0]
    text += "    optimizer_G.zero_grad()\n    loss_G = -critic(generator(z)).mean()\n"
    text += "    if i % 2 == 0: loss_G.backward(); optimizer_G.step()\n    losses.append(loss_D.item())\n"
    assert _run(text)[0] == _run(_rewritten(text).after)[0]


REPORTED = """\
import heapq
import torch
from torch import nn, optim

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [torch.randn(8, 4) for _ in range(8)]
seen = []


def counter():
    calls = []

    def count(h):
        calls.append(1)
        return h / len(calls)

    return count


count = counter()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.seen = nn.Linear(4, 4), []

    def kept(self):
        return self.seen

    def forward(self, x):
        h = self.layer(x)
        {forward}
        return h


model, head = Net().to(device), nn.Linear(4, 1).to(device)
log_alpha = nn.Parameter(torch.zeros((), device=device))
weight = model.layer.weight
first, second = optim.SGD(model.parameters(), lr=0.1), optim.SGD([*head.parameters(), log_alpha], lr=0.1)
for x in loader:
    x = x.to(device)
    first.zero_grad()
    loss = head(model(x)).mean()
    loss.backward()
    first.step()
    {between}
    second.zero_grad()
    other = (log_alpha.exp() * head(x)).mean()
    other.backward()
    second.step()
"""


@pytest.mark.parametrize(
    ("between", "is_right"),
    [
        ("seen.append(loss.item())", True),
        ("seen.append(log_alpha.item())", False),
        ("alpha = log_alpha.detach(); seen.append(alpha.item())", False),
        ("seen.append(weight.sum().item())", False),
        ("seen.append(weight.grad.sum().item())", False),
        ("rate = first.param_groups[0]['lr']", False),
    ],
)
def test_reports_stay_where_later_lines_change_what_they_read(between: str, is_right: bool) -> None:
    between = between.replace("; ", "\n    ")
    result = _rewritten(REPORTED.format(forward="pass", between=between))
    assert (result.after != result.before) is is_right, [each.reason for each in result.refused]


@pytest.mark.parametrize(
    ("forward", "is_right"),
    [
        ("outs = []; outs.append(h)", True),
        ("outs = self.kept(); outs.append(1)", False),
        ("outs, n = self.seen, 0; outs.append(1)", False),
        ("outs = (o := self.seen); outs.append(1)", False),
        ("outs = getattr(self, 'seen'); outs.append(1)", False),
        ("outs = self.seen; outs += [1]", False),
        ("add = self.seen.append; add(1)", False),
        ("list.append(self.seen, 1)", False),
        ("heapq.heappush(self.seen, 1)", False),
        ("h = count(h)", False),
    ],
)
def test_lists_that_outlive_a_step_stay_in_python(forward: str, is_right: bool) -> None:
    result = _rewritten(REPORTED.format(forward=forward, between="pass"))
    assert (result.after != result.before) is is_right, [each.reason for each in result.refused]
