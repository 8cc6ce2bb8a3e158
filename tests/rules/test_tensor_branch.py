"""PM105: what the device can choose, what needs the host, and that both sides train the same to the bit."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, FileResult, Outcome
from perfmod.transforms.finding import Safety
from perfmod.transforms.syncs.tensor_branch import TensorBranch

HEAD = """\
import torch
import torch.nn.functional as F
from torch import Tensor


def f(x: Tensor, y: Tensor, self, flag: bool):
    loss = (x - y).square().mean()
    c = y.mean() > 0
    big = x.detach() > 1
"""
NAN, INF = float("nan"), float("inf")


def function(body: str) -> str:
    return HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"


def result(code: str, *, unsafe: bool = False) -> FileResult:
    return rewrite(code.encode(), "train.py", [TensorBranch()], Choice(unsafe=unsafe))


def assert_becomes(before: str, after: str, *, unsafe: bool = False) -> None:
    found = result(function(before), unsafe=unsafe)
    assert found.after.decode() == function(after), [finding.reason for finding in found.refused]
    assert result(function(after), unsafe=True).outcome is Outcome.UNCHANGED
    for finding in found.applied:
        assert finding.safety is (Safety.UNSAFE if unsafe else Safety.SAFE)


def reasons(body: str) -> list[str]:
    """Why the rule refuses; the code must stay as it is."""
    found = result(function(body), unsafe=True)
    assert found.outcome is Outcome.UNCHANGED, found.reason or found.after.decode()
    return [finding.reason for finding in found.refused]


def _inputs(dtype: torch.dtype) -> list[tuple[Tensor, Tensor]]:
    """Both ways of every condition, with values that poison gradients."""
    xs = [
        [0.5, -2.0, 3.0],
        [0.1, 0.2, 0.3],
        [NAN, 1.0, 2.0],
        [INF, -INF, 0.0],
        [-0.0, 0.0, 5.0],
        [1e4, 1e-7, -1.5],
    ]
    ys = [[1.0, 2.0, 3.0], [-1.0, -2.0, -3.0], [NAN, 0.0, 0.0], [INF, 1.0, 1.0], [0.0, 0.0, 0.0]]
    return [(torch.tensor(x, dtype=dtype), torch.tensor(y, dtype=dtype)) for x, y in itertools.product(xs, ys)]


def _function(code: str) -> Callable[..., Any]:
    space: dict[str, Any] = {}
    exec(code, space)
    function: Callable[..., Any] = space["f"]
    return function


def _run(function: Callable[..., Any], x: Tensor, y: Tensor, flag: bool) -> list[Tensor | None]:
    x, y = x.clone().requires_grad_(), y.clone()
    returned = function(x, y, None, flag)
    outputs = list(returned) if isinstance(returned, tuple) else [returned]
    total = sum((output.float().sum() for output in outputs if output.requires_grad), start=torch.zeros(()))
    if total.requires_grad:
        total.backward()
    return [*(output.detach() for output in outputs), x.grad, y]


def _same(before: Tensor | None, after: Tensor | None) -> bool:
    if before is None or after is None:
        return before is after
    return (
        before.dtype == after.dtype
        and torch.equal(before.isnan(), after.isnan())
        and torch.equal(before.nan_to_num(123.0), after.nan_to_num(123.0))
    )


def assert_same_training(body: str) -> None:
    """Values, gradients and arguments of the original and of the rewrite, in every floating point type."""
    found = result(function(body), unsafe=True)
    assert found.outcome is Outcome.CHANGED, [finding.reason for finding in found.refused]
    before, after = _function(function(body)), _function(found.after.decode())
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        for (x, y), flag in itertools.product(_inputs(dtype), (True, False)):
            old, new = _run(before, x, y, flag), _run(after, x, y, flag)
            assert len(old) == len(new)
            assert all(map(_same, old, new)), (dtype, x, y, old, new)


REBINDS = {
    "if c:\n    loss = 0. * loss\nreturn loss": "loss = torch.where(c, 0. * loss, loss)\nreturn loss",
    "if c: loss = loss * 0\nreturn loss": "loss = torch.where(c, loss * 0, loss)\nreturn loss",
    "if not c:\n    loss = -loss\nreturn loss": "loss = torch.where(~c, -loss, loss)\nreturn loss",
    "if loss > 1.5:\n    loss = loss / 2\nreturn loss": "loss = torch.where(loss > 1.5, loss / 2, loss)\nreturn loss",
    "if not (loss > 1.5):\n    loss = loss / 2\nreturn loss":
        "loss = torch.where(~(loss > 1.5), loss / 2, loss)\nreturn loss",
    "if c and loss > 1:\n    loss = loss + 1\nreturn loss":
        "loss = torch.where(c & (loss > 1), loss + 1, loss)\nreturn loss",
    "if torch.isnan(loss) or torch.isinf(loss):\n    loss = loss - loss.detach()\nreturn loss":
        "loss = torch.where(\n    torch.isnan(loss) | torch.isinf(loss), loss - loss.detach(), loss\n)\nreturn loss",
    "if bool(c):\n    loss = loss.clamp(max=2)\nreturn loss":
        "loss = torch.where(c, loss.clamp(max=2), loss)\nreturn loss",
    "if c.item():\n    loss = loss.nan_to_num()\nreturn loss":
        "loss = torch.where(c, loss.nan_to_num(), loss)\nreturn loss",
    "if big.any():\n    loss = F.relu(loss)\nreturn loss":
        "loss = torch.where(big.any(), F.relu(loss), loss)\nreturn loss",
    "if c:\n    loss = loss * 2\nelse:\n    loss = loss * 3\nreturn loss":
        "loss = torch.where(c, loss * 2, loss * 3)\nreturn loss",
    "if c:\n    loss = loss * 2\nelif loss > 1:\n    loss = loss * 3\nreturn loss": "",
    "if c:\n    loss *= 0.5\nreturn loss": "loss = torch.where(c, loss * 0.5, loss)\nreturn loss",
    "if c:\n    loss -= 1\nreturn loss": "loss = torch.where(c, loss - 1, loss)\nreturn loss",
    "if flag and c:\n    loss = loss * 2\nreturn loss":
        "if flag:\n    loss = torch.where(c, loss * 2, loss)\nreturn loss",
    "if c:\n    loss = loss * 2\n    loss2 = loss\nelse:\n    pass\nreturn loss": "",
    "a = loss * 1\nb = a * 2\nif loss > 2:\n    a = a * 2\n    b = b * 3\nreturn a, b": "",
    "h = x * 2\nif torch.isinf(h).any():\n    limit = torch.finfo(h.dtype).max - 1000\n"
    "    h = h.clamp(min=-limit, max=limit)\nreturn h": "",
    "h = x * 2\nif c:\n    h = h - (\n        h.mean()\n    )\nreturn h": "",
    "h = x * 1\nif c:\n    h = h - h.mean()\nreturn h.softmax(0)":
        "h = x * 1\nh = torch.where(c, h - h.mean(), h)\nreturn h.softmax(0)",
    "with torch.no_grad():\n    h = x * 1.0\n    if c:\n        h = h.exp()\nreturn h.sigmoid()":
        "with torch.no_grad():\n    h = x * 1.0\n    h = torch.where(c, h.exp(), h)\nreturn h.sigmoid()",
    "h = x * 1.0\nwith torch.no_grad():\n    if c:\n        h = h.nan_to_num()\nreturn h": "",
    "with torch.no_grad():\n    h = loss if c else loss * 2\nreturn h": "",
    "m = big\nif c:\n    m = torch.zeros_like(m)\nreturn x * m":
        "m = big\nm = torch.where(c, torch.zeros_like(m), m)\nreturn x * m",
    "return (loss * 2 if c else loss * 3) + 1": "return torch.where(c, loss * 2, loss * 3) + 1",
    "w = loss if c else loss * 2\nreturn w": "w = torch.where(c, loss, loss * 2)\nreturn w",
}  # fmt: skip
REFUSED_REBINDS = [before for before, after in REBINDS.items() if not after]
REBINDS = {before: after for before, after in REBINDS.items() if after}


@pytest.mark.parametrize("before", REBINDS)
def test_a_choice_becomes_where(before: str) -> None:
    assert_becomes(before, REBINDS[before])
    assert_same_training(before)


@pytest.mark.parametrize("before", REFUSED_REBINDS)
def test_a_name_that_may_be_unbound_or_has_another_gradient_stays(before: str) -> None:
    assert len(reasons(before)) == 1


def test_comments_stay() -> None:
    assert_becomes(
        """
        # above
        if c:  # header
            # inside
            loss = 0. * loss  # behind
        # below
        return loss
        """,
        """
        # above
        # header
        # inside
        loss = torch.where(c, 0. * loss, loss)  # behind
        # below
        return loss
        """,
    )


def test_comments_of_both_branches_stay() -> None:
    assert_becomes(
        """
        if c:  # one
            loss = loss * 2  # two
        else:  # three
            # four
            loss = loss * 3  # five
        return loss
        """,
        """
        # one
        # two
        # three
        # four
        loss = torch.where(c, loss * 2, loss * 3)  # five
        return loss
        """,
    )


def test_torch_is_written_as_the_file_writes_it() -> None:
    code = (
        "import torch as th\n\ndef f(x: th.Tensor):\n    loss = x.mean()\n"
        "    if loss > 1:\n        loss = loss * 2\n    return loss\n"
    )
    assert "th.where(loss > 1, loss * 2, loss)" in result(code).after.decode()


def test_torch_is_imported_where_the_file_does_not() -> None:
    code = (
        "from torch import Tensor\n\ndef f(x: Tensor):\n    loss = x.mean()\n"
        "    if loss > 1:\n        loss = loss * 2\n    return loss\n"
    )
    after = result(code).after.decode()
    assert "import torch\n" in after
    assert "torch.where(loss > 1, loss * 2, loss)" in after


def test_the_callers_own_tensor_is_held_back() -> None:
    body = "if c:\n    x = x.clone().detach() + x\nreturn x"
    found = result(function(body))
    assert found.outcome is Outcome.UNCHANGED
    assert [finding.reason for finding in found.held_back] == [
        "right unless other code relies on the result being `x` itself: `torch.where` returns a copy"
    ]


GUARDS = {
    "h = x * 2\nif big.any():\n    h[big] = 0.0\nreturn h": "h = x * 2\nh[big] = 0.0\nreturn h",
    "h = x * 2\nif big.sum() > 0:\n    h.masked_fill_(big, -1)\nreturn h":
        "h = x * 2\nh.masked_fill_(big, -1)\nreturn h",
    "h = x * 2\nif torch.any(big).item():  # why\n    h[big] = float('-inf')\nreturn h":
        "h = x * 2\n# why\nh[big] = float('-inf')\nreturn h",
    "h = x * 2\nif torch.isnan(h).any():\n    h[torch.isnan(h)] = 0\nreturn h":
        "h = x * 2\nh[torch.isnan(h)] = 0\nreturn h",
    "h = x * 2\nif big.count_nonzero() >= 1: h[big] = 1\nreturn h": "h = x * 2\nh[big] = 1\nreturn h",
    "h = x * 2\nk = x * 3\nif big.any():\n    h[big] = 0.0\n    k[big] = 1.0\nreturn h, k":
        "h = x * 2\nk = x * 3\nh[big] = 0.0\nk[big] = 1.0\nreturn h, k",
    "h = x * 2\nif flag and big.any():\n    h[big] = 0.0\nreturn h": "h = x * 2\nif flag:\n    h[big] = 0.0\nreturn h",
    "h = x * 2\nif big is not None and big.any().item():\n    h.masked_fill_(big[..., :], 0)\nreturn h":
        "h = x * 2\nif big is not None:\n    h.masked_fill_(big[..., :], 0)\nreturn h",
    "h = torch.einsum('i,j->ij', x, y)\nif big.any():\n    if big.dim() == 2:\n        h.masked_fill_(big, 0)\n"
    "    elif big.ndim == 1:\n        h.masked_fill_(big[None, :], 0)\n    else:\n        h.masked_fill_(big, 1)\n"
    "return h":
        "h = torch.einsum('i,j->ij', x, y)\nif big.dim() == 2:\n    h.masked_fill_(big, 0)\n"
        "elif big.ndim == 1:\n    h.masked_fill_(big[None, :], 0)\nelse:\n    h.masked_fill_(big, 1)\nreturn h",
}  # fmt: skip


@pytest.mark.parametrize("body", [
    "if big.any():\n    if big.dim() == 1:\n        h.masked_fill_(big, 0)\n    else:\n        h = h + 1\nreturn h",
    "if big.any():\n    if y.dim() == 1:\n        h.masked_fill_(big, 0)\nreturn h",
    "if big.any():\n    h.masked_fill_(big[:2], 0)\nreturn h",
    "if big.any():\n    h.masked_fill_(~big, 0)\nreturn h",
    "if flag or big.any():\n    h.masked_fill_(big, 0)\nreturn h",
    "if c and big.any():\n    h.masked_fill_(big, 0)\nreturn h",
])  # fmt: skip
def test_guards_of_more_stay(body: str) -> None:
    assert reasons("h = x * 2\n" + body)


@pytest.mark.parametrize("before", GUARDS)
def test_a_guard_of_masked_writes_goes(before: str) -> None:
    assert_becomes(before, GUARDS[before])
    assert_same_training(before)


@pytest.mark.parametrize("body", [
    "p = x.sigmoid()\nif big.any():\n    p[big] = 0.0\nreturn p",
    "h = x * 2\nk = h * h\nif big.any():\n    h[big] = 0.0\nreturn k",
    "if big.any():\n    y[big] = 0.0\nreturn y",
    "h = torch.zeros_like(x, requires_grad=True)\nif big.any():\n    h[big] = 0.0\nreturn h",
    ("h = torch.zeros_like(x)\nfor _ in range(2):\n    if big.any():\n        h[big] = 0.0\n"
      "    loss = loss + (h * x).sum()\nreturn loss"),
])  # fmt: skip
def test_a_write_that_autograd_could_miss_is_held_back(body: str) -> None:
    found = result(function(body))
    assert found.outcome is Outcome.UNCHANGED
    assert [finding.safety for finding in found.held_back] == [Safety.UNSAFE]


def test_a_guard_of_a_mask_of_bytes_is_held_back() -> None:
    code = function("h = x * 2\nif m.any():\n    h.masked_fill_(m, 0.0)\nreturn h").replace("flag: bool", "m: Tensor")
    assert result(code).outcome is Outcome.CHANGED
    (held,) = result(code + "\n\ndef masks(x):\n    return (x > 0).byte()\n").held_back
    assert "may be a byte mask, which newer versions of PyTorch reject" in held.reason


@pytest.mark.parametrize(("body", "reason"), [
    ("if c:\n    raise ValueError", "`raise ValueError` on line 11"),
    ("if c:\n    return loss", "`return loss` on line 11"),
    ("for _ in range(3):\n    if c:\n        break", "`break` on line 12"),
    ("for _ in range(3):\n    if c:\n        continue", "`continue` on line 12"),
    ("if c:\n    print(loss)", "`print(loss)`"),
    ("if c:\n    self.log(loss)", "`self.log(loss)`"),
    ("if c:\n    loss.backward()", "`loss.backward()`"),
    ("if c:\n    self.skipped = 1", "`self.skipped = 1`"),
    ("if c:\n    y[0] = 1", "`y[0] = 1`"),
    ("n = 0\nif c:\n    n += 1\nreturn n", "not known to be a tensor"),
    ("n = 0\nif c:\n    n = 1\nreturn n", "the value of `n` before"),
    ("if c:\n    loss = 0.0\nreturn loss", "the value of `loss` before"),
    ("if c:\n    loss, x = loss * 2, x * 2\nreturn loss", "`loss, x = loss * 2, x * 2`"),
    ("if c:\n    for _ in range(3):\n        loss = loss * 2\nreturn loss", "`for _ in range(3):`"),
    ("if c:\n    loss = torch.zeros_like(loss)\nreturn loss", "gradient of `loss`"),
    ("if c:\n    loss = loss.detach()\nreturn loss", "gradient of `loss`"),
    ("aux = x.abs().mean()\nif c:\n    loss = loss + aux\nreturn loss", "type of `loss + aux`"),
    ("aux = loss * 1\nif c:\n    loss = aux * loss\nreturn loss", "NaN"),
    ("if c:\n    loss = loss.log()\nreturn loss", "NaN"),
    ("if c:\n    loss = loss / 0\nreturn loss", "NaN"),
    ("if c:\n    loss = loss * 1e999\nreturn loss", "NaN"),
    ("if c:\n    loss = loss * self.weight\nreturn loss", "not known to be a tensor"),
    ("if c:\n    loss = 1 / loss\nreturn loss", "NaN"),
    ("if c:\n    loss = loss ** 2\nreturn loss", "gradient"),
    ("if c:\n    loss = loss.double()\nreturn loss", "may raise"),
    ("if c:\n    x = x.sum(dim=0) * 1\nreturn x", "may raise or give NaN"),
    ("h = x * 1\nif c:\n    h = h + torch.rand_like(h)\nreturn h", "random"),
    ("h = x * 1\nif c:\n    h = F.dropout(h)\nreturn h", "random"),
    ("if c:\n    loss = self.head(loss)\nreturn loss", "`self.head`"),
    ("if c:\n    loss = loss * 2\n    loss = loss * 2\nreturn loss", "more than one assignment"),
    ("for p in self.parameters():\n    if c:\n        p.grad.mul_(0.5)", "`torch.nn.utils.clip_grad_norm_` does"),
    ("h = loss * 1\ng = h\nif c:\n    h *= 2\nreturn g", "other code may hold"),
    ("h = x * 1\nif c:\n    loss = loss + h.add_(1).mean()\nreturn loss", "place"),
    ("if flag:\n    z = loss * 2\nif c:\n    z = z * 2\nreturn loss", "undefined"),
    ("if c:\n    loss = loss * 2\nelse:\n    y = y * 2\nreturn loss", "different variables"),
    ("if c or flag:\n    loss = loss * 2\nreturn loss", "evaluated in Python"),
    ("if c and x[0] > 1:\n    loss = loss * 2\nreturn loss", "only if the condition before"),
    ("if x > 1:\n    loss = loss * 2\nreturn loss", "may have dimensions"),
    ("if loss:\n    loss = loss * 2\nreturn loss", "boolean"),
    ("if c:\n    loss = loss * 2\ndef g():\n    return loss\nreturn g", "other functions"),
    ("while big.any():\n    x = x + 1", ""),
    ("assert c", ""),
    ("assert not torch.isnan(loss), 'NaN'", ""),
    ("h = x * 2\nif big.any():\n    h[big] = 0.0\n    print('clipped')\nreturn h", "`print('clipped')` on line 13"),
    ("h = x * 2\nif big.any():\n    h[~big] = 0.0\nreturn h", "`h[~big] = 0.0`"),
    ("h = x * 2\nif big.all():\n    h[big] = 0.0\nreturn h", "`h[big] = 0.0`"),
    ("w = 1.0 if c else 0.0\nreturn loss * w", "Python"),
    ("w = x.max() if c else x.min()\nreturn w", "may raise or give NaN"),
    ("w = x if c else y\nreturn w", "gradient"),
    ("w = loss if c else loss * 2\nreturn w is loss", "line 11 depends on"),
    ("k = loss\nif c:\n    loss = loss * 2\nreturn k is not loss", "line 13 depends on"),
    ("h = loss * 1\nk = h\nif c:\n    h = h * 2\nk.add_(1)\nreturn h", "`h` is written in place"),
])  # fmt: skip
def test_what_the_host_must_know_stays(body: str, reason: str) -> None:
    found = reasons(body)
    assert len(found) == bool(reason)
    assert not reason or reason in found[0]


@pytest.mark.parametrize("body", [
    "bad = bool(torch.isnan(loss))\nif bad:\n    return None\nreturn loss",
    "import math\nif math.isnan(loss):\n    return None\nreturn loss",
    "if torch.equal(x, y):\n    return None\nreturn loss",
    "same = x.allclose(y)\nreturn loss, same",
    "if 1 in y:\n    return None\nreturn loss",
])  # fmt: skip
def test_answers_that_the_host_goes_on_with_stay(body: str) -> None:
    assert reasons(body) == []


@pytest.mark.parametrize("body", [
    "import math\nif math.isnan(0.5) or bool(flag) or 1 in (2, 3) or bool(x.dim()):\n    return None\nreturn loss",
    "if flag:\n    loss = loss * 2\nreturn loss",
    "if x is not None and self.training:\n    loss = loss * 2\nreturn loss",
    "if x.dim() > 2 or x.shape[0] > 1 or x.is_cuda:\n    loss = loss * 2\nreturn loss",
    "if len(x):\n    loss = loss * 2\nreturn loss",
    "if loss.item() > 1:\n    loss = loss * 2\nreturn loss",
    "k = torch.zeros(()) > 1\nif k:\n    loss = loss * 2\nreturn loss",
    "import numpy as np\nk = np.ones(3).any()\nif k:\n    loss = loss * 2\nreturn loss",
    "w = loss if x is not None else y\nreturn w",
    "for step in range(9):\n    if step % 3 == 0:\n        if c:\n            loss = loss * 2\nreturn loss",
])  # fmt: skip
def test_conditions_of_the_host_are_not_mentioned(body: str) -> None:
    assert reasons(body) == []


def test_a_branch_under_another_that_waits_for_the_same_is_no_gain() -> None:
    body = "h = x * 2\nif big.any():\n    print('clipped')\n    if big.any():\n        h[big] = 0.0\nreturn h"
    found = result(function(body))
    assert [(each.safety, each.reason) for each in found.held_back] == [
        (Safety.LOW_IMPACT, "the `if` on line 11 waits for `big` anyway, so nothing is gained")
    ]


SETTING = """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x, eps):
        y = (x + eps).mean()
        if eps > 0{more}:
            print(y)
        return y


def fit(loader, optimizer, eps):
    model = Net()
    for x in loader:
        loss = model(x.cuda(), {given})
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize("more", ["", " and self.training"])
@pytest.mark.parametrize(("given", "waits"), [("eps", False), ("0.1", False), ("torch.rand((), device='cuda')", True)])
def test_a_parameter_that_is_compared_is_a_tensor_only_where_a_caller_shows_it(
    given: str, waits: bool, more: str
) -> None:
    code = SETTING.format(given=given, more=more)
    found = rewrite(code.encode(), "train.py", [TensorBranch()], Choice(unsafe=True))
    assert bool(found.refused) is waits
