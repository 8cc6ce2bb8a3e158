"""PM310: spellings of the two steps, what keeps the first one, and when the figures could differ."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from whole_files import WholeFiles

from perfmod.transforms.compute.two_step_losses import TwoStepLosses
from perfmod.transforms.finding import Numerics, Safety

FILES = WholeFiles(TwoStepLosses())
EXACT = {
    "inline": ("l = F.nll_loss(F.log_softmax(x, dim=1), y)", "l = F.cross_entropy(x, y)"),
    "dim by position": ("l = F.nll_loss(F.log_softmax(x, 1), y)", "l = F.cross_entropy(x, y)"),
    "torch": ("l = F.nll_loss(torch.log_softmax(x, dim=1), y)", "l = F.cross_entropy(x, y)"),
    "method": ("l = F.nll_loss(x.log_softmax(1), y)", "l = F.cross_entropy(x, y)"),
    "options": ("l = F.nll_loss(F.log_softmax(x, 1), y, w, ignore_index=-1, reduction='sum')",
        "l = F.cross_entropy(x, y, w, ignore_index=-1, reduction='sum')"),
    "keywords": ("l = F.nll_loss(input=F.log_softmax(x, 1), target=y)", "l = F.cross_entropy(input=x, target=y)"),
    "expression": ("l = F.nll_loss(F.log_softmax(x / t, 1), y)", "l = F.cross_entropy(x / t, y)"),
    "variable": ("p = F.log_softmax(x, 1)\nl = F.nll_loss(p, y)", "l = F.cross_entropy(x, y)"),
    "variable of a call": ("p = F.log_softmax(f(x), 1)\nl = F.nll_loss(p, y)", "p = f(x)\nl = F.cross_entropy(p, y)"),
    "same variable": ("x = f()\nx = F.log_softmax(x, 1)\nl = F.nll_loss(x, y)", "x = f()\nl = F.cross_entropy(x, y)"),
    "changed meanwhile": ("p = F.log_softmax(x, 1)\nx = x + 1\nl = F.nll_loss(p, y)",
        "p = x\nx = x + 1\nl = F.cross_entropy(p, y)"),
    "imported": ("from torch.nn.functional import nll_loss\nl = nll_loss(F.log_softmax(x, 1), y)",
        "from torch.nn.functional import nll_loss\nl = F.cross_entropy(x, y)"),
    "module": ("c = nn.NLLLoss(weight=w)\nl = c(F.log_softmax(x, 1), y)",
        "c = nn.CrossEntropyLoss(weight=w)\nl = c(x, y)"),
    "modules": ("s = nn.LogSoftmax(dim=1)\nc = nn.NLLLoss().to(d)\nl = c(s(x), y)",
        "s = nn.LogSoftmax(dim=1)\nc = nn.CrossEntropyLoss().to(d)\nl = c(x, y)"),
    "last of two dimensions": ("x = torch.zeros(4, 3)\nl = F.nll_loss(F.log_softmax(x, dim=-1), y)",
        "x = torch.zeros(4, 3)\nl = F.cross_entropy(x, y)"),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), EXACT.values(), ids=EXACT)
def test_log_softmax_and_nll_loss_are_one(before: str, after: str) -> None:
    FILES.assert_becomes(before, after, numerics=Numerics.BITWISE)


@pytest.mark.parametrize("moved", ["", ".to(device)"])
@pytest.mark.parametrize(("last", "loss"), [("LogSoftmax(dim=1)", "NLLLoss()"), ("Sigmoid()", "BCELoss()")])
def test_the_end_of_a_model_stays(last: str, loss: str, moved: str) -> None:
    code = f"""
net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2), nn.{last}){moved}
criterion = nn.{loss}
for x, y in loader:
    criterion(net(x), y).backward()
"""
    assert FILES.reasons(code) == []


HELD_BACK = {
    "last dimension": ("l = F.nll_loss(F.log_softmax(x, -1), y)", "l = F.cross_entropy(x, y)"),
    "no dimension": ("l = F.nll_loss(F.log_softmax(x), y)", "l = F.cross_entropy(x, y)"),
    "logarithm": ("l = F.nll_loss(torch.log(F.softmax(x, 1)), y)", "l = F.cross_entropy(x, y)"),
    "method": ("l = F.nll_loss(F.softmax(x, 1).log(), y)", "l = F.cross_entropy(x, y)"),
    "sigmoid": ("l = F.binary_cross_entropy(torch.sigmoid(x), y, weight=w)",
        "l = F.binary_cross_entropy_with_logits(x, y, weight=w)"),
    "view": ("l = F.binary_cross_entropy(torch.sigmoid(x + b).squeeze(1), y)",
        "l = F.binary_cross_entropy_with_logits((x + b).squeeze(1), y)"),
    "used elsewhere": ("p = torch.sigmoid(x)\nl = F.binary_cross_entropy(p, y)\nhits = (p > 0.5).sum()",
        "p = torch.sigmoid(x)\nl = F.binary_cross_entropy_with_logits(x, y)\nhits = (p > 0.5).sum()"),
    "module": ("c = nn.BCELoss(reduction='sum')\nl = c(x.sigmoid(), y)",
        "c = nn.BCEWithLogitsLoss(reduction='sum')\nl = c(x, y)"),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), HELD_BACK.values(), ids=HELD_BACK)
def test_is_held_back_where_figures_can_differ(before: str, after: str) -> None:
    FILES.assert_becomes(before, after, Safety.UNSAFE)


REFUSED = {
    "used": ("p = F.log_softmax(x, 1)\nl = F.nll_loss(p, y)\nh = p.exp()", "used on line 6"),
    "batch": ("l = F.nll_loss(F.log_softmax(x, 0), y)", "dimension 0"),
    "type": ("l = F.nll_loss(F.log_softmax(x, 1, dtype=torch.float64), y)",
        "the logarithm is computed in another dtype"),
    "two inputs": ("c = nn.NLLLoss()\na = c(F.log_softmax(x, 1), y)\nb = c(z, y)", "something else on line 6"),
    "handed on": ("c = nn.NLLLoss()\na = c(F.log_softmax(x, 1), y)\nf(c)", "something else on line 6"),
    "parts of a sigmoid": ("l = F.binary_cross_entropy(torch.sigmoid(x)[:, 0], y)", "a part of the sigmoid"),
    "changed sigmoid": ("p = torch.sigmoid(x)\nx = x + 1\nl = F.binary_cross_entropy(p, y)\nh = p.round()",
        "has changed by the time the loss is computed"),
}  # fmt: skip


@pytest.mark.parametrize(("code", "reason"), REFUSED.values(), ids=REFUSED)
def test_is_refused(code: str, reason: str) -> None:
    assert reason in " | ".join(FILES.reasons(code))


@pytest.mark.parametrize("code", [
    "l = F.cross_entropy(x, y)",
    "l = F.nll_loss(x, y)",
    "l = F.nll_loss(F.log_softmax(x, 1) + bias, y)",
    "l = F.binary_cross_entropy(torch.sigmoid(x).clamp(0, 1), y)",
    "l = F.binary_cross_entropy(F.softmax(x, 1), y)",
    "p = F.log_softmax(x, 1)\nif c:\n    p = z\nl = F.nll_loss(p, y)",
    "l = F.kl_div(F.log_softmax(x, 1), y)",
    "l = F.nll_loss(*args)",
])  # fmt: skip
def test_is_silent(code: str) -> None:
    assert FILES.reasons(code) == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("scale", [1.0, 1e3, float("inf")])
def test_the_one_loss_is_the_two_to_the_bit(dtype: torch.dtype, scale: float) -> None:
    torch.manual_seed(0)
    values, labels = torch.randn(7, 5).to(dtype) * scale, torch.tensor([0, 1, 2, 3, 4, -100, 0])
    two, one = (values.clone().requires_grad_() for _ in range(2))
    old, new = F.nll_loss(F.log_softmax(two, dim=1), labels), F.cross_entropy(one, labels)
    torch.autograd.backward([old, new])
    assert torch.equal(old.nan_to_num(), new.nan_to_num())
    assert two.grad is not None
    assert one.grad is not None
    assert torch.equal(two.grad.nan_to_num(), one.grad.nan_to_num())


def test_a_saturated_sigmoid_is_why_the_other_is_held_back() -> None:
    two, one = (torch.tensor([200.0], requires_grad=True) for _ in range(2))
    old = F.binary_cross_entropy(torch.sigmoid(two), torch.zeros(1))
    new = F.binary_cross_entropy_with_logits(one, torch.zeros(1))
    torch.autograd.backward([old, new])
    assert (old.item(), new.item()) == (100.0, 200.0)
    assert two.grad is not None
    assert one.grad is not None
    assert (two.grad.item(), one.grad.item()) == (0.0, 1.0)
