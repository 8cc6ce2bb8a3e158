"""PM404: the last backward pass of a step, and the passes that have one behind them."""

from __future__ import annotations

import pytest
from whole_files import WholeFiles

from perfmod.transforms.leftovers.retained_graph import RetainedGraph

FILES = WholeFiles(RetainedGraph())
ADVISED = {
    "only one": "for x in loader:\n    loss = model(x).sum()\n    loss.backward(retain_graph=True)",
    "position": "for x in loader:\n    loss = model(x).sum()\n    loss.backward(None, True)",
    "function": "def step(x):\n    loss = model(x).sum()\n    loss.backward(retain_graph=True)",
    "scaled": "for x in loader:\n    scaler.scale(model(x).sum()).backward(retain_graph=True)",
    "last of two":
        "for x in loader:\n    a, b = model(x)\n    a.backward(retain_graph=True)\n    b.backward(retain_graph=True)",
    "epochs around":
        "for e in range(3):\n    for x in loader:\n        l = model(x).sum()\n        l.backward(retain_graph=True)",
    "new graph in every round": (
        "for x in loader:\n    for t in range(3):\n        l = model(x[t]).sum()\n        l.backward(retain_graph=True)"
    ),
}  # fmt: skip


@pytest.mark.parametrize("code", ADVISED.values(), ids=ADVISED)
def test_is_advised_on(code: str) -> None:
    (found,) = (each for each in FILES.reports(code) if not each.refused)
    assert "no other backward pass follows in the step" in found.reason


KEPT = {
    "second pass": "for x in loader:\n    a, b = model(x)\n    a.backward(retain_graph=True)\n    b.backward()",
    "gradient behind": (
        "for x in loader:\n    a = model(x)\n    a.backward(retain_graph=True)\n    g = torch.autograd.grad(a, x)"
    ),
    "pass in a function": (
        "def second(b):\n    b.backward()\n\n\nfor x in loader:\n    a, b = model(x)\n"
        "    a.backward(retain_graph=True)\n    second(b)"
    ),
    "shared by rounds": (
        "for x in loader:\n    out = model(x)\n    for t in range(3):\n        out[t].sum().backward(retain_graph=True)"
    ),
    "loss of shared features": (
        "for x in loader:\n    f = model(x)\n    for t in range(3):\n        loss = F.mse_loss(f[t], x)\n"
        "        loss.backward(retain_graph=True)"
    ),
    "double": "for x in loader:\n    model(x).sum().backward(retain_graph=True, create_graph=True)",
}


@pytest.mark.parametrize("code", KEPT.values(), ids=KEPT)
def test_what_the_graph_is_kept_for_is_said(code: str) -> None:
    (reason,) = FILES.reasons(code)
    assert reason.endswith(("uses the graph again", "computed before it", "needs the graph"))


SILENT = {
    "off": "for x in loader:\n    model(x).sum().backward(retain_graph=False)",
    "decided when run": "for x in loader:\n    model(x).sum().backward(retain_graph=keep)",
}


@pytest.mark.parametrize("code", SILENT.values(), ids=SILENT)
def test_is_silent(code: str) -> None:
    assert FILES.reasons(code) == []
