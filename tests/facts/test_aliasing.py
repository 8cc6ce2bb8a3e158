"""Who writes into a tensor, what is new, and when a name may be bound anew instead of written to."""

from __future__ import annotations

import libcst as cst
import pytest
from snippets import facts, used, used_names

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all

HEAD = """
import operator
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.distributed as dist
from torch import Tensor

def f(x: Tensor, y: Tensor, m: Tensor, u, n: int):
    i = torch.zeros((), dtype=torch.long, device="cuda")
    v = torch.zeros(3, device="cuda")
"""


def body(code: str) -> str:
    return HEAD + "".join(f"    {line}\n" for line in code.splitlines())


FRESH = [
    "x + 1", "-x", "x > 0", "~m", "x.clone()", "x.exp()", "x[m > 0]", "x[[0, 1]]", "torch.zeros(3)",
    "torch.where(m > 0, x, 0)", "torch.zeros_like(x)", "x.sum()", "torch.cat([x, y])", "F.relu(x)",
    "F.softmax(x, -1)", "x.masked_fill(m > 0, 0)", "torch.tensor([1])", "x[torch.where(m > 0)]",
]  # fmt: skip
NOT_FRESH = [
    "x", "+x", "x.view(-1)", "x[0]", "x[:, 1]", "x[..., None]", "x[i]", "x[n]", "x[(0, 1)]", "x.data", "x.T",
    "x.to('cuda')", "x.float()", "x.contiguous()", "x.detach()", "x.reshape(-1)", "x.expand(3, 4)",
    "torch.squeeze(x)", "torch.as_tensor(x)", "x.add_(1)", "torch.relu_(x)", "F.relu(x, inplace=True)",
    "F.relu(x, True)", "F.dropout(x, 0.5, False)", "torch.add(x, 1, out=y)", "torch.autograd.Variable(x)",
    "nn.Parameter(x)", "torch.einsum('ij->ji', x)", "torch.movedim(x, 0, 1)", "u(x)", "nn.Identity()(x)",
    "x.unbind(0)[0]", "x.real", "x.squeeze().unsqueeze(0)", "torch.atleast_2d(x)", "x if n else y",
    "x.sum_to_size(3)", "x[u]",
]  # fmt: skip


@pytest.mark.parametrize("code", FRESH)
def test_fresh(code: str) -> None:
    file = facts(body(f"use({code})"))
    assert file.aliasing.is_fresh(used(file)[0])


@pytest.mark.parametrize("code", NOT_FRESH)
def test_not_fresh(code: str) -> None:
    file = facts(body(f"use({code})"))
    assert not file.aliasing.is_fresh(used(file)[0])


WRITTEN = {
    "item": "x[0] = 1",
    "slice": "x[:, 0] = 1",
    "augmented alias": "t = x\nt += 1",
    "augmented item": "x[0] += 1",
    "method": "x.add_(1)",
    "view": "x.view(-1).add_(1)",
    "part": "x[0].fill_(1)",
    "data": "x.data[m] = 0",
    "data replaced": "x.data = y",
    "out": "torch.add(y, 1, out=x)",
    "in-place function": "torch.relu_(x)",
    "initialised": "nn.init.zeros_(x)",
    "view in a call": "torch.squeeze(x).zero_()",
    "in place by keyword": "F.relu(x, inplace=True)",
    "in-place module": "act = nn.ReLU(inplace=True)\nact(x)",
    "collective": "dist.all_reduce(x)",
    "scattered": "dist.reduce_scatter_tensor(x, y)",
    "unbuffered": "np.add.at(x.numpy(), 0, 1)",
    "copied into": "np.copyto(x.numpy(), 1)",
    "item by method": "x.__setitem__(0, 1)",
    "augmented by method": "x.__iadd__(1)",
    "by an operator": "operator.imul(x, 2)",
    "array filled": "x.numpy().fill(0)",
    "array sorted": "x.numpy().sort()",
    "in place or not": "F.relu(x, inplace=n)",
    "deleted item": "del x[0]",
    "unpacked": "x[0], x[1] = 1, 2",
    "alias": "t = x\nt[0] = 1",
    "alias of a view": "t = x.view(-1)\nt.zero_()",
    "alias of an alias": "t = x.detach()\ns = t[0]\ns += 1",
    "walrus": "(t := x).zero_()",
    "later by a walrus": "if (t := x) is not None:\n    t.zero_()",
    "rows": "for t in x:\n    t.zero_()",
    "function": "def g(t):\n    t[0] = 1\ng(x)",
    "function of a function": "def g(t):\n    t[0] = 1\ndef h(n, t):\n    g(t)\nh(1, t=x)",
    "alias in a function": "def g(t):\n    s = t[0]\n    s.zero_()\ng(x)",
    "closure": "def g():\n    x[0] = 1\ng()",
    "annotated alias": "t: Tensor = x\nt[0] = 1",
    "through its source": "s = x\nx = s.view(-1)\ns[0] = 1",
    "through the source of its source": "s = x\nt = s[0]\nx = t.view(-1)\ns.zero_()",
    "either": "(x if n else y).zero_()",
    "in a loop before": "for k in u:\n    x[0] = 1",
}  # fmt: skip
ONLY_READ = {
    "sum": "t = x + 1\nt[0] = 1",
    "copy": "t = x.clone()\nt[0] = 1",
    "gather": "t = x[m > 0]\nt[0] = 1",
    "bound again": "t = x\nt = t + 1\nt[0] = 1",
    "number": "t = x.size(0)\nt += 1",
    "not in place": "F.relu(x, inplace=False)",
    "sorted copy": "x.sort()",
    "function that reads": "def g(t):\n    s = t + 1\n    s[0] = 1\ng(x)",
    "function that calls itself": "def g(t):\n    g(t)\ng(x)",
    "index of a store": "y[x] = 1",
    "value of a store": "y[0] = x",
    "other argument": "torch.add(x, 1, out=y)",
    "asks for a gradient": "x.requires_grad_()",
    "printed": "print(x)",
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_written(name: str) -> None:
    file = facts(body(f"{WRITTEN[name]}\nuse(x)"))
    assert file.aliasing.is_mutated(used_names(file)[-1])


@pytest.mark.parametrize("name", ONLY_READ)
def test_only_read(name: str) -> None:
    file = facts(body(f"{ONLY_READ[name]}\nuse(x)"))
    assert not file.aliasing.is_mutated(used_names(file)[-1])


@pytest.mark.parametrize(("code", "expected"), [
    ("self.m[0] = 1", True),
    ("self.m = 1", True),
    ("t = self.m\nt[0] = 1", True),
    ("self.m.zero_()", True),
    ("t = self.m + 1\nt[0] = 1", False),
    ("self.n[0] = 1", False),
])  # fmt: skip
def test_written_attributes(code: str, expected: bool) -> None:
    lines = "".join(f"        {line}\n" for line in code.splitlines())
    file = facts(f"class K:\n    def g(self):\n{lines}        use(self.m)\n")
    assert file.aliasing.is_mutated(used(file)[0]) is expected


# Whether `t[m] = 0` may become `t = torch.where(m, 0, t)`.
UNSEEN = {
    "made here": "t = x + 1\nt[m] = 0\nreturn t",
    "kept behind": "t = x + 1\nt[m] = 0\nu.append(t)",
    "read before": "t = x + 1\ns = t.sum()\nt[m] = 0",
    "both branches": "if n:\n    t = x + 1\nelse:\n    t = x * 2\nt[m] = 0",
    "every round": "for k in u:\n    t = x + 1\n    t[m] = 0\n    u.append(t)",
    "both branches of a round": (
        "for k in u:\n    if n:\n        t = x + 1\n    else:\n        t = x * 2\n    t[m] = 0\n    u.append(t)"
    ),
    "gathered before": "t = x + 1\ns = t[m > 0]\nt[m] = 0",
    "inside of with": "with torch.no_grad():\n    t = x + 1\n    t[m] = 0",
    "read in every round": "t = x + 1\nfor k in u:\n    t[m] = 0\n    s = t.sum()\nreturn t",
    "rounds of rounds": "t = x + 1\nfor k in u:\n    for j in u:\n        t[m] = 0\nu.append(t)",
    "slice of a temporary": "t = (x + 1)[:, 0]\nt[m] = 0",
    "slice of what is sorted": "t = x.sort(dim=-1)[0][:3]\nt[m] = 0",
}  # fmt: skip
SEEN = {
    "parameter": "x[m] = 0",
    "view of a parameter": "t = x.view(-1)\nt[m] = 0",
    "one branch": "t = x\nif n:\n    t = x + 1\nt[m] = 0",
    "second name": "t = s = x + 1\nt[m] = 0",
    "second name later": "t = x + 1\ns = t\nt[m] = 0",
    "view kept": "t = x + 1\ns = t[0]\nt[m] = 0",
    "kept in a list": "t = x + 1\nu.append(t)\nt[m] = 0",
    "kept in a container": "t = x + 1\ns = [t]\nt[m] = 0",
    "kept in an attribute": "t = x + 1\nu.t = t\nt[m] = 0",
    "kept by a data set": "t = x + 1\ns = torch.utils.data.TensorDataset(t)\nt[m] = 0",
    "kept by a distribution": "t = x + 1\ns = torch.distributions.Normal(t, 1)\nt[m] = 0",
    "kept by an optimizer": "t = x + 1\ns = torch.optim.SGD([t])\nt[m] = 0",
    "closure": "t = x + 1\ndef g():\n    return t\nt[m] = 0",
    "lambda": "t = x + 1\ng = lambda: t\nt[m] = 0",
    "unknown function": "t = x + 1\nu(t)\nt[m] = 0",
    "bound before the loop": "t = x + 1\nfor k in u:\n    t[m] = 0\n    u.append(t)",
    "read around the loop": "t = x + 1\nfor j in u:\n    for k in u:\n        t[m] = 0\n    u.append(t)",
    "view from before the loop": "t = x + 1\ns = t[0]\nfor k in u:\n    t[m] = 0",
    "asked by the loop": "t = x + 1\nwhile u(t):\n    t[m] = 0",
    "slice of a view": "t = x.view(-1)[:3]\nt[m] = 0",
    "bound in the first round": "for k in u:\n    if n == 0:\n        t = x + 1\n    t[m] = 0\n    u.append(t)",
    "bound at the end of a round": "for k in u:\n    if n:\n        t[m] = 0\n        u.append(t)\n    t = x + 1",
    "unpacked": "t, s = u\nt[m] = 0",
    "loop variable": "for t in x:\n    t[m] = 0",
    "handed on by a walrus": "u.append(t := x + 1)\nt[m] = 0",
    "yielded before": "t = x + 1\nyield t\nt[m] = 0",
    "nonlocal": "def g():\n    nonlocal v\n    v = x + 1\n    v[m] = 0",
    "asks for a gradient": "t = x + 1\nt.retain_grad()\nt[m] = 0",
    "iterated": "t = x + 1\nfor s in t:\n    u.append(s)\nt[m] = 0",
}  # fmt: skip


def written_name(file: FileFacts) -> cst.Name:
    """`t` of the first `t[...] = ...`."""
    targets = (item.target for item in find_all(file.source.module, cst.AssignTarget))
    name = next(target.value for target in targets if isinstance(target, cst.Subscript))
    assert isinstance(name, cst.Name)
    return name


@pytest.mark.parametrize("name", UNSEEN)
def test_rebinding_is_unobservable(name: str) -> None:
    file = facts(body(UNSEEN[name]))
    assert file.aliasing.rebinding_is_unobservable(written_name(file))


@pytest.mark.parametrize("name", SEEN)
def test_rebinding_may_be_observed(name: str) -> None:
    file = facts(body(SEEN[name]))
    assert not file.aliasing.rebinding_is_unobservable(written_name(file))


@pytest.mark.parametrize("call", ["K.scale(1, x)", "K().scale(1, x)"])
def test_methods_without_an_instance_write_into_what_they_are_given(call: str) -> None:
    file = facts(
        f"""
        from torch import Tensor
        class K:
            @staticmethod
            def scale(by, t):
                t.mul_(by)
        def f(x: Tensor):
            {call}
            use(x)
        """
    )
    assert file.aliasing.is_mutated(used(file)[0])


@pytest.mark.parametrize("asked", ["ab", "ba"])
def test_functions_that_call_each_other_keep_what_one_of_them_keeps_whichever_is_asked_first(asked: str) -> None:
    code = "kept = []\ndef a(x):\n    b(x)\n    kept.append(x)\ndef b(y):\n    a(y)\ndef c(z):\n    len(z)\n    c(z)\n"
    file = facts(f"{code}import torch\nt = torch.zeros(3)\na(t)\nb(t)\nc(t)\n")
    calls = {file.code(call.func): call for call in find_all(file.source.module, cst.Call) if call.args}
    given = {name: call.args[0].value for name, call in calls.items() if file.code(call.args[0].value) == "t"}
    assert [file.aliasing.hands_on(given[name]) for name in (*asked, "c")] == [True, True, False]
