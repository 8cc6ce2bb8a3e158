"""PM112: what the device can count, and what is left on the host with the reason."""

from __future__ import annotations

import textwrap

import pytest
import torch

from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, FileResult, Outcome
from perfmod.transforms.finding import Numerics, Safety
from perfmod.transforms.syncs.read_back import ReadBack

HEAD = """\
import numpy as np
import torch
from torch import nn


def train(model, loader, optimizer, device, args, score, keep):
    for i, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        out = model(x)
        pred = out.argmax(dim=1)
        loss = nn.functional.cross_entropy(out, y)
        loss.backward()
"""


def step(body: str) -> str:
    return HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8) + "\n"


def result(code: str, *, unsafe: bool = False) -> FileResult:
    found = rewrite(code.encode(), "train.py", [ReadBack()], Choice(unsafe=unsafe))
    assert found.outcome is not Outcome.FAILED, found.reason
    return found


def reasons(body: str) -> list[str]:
    """Why the rule refuses; the code must stay as it is."""
    found = result(step(body), unsafe=True)
    assert found.outcome is Outcome.UNCHANGED, found.after.decode()
    return [finding.reason for finding in found.refused]


COUNTED = {
    "(pred.cpu() == y.cpu()).sum().item()": ("(pred == y).sum().item()", Numerics.BITWISE),
    "int((pred.cpu() == y.cpu()).sum())": ("int((pred == y).sum())", Numerics.BITWISE),
    "torch.sum(pred.cpu() != y.data.cpu()).item()": ("torch.sum(pred != y).item()", Numerics.BITWISE),
    "pred.detach().cpu().eq(y.cpu()).sum().item()": ("pred.eq(y).sum().item()", Numerics.BITWISE),
    "torch.eq(pred.cpu(), y.cpu()).float().mean().item()": ("torch.eq(pred, y).float().mean().item()",
        Numerics.ROUNDING),
    "float((pred.cpu() == y.cpu()).float().mean())": ("float((pred == y).float().mean())", Numerics.ROUNDING),
    "(pred.cpu() == 1).sum().item()": ("(pred == 1).sum().item()", Numerics.BITWISE),
    "(-0.5 <= out.cpu()).float().mean().item()": ("(-0.5 <= out).float().mean().item()", Numerics.ROUNDING),
    "int(pred.detach().cpu().ne(257).sum())": ("int(pred.ne(257).sum())", Numerics.BITWISE),
    "(pred == y).cpu().sum().item()": ("(pred == y).sum().item()", Numerics.BITWISE),
    "pred.eq(y).cpu().float().sum().item()": ("pred.eq(y).float().sum().item()", Numerics.ROUNDING),
    "(out.argmax(1).cpu() == y.cpu()).sum().item()": ("(out.argmax(1) == y).sum().item()", Numerics.BITWISE),
}  # fmt: skip

# A count that has a name, and what is no such count though it looks like one.
NAMED = {
    "what was compared": ("n = (pred == y).cpu().sum()\nhits = n.item()", "n = (pred == y).sum()\nhits = n.item()"),
    "read twice": ("n = pred.eq(y).cpu().sum()\nkeep.append(n.item() / 2)\nkeep.append(int(n))",
        "n = pred.eq(y).sum()\nkeep.append(n.item() / 2)\nkeep.append(int(n))"),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_counts_that_have_a_name(name: str) -> None:
    before, after = NAMED[name]
    assert result(step(before)).after.decode() == step(after)


@pytest.mark.parametrize("body", [
    "a = pred.cpu()\nhits = (a == y.cpu()).sum().item()",
    "a = pred.cpu().numpy()\nb = y.cpu().numpy()\nhits = (a == b).sum()",
    "n = (pred.cpu().numpy() == y.cpu().numpy()).mean()",
    "n = np.sum(pred.detach().cpu().numpy() == y.cpu().numpy())",
    "n = loss.detach().cpu().numpy()",
    "same = (pred == y).cpu()\nhits = same.sum().item()\nkeep.append(same)",
])  # fmt: skip
def test_copies_that_stay(body: str) -> None:
    assert reasons(body) == []


@pytest.mark.parametrize("before", COUNTED)
def test_is_counted_on_the_device(before: str) -> None:
    after, numerics = COUNTED[before]
    found = result(step(f"n = {before}"))
    assert found.after.decode() == step(f"n = {after}"), [finding.reason for finding in found.refused]
    assert {finding.safety for finding in found.applied} == {Safety.SAFE}
    assert {finding.numerics for finding in found.applied} == {numerics}
    assert result(step(f"n = {after}")).outcome is Outcome.UNCHANGED


@pytest.mark.parametrize("before", COUNTED)
def test_numbers_are_the_same(before: str) -> None:
    after = COUNTED[before][0]
    for seed, size in enumerate((1, 3, 100, 1000)):
        generator = torch.Generator().manual_seed(seed)
        out, y = torch.randn(size, 4, generator=generator), torch.randint(4, (size,), generator=generator)
        space = {"torch": torch, "np": __import__("numpy"), "out": out, "pred": out.argmax(1), "y": y}
        assert eval(before, space) == pytest.approx(eval(after, space), rel=1e-6)


def test_a_count_beside_copies_that_stay() -> None:
    found = rewrite(
        step("n = (pred.cpu() == y.cpu()).sum().item()\nscore(out.cpu())").encode(), "train.py", [ReadBack()]
    )
    (held,) = found.held_back
    assert (held.safety, held.reason) == (Safety.LOW_IMPACT, "line 14 waits for the device in every step anyway")


STAYING = [
    "keep.extend(pred.cpu().tolist())",
    "keep.append(out.detach().cpu().numpy())",
    "score(y.cpu().numpy(), 3)",
    "p = pred.cpu().numpy()\nscore(p)",
    "for p in pred.tolist():\n    score(p)",
    "return pred.cpu()",
    "n = (pred.cpu() == args.labels).sum().item()",
    "p = pred.cpu()",
    "n = pred.eq(y).cpu().sum()\nkeep.append(n)",
    "p = pred.cpu()\nz = p + 1",
    "n = (\n    (pred.cpu() == 1)  # one\n    .sum().item()\n)",
    "n = (out.cpu() > 0.1).sum().item()",
    "n = (pred.cpu() == torch.zeros(3)).sum().item()",
]


@pytest.mark.parametrize("body", STAYING)
def test_what_the_device_cannot_count_stays(body: str) -> None:
    assert reasons(body) == []


def test_sums_that_stay_tensors_stay() -> None:
    assert reasons("n = (pred.cpu() == y.cpu()).sum()") == []
    assert reasons("n = (pred.cpu() == y.cpu()).sum(0)[0].item()") == []


@pytest.mark.parametrize(
    "body",
    [
        "n = loss.cpu().item()",
        "a, b = torch.stack((loss.detach(), out.mean())).tolist()",  # one transfer
        "n = float(loss.detach().cpu())",
        "n = np.zeros(3).tolist()",
        "n = x.size().numel()",
    ],
)
def test_is_left_to_others(body: str) -> None:
    assert reasons(body) == []


def test_tensors_of_several_devices_stay() -> None:
    code = step("n = (pred.cpu() == y.cpu()).sum().item()").replace("model(x)", "model.to('cuda:0')(x).to('cuda:1')")
    assert result(code).outcome is Outcome.UNCHANGED
