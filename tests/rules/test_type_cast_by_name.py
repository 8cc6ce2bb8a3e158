"""PM208: casts by a type of the CPU's tensors become casts by method, where nobody needs the move."""

from __future__ import annotations

import pytest

from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, FileResult
from perfmod.transforms.feeding.type_cast_by_name import TypeCastByName
from perfmod.transforms.finding import Safety

CODE = """\
import torch
from data import batches, model, hosted

device = torch.device("cuda")
loader = torch.utils.data.DataLoader(hosted)
for part in loader:
    x = part.to(device)
    scores = model(x).softmax(-1)
    BODY
    scores.sum().backward()
"""


def run(*body: str, unsafe: bool = False) -> FileResult:
    result = rewrite(
        CODE.replace("BODY", "\n    ".join(body)).encode(), "t.py", [TypeCastByName()], Choice(unsafe=unsafe)
    )
    assert not result.reason
    return result


@pytest.mark.parametrize(("before", "after"), [
    ("m = (scores > 0).type(torch.FloatTensor).to(device)", "m = (scores > 0).float()\n"),
    ("m = (scores > 0).type(torch.LongTensor).cuda()", "m = (scores > 0).long().cuda()"),
    ("m = scores.argmax(-1).type(torch.IntTensor).cuda(0)", "m = scores.argmax(-1).int().cuda(0)"),
    ("m = scores.type('torch.DoubleTensor').to(x.device)", "m = scores.double().to(x.device)"),
    ("m = model(scores.type(torch.BoolTensor).to(device))", "m = model(scores.bool())"),
    ("m = scores.type(dtype=torch.HalfTensor).cuda()", "m = scores.half().cuda()"),
    ("m = (scores > 0).type(torch.FloatTensor).to(scores.device)", "m = (scores > 0).float()\n"),
])  # fmt: skip
def test_cast_where_the_tensor_is(before: str, after: str) -> None:
    result = run(before)
    assert after in result.after.decode()
    assert [finding.safety for finding in result.applied] == [Safety.SAFE]


def test_moved_by_another_statement() -> None:
    result = run("m = (scores > 0).type(torch.FloatTensor)", "m = m.to(device)")
    assert "m = (scores > 0).float()\n    m = m.to(device)" in result.after.decode()


def test_floats_that_become_integers() -> None:
    before = "m = scores.type(torch.LongTensor).to(device)"
    assert "NaN" in run(before).held_back[0].reason
    assert "m = scores.long()\n" in run(before, unsafe=True).after.decode()


@pytest.mark.parametrize(("body", "reason"), [
    (("m = scores.type(torch.FloatTensor)", "hosted.add(m)"), "line 10 uses it"),
    (("m = scores.type(torch.FloatTensor).numpy()",), "line 9 uses it"),
    (("m = scores.type(torch.FloatTensor).to('cpu')",), "line 9 uses it"),
    (("m = scores.type(torch.FloatTensor)", "m = m.to(device)", "m.add_(1)"), ""),
    (("y = scores", "m = y.type(torch.FloatTensor).to(device)", "m.add_(1)"), "modifies"),
    (("m = scores.type(torch.FloatTensor).to(device)", "scores.add_(1)"), "modifies"),
    (("m = scores.type(  # down\n        torch.FloatTensor).cuda()",), "comment"),
])  # fmt: skip
def test_refusals_say_why(body: tuple[str, ...], reason: str) -> None:
    result = run(*body, unsafe=True)
    if reason:
        assert not result.applied
        assert [reason in finding.reason for finding in result.refused] == [True]


@pytest.mark.parametrize("body", [
    "m = part.type(torch.FloatTensor).to(device)",
    "m = torch.ones(3).type(torch.LongTensor).to(device)",
    "m = scores.type(torch.float32)",
    "m = scores.type(torch.cuda.FloatTensor)",
    "m = scores.type()",
    "m = scores.float().to(device)",
])  # fmt: skip
def test_what_is_something_else(body: str) -> None:
    result = run(body, unsafe=True)
    assert not result.applied
    assert not result.refused


WEIGHTS = """\
import torch
from torch import nn
from data import batches, keep

device = torch.device("cuda")
model = nn.Linear(3, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def snapshot(tensor):
    return tensor.type(torch.FloatTensor).cuda()


for x, y in torch.utils.data.DataLoader(batches):
    x = x.to(device)
    out = model(x)
    BODY
    out.mean().backward()
    optimizer.step()
    AFTER
"""


@pytest.mark.parametrize(("body", "behind", "reason"), [
    ("old = [p.type(torch.FloatTensor).to(device) for p in model.parameters()]", "", "may be used elsewhere"),
    ("old = [snapshot(p) for p in model.parameters()]", "", "may be used elsewhere"),
    ("w = model.weight\n    old = w.type(torch.FloatTensor).to(device)", "keep(old - model.weight)",
     "may be used elsewhere"),
    ("part = out[:, :2]\n    m = part.type(torch.FloatTensor).to(device)", "keep(m.view(-1))", "may be used elsewhere"),
    ("m = out.type(torch.FloatTensor).to(device)", "keep(m.view(-1))", "line 20 asks for a view"),
    ("m = out.type(torch.FloatTensor).to(device).view(-1)", "", "line 17 asks for a view"),
    ("m = out.type(torch.FloatTensor).to(device)\n    m.retain_grad()", "", "line 18 uses"),
    ("m = x.type(torch.FloatTensor).to(device)\n    m.requires_grad = True", "", "modifies"),
    ("m = x.type(torch.FloatTensor).to(device)\n    m.requires_grad_(True)", "", "line 18 uses"),
])  # fmt: skip
def test_a_copy_that_others_do_not_share(body: str, behind: str, reason: str) -> None:
    code = WEIGHTS.replace("BODY", body).replace("AFTER", behind or "keep(out)")
    if "snapshot(p)" not in body:
        code = code[: code.index("def snapshot")] + "\n" * 4 + code[code.index("for x, y") :]
    result = rewrite(code.encode(), "t.py", [TypeCastByName()], Choice(unsafe=True))
    assert not result.applied
    assert [reason in finding.reason for finding in result.refused] == [True]


@pytest.mark.parametrize("value", ["out", "x", "out.softmax(-1)", "out + 1"])
def test_what_the_step_computes_is_its_own(value: str) -> None:
    code = WEIGHTS.replace("BODY", f"m = ({value}).type(torch.FloatTensor).to(device)").replace("AFTER", "keep(m)")
    code = code.replace("return tensor.type(torch.FloatTensor).cuda()", "return tensor")
    assert rewrite(code.encode(), "t.py", [TypeCastByName()]).applied
