"""PM104: which losses take the mask inside, which selections stay and why, and that both sides compute the same."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest
import torch
from attrs import frozen
from cases import cases, outcome_of
from golden_harness.sides import compare_probes

from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, FileResult, Outcome
from perfmod.transforms.finding import Numerics, Safety
from perfmod.transforms.syncs.masked_loss import MaskedLoss

HEAD = """\
import torch
import torch.nn.functional as F
from torch import Tensor, nn

criterion = nn.CrossEntropyLoss()
rows = nn.NLLLoss(torch.tensor([0.5, 2.0, 1.0], dtype=torch.float64), ignore_index=1, reduction="sum")


def f(logits: Tensor, labels: Tensor, x: Tensor, y: Tensor, w: Tensor):
"""
CASES = """

def cases(make):
    for dtype in (make.floats[0], make.floats[1], make.floats[3]):
        shape = make.shape({sizes})
        where = [*shape[:{at}], 3, *shape[{at}:]]
        keep = make.mask(shape)
        labels = make.labels(shape, 3)
        yield (
            make.tensor(where, dtype, requires_grad=True),
            torch.where(keep, labels, 77),
            *(make.tensor(shape, dtype, requires_grad=True) for _ in range(2)),
            make.tensor((3,), dtype, finite=True).abs(),
        )


def probe(logits, labels, x, y, w):
    return f(logits, labels, x, y, w)
"""


@frozen
class Layout:
    """How the inputs are laid out: `sizes` of all but the classes, which stand at dimension `at` of the logits."""

    sizes: str
    at: int


LAYOUTS = {
    "rows": Layout("6", 1),
    "sequences": Layout("3, 4", 2),
    "channels": Layout("3, 4", 1),
    "images": Layout("2, 3, 4", 1),
}


TRAINING = """

def train(loader):
    for batch in loader:
        f(*batch).backward()
"""


def module(body: str) -> str:
    return HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n" + TRAINING


def result(body: str, *, unsafe: bool = True) -> FileResult:
    found = rewrite(module(body).encode(), "train.py", [MaskedLoss()], Choice(unsafe=unsafe))
    assert found.outcome is not Outcome.FAILED, found.reason
    return found


def reasons(body: str) -> list[str]:
    code = module(body).removesuffix(TRAINING)
    found = rewrite(code.encode(), "train.py", [MaskedLoss()], Choice(unsafe=True))
    assert found.outcome is Outcome.UNCHANGED, found.after.decode()
    return [finding.reason for finding in found.refused]


def differences(before: str, after: str, layout: Layout, folder: Path, numerics: Numerics) -> list[str]:
    tail = CASES.format(sizes=layout.sizes, at=layout.at)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setattr(sys, "dont_write_bytecode", True)
        return compare_probes((before + tail).encode(), (after + tail).encode(), numerics, folder)


# In every body the labels are 77 where they are masked, which no loss accepts as a class.
CHANGES = cases("masked_loss.diff")


@pytest.mark.parametrize("name", CHANGES)
def test_changes(name: str) -> None:
    case = CHANGES[name]
    found = result(case.before)
    assert found.after.decode() == module(case.after), [finding.reason for finding in found.refused]
    assert {outcome_of(finding) for finding in found.applied} == {case.notes[1]}
    assert result(case.after).outcome is Outcome.UNCHANGED


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CHANGES)
def test_computes_the_same(name: str, tmp_path: Path) -> None:
    case = CHANGES[name]
    layout = LAYOUTS[case.notes[0]]
    assert differences(module(case.before), module(case.after), layout, tmp_path, Numerics.ROUNDING) == []


MEANS = {
    "of a selection": "return x[x > 0].mean()",
    "of squares": "m = x > 0\nreturn F.mse_loss(x[m], x.exp()[m])",
    "of a module": "m = x > 0\nreturn nn.L1Loss()(x[m], x.exp()[m])",
}


@pytest.mark.parametrize("name", MEANS)
def test_means_of_half_precision_are_not_divided_by_hand(name: str) -> None:
    """A sum of 300,000 float16 losses is inf where their mean is 3.05."""
    losses = torch.full((300_000,), 3.05, dtype=torch.float16)
    keep = torch.ones_like(losses, dtype=torch.bool)
    assert (torch.where(keep, losses, 0).sum() / keep.sum()).isinf()
    code = module(MEANS[name])
    assert rewrite(code.encode(), "train.py", [MaskedLoss()]).outcome is Outcome.CHANGED
    for line in ("model.half()", "import deepspeed", "y = x.to(torch.bfloat16)", "with torch.autocast('cuda'): pass"):
        (refused,) = rewrite(f"{line}\n{code}".encode(), "train.py", [MaskedLoss()], Choice(unsafe=True)).refused
        assert "half precision" in refused.reason
    (held,) = rewrite(code.partition("def train(")[0].encode(), "losses.py", [MaskedLoss()]).held_back
    assert held.reason == (
        "a sum in float16 can overflow where the mean does not, and perfmod did not find the training that uses this"
    )


def test_comments_keep_their_lines() -> None:
    found = result("m = x > 0\nreturn F.mse_loss(\n    x[m],  # kept\n    x.exp()[m],\n)", unsafe=False)
    assert found.after.decode() == module(
        "m = x > 0\nreturn F.mse_loss(\n    torch.where(m, x, 0),  # kept\n    torch.where(m, x.exp(), 0),\n"
        '    reduction="sum",\n) / m.sum()'
    )


@pytest.mark.parametrize(("cast", "is_refused"), [("", True), (".long()", False)])
def test_labels_that_may_be_bytes_have_no_ignore_index(cast: str, is_refused: bool) -> None:
    body = f"labels = labels.view(-1)\nm = labels != 77\nreturn F.cross_entropy(logits[m], labels[m]{cast})"
    found = rewrite(f"read = torch.uint8\n{module(body)}".encode(), "train.py", [MaskedLoss()])
    reasons = [each.reason for each in found.refused]
    assert reasons == ["`labels` may be uint8, which cannot hold an ignore_index"] * is_refused


REFUSED: dict[str, tuple[str, str]] = {
    "one loss per element": ("m = labels != 77\nreturn F.cross_entropy(logits[m], labels[m], reduction='none')",
        "with reduction='none'"),
    "old name of no reduction": ("m = labels != 77\nreturn F.cross_entropy(logits[m], labels[m], reduce=False)",
        "`reduce=`"),
    "reduction by a variable": (("m = labels != 77\nhow = 'sum'\n"
          "return F.cross_entropy(logits[m], labels[m], reduction=how)"), "`reduction`"),
    "reduction set later": ("loss = nn.MSELoss()\nloss.reduction = 'none'\nm = x > 0\nreturn loss(x[m], x.exp()[m])",
        "is assigned elsewhere"),
    "soft targets": ("m = labels != 77\nreturn criterion(logits[m], logits.softmax(-1)[m])", "class probabilities"),
    "all of the logits": ("x = x.view(-1)\nm = x > 0\nreturn criterion(x[m], x.exp().long()[m])", "probabilities"),
    "two masks": ("m = labels != 77\nk = x > 0\nreturn criterion(logits[m], labels[k])", "different masks"),
    "mask bound again": ("m = labels != 77\na = logits[m]\nm = labels > 1\nreturn criterion(a, labels[m])",
        "different masks"),
    "mask written in between": ("m = labels != 77\na = logits[m]\nm[0] = False\nreturn criterion(a, labels[m])",
        "different masks"),
    "mask written through another name": (("m = labels != 77\nk = m.view(-1)\na = logits[m]\nk[0] = False\n"
          "return criterion(a, labels[m])"), "different masks"),
    "mask written by a function": (("def clear(k):\n    k[0] = False\nm = labels != 77\na = logits[m]\nclear(m)\n"
          "return criterion(a, labels[m])"), "different masks"),
    "mask bound before the mean": ("m = x > 0\na = x[m]\nm = x > 1\nreturn a.mean()", "`m` is changed"),
    "labels bound before the mean": ("a = x[y > 0]\ny = y + 1\nreturn a.mean()", "`y > 0` is changed"),
    "selected values change on the way": ("m = x > 0\na = x[m]\nx = x * 2\nb = a.double()\nreturn b.mean()",
        "could change"),
    "selected values are written on the way": ("m = x > 0\na = x[m]\nx.data.mul_(2)\nb = a.double()\nreturn b.mean()",
        "could change"),
    "drawn again": ("return x[torch.rand_like(x) < 0.5].mean()", "another mask each time"),
    "an unknown function makes it": ("def pick(t):\n    return t > 0\nreturn x[pick(x)].mean()",
        "another mask each time"),
    "used again": ("m = labels != 77\na = logits[m]\nloss = criterion(a, labels[m])\nreturn loss, a.argmax(-1)",
        "used again on line 13"),
    "used in a closure": ("m = labels != 77\na = logits[m]\ng = lambda: a\nreturn criterion(a, labels[m])",
        "used again on line 12"),
    "handed on by a walrus": ("m = labels != 77\nprint(a := logits[m])\nreturn criterion(a, labels[m])",
        "not selected"),
    "two names": ("m = labels != 77\na = b = logits[m]\nreturn criterion(a, labels[m])", "not selected"),
    "reshaped behind the variable": (("m = labels != 77\na = logits.permute(0, 2, 3, 1)[m]\n"
          "return criterion(a.view(-1, 3), labels[m])"), "reshaped afterwards"),
    "one side": ("m = labels != 77\nreturn criterion(logits[m], labels)", "target is not selected"),
    "other side": ("m = labels != 77\nreturn criterion(logits, labels[m])", "input is not selected"),
    "of an earlier round": (("m = labels != 77\nfor k in range(3):\n    if k:\n        criterion(a, labels[m])\n"
          "    a = logits[m]"), "not selected"),
    "mask of fewer dimensions": ("m = x.sum(-1) > 0\nreturn x[m].mean()", "as many dimensions"),
    "mask of a column": ("m = x[:, :1] > 0\nreturn x.masked_select(m).mean()", "as many dimensions"),
    "mask broadcast by masked_select": ("v = logits.view(-1, 3)\nm = x.flatten() > 0\nreturn v.masked_select(m).mean()",
        "as many dimensions"),
    "rows of what is computed anew": ("m = x.flatten() > 0\nreturn F.dropout(logits.view(-1, 3))[m].mean()",
        "the length of the rows"),
    "in an f-string": ('m = labels != 77\nreturn f"{criterion(logits[m], labels[m]):.3f}"', "f-string"),
    "index or mask": ("x = x.view(-1)\nchosen = w.view(-1)\nreturn x[chosen].mean()", "a boolean mask or an index"),
    "read again in a loop that makes another mask": (
        """
        m = x > 0
        a = x[m]
        for i in range(2):
            print(a.mean())
            m = x > i
        return m
        """,
        "`m` is changed",
    ),
    "a star before one of them": (
        """
        m = x > 0
        first, *rest, b = x[m], y, x.exp()[m]
        return F.mse_loss(first, b)
        """,
        "target is not selected",
    ),
    "one of a pair is used again": (
        """
        m = x > 0
        a, b = x[m], x.exp()[m]
        return F.mse_loss(a, b) + b.sum()
        """,
        "is used again",
    ),
    "one of a pair goes on": (
        """
        m = x > 0
        a, b = x[m], x.exp()[m]
        a = a.double()
        return F.mse_loss(a, b)
        """,
        "is used again",
    ),
    "mask bound with the selection": (
        """
        m = x > 0
        a, m = x[m], x > 1
        return a.mean()
        """,
        "`m` is changed",
    ),
    "a pair of two masks": (
        """
        m, k = x > 0, x > 1
        a, b = x[m], y[k]
        return F.mse_loss(a, b)
        """,
        "different masks",
    ),
    "a reduction that the loss does not know": (
        """
        m = x > 0
        return F.mse_loss(x[m], x.exp()[m], reduction='batchmean')
        """,
        "`reduction`",
    ),
    "weights of all elements": (
        """
        m = x > 0
        return F.binary_cross_entropy(x[m], x.exp()[m], w)
        """,
        "weight is not selected",
    ),
    "weights in the module": (
        """
        bce = nn.BCEWithLogitsLoss(w)
        m = x > 0
        return bce(x[m], x.exp()[m])
        """,
        "`weight=` may weight",
    ),
    "weights and smoothed labels": (
        """
        m = labels != 77
        return F.cross_entropy(logits[m], labels[m], w, label_smoothing=0.1)
        """,
        "`label_smoothing=`",
    ),
    "logits of two classes by a module": ("m = x > 0\nreturn nn.BCEWithLogitsLoss()(x[m], x.sigmoid()[m])",
        "no weight in its call"),
    "triplets": ("m = x > 0\nreturn F.triplet_margin_loss(x[m], y[m], w[m])", "inside `triplet_margin_loss`"),
    "margins of a module": ("m = x > 0\nreturn nn.MultiMarginLoss()(logits[m], labels[m])",
        "inside `torch.nn.MultiMarginLoss`"),
    "a module with two uses": ("mse = nn.MSELoss()\nm = x > 0\nreturn mse(x[m], x.exp()[m]) + mse(x, y)",
        "line 12 uses the same loss"),
    "rows of a width that is not seen": (("m = x.flatten() > 0\nreturn F.mse_loss(logits.view(-1, 3)[m], "
          "logits.view(-1, 3).exp()[m])"), "the length of the rows"),
    "bound to the name of what its mask is made of": ("x = x[x != 5]\nreturn x.mean()", "`x != 5` is changed"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    body, reason = REFUSED[name]
    found = reasons(body)
    assert found
    assert all(reason in text or "used for more" in text for text in found)
    assert any(reason in text for text in found)


SILENT = {
    "more than a loss": "m = x > 0\nreturn x[m].median()",
    "no mask": "return criterion(logits, labels)",
    "slice": "return criterion(logits[:3], labels[:3])",
    "index": "idx = torch.randperm(3).cuda()\nreturn criterion(logits[idx], labels[idx])",
    "host": "m = x.cpu() > 0\nreturn x.cpu()[m].mean()",
    "array": "import numpy as np\na = x.numpy()\nm = a > 0\nreturn a[m].mean()",
    "written": "m = x > 0\nx[m] = 0\nreturn x.mean()",
    "already inside": "m = labels != 77\nreturn criterion(logits, torch.where(m, labels, -100))",
}


@pytest.mark.parametrize("name", SILENT)
def test_silent(name: str) -> None:
    assert reasons(SILENT[name]) == []


FULL_BATCH = """import torch
import torch.nn.functional as F
from graphs import load, batches

model = torch.nn.Linear(3, 4)
"""
STEP = """out = model(data.x)
loss = F.cross_entropy(out[data.train_mask], data.y[data.train_mask])
loss.backward()
"""
TRAIN = "def train():\n" + textwrap.indent(STEP, "    ")
LOOP = "for epoch in range(3):\n"
BODY = textwrap.indent(STEP, "    ")


def hoisting(program: str) -> FileResult:
    found = rewrite((FULL_BATCH + program).encode(), "train.py", [MaskedLoss()], Choice(unsafe=False))
    assert found.outcome is not Outcome.FAILED, found.reason
    return found


HOISTED = {
    "in front of the loop": ("data = load()\n{index}" + LOOP + BODY, "train_index"),
    "behind the last line that makes it": (
        "data = load()\n" + TRAIN + "data = data.cuda()\n{index}" + LOOP + "    train()\n",
        "train_index",
    ),
    "function first": (TRAIN + "data = load()\n{index}" + LOOP + "    train()\n", "train_index"),
    "name is taken": (
        "train_index = 3\ndata = load()\n{index}" + TRAIN + LOOP + "    train()\n    print(train_index)\n",
        "train_index_2",
    ),
    "behind a semicolon": ("data = load(); other = 1\n{index}" + TRAIN + LOOP + "    train()\n", "train_index"),
    "while": ("data = load()\nepoch = 0\n{index}while epoch < 3:\n    epoch += 1\n" + BODY, "train_index"),
    "inner loop": ("for data in batches():\n    {index}" + textwrap.indent(LOOP + BODY, "    "), "train_index"),
    "moved by an `if`": ("data = load()\nif cuda:\n    data = data.cuda()\n{index}" + TRAIN + LOOP + "    train()\n",
        "train_index"),
    "moved in a `try`": (
        "data = load()\ntry:\n    data = data.cuda()\nexcept RuntimeError:\n    pass\n{index}"
        + TRAIN
        + LOOP
        + "    train()\n",
        "train_index",
    ),
    "moved in front of the loop": ("data = load()\ndata.train_mask = data.train_mask.bool()\n{index}" + LOOP + BODY,
        "train_index"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOISTED)
def test_constant_mask_becomes_an_index(name: str) -> None:
    program, index = HOISTED[name]
    line = f"{index} = data.train_mask.nonzero(as_tuple=True)\n"
    found = hoisting(program.replace("    {index}", "").replace("{index}", ""))
    after = program.replace("{index}", line).replace("[data.train_mask]", f"[{index}]")
    assert found.after.decode() == FULL_BATCH + after, [finding.reason for finding in found.refused]
    assert [finding.numerics for finding in found.applied] == [Numerics.BITWISE]


@pytest.mark.parametrize("made", [
    "data = None\nif load():\n    data = load()\n",
    "try:\n    data = load()\nexcept OSError:\n    data = load(1)\n",
    "data = load()\nwhile load():\n    data = load()\n",
    "data = load()\ndef other():\n    global data\n    data = load()\n",
    "data = load()\nif load():\n    train()\n    data = load()\n",
])  # fmt: skip
def test_no_index_of_a_mask_that_may_not_be_there_or_change(made: str) -> None:
    assert hoisting(TRAIN + made + LOOP + "    train()\n").outcome is Outcome.UNCHANGED


@pytest.mark.parametrize("mask", ["train_mask_zs", "mask", "maskA", "the_mask"])
def test_index_is_not_taken_for_a_mask(mask: str) -> None:
    program = f"def fit(data, {mask}):\n    " + textwrap.indent(LOOP + BODY, "    ").strip() + "\n"
    program = program.replace("data.train_mask", mask)
    found = rewrite((FULL_BATCH + program).encode(), "train.py", [MaskedLoss()], Choice(unsafe=True))
    assert found.outcome is Outcome.CHANGED
    assert found.after.decode().count(".nonzero(") == 1


def test_masks_of_graphs_are_followed_through_variables() -> None:
    step = STEP.replace("data.train_mask", "mask").replace("data.y", "y").replace("data.x", "x")
    program = "def fit(x, y, mask):\n    " + LOOP + textwrap.indent(step, "        ") + "\n"
    program += "g = load()\nmasks = (g.ndata['train_mask'], 2)\nfit(g.ndata['x'], g.ndata['y'], masks[0])\n"
    found = hoisting(program)
    assert "    mask_index = mask.nonzero(as_tuple=True)\n    for epoch" in found.after.decode()
    assert hoisting(program + "fit(1, 2, load())\n").outcome is Outcome.UNCHANGED


KEPT_MASK = """def change(g):
    {}
def fit(g, labels):
    train_mask = g.ndata["train_mask"]
    train_mask[0] = True
    for epoch in range(3):
        loss = F.cross_entropy(model(g.x)[train_mask], labels[train_mask])
        loss.backward()
        change(g)
fit(load(), load())
"""


@pytest.mark.parametrize("change", ["print(g)", "g.ndata['train_mask'] = g.ndata['val_mask']"])
def test_a_variable_keeps_its_mask(change: str) -> None:
    found = hoisting(KEPT_MASK.format(change))
    assert "    train_index = train_mask.nonzero(as_tuple=True)\n    for" in found.after.decode()


@pytest.mark.parametrize("change", [
    "g.ndata['train_mask'][0] = False",
    "g.ndata['train_mask'] |= load()",
    "g.ndata['train_mask'].fill_(True)",
    "m = g.ndata['train_mask']; m[2] = True",
    "g.ndata['train_mask'].data = load()",
])  # fmt: skip
def test_a_variable_sees_what_is_written_into_its_mask(change: str) -> None:
    assert hoisting(KEPT_MASK.format(change)).outcome is Outcome.UNCHANGED


@pytest.mark.parametrize("kept", ["torch.arange(3)", "torch.randperm(9)[:3]", "idx_train", "split.idx"])
def test_indices_under_the_name_of_a_mask(kept: str) -> None:
    program = f"data = load()\ndata.train_mask = {kept}\n" + LOOP + BODY
    found = rewrite((FULL_BATCH + program).encode(), "train.py", [MaskedLoss()], Choice(unsafe=True))
    assert found.outcome is Outcome.UNCHANGED
    assert found.refused == ()


VARIABLE = {
    "made in every round": "data = load()\n" + LOOP + "    data.train_mask = data.split(epoch)\n" + BODY,
    "loop variable": "for data in batches():\n" + BODY,
    "called before it is moved": "data = load()\n" + TRAIN + "train()\ndata = data.cuda()\n" + LOOP + "    train()\n",
    "called by another before": (
        "data = load()\n" + TRAIN + "def go():\n    train()\ngo()\ndata = data.cuda()\n" + LOOP + "    train()\n"
    ),
    "handed on before": (
        "data = load()\n" + TRAIN + "steps = [train]\nsteps[0]()\ndata = data.cuda()\n" + LOOP + "    train()\n"
    ),
    "bound by another function": (
        "data = load()\n" + TRAIN + "def swap():\n    global data\n    data = load()\n"
        + LOOP + "    train()\n    swap()\n"
    ),
    "assigned by another function": (
        "data = load()\n" + TRAIN + "def drop(d):\n    d.train_mask = None\n" + LOOP + "    train()\n    drop(data)\n"
    ),
    "written by another function": (
        "data = load()\n" + TRAIN + "def drop():\n    data.train_mask[0] = False\n" + LOOP + "    train()\n    drop()\n"
    ),
    "set by name": "data = load()\n" + TRAIN + LOOP + "    train()\n    setattr(data, 'train_mask', None)\n",
    "assigned as an item": "data = load()\n" + TRAIN + LOOP + "    train()\n    data['train_mask'] = None\n",
    "written through another name": (
        "data = load()\n" + TRAIN + LOOP + "    train()\n    m = data.train_mask\n    m[epoch] = False\n"
    ),
    "assigned through another name": (
        "data = load()\nother = data\n" + TRAIN + LOOP + "    train()\n    other.train_mask = None\n"
    ),
    "method that may change it": "data = load()\n" + LOOP + BODY + "    data.resample()\n",
    "function that may change it": "data = load()\n" + LOOP + BODY + "    load(data)\n",
    "of another module": "from graphs import data\n" + TRAIN + LOOP + "    train()\n",
    "parameter that hides a global": (
        "data = load()\n" + TRAIN.replace("train()", "train(data)") + LOOP + "    train(load())\n"
    ),
    "method of a class": (
        "class Trainer:\n    def __init__(self):\n        self.data = load()\n    def fit(self):\n        " + LOOP
        + textwrap.indent(STEP.replace("data", "self.data"), "            ")
        + "            self.drop()\n    def drop(self):\n        self.data.train_mask[0] = False\n"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VARIABLE)
def test_variable_mask_is_no_index(name: str) -> None:
    found = hoisting(VARIABLE[name])
    assert found.outcome is Outcome.UNCHANGED, found.after.decode()
    assert "nonzero" not in found.after.decode()


def test_only_steps_and_what_they_reach() -> None:
    code = HEAD.replace("def f(", "def prepare(") + "    return criterion(logits[labels > 0], labels[labels > 0])\n"
    code += "\n\ndef train(model, loader):\n    for x, y in loader:\n        model(x.cuda()).sum().backward()\n"
    assert rewrite(code.encode(), "train.py", [MaskedLoss()]).refused == ()


def test_prefixes_are_the_files_own() -> None:
    code = """\
import torch as th
from torch.nn import functional as nnf


def forward(out: th.Tensor, y: th.Tensor):
    out, y = out.view(-1, 3), y.view(-1)
    m = y > 0
    return nnf.nll_loss(out[m], y[m]), nnf.l1_loss(out[m], out.exp()[m])
"""
    found = rewrite(code.encode(), "train.py", [MaskedLoss()])
    assert "nnf.nll_loss(out, th.where(m, y, -100))" in found.after.decode()
    assert "nnf.l1_loss(" in found.after.decode()
    assert "torch.where" not in found.after.decode()


def held(body: str) -> list[tuple[Safety, str]]:
    found = result(body, unsafe=False)
    return [(finding.safety, finding.reason) for finding in found.held_back]


@pytest.mark.parametrize(
    "test", ["(mask).any()", "torch.any(mask)", "mask.sum() > 0", "mask.any().item()", "w is not None and mask.any()"]
)
def test_an_if_around_waits_for_the_mask_anyway(test: str) -> None:
    body = f"losses = x - y\nmask = losses > 0\nif {test}:\n    print(losses[mask].mean())\nreturn losses"
    line = module(body)[: module(body).index("if ")].count("\n") + 1
    why = f"the `if` on line {line} waits for `mask` anyway, so nothing is gained"
    assert held(body) == [(Safety.LOW_IMPACT, why)]


@pytest.mark.parametrize(
    ("between", "stays"), [("", True), ("y = x\n", True), ("y = F.relu(x)\n", False), ("mask = losses > 1\n", False)]
)
def test_an_if_directly_in_front_waits_for_the_mask_anyway(between: str, stays: bool) -> None:
    front = "losses = x - y\nmask = losses > 0\nif mask.sum() == 0:\n    return x.sum()\n"
    body = f"{front}{between}picked = losses[mask]\nreturn picked.mean() + y.sum()"
    assert [safety for safety, _ in held(body)] == [Safety.LOW_IMPACT] * stays
    assert (result(body, unsafe=False).outcome is Outcome.UNCHANGED) is stays


@pytest.mark.parametrize("test", ["y.sum() > 0", "(x < 0).any()", "mask.numel() > 0", "(~mask).any()"])
def test_an_if_about_something_else(test: str) -> None:
    body = f"losses = x - y\nmask = losses > 0\nif {test}:\n    print(losses[mask].mean())\nreturn losses"
    assert result(body, unsafe=False).outcome is Outcome.CHANGED
