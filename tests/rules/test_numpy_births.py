"""PM206 on arrays that NumPy makes for a step: what is written makes the same, or draws the same, on the device."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, FileResult
from perfmod.transforms.feeding.cpu_born_tensor import CpuBornTensor
from perfmod.transforms.finding import Numerics, Safety

CODE = """\
import numpy as np
import torch
from torch.autograd import Variable
from data import loader, model, other, shape

device = torch.device("cuda")
Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
LongTensor = torch.cuda.LongTensor
HostTensor = torch.FloatTensor
for x in loader:
    n = x.size(0)
    made = BODY
    model(x.to(device), made).backward()
"""
WRITTEN = [
    ("torch.from_numpy(np.random.normal(0, 1, (n, 3))).float().to(device)", "torch.randn(n, 3, device=device)"),
    ("torch.from_numpy(np.random.normal(0, 1, (n, 3))).to(device)",
     "torch.randn(n, 3, dtype=torch.float64, device=device)"),
    ("torch.from_numpy(np.random.normal(2.0, 0.5, (n, 3))).to(device, torch.float32)",
     "torch.empty(n, 3, device=device).normal_(2.0, 0.5)"),
    ("torch.from_numpy(np.random.normal(scale=0.5, size=(n, 3))).float().to(device)",
     "torch.empty(n, 3, device=device).normal_(0.0, 0.5)"),
    ("torch.from_numpy(np.random.normal(1, size=(n, 3)).astype('float32')).to(device)",
     "torch.empty(n, 3, device=device).normal_(1, 1.0)"),
    ("torch.from_numpy(np.random.randn(n, 3).astype(np.float32)).to(device)", "torch.randn(n, 3, device=device)"),
    ("torch.FloatTensor(np.random.rand(n)).cuda()", 'torch.rand(n, device="cuda")'),
    ("torch.tensor(np.random.uniform(-1, 1, (n, 3)), dtype=torch.float, device=device)",
     "torch.empty(n, 3, device=device).uniform_(-1, 1)"),
    ("torch.as_tensor(np.random.standard_normal((n, 3)), dtype=torch.float32).to(device)",
     "torch.randn(n, 3, device=device)"),
    ("torch.FloatTensor(np.random.random(x.shape)).to(device)", "torch.rand(x.shape, device=device)"),
    ("Variable(torch.from_numpy(np.random.randn(*x.shape)).float()).cuda()",
     'Variable(torch.randn(*x.shape, device="cuda"))'),
    ("torch.from_numpy(np.random.randint(0, 9, n)).to(device)", "torch.randint(0, 9, (n,), device=device)"),
    ("torch.LongTensor(np.random.randint(9, size=(n, 3))).to(device)", "torch.randint(0, 9, (n, 3), device=device)"),
    ("Variable(Tensor(np.random.normal(0, 1, (x.shape[0], 100))))", "Variable(Tensor(x.shape[0], 100).normal_())"),
    ("Variable(Tensor(np.random.uniform(-1, 1, (n, 2))))", "Variable(Tensor(n, 2).uniform_(-1, 1))"),
    ("Tensor(np.random.random((n, 1, 1, 1)))", "Tensor(n, 1, 1, 1).uniform_()"),
    ("LongTensor(np.random.randint(0, 10, n))", "LongTensor(n).random_(0, 10)"),
    ("torch.cuda.FloatTensor(np.random.randn(n, 5))", "torch.cuda.FloatTensor(n, 5).normal_()"),
]  # fmt: skip
CONSTANTS = [
    ("Variable(Tensor(np.ones((n, 1))), requires_grad=False)",
     "Variable(Tensor(n, 1).fill_(1.0), requires_grad=False)"),
    ("Tensor(np.zeros((n, *x.shape[1:])))", "Tensor(n, *x.shape[1:]).zero_()"),
    ("LongTensor(np.ones(n))", "LongTensor(n).fill_(1.0)"),
    ("torch.from_numpy(np.zeros((n, 3))).float().to(device)", "torch.zeros(n, 3, device=device)"),
    ("torch.from_numpy(np.zeros(x.shape)).float().to(device)", "torch.zeros(x.shape, device=device)"),
    ("torch.from_numpy(np.ones(n)).to(device)", "torch.ones(n, dtype=torch.float64, device=device)"),
    ("torch.tensor(np.ones((n, 3)), dtype=torch.long, device=device)",
     "torch.ones(n, 3, dtype=torch.int64, device=device)"),
]  # fmt: skip


def run(body: str, *, selected: bool = True) -> FileResult:
    choice = Choice(opted_in=frozenset({"PM206"} if selected else ()))
    result = rewrite(CODE.replace("BODY", body).encode(), "train.py", [CpuBornTensor()], choice)
    assert not result.reason
    return result


def body(result: FileResult) -> str:
    after = result.after.decode()
    return after[after.index("made = ") + len("made = ") : after.index("\n    model(")]


def evaluated(code: str) -> torch.Tensor:
    """What code makes, on the CPU."""
    names = {
        "np": np, "torch": torch, "Variable": torch.autograd.Variable, "Tensor": torch.FloatTensor,
        "LongTensor": torch.LongTensor, "device": "cpu", "n": 4000, "x": torch.zeros(4000, 3),
    }  # fmt: skip
    made = eval(code.replace("cuda.", "").replace(".cuda()", "").replace('device="cuda"', 'device="cpu"'), names)
    assert isinstance(made, torch.Tensor)
    return made


@pytest.mark.parametrize(("before", "after"), WRITTEN)
def test_is_drawn_on_the_device(before: str, after: str) -> None:
    assert body(run(before)) == after


@pytest.mark.parametrize(("before", "after"), CONSTANTS)
def test_constants_are_made_on_the_device(before: str, after: str) -> None:
    result = run(before, selected=False)
    assert body(result) == after
    assert [(f.safety, f.numerics) for f in result.applied] == [(Safety.SAFE, Numerics.BITWISE)]
    old, new = evaluated(before), evaluated(after)
    assert old.dtype == new.dtype
    assert torch.equal(old, new)


def test_is_on_request() -> None:
    result = run(WRITTEN[0][0], selected=False)
    assert not result.applied
    assert [(f.safety, f.numerics) for f in result.held_back] == [(Safety.OPT_IN, Numerics.SAMPLING)]


@pytest.mark.parametrize(("before", "after"), WRITTEN)
def test_has_the_same_distribution(before: str, after: str) -> None:
    """On the CPU, where both sides run: shape, type and, of many numbers, mean, spread, least and largest."""
    np.random.seed(0)
    torch.manual_seed(0)
    old, new = evaluated(before), evaluated(after)
    assert (old.shape, old.dtype) == (new.shape, new.dtype)
    for figure in (torch.mean, torch.std):
        assert float(figure(new.double())) == pytest.approx(float(figure(old.double())), abs=0.15)
    if "norm" not in before and "randn" not in before:
        assert float(new.min()) == pytest.approx(float(old.min()), abs=0.02)
        assert float(new.max()) == pytest.approx(float(old.max()), abs=0.02)


@pytest.mark.parametrize(
    "before",
    [
        "np.random.normal(0, 1, (n, 3))",
        "torch.from_numpy(np.random.normal(0, 1, (n, 3)))",
        "torch.from_numpy(np.random.normal(0, 1, (n, 3))).to('cpu')",
        "HostTensor(np.random.normal(0, 1, (n, 3)))",
        "torch.LongTensor(np.random.uniform(0, 9, n)).to(device)",
        "torch.from_numpy(np.random.normal(other, 1, (n, 3))).to(device)",
        "torch.from_numpy(np.random.normal(0, 1, (n, 3)).clip(-1, 1)).to(device)",
        "torch.tensor(np.random.normal(0, 1), device=device)",
        "torch.tensor(np.random.randn(n), requires_grad=True, device=device)",
        "torch.from_numpy(np.random.permutation(n)).to(device)",
        "Tensor(np.ones(()))",
        "torch.from_numpy(np.zeros(())).to(device)",
    ],
)
def test_says_nothing_of(before: str) -> None:
    result = run(before)
    assert body(result) == before
    assert not result.refused


@pytest.mark.parametrize(("before", "reason"), [
    ("Tensor(np.random.normal(0, 1, shape))", "`shape` may be a number or a tuple"),
    ("torch.from_numpy(np.random.randint(0, 9, shape)).to(device)", "`shape` may be a number or a tuple"),
    ("torch.from_numpy(np.zeros(shape)).float().to(device)", "`shape` may be a number or a tuple"),
    ("torch.from_numpy(np.random.randn(n)).cuda(other)", "may be None"),
    ("Tensor(np.ones((n, 1)  # of the batch\n    ))", "the expression contains a comment"),
    ("torch.tensor(np.zeros((n, 1)  # of the batch\n    ), device=device)", "the expression contains a comment"),
])  # fmt: skip
def test_stays(before: str, reason: str) -> None:
    result = run(before)
    assert body(result) == before
    assert reason in result.refused[0].reason
