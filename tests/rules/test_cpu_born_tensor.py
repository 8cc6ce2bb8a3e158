"""PM206: what is filled on the host and moved is filled on the device, when that gives the same tensor."""

from __future__ import annotations

import re

import pytest

from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, FileResult, Outcome
from perfmod.transforms.feeding.cpu_born_tensor import CpuBornTensor
from perfmod.transforms.finding import Numerics, Safety
from perfmod.transforms.syncs.device_constant_in_step import DeviceConstantInStep

CODE = """\
import torch
from torch.autograd import Variable
from data import loader, model, other, gpu, generator, count, fraction, options, x_gpu, deviation, local_rank
from data import get_device, to_device

device = torch.device("cuda")
for x in loader:
    n = x.size(0)
    made = BODY
    model(x.to(device), made).backward()
"""


def run(body: str, *, unsafe: bool = False, selected: bool = False) -> FileResult:
    choice = Choice(unsafe=unsafe, opted_in=frozenset({"PM206"} if selected else ()))
    result = rewrite(CODE.replace("BODY", body).encode(), "train.py", [CpuBornTensor()], choice)
    assert not result.reason
    return result


def body(result: FileResult) -> str:
    after = result.after.decode()
    return after[after.index("made = ") + len("made = ") : after.index("\n    model(")]


@pytest.mark.parametrize(("before", "after"), [
    ("torch.zeros(n, 3).to(device)", "torch.zeros(n, 3, device=device)"),
    ("torch.ones((n, 3)).cuda()", 'torch.ones((n, 3), device="cuda")'),
    ("torch.full((n,), -1.0).to(x.device)", "torch.full((n,), -1.0, device=x.device)"),
    ("torch.empty(n).cuda(0)", "torch.empty(n, device=0)"),
    ("torch.eye(n).to('cuda:0', non_blocking=True)", "torch.eye(n, device='cuda:0')"),
    ("torch.arange(n).to(device=device)", "torch.arange(n, device=device)"),
    ("torch.arange(0, n, 2).to(device)", "torch.arange(0, n, 2, device=device)"),
    ("torch.triu(torch.ones(n, n) * float('-inf'), diagonal=1).to(device)",
     "torch.triu(torch.ones(n, n, device=device) * float('-inf'), diagonal=1)"),
    ("(1 - torch.eye(n)[None] - torch.ones(n, n)).to(device)",
     "1 - torch.eye(n, device=device)[None] - torch.ones(n, n, device=device)"),
    ("(torch.tril(torch.ones(n, n)) == 0).masked_fill(torch.eye(n) > 0, False).cuda()",
     '(torch.tril(torch.ones(n, n, device="cuda")) == 0).masked_fill(torch.eye(n, device="cuda") > 0, False)'),
    ("(torch.arange(n)[:, None] + 1).to(device)", "torch.arange(n, device=device)[:, None] + 1"),
    ("torch.zeros(n) \\\n        .to(device)", "torch.zeros(n, device=device)"),
    ("torch.zeros(n). \\\n        to(device)", "torch.zeros(n, device=device)"),
    ("torch.zeros(n) \\\n        .to(device) \\\n        .long()", "torch.zeros(n, dtype=torch.long, device=device)"),
    ("torch.zeros(n).to(device, torch.long)", "torch.zeros(n, dtype=torch.long, device=device)"),
    ("torch.zeros(n).to(device=device, dtype=torch.long)", "torch.zeros(n, dtype=torch.long, device=device)"),
    ("torch.full((n,), 1.5).to(device, torch.long)", "torch.full((n,), 1.5, device=device).to(torch.long)"),
    ("torch.ones(n, dtype=torch.half).to(device, torch.long)",
     "torch.ones(n, dtype=torch.half, device=device).to(torch.long)"),
    ("torch.LongTensor(n, 1).fill_(0).to(device)", "torch.zeros(n, 1, dtype=torch.long, device=device)"),
    ("torch.ByteTensor(n).zero_().cuda()", 'torch.zeros(n, dtype=torch.uint8, device="cuda")'),
    ("torch.FloatTensor(n, 3).fill_(1).to(device)", "torch.ones(n, 3, dtype=torch.float, device=device)"),
    ("torch.zeros(n).long().to(device)", "torch.zeros(n, dtype=torch.long, device=device)"),
    ("torch.zeros(n).to(device).long()", "torch.zeros(n, dtype=torch.long, device=device)"),
    ("torch.ones(n, 3).cuda().bool()", 'torch.ones(n, 3, dtype=torch.bool, device="cuda")'),
    ("torch.zeros(n).to(device).long().view(1, -1)", "torch.zeros(n, dtype=torch.long, device=device).view(1, -1)"),
    ("torch.zeros(n).view(1, -1).to(device).long()", "torch.zeros(n, device=device).view(1, -1).long()"),
    ("torch.full((n,), 1.5).to(device).long()", "torch.full((n,), 1.5, device=device).long()"),
    ("torch.zeros(n, dtype=torch.half).to(device).long()", "torch.zeros(n, dtype=torch.half, device=device).long()"),
    ("torch.zeros(\n        len(x,)).bool().to(device)",
     "torch.zeros(\n        len(x,), dtype=torch.bool, device=device)"),
    ("torch.ones(n, 3).byte().cuda()", 'torch.ones(n, 3, dtype=torch.uint8, device="cuda")'),
    ("torch.zeros(n).long().view(1, -1).to(device)", "torch.zeros(n, dtype=torch.long, device=device).view(1, -1)"),
    ("torch.eye(n).bool().to(x.device)", "torch.eye(n, device=x.device).bool()"),
    ("torch.ones(n, dtype=torch.half).long().to(device)", "torch.ones(n, dtype=torch.half, device=device).long()"),
    ("torch.zeros(n).long().to(device, torch.int)", "torch.zeros(n, device=device).long().to(torch.int)"),
    ("torch.arange(n).long().to(device)", "torch.arange(n, device=device)"),
    ("torch.arange(0, n).to(device).long()", "torch.arange(0, n, device=device)"),
    ("torch.arange(count).long().to(device)", "torch.arange(count, device=device).long()"),
    ("torch.arange(0, 2.5).long().to(device)", "torch.arange(0, 2.5, device=device).long()"),
    ("torch.arange(n, dtype=torch.int).long().cuda()", 'torch.arange(n, dtype=torch.int, device="cuda").long()'),
    ("torch.arange(n).int().to(device)", "torch.arange(n, device=device).int()"),
    ("torch.arange(n).unsqueeze(0).long().to(device)", "torch.arange(n, device=device).unsqueeze(0).long()"),
    ("torch.triu(torch.ones(n, n), diagonal=1).bool().to(device)",
     "torch.triu(torch.ones(n, n, device=device), diagonal=1).bool()"),
    ("torch.zeros(n).to(device).requires_grad_()", "torch.zeros(n, device=device).requires_grad_()"),
    ("torch.zeros(n).to(local_rank)", "torch.zeros(n, device=local_rank)"),
    ("torch.zeros(n).to(options.gpu_id)", "torch.zeros(n, device=options.gpu_id)"),
    ("torch.zeros(n).to(get_device())", "torch.zeros(n, device=get_device())"),
    ("torch.full((n,), 7).long().to(device)", "torch.full((n,), 7, device=device).long()"),
    ("(torch.zeros(n)).to(device)", "torch.zeros(n, device=device)"),
    ("torch.zeros(\n        n,\n    ).to(device)", "torch.zeros(\n        n,\n        device=device,\n    )"),
    ("(\n        torch.zeros(n)\n        .to(device)\n    )", "(\n        torch.zeros(n, device=device)\n    )"),
    ("torch.zeros(n, requires_grad=False).to(device)", "torch.zeros(n, requires_grad=False, device=device)"),
])  # fmt: skip
def test_filled_where_it_is_used(before: str, after: str) -> None:
    result = run(before)
    assert body(result) == after
    assert [(f.safety, f.numerics) for f in result.applied] == [(Safety.SAFE, Numerics.BITWISE)]
    assert not run(after).applied
    assert not run(after).refused


@pytest.mark.parametrize(("before", "after"), [
    ("torch.zeros(y.size()).cuda()", "torch.zeros_like(y)"),
    ("torch.ones(y.shape[0], 3).to('cuda')", "torch.ones(y.shape[0], 3, device=y.device)"),
    ("torch.arange(len(y)).cuda()", "torch.arange(len(y), device=y.device)"),
    ("torch.zeros(y.size(0)).long().cuda()", "torch.zeros(y.size(0), dtype=torch.long, device=y.device)"),
    ("torch.zeros(y.size(0)).cuda(0)", "torch.zeros(y.size(0), device=0)"),
    ("torch.zeros(y.size(0)).to(device)", "torch.zeros(y.size(0), device=device)"),
    ("torch.zeros(x.size(0)).cuda()", 'torch.zeros(x.size(0), device="cuda")'),
    ("torch.zeros(other.size(0)).cuda()", 'torch.zeros(other.size(0), device="cuda")'),
    ("torch.zeros(n).cuda()", 'torch.zeros(n, device="cuda")'),
])  # fmt: skip
def test_the_device_of_the_tensor_at_hand(before: str, after: str) -> None:
    code = CODE.replace("    n = x", "    y = torch.rand(4, device=device)\n    n = x").replace("BODY", before)
    result = rewrite(code.encode(), "train.py", [CpuBornTensor()])
    assert body(result) == after
    assert {f.safety for f in result.applied} == {Safety.SAFE}


@pytest.mark.parametrize(
    "code",
    ["Variable(torch.zeros(n).long()).cuda()", "Variable(torch.zeros(n)).cuda()", "Variable(torch.zeros(n).cuda())"],
)
def test_what_is_wrapped_as_of_old_is_held_back(code: str) -> None:
    (held,) = run(code).held_back
    assert body(run(code)) == code
    assert (held.safety, held.reason) == (
        Safety.LOW_IMPACT,
        "`Variable` does nothing since torch 0.4: remove it first",
    )


@pytest.mark.parametrize("code", [
    "torch.ones(n).cuda() if options.gpu else torch.ones(n)",
    "torch.ones(n) if options.cpu else torch.ones(n).cuda()",
])  # fmt: skip
def test_what_both_sides_of_a_choice_make_is_held_back(code: str) -> None:
    (held,) = run(code).held_back
    assert body(run(code)) == code
    assert held.safety is Safety.LOW_IMPACT
    assert re.fullmatch(r"both sides of the `if` on line 9 make it: make it once, on the device .*", held.reason)
    assert run("torch.ones(n).cuda() if options.gpu else torch.zeros(n)").applied


@pytest.mark.parametrize("argument", ["lens", "lengths=lens"])
def test_lengths_of_packed_sequences_belong_on_the_cpu(argument: str) -> None:
    code = CODE.replace("BODY", "torch.ones(n, dtype=torch.long).to(device)").replace(
        "model(x.to(device), made)", "f(made)"
    )
    code += f"""

from torch.nn.utils.rnn import pack_padded_sequence

def f(lens):
    return model(pack_padded_sequence(x, {argument}, batch_first=True))
"""
    result = rewrite(code.encode(), "train.py", [CpuBornTensor()])
    (held,) = result.held_back
    assert result.outcome is Outcome.UNCHANGED
    assert held.safety is Safety.LOW_IMPACT
    assert re.fullmatch(r"`pack_padded_sequence` on line \d+ needs its lengths on the CPU: drop the copy", held.reason)


def test_the_file_s_own_quotes_and_name_of_torch() -> None:
    code = CODE.replace("BODY", "th.zeros(n).long().cuda()").replace('"', "'")
    code = code.replace("torch.device", "th.device").replace("import torch\n", "import torch as th\n")
    after = rewrite(code.encode(), "train.py", [CpuBornTensor()]).after.decode()
    assert "made = th.zeros(n, dtype=th.long, device='cuda')\n" in after


@pytest.mark.parametrize(("before", "after"), [
    ("torch.rand(n).to(device)", "torch.rand(n, device=device)"),
    ("torch.randn(n, 3).cuda()", 'torch.randn(n, 3, device="cuda")'),
    ("torch.randint(0, 9, (n,)).to(device)", "torch.randint(0, 9, (n,), device=device)"),
    ("torch.randperm(n).to(device)", "torch.randperm(n, device=device)"),
    ("torch.empty(n).normal_().to(device)", "torch.empty(n, device=device).normal_()"),
    ("torch.empty(n).bernoulli_(0.5).to(device)", "torch.empty(n, device=device).bernoulli_(0.5)"),
    ("torch.normal(0.0, 1.0, (n,)).to(device)", "torch.normal(0.0, 1.0, (n,), device=device)"),
])  # fmt: skip
def test_random_fills_have_to_be_selected(before: str, after: str) -> None:
    result = run(before, unsafe=True)
    assert body(result) == before
    assert [(f.safety, f.numerics) for f in result.held_back] == [(Safety.OPT_IN, Numerics.SAMPLING)]
    assert body(run(before, selected=True)) == after


@pytest.mark.parametrize(
    "before",
    ["torch.arange(0, 1, 0.1).to(device)", "torch.linspace(0, 1, n).to(device)", "torch.arange(fraction, n).cuda()"],
)
def test_numbers_that_may_round_differently(before: str) -> None:
    result = run(before)
    assert body(result) == before
    assert [(f.safety, f.numerics) for f in result.held_back] == [(Safety.UNSAFE, Numerics.ROUNDING)]
    assert "device=" in body(run(before, unsafe=True))


@pytest.mark.parametrize(("before", "reason"), [
    ("torch.zeros(n, requires_grad=True).to(device)", "requires a gradient"),
    ("torch.zeros(n).requires_grad_().to(device)", "requires a gradient"),
    ("torch.zeros(n, pin_memory=True).to(device)", "pinned"),
    ("torch.zeros(n, out=other).to(device)", "out= writes it into"),
    ("torch.rand(n, generator=generator).to(device)", "generator is a CPU generator"),
    ("torch.zeros(n, device='cpu').to(device)", "explicitly"),
    ("torch.zeros(n).cuda(gpu)", "may be None"),
    ("torch.zeros(n).to(torch.exp(x))", "type and device of"),
    ("torch.zeros(n).to(other)", "may be a device or a tensor"),
    ("torch.zeros(n, **options).to(device)", "passed by `**`"),
    ("torch.zeros(n).to(**options)", "the device it is copied to could not be determined"),
    ("torch.zeros(n, names=('N',)).to(device)", "names="),
    ("torch.zeros(n, 3, 8, 8).to(device, memory_format=torch.channels_last)", "memory format"),
    ("torch.zeros(n).to(x_gpu)", "may be a device or a tensor"),
    ("torch.zeros(n).to(deviation)", "may be a device or a tensor"),
    ("torch.zeros(n).to(model.rank_weight)", "may be a device or a tensor"),
    ("torch.zeros(n).to(to_device(x))", "may be a device or a tensor"),
    ("torch.full((n,), -1.0).byte().to(device)", "outside of the integer range"),
    ("torch.full((n,), float('nan')).to(device, torch.long)", "outside of the integer range"),
    ("torch.full((n,), fraction).to(device=device, dtype=torch.int32)", "outside of the integer range"),
    ("torch.normal(other, torch.ones(n)).to(device)", "may be tensors"),
    ("torch.normal(mean=torch.zeros(n), std=1.0).to(device)", "may be tensors"),
    ("torch.empty(n).bernoulli_(other).to(device)", "a tensor or a generator"),
    ("torch.empty(n).normal_(generator=generator).to(device)", "a tensor or a generator"),
    ("torch.zeros(  # of them\n        n).to(  # there\n        device)", "comment"),
])  # fmt: skip
def test_refusals_say_why(before: str, reason: str) -> None:
    result = run(before, unsafe=True, selected=True)
    assert body(result) == before
    assert [reason in finding.reason for finding in result.refused] == [True]


@pytest.mark.parametrize("before", [
    "torch.zeros(n).to('cpu')",
    "torch.zeros(n).to(torch.float64)",
    "torch.zeros(n).to(dtype=torch.long)",
    "torch.zeros_like(x).to(device)",
    "x.new_zeros(n).to(device)",
    "torch.zeros(n, device=device)",
])  # fmt: skip
def test_what_is_something_else(before: str) -> None:
    result = run(before, unsafe=True, selected=True)
    assert body(result) == before
    assert not result.refused


@pytest.mark.parametrize("before", [
    "torch.zeros(n).expand(3, n).to(device)",
    "torch.zeros(n).exp().to(device)",
    "(torch.ones(n) * other).to(device)",
    "(2 ** torch.arange(n)).to(device)",
    "torch.ones(n)[1:].to(device)",
    "torch.zeros(n).lt(x.cpu()).to(device)",
])  # fmt: skip
def test_what_the_host_goes_on_computing_with_stays(before: str) -> None:
    result = run(before, unsafe=True, selected=True)
    assert body(result) == before


@pytest.mark.parametrize("made", [
    "torch.LongTensor([n, 1]).fill_(0)",
    "torch.LongTensor(other).fill_(0)",
    "torch.LongTensor(n, 1).fill_(5)",
    "torch.LongTensor(*other).zero_()",
    "torch.LongTensor(n, 1)",
])  # fmt: skip
def test_old_constructors_of_data_and_other_fills_stay(made: str) -> None:
    assert not run(f"{made}.to(device)", unsafe=True, selected=True).applied


def test_steps_of_an_evaluation_count_beside_a_training() -> None:
    more = "with torch.no_grad():\n    for x in loader:\n        model(x.to(device), torch.zeros(3).to(device))\n"
    result = rewrite((CODE.replace("BODY", "n") + more).encode(), "train.py", [CpuBornTensor()], Choice())
    assert result.after.decode().endswith("model(x.to(device), torch.zeros(3, device=device))\n")


def test_outside_of_steps_one_copy_does_not_matter() -> None:
    code = CODE.replace("BODY", "n").replace("for x", "start = torch.zeros(3).to(device)\nfor x")
    result = rewrite(code.encode(), "train.py", [CpuBornTensor()], Choice())
    assert not result.applied
    assert not result.refused


@pytest.mark.parametrize(
    ("second", "is_beside"),
    [("", True), ("model.tail.to('cuda:1')", False), ("model.tail.cuda(1)", False), ("model.tail.cuda(0)", True)],
)
def test_the_device_of_the_tensor_at_hand_is_the_only_one(second: str, is_beside: bool) -> None:
    """A model over several devices: the tensor at hand may be on another one than the current."""
    code = (
        "import torch\nfrom torch.utils.data import DataLoader\nfrom model import model, photos\n\n"
        f"{second}\nfor x, _ in DataLoader(photos):\n    x = x.cuda()\n    state = torch.zeros(x.size(0), 8).cuda()\n"
        "    loss = model(x, state)\n    loss.backward()\n"
    )
    result = rewrite(code.encode(), "train.py", [CpuBornTensor()], Choice())
    device = "x.device" if is_beside else "'cuda'"
    assert f"torch.zeros(x.size(0), 8, device={device})" in result.after.decode().replace('"', "'")


@pytest.mark.parametrize(("written", "is_held"), [
    ("(3 * torch.ones(n).to(device)).long()", True),
    ("(torch.ones(n).cuda() * 3).float()", True),
    ("3 * torch.ones(n).to(device)", False),
    ("(3 + torch.ones(n).to(device)).long()", False),
])  # fmt: skip
def test_a_product_of_ones_that_is_cast(written: str, is_held: bool) -> None:
    result = run(written)
    assert bool(result.applied) is not is_held
    assert any("makes this product at once" in each.reason for each in result.held_back) is is_held


@pytest.mark.parametrize(("base", "sets", "is_refused"), [
    ("torch.nn.BatchNorm2d", "", True),
    ("torch.nn.BatchNorm2d", "self.device = 'cuda'", False),
    ("torch.nn.Module", "", False),
    ("Base", "", False),
    ("object", "", False),
])  # fmt: skip
def test_a_device_that_nothing_sets(base: str, sets: str, is_refused: bool) -> None:
    code = (
        f"import torch\nfrom layers import Base\n\nclass Norm({base}):\n    def __init__(self, n):\n"
        f"        super().__init__(n)\n        {sets}\n\n    def forward(self, x):\n"
        "        return x + torch.zeros(x.size(1)).to(self.device)\n"
    )
    result = rewrite(code.encode(), "train.py", [CpuBornTensor()], Choice())
    assert bool(result.applied) is not is_refused
    assert any("nothing sets `self.device`" in each.reason for each in result.refused) is is_refused


def test_a_device_that_the_line_above_sets_to_the_cpu() -> None:
    code = """\
import settings
import torch

def train(model, loader):
    for x in loader:
        model(x + torch.zeros(1).to(settings.device)).mean().backward()
        before = settings.device
        settings.device = "cpu"
        model.to(settings.device)
        model.noise = torch.ones(2).to(settings.device)
        settings.device = before
        model.noise = torch.ones(3).to(settings.device)
"""
    result = rewrite(code.encode(), "train.py", [CpuBornTensor()], Choice())
    after = result.after.decode()
    assert "torch.zeros(1, device=settings.device)" in after
    assert "torch.ones(2).to(settings.device)" in after
    assert "torch.ones(3, device=settings.device)" in after
    assert not [*result.refused, *result.held_back]


@pytest.mark.parametrize(("before", "after"), [
    ("torch.ones((y.shape)).to(device)", "torch.ones_like(y)"),
    ("torch.zeros(y.shape, dtype=y.dtype).cuda()", "torch.zeros_like(y)"),
    ("torch.zeros((len(y)), dtype=y.dtype).cuda()", "torch.zeros_like(y)"),
    ("torch.full(y.shape, 0.5).to(y.device)", "torch.full_like(y, 0.5)"),
    ("torch.full(y.shape, 2).to(y.device)", "torch.full(y.shape, 2, device=y.device)"),
    ("torch.zeros(y.shape, dtype=torch.long).to(device)", "torch.zeros(y.shape, dtype=torch.long, device=device)"),
    ("torch.ones(n, 3).to(y.device).to(y.dtype)", "torch.ones(n, 3, dtype=y.dtype, device=y.device)"),
    ("torch.zeros(n).cuda().type(torch.long)", 'torch.zeros(n, dtype=torch.long, device="cuda")'),
    ("torch.full((n,), 2.5).to(device).to(y.dtype)", "torch.full((n,), 2.5, device=device).to(y.dtype)"),
    ("torch.ones(y.shape).to(device).view(2, 2)", "torch.ones(y.shape, device=device).view(2, 2)"),
])  # fmt: skip
def test_as_another_tensor(before: str, after: str) -> None:
    code = CODE.replace("    n = x", "    y = torch.rand(4, device=device)\n    n = x").replace("BODY", before)
    assert body(rewrite(code.encode(), "train.py", [CpuBornTensor()])) == after


@pytest.mark.parametrize(("made", "after"), [
    ("torch.relu(torch.rand(4, device=device))", "torch.zeros(y.shape, device=y.device)"),
    ("0.5 * torch.rand(4, device=device)", "torch.zeros_like(y)"),
])  # fmt: skip
def test_beside_half_precision_the_type_has_to_show(made: str, after: str) -> None:
    code = CODE.replace("    n = x", f"    y = {made}\n    x = x.half()\n    n = x")
    code = code.replace("BODY", "torch.zeros(y.shape).to(y.device)")
    assert body(rewrite(code.encode(), "train.py", [CpuBornTensor()])) == after


@pytest.mark.parametrize("lines", [
    "a = y.t()",
    "b = torch.relu(torch.rand(4, 4, device=device))\n    a = b.permute(1, 0)",
    "a = torch.rand(2, 3, 4, 4, device=device).contiguous(memory_format=torch.channels_last)",
    "b = y.T\n    a = b * 2",
])  # fmt: skip
def test_not_as_a_tensor_that_does_not_lie_row_by_row(lines: str) -> None:
    """`torch.zeros_like(a)` lies as `a` does, and sums over it would round otherwise."""
    code = CODE.replace("    n = x", f"    y = torch.rand(4, 4, device=device)\n    {lines}\n    n = x")
    after = body(
        rewrite(code.replace("BODY", "torch.zeros(a.shape).to(device)").encode(), "train.py", [CpuBornTensor()])
    )
    assert after == "torch.zeros(a.shape, device=device)"


@pytest.mark.parametrize("before", [
    "(torch.ones(n) / 3).to(device)",
    "(torch.ones(n, dtype=torch.half) * 0.1).to(device)",
    "(torch.ones(n, dtype=x.dtype) + 0.1).to(device)",
    "(torch.ones(n).bfloat16() * 0.1).to(device)",
    "(torch.eye(n) - torch.linspace(0, 1, n)).to(device)",
])  # fmt: skip
def test_what_is_computed_on_the_way_and_may_be_rounded_is_held_back(before: str) -> None:
    (finding,) = run(before).held_back
    assert (finding.safety, finding.numerics) == (Safety.UNSAFE, Numerics.ROUNDING)


def test_what_is_computed_on_the_way_may_be_no_integer_of_that_type() -> None:
    (finding,) = run("(torch.ones(n) * float('inf')).long().to(device)").refused
    assert "integer range" in finding.reason


STEP = """
import helper
model, optimizer, loader = make()
for x in loader:
    model(x.cuda()).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("around", "is_made_there"), [
    ("def penalty(x, n):\n    return LINE", True),
    ("class Sampler:\n    def noise(self, x, n):\n        return LINE", True),
    ("class Sampler:\n    def __init__(self, x, n):\n        self.made = LINE", False),
    ("class Sampler:\n    def __init__(self, x):\n        self.go(x)\n    def go(self, x, n=3):\n        LINE", False),
    ("def penalty(x, n, step):\n    if step % 100 == 0:\n        return LINE", False),
    ("class D(torch.utils.data.Dataset):\n    def __getitem__(self, x, n=3):\n        return LINE", False),
    ("def main(x, n):\n    made = LINE\n    for each in x:\n        each.sum().backward()", False),
])  # fmt: skip
@pytest.mark.parametrize("line", ["torch.zeros(n).to(x.device)", "torch.tensor([2.0]).to(x.device)"])
def test_functions_that_a_step_may_call(around: str, line: str, *, is_made_there: bool) -> None:
    """A step is in sight, in the same file, and none of its calls leads there."""
    code = f"import torch\n{around.replace('LINE', line)}\n{STEP}"
    result = rewrite(code.encode(), "train.py", [CpuBornTensor(), DeviceConstantInStep()])
    assert len(result.applied) == is_made_there, result
