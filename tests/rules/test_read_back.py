"""PM112: what the device can count, and what is left on the host with the reason."""

from __future__ import annotations

import textwrap

import pytest
import torch

from perfmod.codemods.engine import Choice, FileResult, Outcome, rewrite
from perfmod.transforms.rule import Numerics, Safety
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
    "torch.eq(pred.cpu(), y.cpu()).float().mean().item()": (
        "torch.eq(pred, y).float().mean().item()",
        Numerics.ROUNDING,
    ),
    "float((pred.cpu() == y.cpu()).float().mean())": ("float((pred == y).float().mean())", Numerics.ROUNDING),
    "(pred.cpu() == 1).sum().item()": ("(pred == 1).sum().item()", Numerics.BITWISE),
    "(-0.5 <= out.cpu()).float().mean().item()": ("(-0.5 <= out).float().mean().item()", Numerics.ROUNDING),
    "int(pred.detach().cpu().ne(257).sum())": ("int(pred.ne(257).sum())", Numerics.BITWISE),
    "(pred == y).cpu().sum().item()": ("(pred == y).sum().item()", Numerics.BITWISE),
    "pred.eq(y).cpu().float().sum().item()": ("pred.eq(y).float().sum().item()", Numerics.ROUNDING),
    "(out.argmax(1).cpu() == y.cpu()).sum().item()": ("(out.argmax(1) == y).sum().item()", Numerics.BITWISE),
}

# Before and after, of copies that wait in a variable until they are compared.
IN_VARIABLES = {
    "one side": (
        "a = pred.cpu()\nhits = (a == y.cpu()).sum().item()",
        "a = pred\nhits = (a == y).sum().item()",
    ),
    "both sides": (
        "a, n = pred.detach().cpu(), 1\nb = y.cpu()\nc = pred.cpu()\nhits = int(c.eq(b).sum())",
        "a, n = pred.detach().cpu(), 1\nb = y\nc = pred\nhits = int(c.eq(b).sum())",
    ),
    "what was compared": (
        "same = (pred == y).cpu()\nhits = same.sum().item()",
        "same = (pred == y)\nhits = same.sum().item()",
    ),
    "their lengths are asked for": (
        "a = pred.cpu()\nhits = (a == y.cpu()).sum().item() / len(a) / a.shape[0] / a.size(0)",
        "a = pred\nhits = (a == y).sum().item() / len(a) / a.shape[0] / a.size(0)",
    ),
    "computed for it": (
        "a = out.data.max(1)[1].cpu()\nb = y.cpu()\nhits = torch.sum(a == b).item()",
        "a = out.data.max(1)[1]\nb = y\nhits = torch.sum(a == b).item()",
    ),
}


@pytest.mark.parametrize("name", IN_VARIABLES)
def test_copies_in_variables(name: str) -> None:
    before, after = IN_VARIABLES[name]
    assert result(step(before)).after.decode() == step(after)
    values = {"pred": torch.tensor([1, 2, 0]), "y": torch.tensor([1, 2, 2]), "out": torch.eye(3), "torch": torch}
    seen = []
    for code in (before, after):
        scope = dict(values)
        exec(code, scope)
        seen.append(scope["hits"])
    assert seen[0] == seen[1]


def test_arrays_in_variables() -> None:
    body = "a = pred.cpu().numpy()\nb = y.cpu().numpy()\nhits = (a == b).sum()\nshare = hits / len(a)"
    wanted = "a = pred\nb = y\nhits = (a == b).sum().item()\nshare = hits / len(a)"
    assert result(step(body)).outcome is Outcome.UNCHANGED
    assert result(step(body), unsafe=True).after.decode() == step(wanted)


@pytest.mark.parametrize(
    "body",
    [
        "a = y.cpu()\ny.add_(1)\nhits = (pred.cpu() == a).sum().item()",
        "a = y.cpu()\ny = y + 1\nhits = (pred.cpu() == a).sum().item()",
        "a = pred.cpu()\nhits = (a == y.cpu()).sum().item()\nprint(a)",
        "a = pred.cpu()\nkeep.append(lambda: a)\nhits = (a == y.cpu()).sum().item()",
        "a = pred.cpu()\nif i:\n    a = y.cpu()\nhits = (a == y.cpu()).sum().item()",
        "a = pred.cpu().numpy()\nhits = (a == y.cpu().numpy()).sum() / a.size",
        "a = b = pred.cpu()\nhits = (a == y.cpu()).sum().item()",
        "a = pred.cpu()\nfor _ in range(2):\n    hits = (a == y.cpu()).sum().item()\n    pred.add_(1)",
        "same = (pred == y).cpu()\nhits = same.sum().item()\nkeep.append(same)",
        "if i:\n    hits = (a == y.cpu()).sum().item()\na = pred.cpu()",
    ],
)
def test_copies_in_variables_that_stay(body: str) -> None:
    assert reasons(body)


@pytest.mark.parametrize("before", COUNTED)
def test_is_counted_on_the_device(before: str) -> None:
    after, numerics = COUNTED[before]
    found = result(step(f"n = {before}"))
    assert found.after.decode() == step(f"n = {after}"), [finding.reason for finding in found.refused]
    assert {finding.safety for finding in found.applied} == {Safety.SAFE}
    assert {finding.numerics for finding in found.applied} == {numerics}
    assert result(step(f"n = {after}")).outcome is Outcome.UNCHANGED


ARRAYS = {
    "(pred.cpu().numpy() == y.cpu().numpy()).sum()": "(pred == y).sum().item()",
    "(pred.cpu().numpy() == y.cpu().numpy()).mean()": "(pred == y).double().mean().item()",
    "np.sum(pred.detach().cpu().numpy() == y.cpu().numpy())": "(pred == y).sum().item()",
    "np.mean(pred.cpu().numpy() != y.cpu().numpy())": "(pred != y).double().mean().item()",
}


@pytest.mark.parametrize("before", ARRAYS)
def test_arrays_are_held_back(before: str) -> None:
    (held,) = result(step(f"n = {before}")).held_back
    assert held.safety is Safety.UNSAFE
    assert result(step(f"n = {before}"), unsafe=True).after.decode() == step(f"n = {ARRAYS[before]}")


@pytest.mark.parametrize("before", [*COUNTED, *ARRAYS])
def test_numbers_are_the_same(before: str) -> None:
    after = COUNTED[before][0] if before in COUNTED else ARRAYS[before]
    for seed, size in enumerate((1, 3, 100, 1000)):
        generator = torch.Generator().manual_seed(seed)
        out, y = torch.randn(size, 4, generator=generator), torch.randint(4, (size,), generator=generator)
        space = {"torch": torch, "np": __import__("numpy"), "out": out, "pred": out.argmax(1), "y": y}
        assert eval(before, space) == pytest.approx(eval(after, space), rel=1e-6)


REFUSED = {
    "keep.extend(pred.cpu().tolist())": "`keep.extend` on line 13 collects it: collect tensors",
    "keep.append(out.detach().cpu().numpy())": "`keep.append` on line 13 collects it",
    "score(y.cpu().numpy(), 3)": "`score` on line 13 is given it on the host",
    "p = pred.cpu().numpy()\nscore(p)": "`score` on line 14 is given it on the host",
    "for p in pred.tolist():\n    score(p)": "the loop on line 13 goes over it on the host",
    "return pred.cpu()": "it is returned on line 13",
    "n = (pred.cpu() == args.labels).sum().item()": "`args.labels` could not be shown to come from the device, too",
    "p = pred.cpu()": "`p` is not used in what is in sight",
    "n = pred.eq(y).cpu().sum()\nkeep.append(n)": "the host computes `pred.eq(y).cpu().sum()` with it on line 13",
    "p = pred.cpu()\nz = p + 1": "the host computes `p + 1` with it on line 14",
    "n = (\n    (pred.cpu() == 1)  # one\n    .sum().item()\n)": "a comment stands inside of it",
    "n = (out.cpu() > 0.1).sum().item()": "`0.1` could not be shown to come from the device, too",
    "n = (pred.cpu() == torch.zeros(3)).sum().item()": "`torch.zeros(3)` is on the host: move it to the device",
}


def test_a_count_that_is_read_later_is_counted_on_the_device() -> None:
    before = step("n = pred.eq(y).cpu().sum()\nkeep.append(n.item() / 2)")
    assert result(before).after.decode() == step("n = pred.eq(y).sum()\nkeep.append(n.item() / 2)")


@pytest.mark.parametrize(("body", "reason"), REFUSED.items())
def test_is_refused(body: str, reason: str) -> None:
    (found,) = reasons(body)
    assert reason in found


def test_sums_that_stay_tensors_stay() -> None:
    assert all("more than a count" in reason for reason in reasons("n = (pred.cpu() == y.cpu()).sum()"))
    assert len(reasons("n = (pred.cpu() == y.cpu()).sum(0)[0].item()")) == 2


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


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("if i % 10 == 0:\n    score(pred.cpu().numpy())", "not every step comes by, as line 13 has it"),
        ("n = args.counts.tolist()", "`args.counts` could not be shown to be a tensor of the device"),
    ],
)
def test_what_no_shape_is_known_of_stays(body: str, reason: str) -> None:
    assert reasons(body) == [reason]


def test_tensors_of_several_devices_stay() -> None:
    code = step("n = (pred.cpu() == y.cpu()).sum().item()").replace("model(x)", "model.to('cuda:0')(x).to('cuda:1')")
    found = result(code)
    assert found.outcome is Outcome.UNCHANGED
    assert "several devices" in found.refused[0].reason
