"""PM101: which indices become masks, which stay, and that both write the same elements."""

from __future__ import annotations

from pathlib import Path

import pytest
from rewrites import Bodies

from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Outcome
from perfmod.transforms.finding import Numerics, Safety
from perfmod.transforms.syncs.nonzero_index_assignment import NonzeroIndexAssignment

BODIES = Bodies(NonzeroIndexAssignment())

INDICES = [
    "torch.nonzero(labels == 1, as_tuple=True)",
    "torch.nonzero(input=labels == 1, as_tuple=True)",
    "(labels == 1).nonzero(as_tuple=True)",
    "torch.where(labels == 1)",
    "(torch.where((labels == 1)))",
]
VECTOR_INDICES = [
    "torch.where({c})[0]",
    "torch.nonzero({c}, as_tuple=True)[0]",
    "torch.nonzero({c}).squeeze()",
    "torch.nonzero({c}).squeeze(1)",
    "torch.nonzero({c}, as_tuple=False).squeeze(-1)",
    "torch.argwhere({c}).flatten()",
    "({c}).nonzero().view(-1)",
    "({c}).nonzero().reshape(-1)",
    "({c}).argwhere()[:, 0]",
    "torch.nonzero({c})",
]


@pytest.mark.parametrize("index", INDICES)
def test_every_spelling_of_the_tuple(index: str) -> None:
    mask = "(labels == 1)" if index.startswith("(torch") else "labels == 1"
    BODIES.assert_becomes(f"i = {index}\nlabels[i] = -1\nreturn labels", f"i = {mask}\nlabels[i] = -1\nreturn labels")


@pytest.mark.parametrize("index", VECTOR_INDICES)
def test_every_spelling_of_a_vector(index: str, tmp_path: Path) -> None:
    before = f"t = labels.flatten()\ni = {index.format(c='t == 1')}\nt[i] = -1\nreturn t"
    after = "t = labels.flatten()\ni = t == 1\nt[i] = -1\nreturn t"
    BODIES.assert_becomes(before, after)
    assert BODIES.differences(before, after, tmp_path, Numerics.BITWISE) == []


CHANGES = {
    "inline": ("labels[torch.where(labels == 1)] = 0\nreturn labels", "labels[labels == 1] = 0\nreturn labels"),
    "condition written behind an index inside the target": (("c = labels == 1\nlabels[c.nonzero(as_tuple=True)] = "
          "-1\nc |= labels == 2\nreturn c"), "c = labels == 1\nlabels[c] = -1\nc |= labels == 2\nreturn c"),
    "integers as truth values": ("labels[labels.nonzero(as_tuple=True)] = 0\nreturn labels",
        "labels[labels != 0] = 0\nreturn labels"),
    "floats as truth values": ("t = x.clone()\nt[torch.nonzero(t + 1.0, as_tuple=True)] = 0.0\nreturn t",
        "t = x.clone()\nt[(t + 1.0) != 0] = 0.0\nreturn t"),
    "used several times": ("t = x.clone()\ni = torch.where(t > 0)\nt[i] = 2\nt[i] += 5\nreturn t",
        "t = x.clone()\ni = t > 0\nt[i] = 2\nt = torch.where(i, t + 5, t)\nreturn t"),
    "a mask that has a name": ("b = labels == 1\ni = torch.where(b)\nlabels[i] = 5\nreturn b",
        "b = labels == 1\nlabels[b] = 5\nreturn b"),
    "a mask that has a name, and a value of the device": (("t = x * 2\nb = t > 0\ni = b.nonzero(as_tuple=True)\n"
          "t[i] = x[i]\nreturn t, b"), "t = x * 2\nb = t > 0\nt = torch.where(b, x, t)\nreturn t, b"),
    "condition changes before the write": ("i = torch.where(labels == 1)\nlabels += 1\nlabels[i] = -1\nreturn labels",
        "i = labels == 1\nlabels += 1\nlabels[i] = -1\nreturn labels"),
    "one variable per dimension": ("rows, cols = torch.where(labels == 1)\nlabels[rows, cols] = 2\nreturn labels",
        "labels[labels == 1] = 2\nreturn labels"),
    "only dimension unpacked": ("t = labels.flatten()\n(i,) = torch.where(t == 1)\nt[i] = 7\nreturn t",
        "t = labels.flatten()\ni = t == 1\nt[i] = 7\nreturn t"),
    "added to in place": ("labels[torch.where(labels == 1)] += 3\nreturn labels",
        "labels.copy_(torch.where(labels == 1, labels + 3, labels))\nreturn labels"),
    "added to a fresh tensor": ("t = x * 2\ni = torch.where(x > 0)\nt[i] -= 0.5\nreturn t",
        "t = x * 2\ni = x > 0\nt = torch.where(i, t - 0.5, t)\nreturn t"),
    "gathered from another tensor": ("t = x + 1\ni = torch.where(t > 0)\nt[i] = x[i]\nreturn t",
        "t = x + 1\ni = t > 0\nt = torch.where(i, x, t)\nreturn t"),
    "gathered at both coordinates": ("t = x + 1\ni, j = torch.where(t > 0)\nt[i, j] = x[i, j] * 2\nreturn t",
        "t = x + 1\nt = torch.where(t > 0, x * 2, t)\nreturn t"),
    "scalar of the device": ("t = x + 1\ni = torch.where(t.isnan())\nt[i] = x.detach().nansum()\nreturn t",
        "t = x + 1\ni = t.isnan()\nt = torch.where(i, x.detach().nansum(), t)\nreturn t"),
    "deleted afterwards": ("i = torch.where(labels == 1)\nlabels[i] = -1\ndel i\nreturn labels",
        "i = labels == 1\nlabels[i] = -1\ndel i\nreturn labels"),
    "on one line": ("i = torch.where(labels == 1); labels[i] = -1  # void\nreturn labels",
        "i = labels == 1; labels[i] = -1  # void\nreturn labels"),
    "over several lines": ("i = torch.nonzero(\n    labels == 1,\n    as_tuple=True,\n)\nlabels[i] = -1\nreturn labels",
        "i = labels == 1\nlabels[i] = -1\nreturn labels"),
    "condition over several lines": (("i = torch.where((labels == 1)\n    | (labels == 2))\nlabels[i] = -1\n"
          "return labels"), "i = ((labels == 1)\n    | (labels == 2))\nlabels[i] = -1\nreturn labels"),
    "a view is written": ("t = x.clone()\nt.data[torch.where(t.data > 1)] = 0.0\nreturn t",
        "t = x.clone()\nt.data[t.data > 1] = 0.0\nreturn t"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_changes(name: str) -> None:
    BODIES.assert_becomes(*CHANGES[name])


@pytest.mark.parametrize("name", CHANGES)
def test_writes_the_same(name: str, tmp_path: Path) -> None:
    assert BODIES.differences(*CHANGES[name], tmp_path, Numerics.BITWISE) == []


DOUBTS = {
    "of another tensor": ("i = torch.where(labels == 1)", "i = labels == 1"),
    "of rows": ("(i,) = torch.where(labels[:, 0] == 1)", "i = labels[:, 0] == 1"),
    "comment": ("i = torch.where(  # void\n    t == 1\n)", "i = t == 1"),
}


@pytest.mark.parametrize("name", DOUBTS)
def test_held_back(name: str) -> None:
    before, after = (f"t = x.clone()\n{index}\nt[i] = 0\nreturn t" for index in DOUBTS[name])
    BODIES.assert_becomes(before, after, Safety.UNSAFE)


@pytest.mark.parametrize(
    "made", ["torch.ones(6, device=x.device)", "x.new_zeros(6)", "torch.zeros(len(w), device=x.device)"]
)
def test_a_target_that_is_not_shown_to_have_the_masks_shape_is_held_back(made: str) -> None:
    before = f"t = {made}\ni = torch.where(labels == 1)\nt[i] = 3"
    (found,) = BODIES.result(before).applied
    assert found.safety is Safety.UNSAFE
    assert "right if the condition has the same shape" in found.reason


REFUSED = {
    "used again on line 8": "i = torch.where(labels == 1)\nlabels[i] = -1\nreturn i",
    "used again on line 7": "i = torch.where(labels == 1)\nlabels[i] = int(w[i].sum())",
    "the index used on line": "i = torch.where(labels == 1)\nif m:\n    i = 0\nlabels[i] = -1",
    "shape of `labels[1:]`": "labels[torch.where(labels[1:] == 1)] = -1",
    "shape of `x[0]`": "x[torch.where(x[0] > 0)] = -1",
    "shape of `x.sum(0)`": "x[torch.where(x.sum(0) > 0)] = -1",
    "shape of `x.sum(1, keepdim=True)`": "x[torch.where(x.sum(1, keepdim=True) > 0)] = -1",
    "one row of coordinates": "labels[torch.nonzero(labels == 1)] = -1",
    "the first coordinates of the elements": "labels[torch.where(labels == 1)[0]] = -1",
    "the first column": "t = torch.zeros(k).cuda()\nt[torch.nonzero(w == w.max())[:, 0]] = 1",
    "squeezed into one dimension": "t = x.clone()\nt[torch.nonzero(w > 0).squeeze(1)] = 0",
    "and the condition is not known to be one-dimensional": "t = x.view(3, 4)\nt[torch.where(t > 0)[0]] = 0",
    "the mask would have to be repeated": "i, j = torch.where(x > 0)\nw[i, j] = 0\nx[i, j] = 0",
    "`c` is changed before": "c = labels == 1\ni = torch.where(c)\nc |= labels == 2\nlabels[i] = -1",
    "`c` is changed before the index": "c = labels == 1\nd = c.view(-1)\ni = c.nonzero(as_tuple=True)\n"
    "d.logical_not_()\nlabels[i] = -1",
    "the condition is 0-dimensional": "t = x.sum()\nt[torch.where(t > 0)] = 0",
    "only part of the index is used": "i, j = torch.where(labels == 1)\nlabels[i] = -1",
    "or it is combined with other indices": "i, j = torch.where(labels == 1)\nlabels[j, i] = -1",
    "it is combined with another index": "(i,) = torch.where(labels > 0)\nx[i, labels] = -1",
    "one element for each selected element": "labels[torch.where(labels == 1)] = w.long()",
    "the mask is not known to have the shape of": "t = torch.zeros(3, 4).cuda()\nt[torch.where(labels == 1)] += 1",
    "the operator is not elementwise": "labels[torch.where(labels == 1)] <<= 1",
    "gradient": "t = x * 2\ni = torch.where(x > 0)\nt[i] = x[i].abs()",
    "is not known to be a tensor": "y = {}\ny[torch.where(labels == 1)] = 0",
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refused(reason: str) -> None:
    (found,) = BODIES.reasons(REFUSED[reason])
    assert reason in found


SILENT = {
    "kept in an attribute": "self.i = torch.where(labels == 1)\nlabels[self.i] = -1",
    "kept in two variables": "i = j = torch.where(labels == 1)\nlabels[i] = -1",
    "only read": "i = torch.where(labels == 1)\nreturn x[i]",
    "counted": "return len(torch.nonzero(labels == 1))",
    "three arguments": "return torch.where(labels == 1, x, w)",
    "mask": "labels[labels == 1] = -1",
    "unknown flag": "labels[torch.nonzero(labels == 1, as_tuple=flag)] = -1",
    "deleted items": "del labels[torch.where(labels == 1)]",
    "host": "t = torch.zeros(3)\nt[torch.where(t > 0)] = 1",
    "host after a move": "t = x.cpu()\nt[torch.where(t > 0)] = 1",
    "arrays": "import numpy as np\na = x.numpy()\na[np.where(a > 0)] = 1\na[(a > 0).nonzero()] = 1",
}


@pytest.mark.parametrize("name", SILENT)
def test_silent(name: str) -> None:
    assert BODIES.reasons(SILENT[name]) == []


def test_what_was_compared_is_a_mask_already() -> None:
    BODIES.assert_becomes(
        "x[torch.where((x.sum(-1) == limit.size) & ~(w[:, 0] > 0))] = 0",
        "x[(x.sum(-1) == limit.size) & ~(w[:, 0] > 0)] = 0",
        Safety.UNSAFE,
    )


def test_prefix_of_torch_is_the_files_own() -> None:
    bodies = Bodies(NonzeroIndexAssignment(), "import torch as th\nfrom torch import Tensor")
    bodies.assert_becomes("i = th.where(x > 0)\nx[i] += 1", "i = x > 0\nx.copy_(th.where(i, x + 1, x))")


def test_torch_is_imported_where_it_is_not() -> None:
    code = b"from torch import Tensor\n\n\ndef f(t: Tensor):\n    t[(t > 0).nonzero(as_tuple=True)] += 1\n"
    found = rewrite(code, "train.py", [NonzeroIndexAssignment()])
    assert found.outcome is Outcome.CHANGED
    assert b"import torch\n" in found.after
    assert b"    t.copy_(torch.where(t > 0, t + 1, t))\n" in found.after


def test_only_steps_and_what_they_reach() -> None:
    code = b"""import torch

def prepare(t):
    t[torch.where(t > 0)] = 0

def train(model, loader):
    for x, y in loader:
        y = y.cuda()
        y[torch.where(y == 3)] = -1
        model(x.cuda(), y).backward()
"""
    found = rewrite(code, "train.py", [NonzeroIndexAssignment()])
    assert [finding.line for finding in found.applied] == [9]
    assert found.refused == ()


def test_an_if_that_waits_for_the_mask_is_no_gain() -> None:
    body = "m = x > 0\nif m.any():\n    at = torch.nonzero(m, as_tuple=True)\n    x[at] = 0.0\n    print(1)\nreturn x"
    found = BODIES.result(body, unsafe=False)
    assert [(each.safety, each.reason) for each in found.held_back] == [
        (Safety.LOW_IMPACT, "the `if` on line 7 waits for `m` anyway, so nothing is gained")
    ]


def test_another_wait_for_the_mask_is_no_gain() -> None:
    body = "b = labels == 1\nkept = w[b]\ni = b.nonzero(as_tuple=True)\nlabels[i] = -1\nreturn kept, labels"
    (found,) = BODIES.result(body, unsafe=False).held_back
    assert (found.safety, found.reason) == (
        Safety.LOW_IMPACT,
        "line 7 waits for `b` anyway, so nothing is gained",
    )
