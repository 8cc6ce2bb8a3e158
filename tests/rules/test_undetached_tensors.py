"""PM405: what is kept over steps with a graph, where the graph is cut, and who needs it."""

from __future__ import annotations

import textwrap

import pytest
from whole_files import WholeFiles

from perfmod.transforms.finding import Safety
from perfmod.transforms.leftovers.undetached_tensors import UndetachedTensors

FILES = WholeFiles(UndetachedTensors())
TRAIN = """\
def train(model, loader, optimizer, meter=None):
    total, losses, history = 0.0, [], {{"loss": []}}
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
{step}
{end}
"""


def train(step: str, end: str = "") -> str:
    return TRAIN.format(step=textwrap.indent(step, " " * 8), end=textwrap.indent(end, " " * 4)).rstrip() + "\n"


CHANGES = {
    "sum": ("total += loss", "total += loss.detach()", "return float(total)"),
    "difference": ("total -= loss", "total -= loss.detach()", "return total.item()"),
    "written out": ("total = total + loss", "total = total + loss.detach()", "return total.item()"),
    "other way round": ("total = loss + total", "total = loss.detach() + total", "return total.item()"),
    "weighted": ("total += loss * x.size(0)", "total += loss.detach() * x.size(0)", 'print(f"{total / 3:.2f}")'),
    "scaled": ("total += 0.5 * loss", "total += 0.5 * loss.detach()", "return total.item()"),
    "list": ("losses.append(loss)", "losses.append(loss.detach())", "return torch.stack(losses).mean().item()"),
    "dictionary": ('history["loss"].append(loss)', 'history["loss"].append(loss.detach())',
        'return [value.item() for value in history["loss"]]'),
    "two tensors": ("total += loss * loss", "total += (loss * loss).detach()", "return total.item()"),
    "outputs": ("losses.append(model(x))", "losses.append(model(x).detach())", "return torch.cat(losses).argmax(1)"),
    "not read": ("total += loss", "total += loss.detach()", ""),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after", "end"), CHANGES.values(), ids=CHANGES)
def test_the_graph_is_cut(before: str, after: str, end: str) -> None:
    FILES.assert_becomes(train(before, end), train(after, end))


HELD_BACK = {
    "printed": ("total += loss", "total += loss.detach()", "print(total)"),
    "list printed": ("losses.append(loss)", "losses.append(loss.detach())", "print(losses)"),
    "returned": ("total += loss", "total += loss.detach()", "return total"),
}


@pytest.mark.parametrize(("before", "after", "end"), HELD_BACK.values(), ids=HELD_BACK)
def test_is_held_back_where_somebody_may_notice(before: str, after: str, end: str) -> None:
    before, after = train(before, end), train(after, end)
    FILES.assert_becomes(before, after, Safety.UNSAFE)


@pytest.mark.parametrize("step", ["self.total += loss", "meter.update(loss, 3)", "meter.saved.append(loss)"])
def test_what_is_kept_for_code_elsewhere_stays(step: str) -> None:
    code = train(step).replace("train(model", "train(self, model")
    assert "where other code may differentiate it" in " | ".join(FILES.reasons(code))


@pytest.mark.parametrize(("value", "is_kept"), [("v.data.sum()", False), ("v.detach()", False), ("v", True)])
def test_a_meter_that_takes_the_value_keeps_no_graph(value: str, is_kept: bool) -> None:
    meter = f"\n\nclass Averager:\n    total = 0\n\n    def add(self, v):\n        self.total += {value}\n"
    found = FILES.result(train("seen.add(loss)", "") + meter + "\n\nseen = Averager()\n")
    assert bool(found.applied or found.refused) is is_kept


def test_what_an_object_keeps_of_every_step_stays() -> None:
    code = """
class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer, self.losses = model, optimizer, []

    def step(self, x, y, seen):
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss)
        seen.append(loss)
"""
    (kept,) = FILES.result(code).refused
    assert kept.snippet == "self.losses.append(loss)"
    assert "where other code may differentiate it" in kept.reason


def test_in_an_evaluation_with_gradients() -> None:
    before = (
        "def test(model, loader):\n    total = 0.0\n    for x, y in loader:\n"
        "        total += F.mse_loss(model(x), y){}\n    return total.item()"
    )
    FILES.assert_becomes(before.format(""), before.format(".detach()"))


SILENT = {
    "asked of what runs the backward pass": (
        "def train(model, loader, accelerator):\n    losses = []\n    for x, y in loader:\n"
        "        accelerator.backward(F.mse_loss(model(x), y))\n        losses.append(accelerator.gather(y))\n"
        "    return torch.cat(losses).tolist()"
    ),
    "differentiated": train("total = total + loss", "total.backward()"),
    "handed to autograd": train("losses.append(loss)", "torch.autograd.grad(sum(losses), x)"),
    "list of losses of a task": (
        "def meta(model, loader, optimizer):\n    losses = [0 for _ in range(2)]\n    for x, y in loader:\n"
        "        loss = F.cross_entropy(model(x), y)\n        losses[1] += loss\n"
        "    mean = losses[-1] / 2\n    mean.backward()\n    optimizer.step()"
    ),
    "number": train("total += loss.item()"),
    "detached": train("total += loss.detach()"),
    "data": train("losses.append(loss.data)"),
    "count": train("total += (model(x).argmax(1) == y).sum()"),
    "batch": train("losses.append(x)"),
    "under no_grad": train("with torch.no_grad():\n    total += F.mse_loss(model(x), y)"),
    "only called under no_grad": (
        "def predict(model, loader):\n    found = []\n    for x, y in loader:\n        found.append(model(x))\n"
        "    return torch.cat(found)\n\n@torch.no_grad()\ndef evaluate(model, loader):\n"
        "    return predict(model, loader).argmax(1)"
    ),
    "of one step": train("parts = []\nparts.append(loss)\nprint(len(parts))"),
    "in a model": (
        "class Net(nn.Module):\n    def forward(self, x):\n        out = 0\n        for layer in self.layers:\n"
        "            out = out + layer(x)\n        return out"
    ),
}


@pytest.mark.parametrize("code", SILENT.values(), ids=SILENT)
def test_is_silent(code: str) -> None:
    found = FILES.result(code)
    assert (found.applied, found.refused) == ((), ())


@pytest.mark.parametrize(("whole", "is_held"), [("part + penalty", True), ("penalty * 2", False)])
def test_parts_of_the_loss_that_keep_the_same_graph(whole: str, is_held: bool) -> None:
    code = (
        "def losses(x, y):\n    part, penalty = 0.0, x.square().mean()\n    for each in y:\n"
        f"        part += F.cross_entropy(x, each)\n    loss = {whole}\n    return loss, part\n\n"
        "def train(model, loader):\n    total, first = 0.0, 0.0\n    for x, y in loader:\n"
        "        loss, part = losses(model(x), y)\n        loss.backward()\n        total += loss\n"
        "        first += part\n    return float(total), float(first)\n"
    )
    result = FILES.result(code)
    (found,) = result.held_back if is_held else result.applied
    assert found.safety is (Safety.LOW_IMPACT if is_held else Safety.SAFE)
    assert ("would keep the same graph: detach both" in found.reason) is is_held


@pytest.mark.parametrize(("made", "kept", "is_found"), [
    ("np.zeros(len(loader))", "losses[i] = loss", False),
    ("np.zeros((3, 4))", "losses[0][i] += loss", False),
    ("np.empty(4, dtype=object)", "losses[i] = loss", True),
    ("[None] * len(loader)", "losses[i] = loss", True),
])  # fmt: skip
def test_an_array_keeps_a_number(made: str, kept: str, *, is_found: bool) -> None:
    code = (
        f"import numpy as np\ndef train(model, loader):\n    losses = {made}\n    for i, (x, y) in enumerate(loader):\n"
        f"        loss = F.cross_entropy(model(x), y)\n        loss.backward()\n        {kept}\n"
        "    return sum(float(loss) for loss in losses)\n"
    )
    result = FILES.result(code)
    assert bool(result.applied or result.held_back or result.refused) == is_found


MAPS = """\
import cv2
import torch

class Explainer{base}:
    def __init__(self, model):
        self.model = model

    def forward(self, x):
        self.out = self.model(x)
        return self.out.data.max(1)

    def backward(self, at{more}):
        self.out[0, at].backward()

    def heat(self):
        return cv2.resize(self.model.weight.grad.cpu().numpy(), (8, 8))

def explain(model, loader):
    explainer, maps = Explainer(model), []
    for x, y in loader:
        explainer.forward(x)
        explainer.backward({call})
        heat = explainer.heat()
        maps.append(heat)
    return [each.tolist() for each in maps]
"""


@pytest.mark.parametrize("call", ["at=3", "retain_graph=True"])
def test_what_an_object_with_a_backward_of_its_own_returns_is_no_tensor(call: str) -> None:
    assert not FILES.reports(MAPS.format(base="", more="=0, retain_graph=True", call=call))
    out_of_sight = MAPS[MAPS.index("def explain") :].format(call=call)
    if call == "at=3":
        assert not FILES.reports("from maps import Explainer\n\n" + out_of_sight)


@pytest.mark.parametrize(("body", "is_number"), [
    ("return (a - b).abs().sum().item() / scale", True),
    ("value = float((a - b).abs().sum()) * scale\n    return value", True),
    ("return (a.argmax(1) == b).sum() * scale", True),
    ("return (a - b).abs().mean() * scale", False),
])  # fmt: skip
def test_functions_that_return_numbers_and_counts(body: str, *, is_number: bool) -> None:
    code = f"def loss_fn(a, b, scale):\n    {body}\n\n\n" + train("total += loss_fn(model(x), y, meter)")
    assert ("loss_fn(model(x), y, meter).detach()" in FILES.result(code).after.decode()) is not is_number


@pytest.mark.parametrize("step", ["total += model(x)['hits']", "out = model(x)\ntotal += out[1]"])
def test_parts_of_what_a_model_returns_may_be_numbers(step: str) -> None:
    assert FILES.reports(train(step)) == ()


def test_a_meter_that_makes_a_number_keeps_no_graph() -> None:
    meter = "class Meter:\n    def update(self, value):\n        self.sum += float(value)\n\n\nkept = Meter()\n\n\n"
    assert FILES.reports(meter + train("kept.update(loss)")) == ()
