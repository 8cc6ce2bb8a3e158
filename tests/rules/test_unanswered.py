"""Every operation of the catalogue in a step has an answer, whatever shape it stands in."""

from __future__ import annotations

import textwrap

import pytest

from perfmod.codemods.catalog import rules
from perfmod.codemods.engine import Choice, FileResult, Outcome, rewrite
from perfmod.transforms.needed import SHOWN
from perfmod.transforms.rule import Finding

HEAD = """\
import math
import gc
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

device = torch.device("cuda")


def train(model, loader, optimizer, args, score):
    for i, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

device = torch.device("cuda")
model = nn.Linear(784, 10).to(device)
loader = DataLoader(datasets.MNIST(".", transform=transforms.ToTensor()), batch_size=4)
for x, y in loader:
    x, y = x.to(device), y.to(device)
    model(x.view(4, -1)).sum().backward()
    z = (
        y.nonzero(
        )
    )
"""


def step(body: str) -> str:
    return HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8) + "\n"


def result(body: str) -> FileResult:
    found = rewrite(step(body).encode(), "train.py", rules(), Choice())
    assert found.outcome is not Outcome.FAILED, found.reason
    return found


def answers(body: str) -> list[Finding]:
    """What is said of the last lines of the step."""
    found = result(body)
    first = HEAD.count("\n") + 1
    return [each for each in (*found.applied, *found.held_back, *found.refused) if each.line >= first]


@pytest.mark.parametrize(
    "body",
    [
        "score(loss.item())",
        "args.last = loss.item()",
        "z = y.cpu().numpy()",
        "z = args.thing.tolist()",
        "values, counts = torch.unique_consecutive(y, return_counts=True)",
        "n = len(torch.unique_consecutive(y))",
        "for k in range(y.max()):\n    score(k)",
        "w = x[y > 0]",
        "k = torch.masked_select(x, x > 0)",
        "k = torch.argwhere(y)",
        "k = y.nonzero().shape[0]",
        "k = torch.where(y > 0)[0]",
        "h = torch.histc(x)",
        "b = torch.bincount(y)",
        "r = x.repeat_interleave(y, dim=0)",
        "r = torch.repeat_interleave(x, y, dim=0)",
        "z = torch.tensor(np.mean(args.rewards), device=device)",
        "z = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4))).to(x.device)",
        "z = torch.from_numpy(args.batch()).to(device)",
        "torch.set_default_tensor_type('torch.cuda.FloatTensor')\nz = torch.Tensor(args.pose).to(device)",
        "if i % 10 == 0:\n    print(f'{loss}')",
        "if i % 10 == 0:\n    print(loss)",
        "if i % 10 == 0:\n    torch.cuda.empty_cache()",
        "if i % 10 == 0:\n    score(out.argmax(1).cpu().numpy())",
        "if i % 10 == 0:\n    if args.strict and not (torch.isnan(x) | torch.isinf(x)).any():\n        score(i)",
        "if i % 10 == 0 and loss > 3:\n    score(i)",
        "try:\n    score(i)\nexcept ValueError:\n    score(loss.item())",
        "if loss.isnan():\n    print(loss.item())\n    break",
        "z = out.type(torch.FloatTensor)",
        "d = torch.distributions.Categorical(out)",
        "both = (loss > 1) and (out.mean() > 0)",
        "none = not (y > 3).any()",
        "is_between = 0 < loss < 3",
        "is_one = loss in [out.mean()]",
        "most = max(loss, out.mean())",
        "least = min([loss, out.mean()])",
        "order = sorted([loss, out.mean()])",
        "is_any = any(v > 1 for v in out[0])",
        "some = [k for k in range(3) if loss > k]",
        "if i % 10 == 0:\n    assert loss > 0",
        "w = x[: y.max()]",
        "w = x[:, y.min() :, 0]",
        "w = x[y > 0, 0]",
        "x[y > 0, 0] = 1.0",
        "w = [0] * y[0]",
        "w = torch.zeros(y.max() + 1, device=device)",
        "w = torch.ones((y.max(), 2), device=device)",
        "w = torch.arange(y.max(), device=device)",
        "root = math.sqrt(loss.detach())",
        "text = str(loss)",
        "text = '%.3f' % loss",
        "text = '%d: %.3f' % (i, loss)",
        "plan = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)\nplan.step(loss)",
        "counts = list(0 for k in range(10))\ncounts[y[0]] += 1",
        "for t, p in zip(y, out.argmax(1)):\n    x[t, p] += 1",
        "z = torch.ones(3).type_as(x)",
        "z = x.new([1.0, 2.0])",
        "while x.sum() > 1:\n    x = x / 2",
        "n = 0\nwhile n < x.max():\n    n, x = n + 1, x / 2",
        "t = 0\nfor k in range(3):\n    t = t + x.max()\nif -t > 3:\n    score(k)",
        "t = 0\nfor k in range(3):\n    t += x.max()\nwhile t > 3:\n    t = t / 2",
    ],
)
def test_every_operation_is_answered(body: str) -> None:
    assert answers(body), result(body)


@pytest.mark.parametrize(
    "body",
    [
        "k = np.unique(args.ids)",
        "n = np.ones(3).mean().item()",
        "z = torch.zeros(3).numpy()",
        "r = x.repeat_interleave(2, dim=0)",
        "r = torch.repeat_interleave(x, y, output_size=8)",
        "h = torch.histc(x, 10, 0, 1)",
        "x[y > 0] = 0.0",
        "z = out.type(torch.cuda.FloatTensor)",
        "z = math.log(3)",
        "z = out.to(torch.float64)",
        "z = torch.log(out)",
        "z = float(i)",
        "if args.verbose_enough:\n    pass",
        "while i > 1:\n    i = i / 2",
        "both = i > 1 and args.found",
        "none = not args.found",
        "most = max(i, 3)",
        "w = x[: y.size(0)]",
        "w = x[y, 0]",
        "w = torch.zeros(y.size(0), device=device)",
        "w = torch.zeros_like(y)",
        "z = torch.ones(3, device=device).type_as(x)",
        "text = '%d' % i",
        "table = {}\ntable[y] = 1",
        "root = math.sqrt(i)",
        "for p in model.parameters():\n    w = optimizer.state[p]",
        "if score(x) > 1:\n    score(i)",
        "k = 0\nwhile k < args.most:\n    k = k + x.size(0)",
    ],
)
def test_what_is_no_such_operation_is_not_spoken_of(body: str) -> None:
    assert answers(body) == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("if i % 10 == 0:\n    score(loss.item())", "it runs only under the `if` on line 19"),
        ("try: pass\nexcept ValueError:\n    score(loss.item())", "it runs only under the `except` on line 20"),
        ("z = args.thing.tolist()", "`args.thing` is not known to be a tensor on the device"),
        (
            "w = torch.unique(y)",
            "the CPU waits for the number of elements, because the shape of the result depends on it",
        ),
        ("args.writer.add_scalar('loss', float(loss.item()), i)", SHOWN),
        (
            "args.last = float(loss.item())",
            "it is stored in `args.last` on line 19, where other code may need it on the CPU",
        ),
        ("args.curve.insert(0, loss.item())", "`args.curve.insert` on line 19 collects it on the CPU"),
        ("a, b = torch.stack((loss.detach(), out.mean())).tolist()", "all values are already read in one transfer"),
        (
            "return y.nonzero()",
            "the CPU waits for the number of elements, because the shape of the result depends on it",
        ),
    ],
)
def test_the_reason_says_what_is_in_the_way(body: str, reason: str) -> None:
    assert reason in [finding.reason for finding in answers(body)]


def test_code_of_several_lines_is_quoted_in_one() -> None:
    (found,) = answers("z = args.made(\n    x,\n    [\n        y, i\n    ],\n) \\\n    .other.tolist()")
    assert found.reason == "`args.made(x, [y, i]) .other` is not known to be a tensor on the device"


def test_what_one_finding_speaks_for_is_told_apart_where_it_stays() -> None:
    meter = textwrap.dedent("""

        class Meter:
            def __init__(self):
                self.all = []

            def update(self, value):
                self.all.append(value)
                print(value)


        def main(model, loader, optimizer):
            first, second = Meter(), Meter()
            for x, y in loader:
                loss = model(x.to(device), y.to(device))
                loss.backward()
                first.update(loss.item())
                second.update(loss.mean().item())
    """)
    found = rewrite((step("pass") + meter).encode(), "train.py", rules(), Choice()).refused
    reasons = [each.reason for each in found if each.snippet.endswith(".item()")]
    assert reasons == ["`Meter.update` needs `value` as a number on line 27"] * 2


def test_a_function_that_is_called_now_and_then_only() -> None:
    code = step("if i % 10 == 0:\n    show(loss)") + "\n\ndef show(loss):\n    print(loss.item())\n"
    found = rewrite(code.encode(), "train.py", rules(), Choice())
    (finding,) = (each for each in found.refused if each.scope == "show")
    assert finding.reason == "it runs only under the `if` on line 19"


def test_what_perfmod_writes_itself_is_no_occurrence() -> None:
    found = result("score(loss.item(), out.mean().item())")
    assert ".tolist()" in found.after.decode() or not found.applied
    assert all("tolist" not in finding.snippet for finding in found.refused)


def test_a_branch_that_holds_a_rewrite_keeps_its_reason() -> None:
    code = SCRIPT.replace("x, y = x.to(device), y.to(device)", "x = x.to(device)").replace(
        "    z = (", "    if len(y) % 10 == 0:\n        if x.isnan().any():\n            model(y.to(device))\n    z = ("
    )
    found = rewrite(code.encode(), "train.py", rules(), Choice())
    assert b"model(y.to(device, non_blocking=True))" in found.after
    assert "PM105" in [each.code for each in found.refused]


def test_what_is_indented_under_a_guard_keeps_its_reason() -> None:
    found = rewrite(SCRIPT.encode(), "train.py", rules(), Choice())
    assert b"__main__" in found.after
    assert "PM101" in [each.code for each in found.refused]


EVALUATION = """
    read = y.cpu().numpy()
    if (y > 3).any():
        score(y)
    figure = helper(y)
"""


@pytest.mark.parametrize(
    "around",
    [
        "def evaluate(model, val_loader):\n    for x, y in val_loader:\n        y = y.to(device)\n{}",
        "@torch.no_grad()\ndef evaluate(model, batches):\n    for x, y in batches:\n        y = y.to(device)\n{}",
        (
            "from lightning import LightningModule\nclass Net(LightningModule):\n"
            "    def validation_step(self, batch, at):\n        x, y = batch\n{}"
        ),
    ],
)
def test_rounds_of_evaluations_are_asked_as_well(around: str) -> None:
    helper = "\n\ndef helper(y):\n    return len(y.unique())\n"
    code = HEAD + "\n\n" + around.format(textwrap.indent(EVALUATION, " " * 4)) + helper
    found = rewrite(code.encode(), "train.py", rules(), Choice())
    assert found.outcome is not Outcome.FAILED, found.reason
    assert {"PM103", "PM105", "PM112"} <= {each.code for each in (*found.applied, *found.held_back, *found.refused)}


def test_outside_of_steps_nothing_is_asked_for() -> None:
    code = "import torch\n\ntotal = torch.ones(3, device='cuda').sum().item()\n"
    assert rewrite(code.encode(), "a.py", rules(), Choice()).refused == ()


def test_a_comment_silences_it_like_any_other_finding() -> None:
    found = result("k = torch.argwhere(y)  # perfmod: ignore[PM101]")
    assert [each.code for each in found.suppressed] == ["PM101"]
