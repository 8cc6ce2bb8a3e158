"""PM208: casts by a type of the CPU's tensors become casts by method, where nobody needs the move."""

from __future__ import annotations

import pytest

from perfmod.codemods.engine import Choice, FileResult, rewrite
from perfmod.transforms.feeding.type_cast_by_name import TypeCastByName
from perfmod.transforms.rule import Safety

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


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("m = (scores > 0).type(torch.FloatTensor).to(device)", "m = (scores > 0).float().to(device)"),
        ("m = (scores > 0).type(torch.LongTensor).cuda()", "m = (scores > 0).long().cuda()"),
        ("m = scores.argmax(-1).type(torch.IntTensor).cuda(0)", "m = scores.argmax(-1).int().cuda(0)"),
        ("m = scores.type('torch.DoubleTensor').to(x.device)", "m = scores.double().to(x.device)"),
        ("m = model(scores.type(torch.BoolTensor).to(device))", "m = model(scores.bool().to(device))"),
        ("m = scores.type(dtype=torch.HalfTensor).cuda()", "m = scores.half().cuda()"),
    ],
)
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
    assert "m = scores.long().to(device)" in run(before, unsafe=True).after.decode()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (("m = scores.type(torch.FloatTensor)", "hosted.add(m)"), "line 10 uses it"),
        (("m = scores.type(torch.FloatTensor).numpy()",), "line 9 uses it"),
        (("m = scores.type(torch.FloatTensor).to('cpu')",), "line 9 uses it"),
        (("m = scores.type(torch.FloatTensor)", "m = m.to(device)", "m.add_(1)"), ""),
        (("y = scores", "m = y.type(torch.FloatTensor).to(device)", "m.add_(1)"), "writes into"),
        (("m = scores.type(torch.FloatTensor).to(device)", "scores.add_(1)"), "writes into"),
        (("m = scores.type(  # down\n        torch.FloatTensor).cuda()",), "comment"),
    ],
)
def test_refusals_say_why(body: tuple[str, ...], reason: str) -> None:
    result = run(*body, unsafe=True)
    if reason:
        assert not result.applied
        assert [reason in finding.reason for finding in result.refused] == [True]


@pytest.mark.parametrize(
    "body",
    [
        "m = part.type(torch.FloatTensor).to(device)",
        "m = torch.ones(3).type(torch.LongTensor).to(device)",
        "m = scores.type(torch.float32)",
        "m = scores.type(torch.cuda.FloatTensor)",
        "m = scores.type()",
        "m = scores.float().to(device)",
    ],
)
def test_what_is_something_else(body: str) -> None:
    result = run(body, unsafe=True)
    assert not result.applied
    assert not result.refused
