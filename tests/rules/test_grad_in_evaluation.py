"""PM307: what counts as an evaluation, which form the rewrite takes, and who would notice."""

from __future__ import annotations

import textwrap

import pytest
from whole_files import WholeFiles

from perfmod.transforms.compute.grad_in_evaluation import GradInEvaluation
from perfmod.transforms.finding import Numerics, Safety

FILES = WholeFiles(GradInEvaluation())
TEST = """\
def test(model, loader, criterion=None, attack=None, meter=None):
    model.eval()
    total = 0.0
    for x, y in loader:
{step}
    {end}
"""
SCRIPT = """\
def main(model, train_loader, val_loader, optimizer):
    for epoch in range(2):
        model.train()
        for x, y in train_loader:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
{rest}
"""


def evaluation(step: str, end: str = "return total") -> str:
    return TEST.format(step=textwrap.indent(textwrap.dedent(step).strip("\n"), " " * 8), end=end)


def script(rest: str) -> str:
    return SCRIPT.format(rest=textwrap.indent(textwrap.dedent(rest).strip("\n"), " " * 8))


DECORATED = {
    "number": evaluation("total += F.cross_entropy(model(x), y).item()"),
    "float": evaluation("total += float(criterion(model(x), y))"),
    "count": evaluation("out = model(x)\ntotal += (out.argmax(1) == y).sum()"),
    "largest": evaluation("_, pred = model(x).max(1)\ntotal += pred.eq(y).sum().item()", 'print(f"{total:.4f}")'),
    "host": evaluation("total += model(x).detach().cpu().numpy().sum()"),
    "formatted": evaluation('loss = criterion(model(x), y)\nprint(f"{loss:.4f}", "%.3f" % loss)'),
    "list of numbers": evaluation("outs = [o.item() for o in model(x)[:, 0]]\ntotal += sum(outs)"),
    "mode by argument": evaluation("total += model(x).sum().item()").replace("eval()", "train(False)"),
    "size and norm of the model": evaluation(
        "total += model(x).sum().item()",
        "return total, sum(p.numel() for p in model.parameters()), sum(p.norm().item() for p in model.parameters())",
    ),
    "method": (
        "class Trainer:\n    def validate(self, loader):\n        self.model.eval()\n        n = 0\n"
        "        for x, y in loader:\n            n += int((self.model(x).argmax(1) == y).sum())\n        return n\n"
    ),
    "by its name": (
        "def evaluate(net, val_loader):\n    hits = 0\n    for x, y in val_loader:\n"
        "        hits += int((net(x).argmax(1) == y).sum())\n    return hits\n"
    ),
}


@pytest.mark.parametrize("code", DECORATED.values(), ids=DECORATED)
def test_a_function_that_only_evaluates_is_decorated(code: str) -> None:
    lines = code.splitlines(keepends=True)
    at = next(index for index, line in enumerate(lines) if line.lstrip().startswith("def "))
    indentation = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    FILES.assert_becomes(code, "".join([*lines[:at], f"{indentation}@torch.no_grad()\n", *lines[at:]]))


BLOCKS = {
    "loop behind eval": (("model.eval()\nn = 0\nfor x, y in val_loader:\n"
          "    n += int((model(x).argmax(1) == y).sum())\nprint(n)"),
        ("model.eval()\nn = 0\nwith torch.no_grad():\n    for x, y in val_loader:\n"
          "        n += int((model(x).argmax(1) == y).sum())\nprint(n)")),
    "loop over validation data": (("hits = 0\nfor step, (x, y) in enumerate(val_loader):\n"
          "    hits += int((model(x).argmax(1) == y).sum())"),
        ("hits = 0\nwith torch.no_grad():\n    for step, (x, y) in enumerate(val_loader):\n"
          "        hits += int((model(x).argmax(1) == y).sum())")),
    "one line": ("model.eval()\npred = model(x).argmax(1)\nprint(int((pred == y).sum()))",
        "model.eval()\nwith torch.no_grad():\n    pred = model(x).argmax(1)\nprint(int((pred == y).sum()))"),
    "all of a block": (("model.eval()\nwith torch.autocast('cuda'):\n    pred = model(x).argmax(1)\n"
          "print(int((pred == y).sum()))"),
        ("model.eval()\nwith torch.autocast('cuda'), torch.no_grad():\n    pred = model(x).argmax(1)\n"
          "print(int((pred == y).sum()))")),
    "part of a block": (("model.eval()\nwith torch.autocast('cuda'):\n    pred = model(x).argmax(1)\n"
          "    print(int((pred == y).sum()))"),
        ("model.eval()\nwith torch.autocast('cuda'):\n    with torch.no_grad():\n"
          "        pred = model(x).argmax(1)\n    print(int((pred == y).sum()))")),
    "lines together": (("model.eval()\na = model(x).argmax(1)\nb = model(y).argmax(1)\nprint(int((a == b).sum()))\n"
          "model.train()"),
        ("model.eval()\nwith torch.no_grad():\n    a = model(x).argmax(1)\n    b = model(y).argmax(1)\n"
          "print(int((a == b).sum()))\nmodel.train()")),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), BLOCKS.values(), ids=BLOCKS)
def test_an_evaluation_inside_of_a_training_is_nested(before: str, after: str) -> None:
    FILES.assert_becomes(script(before), script(after))


def test_a_long_loop_is_not_indented_unasked() -> None:
    lines = "    n += int((model(x).argmax(1) == y).sum())\n" * 13
    (held,) = FILES.result(
        script(f"model.eval()\nn = 0\nfor x, y in val_loader:\n{lines}print(n)"), unsafe=False
    ).held_back
    assert held.safety is Safety.UNSAFE
    assert held.reason.endswith("and 14 lines would be indented: review it with `git diff -w`")


def test_code_for_pytorch_before_04_stays() -> None:
    code = evaluation("total += model(Variable(x, volatile=True)).sum().item()")
    assert "`volatile` already switches gradients off in PyTorch before 0.4" in " | ".join(FILES.reasons(code))


HELD_BACK = {
    "returned": (evaluation("total += criterion(model(x), y)"), "returned on line"),
    "printed": (evaluation("loss = criterion(model(x), y)\nprint(loss)"), "`grad_fn`"),
    "logged": (evaluation("loss = criterion(model(x), y)\nlogging.info('%s', loss)"), "`grad_fn`"),
    "as text": (evaluation("loss = criterion(model(x), y)\ntotal = 'loss %s' % loss"), "`grad_fn`"),
    "kept": (evaluation("loss = criterion(model(x), y)\nself.last = loss"), "where other code may differentiate it"),
    "handed on": (evaluation("loss = criterion(model(x), y)\nagent.learn(loss)"),
        "where other code may differentiate it"),
    "meter of the caller": (evaluation("meter.update(criterion(model(x), y), 1)"),
        "where other code may differentiate it"),
    "suggestive": (evaluation("total += model(x, support=y).sum().item()"), "`support`"),
    "other path": ("layer = nn.TransformerEncoderLayer(4, 1)\n" + evaluation("total += model(x).sum().item()"),
        "`TransformerEncoderLayer` computes slightly different values"),
}  # fmt: skip


@pytest.mark.parametrize(("code", "reason"), HELD_BACK.values(), ids=HELD_BACK)
def test_is_held_back_where_somebody_may_notice(code: str, reason: str) -> None:
    found = FILES.result(code)
    assert [finding.safety for finding in found.applied] == [Safety.UNSAFE]
    assert reason in found.applied[0].reason
    assert not FILES.result(code, unsafe=False).applied


REFUSED = {
    "grad": (evaluation("g = torch.autograd.grad(model(x).sum(), x)\ntotal += g[0].sum().item()"), "autograd.grad"),
    "requires_grad_": (evaluation("x.requires_grad_()\ntotal += model(x).sum().item()"), "requires_grad_"),
    "requires_grad": (evaluation("x.requires_grad = True\ntotal += model(x).sum().item()"), "`requires_grad`"),
    "new leaf": (evaluation("d = torch.zeros(3, requires_grad=True)\ntotal += model(x + d).sum().item()"),
        "`requires_grad`"),
    "gradient": (evaluation("total += model(x).sum().item() + x.grad.sum().item()"), "gradient is read"),
    "attack": (evaluation("x = pgd_attack(model, x, y)\ntotal += model(x).sum().item()"), "which may need gradients"),
    "enabled": (evaluation("h = torch.is_grad_enabled()\ntotal += model(x).sum().item()"), "is_grad_enabled"),
    "in a helper": (
        "def penalty_of(x):\n    return torch.autograd.grad(x.sum(), x)[0]\n\n\n"
        + evaluation("total += model(x).sum().item() + penalty_of(x).sum().item()"),
        "autograd.grad",
    ),
    "computed of the parameters": (
        evaluation("total += model(x).sum().item()", "return total, sum(p.norm() for p in model.parameters())")
        + "\n\ntotal, norm = test(net, data)\nnorm.backward()\n",
        "is differentiated on line",
    ),
    "errors that tell of gradients": (
        evaluation("try:\n    total += model(x).numpy().sum()\nexcept RuntimeError:\n    total += 1"),
        "the error of `numpy()`",
    ),
    "differentiated": (evaluation("loss = criterion(model(x), y)\ntotal += loss", "total.backward()"),
        "differentiated"),
    "later": (("def run(model, val_loader):\n    model.eval()\n    outs = []\n    for x, y in val_loader:\n"
          "        outs.append(model(x))\n    loss = torch.cat(outs).sum()\n"
          "    return torch.autograd.grad(loss, x)\n"), "differentiated"),
    "flag": (("def epoch(model, loader, training):\n    for x, y in loader:\n        loss = model(x).sum()\n"
          "        if training:\n            loss.backward()\n"), ""),
}  # fmt: skip


@pytest.mark.parametrize(("code", "reason"), REFUSED.values(), ids=REFUSED)
def test_is_refused_where_gradients_are_needed(code: str, reason: str) -> None:
    found = FILES.reasons(code)
    assert bool(found) == bool(reason)
    assert reason in " | ".join(found)


SILENT = {
    "trained by what callers pass": (
        evaluation("total += model(x).sum().item()\nattack(x)").replace("attack", "on_batch")
        + "\n\ndef learn(x):\n    net(x).sum().backward()\n\n\ntest(net, data, on_batch=learn)\n"
    ),
    "block": evaluation("with torch.no_grad():\n    total += model(x).sum().item()"),
    "decorator": "@torch.no_grad()\n" + evaluation("total += model(x).sum().item()"),
    "inference mode": "@torch.inference_mode()\n" + evaluation("total += model(x).sum().item()"),
    "their own decorator": (
        "def nograd(f):\n    def g(*a):\n        with torch.no_grad():\n            return f(*a)\n    return g\n"
        "@nograd\n" + evaluation("total += model(x).sum().item()")
    ),
    "a decorator of the project": (
        "from utils import smart_inference_mode\n\n\n@smart_inference_mode()\n"
        + evaluation("total += model(x).sum().item()")
    ),
    "switched off for good": "torch.set_grad_enabled(False)\n" + evaluation("total += model(x).sum().item()"),
    "phases": script(
        "for phase in ('train', 'val'):\n    model.train(phase == 'train')\n    for x, y in loaders[phase]:\n"
        "        with torch.set_grad_enabled(phase == 'train'):\n            loss = model(x).sum()\n"
        "            if phase == 'train':\n                loss.backward()"
    ),
    "called without": (
        evaluation("total += model(x).sum().item()")
        + "\n\ndef both(model, a, b):\n    with torch.no_grad():\n        return test(model, a) + test(model, b)\n"
    ),
    "training in evaluation mode": (
        "def tune(model, loader, optimizer):\n    model.eval()\n    for x, y in loader:\n"
        "        loss = model(x).sum()\n        loss.backward()\n        optimizer.step()\n"
    ),
    "a resting critic": script(
        "critic.eval()\nfor x, y in train_loader:\n    loss = critic(model(x)).mean()\n    loss.backward()"
    ),
    "lightning": (
        "import lightning.pytorch as pl\nclass Module(pl.LightningModule):\n    def validation_step(self, batch, i):\n"
        "        self.net.eval()\n        return self.net(batch)\n"
    ),
    "nothing is run": "def load(model):\n    model.eval()\n    model.load_state_dict(state)\n    return model\n",
}


@pytest.mark.parametrize("code", SILENT.values(), ids=SILENT)
def test_is_silent_where_nothing_is_wrong(code: str) -> None:
    assert FILES.reasons(code) == []


def test_attention_may_round_differently() -> None:
    code = evaluation("total += F.scaled_dot_product_attention(model(x), x, x).sum().item()")
    FILES.assert_becomes(code, f"@torch.no_grad()\n{code}", numerics=Numerics.ROUNDING)


def test_torch_under_another_name_is_used() -> None:
    files = WholeFiles(GradInEvaluation(), "import torch as th")
    code = evaluation("total += model(x).sum().item()")
    files.assert_becomes(code, f"@th.no_grad()\n{code}")


def test_what_a_module_returns_may_be_differentiated() -> None:
    code = "class Net(nn.Module):\n    def embed(self, x):\n        self.body.eval()\n        return self.body(x)\n"
    (found,) = FILES.result(code).applied
    assert found.safety is Safety.UNSAFE
    assert "a tensor is returned on line" in found.reason
