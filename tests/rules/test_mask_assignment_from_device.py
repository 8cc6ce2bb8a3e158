"""PM102: which masked writes become a where, which must gather, and that both sides train the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rewrites import Bodies

from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Outcome
from perfmod.transforms.finding import Numerics, Safety
from perfmod.transforms.syncs.mask_assignment_from_device import MaskAssignmentFromDevice

BODIES = Bodies(MaskAssignmentFromDevice())

CHANGES = {
    "fresh tensor": ("t = x * 2\nb = t > 0\nt[b] = w[b]\nreturn t",
        "t = x * 2\nb = t > 0\nt = torch.where(b, w, t)\nreturn t"),
    "running minimum": ("t = x * 2\nfor _ in range(3):\n    b = w < t\n    t[b] = w[b]\n    w = w - t.mean()\nreturn t",
        "t = x * 2\nfor _ in range(3):\n    b = w < t\n    t = torch.where(b, w, t)\n    w = w - t.mean()\nreturn t"),
    "argument": ("b = labels == 1\nlabels[b] = w[b].detach().long()\nreturn b",
        "b = labels == 1\nlabels.copy_(torch.where(b, w.detach().long(), labels))\nreturn b"),
    "view keeps the write": ("t = x * 2\nv = t.view(-1)\nb = t > 0\nt[b] = w[b]\nreturn v",
        "t = x * 2\nv = t.view(-1)\nb = t > 0\nt.copy_(torch.where(b, w, t))\nreturn v"),
    "layout is asked for": ("t = x * 2\nb = t > 0\nt[b] = w[b]\nreturn t.is_contiguous(), t",
        "t = x * 2\nb = t > 0\nt.copy_(torch.where(b, w, t))\nreturn t.is_contiguous(), t"),
    "attribute of the data": ("t = x.clone()\nb = t > 0\nt.data[b] = w.data[b]\nreturn t",
        "t = x.clone()\nb = t > 0\nt.data.copy_(torch.where(b, w.data, t.data))\nreturn t"),
    "item of a dictionary": ("d = {'k': x.clone()}\nb = d['k'].isnan()\nd['k'][b] = w[b]\nreturn d",
        "d = {'k': x.clone()}\nb = d['k'].isnan()\nd['k'].copy_(torch.where(b, w, d['k']))\nreturn d"),
    "condition written twice": ("t = x + 0\nt[t > w] = w[t>w]\nreturn t",
        "t = x + 0\nt = torch.where(t > w, w, t)\nreturn t"),
    "calls in the condition": ("t = x + 0\nt[torch.isnan(t)] = w[torch.isnan(t)]\nreturn t",
        "t = x + 0\nt = torch.where(torch.isnan(t), w, t)\nreturn t"),
    "affine expression": ("t = x + 0\nb = t > 0\nt[b] = 0.5 * t[b] - w[b] / 3 + 1\nreturn t",
        "t = x + 0\nb = t > 0\nt = torch.where(b, 0.5 * t - w / 3 + 1, t)\nreturn t"),
    "parenthesised source": ("t = x + 0\nb = t > 0\nt[b] = -(w * 2)[b] * 3\nreturn t",
        "t = x + 0\nb = t > 0\nt = torch.where(b, -(w * 2) * 3, t)\nreturn t"),
    "cast": ("t = x + 0\nb = t > 0\nt[b] = labels[b].to(t.dtype)\nreturn t",
        "t = x + 0\nb = t > 0\nt = torch.where(b, labels.to(t.dtype), t)\nreturn t"),
    "product without a graph": ("with torch.no_grad():\n    t = x + 0\n    b = t > 0\n    t[b] = w[b] * x[b]\nreturn t",
        "with torch.no_grad():\n    t = x + 0\n    b = t > 0\n    t = torch.where(b, w * x, t)\nreturn t"),
    "graph that a new tensor would lose": (("t = x * 2\nwith torch.no_grad():\n    b = t > 0\n    t[b] = w[b] * 3\n"
          "return t"),
        "t = x * 2\nwith torch.no_grad():\n    b = t > 0\n    t.copy_(torch.where(b, w * 3, t))\nreturn t"),
    "graph that a new tensor may lose": (("t = x * 2\nb = t > 0\nwith torch.set_grad_enabled(len(x) > 1):\n"
          "    t[b] = w[b]\nreturn t"),
        "t = x * 2\nb = t > 0\nwith torch.set_grad_enabled(len(x) > 1):\n    t.copy_(torch.where(b, w, t))\nreturn t"),
    "product of detached": ("t = x + 0\nb = t > 0\nt[b] = w.detach()[b].abs() * x.detach()[b]\nreturn t",
        "t = x + 0\nb = t > 0\nt = torch.where(b, w.detach().abs() * x.detach(), t)\nreturn t"),
    "logical": ("t = labels > 0\nb = labels == 2\nt[b] = ~t[b] & (labels[b] == 1)\nreturn t",
        "t = labels > 0\nb = labels == 2\nt = torch.where(b, ~t & (labels == 1), t)\nreturn t"),
    "number added": ("b = labels == 1\nlabels[b] += 2\nreturn b",
        "b = labels == 1\nlabels.copy_(torch.where(b, labels + 2, labels))\nreturn b"),
    "number multiplied": ("t = x + 0\nt[t > 0] *= 0.1\nt[t.isnan()] /= -2\nreturn t",
        "t = x + 0\nt = torch.where(t > 0, t * 0.1, t)\nt = torch.where(t.isnan(), t / -2, t)\nreturn t"),
    "tensor of a wider type added": ("t = x + 0\nb = t > 0\nt[b] += w.double()[b] - 1\nreturn t",
        "t = x + 0\nb = t > 0\nt.copy_(torch.where(b, t + (w.double() - 1), t))\nreturn t"),
    "scalar of the device": ("t = x + 0\nt[t.isnan()] = x.detach().nansum()\nreturn t",
        "t = x + 0\nt = torch.where(t.isnan(), x.detach().nansum(), t)\nreturn t"),
    "scalar in an expression": ("s = w.detach().max()\nt = x + 0\nb = t > 0\nt[b] = w[b] - s\nreturn t",
        "s = w.detach().max()\nt = x + 0\nb = t > 0\nt = torch.where(b, w - s, t)\nreturn t"),
    "one line": ("t = x + 0\nb = t > 0\nif labels is not None: t[b] = w[b]; t = t + 1  # next\nreturn t",
        "t = x + 0\nb = t > 0\nif labels is not None: t = torch.where(b, w, t); t = t + 1  # next\nreturn t"),
}  # fmt: skip

SEEN_ELSEWHERE = {
    "dropout may return its argument": ("y = x * 1\nt = torch.nn.functional.dropout(y, 0.5, False)", "return t, y"),
    "in place by position": ("y = x.detach() * 1\nt = torch.nn.functional.relu(y, True)", "return t, y"),
    "plus makes no copy": ("y = x * 1\nt = +y", "return t, y"),
    "autograd watches the tensor": ("t = x * 2\nt.retain_grad()", "t.sum().backward()\nreturn t.grad"),
    "kept by a distribution": ("t = x * 2\nd = torch.distributions.Normal(t, 1.0, validate_args=False)",
        "return d.mean"),
}  # fmt: skip
"""A tensor `t` that others see, or whose identity matters, and what shows whether it was written in place."""
CHANGES |= {
    name: (f"{made}\nb = t > 0\nt[b] = w[b]\n{shown}", f"{made}\nb = t > 0\nt.copy_(torch.where(b, w, t))\n{shown}")
    for name, (made, shown) in SEEN_ELSEWHERE.items()
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes(name: str) -> None:
    BODIES.assert_becomes(*CHANGES[name])


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CHANGES)
def test_does_the_same(name: str, tmp_path: Path) -> None:
    assert BODIES.differences(*CHANGES[name], tmp_path, Numerics.BITWISE) == []


def test_a_tensor_that_is_trained_itself_stays_the_same_tensor() -> None:
    made = "b = x > 0\nt = torch.zeros_like(x, requires_grad=True)\nwith torch.no_grad():\n    "
    BODIES.assert_becomes(f"{made}t[b] = w[b]\nreturn t", f"{made}t.copy_(torch.where(b, w, t))\nreturn t")


def test_an_if_that_waits_for_the_mask_is_no_gain() -> None:
    found = BODIES.result("m = x > 0\nif m.any():\n    x[m] = w[m]\n    print(1)\nreturn x", unsafe=False)
    assert [(each.safety, each.reason) for each in found.held_back] == [
        (Safety.LOW_IMPACT, "the `if` on line 7 waits for `m` anyway, so nothing is gained")
    ]


STAYS = {
    "what is selected by it": "b = x > 0\nx[b] = w[b]\nkept = w[b]\nreturn x, kept",
    "an assignment that gathers": "b = x > 0\nx[b] = w.sort()[0][b.flip(0)][:b.sum()]\nx[b] = w[b]\nreturn x",
    "a read of its sum": "b = x > 0\nx[b] = w[b]\nprint(b.sum().item())\nreturn x",
    "around the branch": "b = x > 0\nkept = w[b]\nif kept is not None:\n    x[b] = w[b]\n    return x\nreturn kept",
}
GAINS = {
    "both are rewritten": "t = x * 2\nu = x * 3\nb = t > 0\nt[b] = w[b]\nu[b] = x[b]\nreturn t, u",
    "another mask": "b = x > 0\nkept = w[w > 0]\nx[b] = w[b]\nreturn x, kept",
    "bound anew": "b = x > 0\nkept = w[b]\nb = x < -1\nx[b] = w[b]\nreturn x, kept",
    "under a condition": "b = x > 0\nif len(x) > 3:\n    print(w[b])\nx[b] = w[b]\nreturn x",
    "a number is filled in": "b = x > 0\nw[b] = 0.0\nx[b] = w[b]\nreturn x",
    "several numbers are": "b = x > 0\nlabels[b], m[b] = 0, 1\nx[b] = w[b]\nreturn x",
    "a loss over it": "b = x > 0\nx[b] = w[b]\nreturn torch.nn.functional.mse_loss(x[b], w[b])",
}


@pytest.mark.parametrize("name", STAYS)
def test_another_wait_for_the_mask_is_no_gain(name: str) -> None:
    (found,) = BODIES.result(STAYS[name], unsafe=False).held_back
    assert found.safety is Safety.LOW_IMPACT
    assert re.fullmatch(r"line \d+ waits for `b` anyway, so nothing is gained", found.reason)


@pytest.mark.parametrize("name", GAINS)
def test_no_other_wait_for_the_mask_stays(name: str) -> None:
    found = BODIES.result(GAINS[name], unsafe=False)
    assert not found.held_back
    assert found.after.decode().count("torch.where(b, ") == GAINS[name].count("] = w[b]") + GAINS[name].count("= x[b]")


def test_comment_inside_is_kept_or_held_back() -> None:
    BODIES.assert_becomes(
        "t = x + 0\nb = t > 0\nt[b] = (\n    w[b]  # teacher\n)",
        "t = x + 0\nb = t > 0\nt = torch.where(b, w, t)",
        Safety.UNSAFE,
    )


REFUSED = {
    "the mask is not known to have the shape of `t`": "t = torch.zeros(k).cuda()\nb = x > 0\nt[b] = w[b]",
    "combined with other indices": "b = x[:, 0] > 0\nx[b, 0] = w[b, 0]",
    "one element for each selected element": "b = x > 0\nx[b] = w",
    "`w[c]` may hold one element for each selected": "b = x > 0\nc = w > 0\nx[b] = w[c]",
    "several targets": "b = x > 0\nx[b] = w[b] = x.detach()[b]",
    "`w[b] ** 2` is not elementwise": "b = x > 0\nx[b] = w[b] ** 2",
    "`exp` would be computed for all elements": "b = x > 0\nx[b] = w.detach()[b].exp()",
    "`x[b]` may need a gradient": "b = x > 0\nx[b] = x[b] * labels[b]",
    "`x` may need a gradient": "b = x > 0\nx[b] *= labels[b]",
    "gradient of `w.mean()` would": "x[x > 0] = w.mean()",
    "dividing integers by zero": "b = labels > 0\nlabels[b] //= labels[b]",
    "not known to have the same dtype": "b = labels > 0\nlabels[b] = w.detach().max()",
    "differ in dtype": "b = labels > 0\nt = labels.long()\nt[b] = w.float()[b]",
    "evaluated twice": "b = x[1:] > 0\nx[1:][b] = w[1:][b]",
    "is not elementwise": "b = labels > 0\nlabels[b] >>= 1",
    "`k()` is not known to be a number": "b = labels > 0\nlabels[b] += k()",
    "`torch.rand_like(w[b])` may hold": "b = x > 0\nx[b] = torch.rand_like(w[b])",
    "`softmax` would be computed for all elements": "b = x > 0\nx[b] = w[b].softmax(0)",
    "`w[torch.rand_like(x) > 0.5]` may": "x[torch.rand_like(x) > 0.5] = w[torch.rand_like(x) > 0.5]",
    "`w[b].clamp(max=x[b])` may hold": "b = x > 0\nx[b] = w[b].clamp(max=x[b])",
    "`w[b]` may need a gradient, which an inf": "b = x > 0\nx[b] = w[b] * float('inf')",
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refused(reason: str) -> None:
    assert any(reason in found for found in BODIES.reasons(REFUSED[reason]))


SILENT = {
    "index of unknown type": "x[m] = w[m]",
    "several values at once": "b = x > 0\nx[b], w[b] = w[b], x[b]",
    "mask of bytes": "mask = (x > 0).byte()\nx[mask] = w[mask]",
    "number": "x[x > 0] = 0.5\nx[x < 0] = float('-inf')",
    "scalar of the host": "x[x > 0] = torch.tensor(0.5)",
    "unknown value": "x[x > 0] = fill",
    "several numbers": "x[x > 0], w[w > 0] = 0.5, 1",
    "integer index": "i = labels.long()\nx[i] = w[i]\nx[i] += 1",
    "index of nonzero": "i = torch.where(x > 0)\nx[i] = w[i]\nj = torch.where(x > 0)[0]\nx[j] = w[j]",
    "argsort": "i = x.argsort()\nx[i] = w[i]",
    "mask turned into numbers": "i = (x > 0).to(torch.long)\nx[i] = w[i]",
    "mask times numbers": "i = (x > 0).mul(labels.long())\nx[i] = w[i]",
    "index of an object": "x[w.idx] = x[w.idx] + 1",
    "slice": "x[:2] = w[:2]",
    "host": "t = torch.zeros(3)\nb = t > 0\nt[b] = torch.ones(3)[b]",
    "arrays": "a, v = x.numpy(), w.numpy()\nb = a > 0\na[b] = v[b]\na[b] += 1",
    "read only": "b = x > 0\nreturn x[b]",
    "where": "x = torch.where(x > 0, w, x)",
}


@pytest.mark.parametrize("name", SILENT)
def test_silent(name: str) -> None:
    assert BODIES.reasons(SILENT[name]) == []


def test_buffers_and_parameters_stay_the_same_tensors() -> None:
    code = b"""import torch
from torch import nn

class Peaks(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("peak", torch.zeros(3))

    def forward(self, x):
        higher = x > self.peak
        self.peak[higher] = x[higher].detach()
        return x / self.peak
"""
    found = rewrite(code, "model.py", [MaskAssignmentFromDevice()])
    assert found.outcome is Outcome.CHANGED
    assert b"        self.peak.copy_(torch.where(higher, x.detach(), self.peak))\n" in found.after


def test_prefix_of_torch_is_the_files_own() -> None:
    bodies = Bodies(MaskAssignmentFromDevice(), "import torch as th\nfrom torch import Tensor")
    bodies.assert_becomes("b = x > 0\nx[b] = w[b]", "b = x > 0\nx.copy_(th.where(b, w, x))")


@pytest.mark.parametrize("head", ["", "t = t.double()\n"])
def test_another_width_that_raises_under_a_handler(head: str) -> None:
    """PyTorch raises unless both have one type, which a handler may count on."""
    write = "t[b] = w[b]\n"
    tried = f"try:\n    {write}except RuntimeError:\n    return x\n"
    body = "t = x * 2\n" + head + "b = t > 0\n{}return t"
    assert BODIES.result(body.format(write)).applied
    assert bool(BODIES.result(body.format(tried)).applied) is not bool(head)
