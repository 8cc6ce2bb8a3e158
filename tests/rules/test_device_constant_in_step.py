"""PM108: which tensors are filled, which are made in front of the loop, and which stay."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable

import pytest
import torch

from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, FileResult, Outcome
from perfmod.transforms.finding import Safety
from perfmod.transforms.syncs.device_constant_in_step import DeviceConstantInStep

HEAD = """\
import math
import numpy as np
import torch
from torch import nn

MEAN = [0.485, 0.456, 0.406]


def train(model, loader, optimizer, device, args, keep):
    criterion = nn.MSELoss()
    for i, (x, y) in enumerate(loader):
        x = x.to(device)
        model(x).sum().backward()
"""
LOOP = "    for i, (x, y) in enumerate(loader):\n"


def step(body: str, before: str = "") -> str:
    head = HEAD.replace(LOOP, textwrap.indent(before, "    ") + LOOP)
    return head + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8) + "\n"


def result(code: str, *, unsafe: bool = False) -> FileResult:
    found = rewrite(code.encode(), "train.py", [DeviceConstantInStep()], Choice(unsafe=unsafe))
    assert found.outcome is not Outcome.FAILED, found.reason
    return found


def reasons(body: str) -> list[str]:
    """Why the rule refuses; the code must stay as it is."""
    found = result(step(body), unsafe=True)
    assert found.outcome is Outcome.UNCHANGED, found.after.decode()
    return [finding.reason for finding in found.refused]


FILLED = {
    "torch.tensor(0.0, device=device)": "torch.zeros((), device=device)",
    "torch.Tensor([0]).cuda()[0]": 'torch.zeros((), device="cuda")',
    "torch.FloatTensor([3]).to(device)[0]": "torch.full((), 3, dtype=torch.float32, device=device)",
    "x.new_tensor([2.0])[0]": "x.new_full((), 2.0)",
    "torch.tensor([-1], device=device).expand(x.size(0))": (
        "torch.full((x.size(0),), -1, dtype=torch.long, device=device)"
    ),
    "torch.LongTensor([7]).to(device).repeat(len(x), 1)": "torch.full((len(x), 1), 7, dtype=torch.long, device=device)",
    "torch.tensor([0.5], device=device).expand(3, 2)": "torch.full((3, 2), 0.5, device=device)",
    "torch.tensor([0.5], device=device).expand(-1)": "torch.full((1,), 0.5, device=device).expand(-1)",
    "torch.Tensor([0]).cuda()[0:1]": 'torch.zeros(1, device="cuda")[0:1]',
    "torch.Tensor([0, 0]).cuda()[0]": 'torch.zeros(2, device="cuda")[0]',
    "torch.tensor(-0.0, device=device)": "torch.full((), -0.0, device=device)",
    "torch.tensor(0, device=device, dtype=x.dtype)": "torch.zeros((), device=device, dtype=x.dtype)",
    "torch.tensor(-1, device='cuda')": "torch.full((), -1, device='cuda')",
    "torch.tensor([False, False], device=x.device)": "torch.zeros(2, dtype=torch.bool, device=x.device)",
    "x.new_tensor(True)": "x.new_ones(())",
    "torch.tensor(float('-inf'), dtype=x.dtype, device=device)":
        "torch.full((), float('-inf'), dtype=x.dtype, device=device)",
    "torch.tensor(1e-8, requires_grad=True, device=device)": "torch.full((), 1e-8, requires_grad=True, device=device)",
    "torch.as_tensor(2, dtype=torch.float32, device=device)": "torch.full((), 2, dtype=torch.float32, device=device)",
    "torch.tensor(0.5).to(device)": "torch.full((), 0.5, device=device)",
    "torch.tensor(0.5).to(device, non_blocking=True)": "torch.full((), 0.5, device=device)",
    "torch.tensor(1).float().cuda()": 'torch.ones((), device="cuda")',
    "torch.tensor(1).to(device, torch.float16)": "torch.ones((), dtype=torch.float16, device=device)",
    "torch.tensor([0.5], device=device)": "torch.full((1,), 0.5, device=device)",
    "torch.tensor([0.0], device=device)": "torch.zeros(1, device=device)",
    "torch.tensor((1, 1, 1), device=device)": "torch.ones(3, dtype=torch.long, device=device)",
    "torch.tensor([1.0] * x.size(0), device=device)": "torch.ones(x.size(0), device=device)",
    "torch.FloatTensor([2]).to(device)": "torch.full((1,), 2, dtype=torch.float32, device=device)",
    "torch.FloatTensor([0.5]).to(device)": "torch.full((1,), 0.5, device=device)",
    "torch.LongTensor([0, 0]).cuda()": 'torch.zeros(2, dtype=torch.long, device="cuda")',
    "torch.cuda.FloatTensor([1.0])": 'torch.ones(1, device="cuda")',
    "torch.tensor(len(loader), device=device)": "torch.full((), len(loader), device=device)",
    "torch.tensor(i + 1, dtype=torch.float32, device=device)":
        "torch.full((), i + 1, dtype=torch.float32, device=device)",
    "x.new_tensor(0.1)": "x.new_full((), 0.1)",
    "torch.tensor(math.pi, device=device)": "torch.full((), math.pi, device=device)",
    "torch.tensor((0.5 + 0.25) * 2, device=device)": "torch.full((), (0.5 + 0.25) * 2, device=device)",
    "torch.tensor(math.exp(i), device=device)": "torch.full((), math.exp(i), device=device)",
    "torch.tensor(\n    0.0,  # nothing yet\n    device=device,\n)":
        "torch.zeros(\n    (),  # nothing yet\n    device=device,\n)",
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), FILLED.items())
def test_is_filled(before: str, after: str) -> None:
    found = result(step(f"t = {before}\nkeep(t)"))
    assert found.after.decode() == step(f"t = {after}\nkeep(t)"), [finding.reason for finding in found.refused]
    assert {finding.safety for finding in found.applied} == {Safety.SAFE}
    assert result(step(f"t = {after}\nkeep(t)")).outcome is Outcome.UNCHANGED


def test_the_device_of_the_tensor_at_hand() -> None:
    found = result(step("seen = x.cuda()\nkeep(torch.FloatTensor([1.0] * seen.size(0)).cuda())"))
    assert "keep(torch.ones(seen.size(0), device=seen.device))" in found.after.decode()


def _same(old: torch.Tensor, new: torch.Tensor) -> bool:
    same = (old.dtype, old.shape, old.requires_grad) == (new.dtype, new.shape, new.requires_grad)
    return same and bool(torch.equal(old.nan_to_num(7.0), new.nan_to_num(7.0)))


@pytest.mark.parametrize(("before", "after"), FILLED.items())
def test_filled_tensors_are_the_same(before: str, after: str) -> None:
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        space = {"torch": torch, "math": __import__("math"), "device": torch.device("cpu"), "i": 3}
        space |= {"x": torch.zeros(4, 2, dtype=dtype), "loader": [1, 2]}
        codes = [code.replace("cuda.FloatTensor", "FloatTensor").replace(".cuda(0)", "") for code in (before, after)]
        codes = [code.replace(".cuda()", "") for code in codes]
        codes = [
            code.replace("'cuda'", "'cpu'").replace('"cuda"', '"cpu"').replace('"cuda:0"', '"cpu"') for code in codes
        ]
        old, new = (eval(code, space) for code in codes)
        assert _same(old, new), (old, new)


def test_numbers_of_all_types_are_filled_as_they_are_converted() -> None:
    """What the rule relies on: `tensor` and `full` round alike, in every type, for all numbers that it admits."""
    numbers = (0, 1, -1, 0.1, 1.5, -1.5, 65519.0, 65520.0, 1e5, -1e9, 3.4e38, 1e-46, 2**24 + 1, 2**63 - 1, True)
    numbers += (float("inf"), float("-inf"), float("nan"), -0.0)
    types = (None, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool)
    for number, dtype in itertools.product(numbers, types):
        assert _made(torch.tensor, number, dtype) == _made(_full, number, dtype), (number, dtype)


def _full(number: float, dtype: torch.dtype | None) -> torch.Tensor:
    return torch.full((), number, dtype=dtype)


def _made(make: Callable[..., torch.Tensor], number: float, dtype: torch.dtype | None) -> tuple[object, str]:
    try:
        tensor = make(number, dtype=dtype)
    except RuntimeError:
        return RuntimeError, ""
    return tensor.dtype, str(tensor.item())


HOISTED = {
    "m = torch.tensor([0.485, 0.456, 0.406], device=device)\nx = x - m[None, :, None]":
        ("m = torch.tensor([0.485, 0.456, 0.406], device=device)\n", "x = x - m[None, :, None]"),
    "x = x - torch.tensor(MEAN).to(device).view(-1, 1)":
        ("mean = torch.tensor(MEAN).to(device)\n", "x = x - mean.view(-1, 1)"),
    "w = nn.functional.cross_entropy(x, y, weight=torch.tensor([1.0, 2.0]).to(device))":
        ("weight = torch.tensor([1.0, 2.0]).to(device)\n",
         "w = nn.functional.cross_entropy(x, y, weight=weight)"),
    "t = torch.tensor([[1, 0], [0, 1]], device=args.device)\nx = x @ t":
        ("t = torch.tensor([[1, 0], [0, 1]], device=args.device)\n", "x = x @ t"),
}  # fmt: skip


@pytest.mark.parametrize(("value", "written"), [
    ("torch.tensor(True, device=device)", "True"),
    ("torch.tensor([0.5]).to(device)", "0.5"),
    ("torch.tensor(0.1, device=device)", "torch.full((), 0.1, device=device)"),
    ("torch.tensor([0, 0], device=device)", "torch.zeros(2, dtype=torch.long, device=device)"),
])  # fmt: skip
def test_elements_take_the_number_itself(value: str, written: str) -> None:
    """In float64, 0.1 is another number than that of float32."""
    found = result(step(f"x[0] = {value}"))
    assert found.after.decode() == step(f"x[0] = {written}")


@pytest.mark.parametrize(("body", "written"), HOISTED.items())
def test_is_made_in_front_of_the_loop(body: str, written: tuple[str, str]) -> None:
    found = result(step(body))
    assert found.after.decode() == step(written[1], written[0]), [finding.reason for finding in found.refused]
    assert result(found.after.decode()).outcome is Outcome.UNCHANGED


REFUSED = {
    "m = torch.tensor([1.0, 2.0], device=device)\nm += 1": "`m` is also assigned on line 15",
    "m = torch.tensor([1.0, 2.0], device=device)\nm[0] = 3": "`m` is modified on line 15",
    "m = torch.tensor([1.0, 2.0], device=device).add_(x)": "",
    "y = torch.tensor([1.0, 2.0], device=device).add_(x) + 1": "it is modified in place",
    "m = torch.tensor([1.0, 2.0], device=device)\nkeep.append(m)": "`keep.append` on line 15 may keep `m`",
    "m = torch.tensor([1.0, 2.0], device=device)\nreturn m": "may keep `m`",
    "m = torch.tensor([1.0, 2.0], device=device, "
    "requires_grad=True)": "it requires a gradient, so each step needs a new one",
    "m = torch.tensor([1.0, 2.0], device=x.device)": "`x` is assigned inside the loop on line 11",
    "m = torch.tensor([1.0, 2.0], device=device)\nm = m * 2": "`m` is also assigned on line 15",
    "if args.a:\n    y = x - torch.tensor([1.0, 2.0]).cuda()": "only under a condition",
    "with torch.cuda.device(1):\n    y = x - torch.tensor([1.0, "
    "2.0]).cuda()": "the `with` on line 14 selects the device",
    "args.device = i\ny = x - torch.tensor([1.0, 2.0], device=args.device)": "`args.device` is assigned in the loop",
    "torch.set_default_dtype(x.dtype)\ny = x - torch.tensor([1.0, 2.0], device=device)": "line 14 changes",
    "def to_double():\n    torch.set_default_dtype(torch.float64)\n"
    "to_double()\ny = x - torch.tensor([1.0, 2.0], device=device)": "line 15 changes PyTorch's default dtype",
    "y = torch.tensor([x.size(0), 3], device=device)": "the numbers in `[x.size(0), 3]` may change from step to step",
    "y = torch.tensor(args.weights, device=device)": "`args.weights` is not known to be a number or a constant",
    "y = torch.tensor(0.1).double().to(device)": (
        "its values are rounded to the default dtype before they become double"
    ),
    "y = torch.tensor(0.1).to(device, torch.float64)": "the same call also changes its dtype",
    "y = torch.tensor(0.1).cuda(args.gpu)": "may be None",
    "y = torch.tensor(0.1, requires_grad=True).to(device)": "it requires a gradient or is pinned before it is moved",
    "y = torch.tensor(0.1).to(args.kind)": "`args.kind` is not known to be a device",
    "y = torch.tensor(\n    0.1,  # a tenth\n    ).to(device)": "the expression contains a comment",
    "criterion(x, torch.tensor([1.0, 2.0], device=device))": "it never changes: create it once before the loop",
    "weight = 1\nnn.functional.cross_entropy(x, y, weight=torch.tensor([1.0, 2.0]).to(device))": "create it once",
}


@pytest.mark.parametrize(("body", "reason"), REFUSED.items())
def test_is_refused(body: str, reason: str) -> None:
    found = reasons(body)
    assert len(found) == 1
    assert reason in found[0]


@pytest.mark.parametrize("body", [
    "y = torch.tensor(0.1)",
    "y = torch.tensor(0.1, device='cpu')",
    "y = torch.tensor([1.0, 2.0]).to('cpu')",
    "y = torch.as_tensor(x, device=device)",
    "y = torch.FloatTensor(3, 4).to(device)",
    "y = torch.ByteTensor(size=(len(x),)).to(device)",
    "y = torch.zeros(3, device=device)",
])  # fmt: skip
def test_is_no_instance(body: str) -> None:
    assert reasons(body) == []


@pytest.mark.parametrize(("body", "reason"), [
    ("y = torch.as_tensor(np.zeros(3), device=device)", ""),
    ("if i % 100 == 0:\n    y = torch.tensor(0.1, device=device)", ""),
    ("if i > 0:\n    pass\nelse:\n    y = x.new_tensor(0)", ""),
])  # fmt: skip
def test_what_is_no_constant_of_every_step_stays(body: str, reason: str) -> None:
    found = reasons(body)
    assert len(found) == bool(reason)
    assert not reason or found[0].startswith(reason)


@pytest.mark.parametrize(("number", "is_pythons"), [
    ("reward", False),
    ("-reward", False),
    ("2 * reward", False),
    ("kept.reward", False),
    ("later", False),
    ("float(reward)", True),
    ("rounds", True),
    ("x.shape[0]", True),
])  # fmt: skip
def test_numbers_that_may_be_of_numpy(number: str, is_pythons: bool) -> None:
    """np.float64 is a `float`: `torch.tensor` makes float64 of it, and `torch.full` float32."""
    code = (
        "import torch\n\n\nclass Kept:\n    reward: float\n\n\n"
        "def train(model, reward: float, kept: Kept, data: torch.Tensor):\n    later, rounds = reward + 1, len(data)\n"
        "    for x in data:\n        x = x.cuda()\n"
        f"        model(x, torch.tensor([{number}], device='cuda')).backward()\n"
    )
    found = result(code)
    assert bool(found.applied) is is_pythons
    typed = result(code.replace("], device", "], dtype=torch.float, device"))
    assert not any("may be a number of NumPy" in each.reason for each in typed.refused)


def test_an_element_that_needs_a_gradient_is_no_leaf() -> None:
    """The scalar would be one, and would get a gradient of its own."""
    body = "t = torch.tensor([0.0], requires_grad=True, device=device)[0]\nkeep(t)"
    assert "[0]" in result(step(body)).after.decode()


@pytest.mark.parametrize("body", [
    "n = torch.tensor([len(y)], device=device)\nn = (n / 2).item()",
    "n = torch.tensor(len(y), device=device)\ntorch.distributed.all_reduce(n)\nn = torch.clamp(n, 1).item()",
])  # fmt: skip
def test_what_the_host_reads_back_is_no_gain(body: str) -> None:
    (held,) = result(step(body)).held_back
    assert held.safety is Safety.LOW_IMPACT
    assert held.reason.startswith("its value is read back on line")


@pytest.mark.parametrize(("body", "reason"), [
    ("scale = torch.sqrt(torch.FloatTensor([0.5]).to(x.device))", "`0.5` needs no tensor"),
    ("y = torch.max(x, torch.tensor(1e-7, device=device))", "`1e-7` needs no tensor"),
    ("y = x.max(torch.tensor(1.0, device=device))", "`1.0` needs no tensor"),
    ("y = x * torch.tensor(2.0, device=device)", "`2.0` needs no tensor"),
    ("y = torch.max(x, torch.tensor(0.0, device=device))", "`0.0` needs no tensor"),
    ("y = x.max(torch.tensor(i + 1, device=device))", "`i + 1` needs no tensor"),
    ("low = torch.tensor(len(y), device=device)\ny = torch.log(low)", "`len(y)` needs no tensor"),
    ("n = torch.tensor(float(i), device=device)\ny = torch.div(x, n)\nz = x / n", "`float(i)` needs no tensor"),
    ("x[x > 3] = torch.Tensor([0.1]).to(x.device)", "`0.1` needs no tensor"),
    ("kept = [torch.tensor(0., device=device)] * 3\nkept[0] = x", "the list holds one tensor many times: write"),
    ("y = Variable(torch.FloatTensor([0.0]).cuda())", "`Variable` does nothing"),
    ("t = torch.tensor(data=1, device=device)\nkeep(t)", "a filled tensor"),
    ("t = torch.tensor(True, device=x.device)\nkeep(t)", "a filled tensor"),
    ("t = torch.tensor([1], device=device)[0]\nkeep(t)", "a filled tensor"),
    ("t = torch.tensor(1).cuda(0)\nkeep(t)", "a filled tensor"),
])  # fmt: skip
def test_constants_that_an_expert_would_not_fill(body: str, reason: str) -> None:
    (held,) = result("from torch.autograd import Variable\n" + step(body)).held_back
    assert held.safety is Safety.LOW_IMPACT
    assert held.reason.startswith(reason)


@pytest.mark.parametrize("body", [
    "n = torch.tensor(float(i), device=device)\ny = x / n\nkeep(n)",
    "x[x > 3] = torch.tensor(0.5, device=device)",
    "loss = x.sum() + torch.tensor(0.0, device=device)",
    "total = torch.tensor(2.0, device=device)",
    "x.sum().backward(torch.tensor(args.scale * 1.0, device=device))",
    "nn.functional.binary_cross_entropy(x, y, weight=torch.tensor([2.0], device=device))",
    "model(x, torch.tensor([7], device=device))",
])  # fmt: skip
def test_constants_that_are_filled_where_they_stand(body: str) -> None:
    assert not result(step(body)).held_back


def test_an_early_return_is_filled_where_the_rest_of_the_function_fills_the_same() -> None:
    code = step("loss = penalty(x)") + textwrap.dedent("""

        def penalty(x):
            if len(x) < 2:
                return torch.tensor(0.0, device=x.device)
            loss = {}
            return loss + x.mean()
        """)
    after = result(code.format("torch.tensor(0.0, device=x.device)")).after.decode()
    assert after.count("torch.zeros((), device=x.device)") == 2
    (held,) = result(code.format("x.sum()")).held_back
    assert held.reason == "it runs only under the `if` on line 18, not in every step"


@pytest.mark.parametrize("body", [
    "if len(y) == 0:\n    keep(torch.tensor(0.0, device=device))\n    continue",
    "loss = x.sum() if len(y) else torch.tensor(0.0, device=device)",
])  # fmt: skip
def test_what_few_steps_make_is_no_gain(body: str) -> None:
    (held,) = result(step(body)).held_back
    assert held.safety is Safety.LOW_IMPACT
    assert held.reason == "it runs only under the `if` on line 14, not in every step"


def test_types_are_written_where_the_default_is_another() -> None:
    code = step("t = torch.FloatTensor([1.0]).to(device)\nkeep(t)") + "\n\ntorch.set_default_dtype(torch.float64)\n"
    assert "t = torch.ones(1, dtype=torch.float32, device=device)" in result(code).after.decode()


def test_what_is_made_in_front_of_the_loop_stays() -> None:
    """A function that runs the training is not run by its rounds, though they hand it to somebody."""
    code = """\
    import torch
    from tools import describe


    def fit(model, loader, device):
        total = torch.tensor(0.0, device=device)
        for x, y in loader:
            describe(fit)
            loss = model(x.to(device)).sum()
            loss.backward()
            total += loss.detach()
        return total
    """
    found = result(textwrap.dedent(code))
    assert (found.applied, found.held_back) == ((), ())


def test_constants_of_forward_passes_cannot_be_hoisted() -> None:
    code = """\
    import torch


    class Net(torch.nn.Module):
        def forward(self, x):
            low = torch.tensor(0.0, device=x.device)
            return (x - torch.tensor([1.0, 2.0], device=x.device)).maximum(low)
    """
    found = result(textwrap.dedent(code))
    assert "low = torch.zeros((), device=x.device)" in found.after.decode()
    (refused,) = found.refused
    assert "perfmod found no training loop to move it out of: register it as a buffer of the module" in refused.reason
