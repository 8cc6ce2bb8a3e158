"""PM101: which indices become masks, which stay, and that both write the same elements."""

from __future__ import annotations

from pathlib import Path

import pytest
from rewrites import Bodies

from perfmod.codemods.engine import Outcome, rewrite
from perfmod.transforms.rule import Numerics, Safety
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
    "inline": (
        "labels[torch.where(labels == 1)] = 0\nreturn labels",
        "labels[labels == 1] = 0\nreturn labels",
    ),
    "condition written before the index is used": (
        "c = labels == 1\ni = torch.where(c)\nc |= labels == 2\nlabels[i] = -1\nreturn labels, c",
        "c = labels == 1\ni = c.clone()\nc |= labels == 2\nlabels[i] = -1\nreturn labels, c",
    ),
    "condition written by another name": (
        "c = labels == 1\nd = c.view(-1)\ni = torch.where(c)\nd.logical_not_()\nlabels[i] = -1",
        "c = labels == 1\nd = c.view(-1)\ni = c.clone()\nd.logical_not_()\nlabels[i] = -1",
    ),
    "condition written elsewhere": (
        "flip = lambda t: t.logical_not_()\nc = labels == 1\ni = c.nonzero(as_tuple=True)\nflip(c)\nlabels[i] = -1",
        "flip = lambda t: t.logical_not_()\nc = labels == 1\ni = c.clone()\nflip(c)\nlabels[i] = -1",
    ),
    "condition written behind an index inside the target": (
        "c = labels == 1\nlabels[c.nonzero(as_tuple=True)] = -1\nc |= labels == 2\nreturn c",
        "c = labels == 1\nlabels[c] = -1\nc |= labels == 2\nreturn c",
    ),
    "integers as truth values": (
        "t = x.clone()\nt[labels.nonzero(as_tuple=True)] = 0.0\nreturn t",
        "t = x.clone()\nt[labels != 0] = 0.0\nreturn t",
    ),
    "floats as truth values": (
        "t = x.clone()\nt[torch.nonzero(w + 1.0, as_tuple=True)] = 0.0\nreturn t",
        "t = x.clone()\nt[(w + 1.0) != 0] = 0.0\nreturn t",
    ),
    "used several times": (
        "t = x.clone()\ni = torch.where(labels == 1)\nt[i] = 2\nlabels[i] = 5\nreturn t",
        "t = x.clone()\ni = labels == 1\nt[i] = 2\nlabels[i] = 5\nreturn t",
    ),
    "condition changes before the write": (
        "i = torch.where(labels == 1)\nlabels += 1\nlabels[i] = -1\nreturn labels",
        "i = labels == 1\nlabels += 1\nlabels[i] = -1\nreturn labels",
    ),
    "one variable per dimension": (
        "t = x.clone()\nrows, cols = torch.where(labels == 1)\nt[rows, cols] = 2.0\nreturn t",
        "t = x.clone()\nrows_cols_mask = labels == 1\nt[rows_cols_mask] = 2.0\nreturn t",
    ),
    "only dimension unpacked": (
        "t = labels.flatten()\n(i,) = torch.where(t == 1)\nt[i] = 7\nreturn t",
        "t = labels.flatten()\ni = t == 1\nt[i] = 7\nreturn t",
    ),
    "rows and a column": (
        "t = x.clone()\n(i,) = torch.where(labels[:, 0] == 1)\nt[i, 0] = 7\nt[i, :2] = 8\nreturn t",
        "t = x.clone()\ni = labels[:, 0] == 1\nt[i, 0] = 7\nt[i, :2] = 8\nreturn t",
    ),
    "added to in place": (
        "labels[torch.where(labels == 1)] += 3\nreturn labels",
        "labels.copy_(torch.where(labels == 1, labels + 3, labels))\nreturn labels",
    ),
    "added to a fresh tensor": (
        "t = x * 2\ni = torch.where(x > 0)\nt[i] -= 0.5\nreturn t",
        "t = x * 2\ni = x > 0\nt = torch.where(i, t - 0.5, t)\nreturn t",
    ),
    "gathered from another tensor": (
        "t = x + 1\ni = torch.where(t > 0)\nt[i] = x[i]\nreturn t",
        "t = x + 1\ni = t > 0\nt = torch.where(i, x, t)\nreturn t",
    ),
    "gathered at both coordinates": (
        "t = x + 1\ni, j = torch.where(t > 0)\nt[i, j] = x[i, j] * 2\nreturn t",
        "t = x + 1\ni_j_mask = t > 0\nt = torch.where(i_j_mask, x * 2, t)\nreturn t",
    ),
    "scalar of the device": (
        "t = x + 1\ni = torch.where(t.isnan())\nt[i] = x.detach().nansum()\nreturn t",
        "t = x + 1\ni = t.isnan()\nt = torch.where(i, x.detach().nansum().to(t.dtype), t)\nreturn t",
    ),
    "deleted afterwards": (
        "i = torch.where(labels == 1)\nlabels[i] = -1\ndel i\nreturn labels",
        "i = labels == 1\nlabels[i] = -1\ndel i\nreturn labels",
    ),
    "on one line": (
        "i = torch.where(labels == 1); labels[i] = -1  # void\nreturn labels",
        "i = labels == 1; labels[i] = -1  # void\nreturn labels",
    ),
    "over several lines": (
        "i = torch.nonzero(\n    labels == 1,\n    as_tuple=True,\n)\nlabels[i] = -1\nreturn labels",
        "i = labels == 1\nlabels[i] = -1\nreturn labels",
    ),
    "condition over several lines": (
        "i = torch.where((labels == 1)\n    | (labels == 2))\nlabels[i] = -1\nreturn labels",
        "i = ((labels == 1)\n    | (labels == 2))\nlabels[i] = -1\nreturn labels",
    ),
    "a view is written": (
        "t = x.clone()\nt.data[torch.where(labels == 1)] = 0.0\nreturn t",
        "t = x.clone()\nt.data[labels == 1] = 0.0\nreturn t",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes(name: str) -> None:
    BODIES.assert_becomes(*CHANGES[name])


@pytest.mark.parametrize("name", CHANGES)
def test_writes_the_same(name: str, tmp_path: Path) -> None:
    assert BODIES.differences(*CHANGES[name], tmp_path, Numerics.BITWISE) == []


DOUBTS = {
    "dimension not shown": ("i = torch.where(labels == 1)[0]", "i = labels == 1"),
    "squeezed": ("i = torch.nonzero(w > 0).squeeze(1)", "i = w > 0"),
    "comment": ("i = torch.where(  # void\n    labels == 1\n)", "i = labels == 1"),
}


@pytest.mark.parametrize("name", DOUBTS)
def test_held_back(name: str) -> None:
    before, after = (f"t = x.clone()\n{index}\nt[i] = 0\nreturn t" for index in DOUBTS[name])
    BODIES.assert_becomes(before, after, Safety.UNSAFE)


OWN_SIZES = {
    "a number": "t = torch.ones(6, device=x.device)",
    "a method": "t = x.new_zeros(6)",
    "a tuple and a move": "t = torch.zeros((6, 3)).to(x.device)",
    "a variable": "n = 6\nt = torch.full([n], 1.0, device=x.device)",
    "an option": "t = torch.zeros(args.batch_size, device=x.device)",
    "a range": "t = torch.arange(6, device=x.device)",
    "an attribute": "t = torch.zeros(self.size, device=x.device)",
}


@pytest.mark.parametrize("name", OWN_SIZES)
def test_a_size_of_its_own_is_held_back(name: str) -> None:
    before = f"{OWN_SIZES[name]}\ni = torch.where(labels == 1)\nt[i] = 3"
    (found,) = BODIES.result(before).applied
    assert found.safety is Safety.UNSAFE
    assert found.reason.startswith("`t` has a size of its own (line ")
    assert BODIES.result(before, unsafe=False).outcome is Outcome.UNCHANGED


SIZES_OF_THE_MASK = {
    "of it": "t = torch.ones(labels.size(0), device=x.device)",
    "its length": "n = len(labels)\nt = torch.ones((n, 6), device=x.device)",
    "of another tensor": "rows, _ = x.shape\nt = x.new_zeros(rows)",
    "its shape": "t = torch.zeros(labels.shape, device=x.device)",
    "like it": "t = torch.zeros_like(labels)",
    "a parameter": "t = torch.zeros(m, device=x.device)",
    "the same number": "labels = x.view(-1, 6).argmax(0)\nt = torch.zeros(6, device=x.device)",
    "the same variable": "n = args.n\nlabels = torch.randint(3, (n,)).cuda()\nt = torch.zeros(n, device=x.device)",
    "the mask is made of it": "t = torch.rand(args.n, device=x.device)\nlabels = (t > 0.5).long()",
}


@pytest.mark.parametrize("name", SIZES_OF_THE_MASK)
def test_sizes_that_may_be_those_of_the_mask(name: str) -> None:
    found = BODIES.result(f"{SIZES_OF_THE_MASK[name]}\ni = torch.where(labels == 1)\nt[i] = 3")
    assert [finding.safety for finding in found.applied] == [Safety.SAFE], (found.applied, found.refused)


@pytest.mark.parametrize(("size", "safety"), [("n", Safety.SAFE), ("args.size", Safety.UNSAFE)])
def test_sizes_that_come_with_the_mask(size: str, safety: Safety) -> None:
    code = f"""import torch
from options import args

def train(model, loader):
    for x, y, n in loader:
        y = y.cuda()
        t = torch.zeros({size}, device="cuda")
        t[torch.where(y == 3)] = 1.0
        model(x.cuda(), t).backward()
"""
    found = rewrite(code.encode(), "train.py", [NonzeroIndexAssignment()])
    assert [finding.safety for finding in (*found.applied, *found.held_back)] == [safety]


@pytest.mark.parametrize(
    ("made", "mask", "safety"),
    [
        ("self.t = torch.ones(6).cuda()", "y == 2", Safety.UNSAFE),
        ("self.register_buffer('t', torch.ones(6))", "y == 2", Safety.UNSAFE),
        ("self.t, self.m = torch.ones(6).cuda(), torch.ones(6).cuda()", "self.m == 2", Safety.SAFE),
        ("self.t = torch.ones(n).cuda()", "y == 2", Safety.SAFE),
    ],
)
def test_attributes_with_a_size_of_their_own(made: str, mask: str, safety: Safety) -> None:
    code = f"""import torch
from torch import Tensor

class Net(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        {made}

    def forward(self, x, y: Tensor):
        self.t[torch.where({mask})] = 3.0
        return x * self.t
"""
    found = rewrite(code.encode(), "train.py", [NonzeroIndexAssignment()])
    assert [finding.safety for finding in (*found.applied, *found.held_back)] == [safety], found


REFUSED = {
    "used again on line 8": "i = torch.where(labels == 1)\nlabels[i] = -1\nreturn i",
    "used again on line 7": "i = torch.where(labels == 1)\nlabels[i] = int(w[i].sum())",
    "may be another one": "i = torch.where(labels == 1)\nif m:\n    i = 0\nlabels[i] = -1",
    "kept in `self.i`": "self.i = torch.where(labels == 1)\nlabels[self.i] = -1",
    "kept in": "i = j = torch.where(labels == 1)\nlabels[i] = -1",
    "shape of `labels[1:]`": "labels[torch.where(labels[1:] == 1)] = -1",
    "shape of `w[labels]`": "x[torch.where(w[labels] > 0)] = -1",
    "shape of `x[0]`": "x[torch.where(x[0] > 0)] = -1",
    "shape of `x.sum(0)`": "x[torch.where(x.sum(0) > 0)] = -1",
    "shape of `x.sum(1, keepdim=True)`": "x[torch.where(x.sum(1, keepdim=True) > 0)] = -1",
    "one row of coordinates": "labels[torch.nonzero(labels == 1)] = -1",
    "their first coordinates": "labels[torch.where(labels == 1)[0]] = -1",
    "the first column": "t = torch.zeros(k).cuda()\nt[torch.nonzero(w == w.max())[:, 0]] = 1",
    "has several dimensions": "b, i = w.max(dim=1)\nx[torch.where(w == w.amax(0))[0]] = 1",
    "has 2 dimensions": "t = x.view(3, 4)\nt[torch.where(t > 0)[0]] = 0",
    "no dimension": "t = x.sum()\nt[torch.where(t > 0)] = 0",
    "only a part": "i, j = torch.where(labels == 1)\nlabels[i] = -1",
    "other indices stand beside": "i, j = torch.where(labels == 1)\nlabels[j, i] = -1",
    "another index stands beside": "(i,) = torch.where(labels > 0)\nx[i, labels] = -1",
    "one element per chosen place": "labels[torch.where(labels == 1)] = w.long()",
    "not shown to have the shape": "t = torch.zeros(3, 4).cuda()\nt[torch.where(labels == 1)] += 1",
    "does not work element by element": "labels[torch.where(labels == 1)] <<= 1",
    "gradient": "t = x * 2\ni = torch.where(x > 0)\nt[i] = x[i].log()",
    "is not shown to be a tensor": "y = {}\ny[torch.where(labels == 1)] = 0",
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refused(reason: str) -> None:
    (found,) = BODIES.reasons(REFUSED[reason])
    assert reason in found


SILENT = {
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
