"""Training steps: what runs in each of them, and what stands behind a condition that is rarely true."""

from __future__ import annotations

import textwrap

import libcst as cst
import pytest

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.source import Source

TRAINING = """\
import torch


def fit(model, loader, args):
    log_every = 1
    for step, (x, y) in enumerate(loader):
        is_due, text, sign = not step % 10, "%d" % step, -1 if step else 1
        logits, log_probs = model(x), torch.log_softmax(model(x), 1)
        loss = torch.nn.functional.cross_entropy(logits, y)
        loss.backward()
        if {test}:
            report()
"""


def report_is_gated(test: str) -> bool:
    """Whether `report()` under `if test:` is taken for something that steps seldom come by."""
    file = FileFacts(Source.parse(textwrap.dedent(TRAINING).format(test=test).encode(), "train.py"))
    report = next(call for call in find_all(file.tree.module, cst.Call) if file.source.code(call) == "report()")
    assert file.steps.in_sight(report)
    return file.steps.is_gated(report)


@pytest.mark.parametrize("test", [
    "step % 100 == 0",
    "is_due",
    "args.rank == 0 and is_due",
    "args.log",
    "step in args.log_steps",
    "args.logSteps",
    "VERBOSE",
    "print_now(step)",
    "x.size(0) == 1",
    "x.shape[0] == 1",
])  # fmt: skip
def test_reports_are_rare(test: str) -> None:
    assert report_is_gated(test)


@pytest.mark.parametrize("test", [
    "logits is not None",
    "args.use_logits",
    "args.catalog",
    "log_probs.dim() == 2",
    "x.any()",
    "text",
    "sign > 0",
    "'%d' % step",
    "x.size(0) > 1",
    "x.size(0) == 64",
    "x.size(1) == 1",
    "len(batch) == 1",
    "step % log_every == 0",
    "step % 1 == 0",
])  # fmt: skip
def test_other_conditions_are_not(test: str) -> None:
    assert not report_is_gated(test)


@pytest.mark.parametrize(
    ("code", "expected"),
    {
        "all of the training": ("if i % 4 == 0:\n    f(x).backward()\n    use()", False),
        "a condition inside of it": ("if i % 4 == 0:\n    f(x).backward()\n    if i % 100 == 0:\n        use()", True),
        "half of the training": ("f(x).backward()\nif i % 4 == 0:\n    g(x).backward()\n    use()", True),
        "the other half": ("if i % 4 == 0:\n    f(x).backward()\n    use()\nelse:\n    g(x).backward()", True),
        "beside the training": ("if i % 4 == 0:\n    f(x).backward()\nif i % 4 == 0:\n    use()", True),
        "within two": ("if i > 9:\n    if i % 4 == 0:\n        f(x).backward()\n        use()", False),
    }.values(),
)
def test_conditions_around_the_training(code: str, expected: bool) -> None:
    """What runs whenever there is a step runs in every step."""
    body = textwrap.indent(code, "    ")
    file = FileFacts(Source.parse(f"for i, x in enumerate(loader):\n{body}\n".encode()))
    call = next(c for c in find_all(file.source.module, cst.Call) if file.source.code(c.func) == "use")
    assert file.steps.is_gated(call) is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    {
        "the first round": ("if i == 0:\n    use()", True),
        "the first round, and more": ("if i == 0 and args.quick:\n    use()", True),
        "the first round, or more": ("if i == 0 or args.quick:\n    use()", False),
        "the first epoch": ("if epoch < 1:\n    use()", True),
        "a count of steps": ("if self.steps > 0:\n    pass\nelse:\n    use()", True),
        "made when it is missing": ("if not hasattr(self, 'mask'):\n    self.mask = use()", True),
        "missing for good": ("if not hasattr(self, 'mask'):\n    use()", False),
        "behind the first step": ("if self.steps > 0:\n    use()", False),
        "a chain": ("if self.steps > 0:\n    pass\nelif y:\n    use()", False),
        "a count of something else": ("if len(y) == 0:\n    use()", False),
        "the first layer": ("for k in range(3):\n    if k == 0:\n        use()", False),
        "the first step of a recurrence": ("for step in range(3):\n    if step == 0:\n        use()", False),
        "what is kept": ("if self.mask is None:\n    self.mask = use()", True),
        "what is not kept": ("if self.mask is None:\n    mask = use()", False),
        "a flag": ("if not self.is_ready:\n    use()\n    self.is_ready = True", True),
        "a flag that is a tensor": ("if not self.is_ready:\n    use()\n    self.is_ready = torch.tensor(True)", True),
        "a flag that is taken back": (
            "if not self.is_ready:\n    use()\n    self.is_ready = True\nself.is_ready = False",
            False,
        ),
        "what may stay empty": ("if not self.items:\n    use()\n    self.items = list(self.all)", False),
        "what is dropped": ("if self.mask is None:\n    self.mask = use()\nself.mask = None", False),
        "a default": ("if mask is None:\n    mask = use()", False),
        "an optimizer's state": ("s = self.state[p]\nif len(s) == 0:\n    s['m'] = use()", True),
        "an optimizer's state, not": ("s = self.state[p]\nif not s:\n    s['m'] = use()", True),
        "a state that may stay empty": ("s = self.state[p]\nif len(s) == 0:\n    use()", False),
        "a new state": ("s = dict()\nif len(s) == 0:\n    s['m'] = use()", False),
    }.values(),
)
def test_conditions_that_hold_once(code: str, expected: bool) -> None:
    body = textwrap.indent(code, " " * 8)
    code = f"for epoch in range(9):\n    for i, x in enumerate(loader):\n        f(x).backward()\n{body}\n"
    file = FileFacts(Source.parse(code.encode()))
    call = next(c for c in find_all(file.source.module, cst.Call) if file.source.code(c.func) == "use")
    assert file.steps.is_gated(call) is expected


def regions(code: str) -> list[int]:
    """The lines on which the steps of a file begin."""
    file = FileFacts(Source.parse(textwrap.dedent(code).strip("\n").encode() + b"\n"))
    return sorted(file.source.line(region) for region in file.steps.regions)


REGIONS = {
    "loop": ("for x in loader:\n    model(x).backward()", [1]),
    "nested loops": ("for epoch in range(3):\n    for x in loader:\n        model(x).backward()", [2]),
    "two loops": ("for x in a:\n    f(x).backward()\nfor x in b:\n    f(x).backward()", [1, 3]),
    "evaluation": ("for x in a:\n    f(x).backward()\nfor x in b:\n    f(x).item()", [1]),
    "while": ("while c:\n    f(x).backward()", [1]),
    "scaler": ("for x in a:\n    scaler.scale(f(x)).backward()\n    scaler.step(opt)", [1]),
    "accelerate": ("for x in a:\n    accelerator.backward(f(x))", [1]),
    "helper": ("def step(x):\n    f(x).backward()\nfor e in range(3):\n    for x in a:\n        step(x)", [4]),
    "method": (("class T:\n    def step(self, x):\n        f(x).backward()\n    def fit(self):\n"
          "        for x in a:\n            self.step(x)"),
        [5]),
    "helper of a helper": ("def inner(x):\n    f(x).backward()\ndef outer(x):\n    inner(x)\nfor x in a:\n    outer(x)",
        [5]),
    "epochs around a function with a loop": (("def train():\n    for x in a:\n        f(x).backward()\n"
          "for e in range(3):\n    train()"),
        [2]),
    "full batch": ("def train():\n    f(x).backward()\nfor e in range(3):\n    train()", [3]),
    "full batch, not called": ("def train():\n    f(x).backward()", [1]),
    "closure for the optimizer": (("for x in a:\n    def closure():\n        loss = f(x)\n        loss.backward()\n"
          "        return loss\n    opt.step(closure)"),
        [1]),
    "gradient accumulation": ("for x in a:\n    for part in x:\n        f(part).backward()\n    opt.step()", [2]),
    "loss scaler": ("for x in a:\n    loss_scaler(f(x), opt)", [1]),
    "custom gradient": (("import torch\nclass Op(torch.autograd.Function):\n    @staticmethod\n"
          "    def backward(ctx, g):\n        return g"),
        []),
    "comprehension": ("def step(x):\n    f(x).backward()\nfor e in range(3):\n    [step(x) for x in a]", [3]),
    "hooks of a Trainer": (("from transformers import Trainer\nclass T(Trainer):\n"
          "    def compute_loss(self, model, inputs):\n        return f(inputs)\n"
          "    def log(self, logs):\n        use()\nclass U(T):\n"
          "    def training_step(self, model, inputs):\n        return g(inputs)"),
        [3, 8]),
    "another Trainer": ("class Trainer:\n    def compute_loss(self, model, inputs):\n        return f(inputs)", []),
    "nothing": ("for x in a:\n    f(x)", []),
}  # fmt: skip


@pytest.mark.parametrize("name", REGIONS)
def test_steps(name: str) -> None:
    code, expected = REGIONS[name]
    assert regions(code) == expected


REACHES = {
    "in the loop": ("for x in a:\n    f(x).backward()\n    use()", True),
    "in front of it": ("use()\nfor x in a:\n    f(x).backward()", False),
    "behind it": ("for e in range(3):\n    for x in a:\n        f(x).backward()\n    use()", False),
    "in a function that is called": ("def g():\n    use()\nfor x in a:\n    f(x).backward()\n    g()", True),
    "in a method that a derived class overrides": (("class K:\n    def fit(self):\n        for x in a:\n"
          "            f(x).backward()\n            self.g()\n"
          "    def g(self):\n        pass\nclass L(K):\n"
          "    def g(self):\n        use()"), True),
    "in one that is not": ("def g():\n    use()\nfor x in a:\n    f(x).backward()", False),
    "in the forward of a module": (("from torch import nn\nclass K(nn.Module):\n    def forward(self, x):\n"
          "        use()\nfor x in a:\n    f(x).backward()"), True),
    "in evaluation": ("for x in a:\n    f(x).backward()\ndef test():\n    for x in b:\n        use()", False),
    "in the data set": ("class D:\n    def __len__(self): ...\n    def __getitem__(self, i):\n        use()", False),
    "in a library": ("def loss(x):\n    use()", True),
    "at the top of a library": ("use()", False),
    "in the closure": ("for x in a:\n    def closure():\n        f(x).backward()\n        use()\n    opt.step(closure)",
        True),
    "beside parts of a step": ("while c:\n    for i in range(n):\n        f(x).backward()\n    opt.step()\n    use()",
        True),
    "in front of parts of a step": (("for i in range(9):\n    use()\n    for k in range(n):\n"
          "        f(x).backward()\n    scaler.step(opt)"), True),
    "beside the batches of an epoch": (("for e in range(9):\n    for i in range(n):\n        f(x).backward()\n"
          "        opt.step()\n    use()"), False),
    "beside steps of a scheduler": (("for e in range(9):\n    for i in range(n):\n        f(x).backward()\n"
          "    scheduler.step()\n    use()"), False),
    "beside the closure": ("for x in a:\n    def closure():\n        f(x).backward()\n    opt.step(closure)\n    use()",
        True),
}  # fmt: skip


@pytest.mark.parametrize("name", REACHES)
def test_what_steps_reach(name: str) -> None:
    code, expected = REACHES[name]
    file = FileFacts(Source.parse(code.encode() + b"\n"))
    call = next(c for c in find_all(file.source.module, cst.Call) if file.source.code(c.func) == "use")
    assert file.steps.reaches(call) is expected


NESTED = {
    "critic and generator": (("for x in loader:\n    for _ in range(5):\n        c(x).backward()\n"
          "    generator(x).backward()\n    here()"), True),
    "parts or whole": (("def train_step(x):\n    if whole:\n        model(x).backward()\n        return\n"
          "    for part in x:\n        model(part).backward()\n\n\nfor x in loader:\n"
          "    train_step(x)\n    here()"), True),
    "epochs": ("for epoch in range(3):\n    for x in loader:\n        model(x).backward()\n    here()", False),
    "epochs by a function": (("def train():\n    for x in loader:\n        model(x).backward()\n\n\n"
          "for epoch in range(3):\n    train()\n    here()"), False),
    "two loops of an epoch": (("for epoch in range(3):\n    for x in first:\n        model(x).backward()\n"
          "    for x in second:\n        model(x).backward()\n    here()"), False),
}  # fmt: skip


@pytest.mark.parametrize(("code", "is_step"), NESTED.values(), ids=NESTED)
def test_a_loop_around_training_loops_is_a_step_where_it_trains_itself(code: str, is_step: bool) -> None:
    file = FileFacts(Source.parse(f"import torch\n\n{code}\n".encode(), "train.py"))
    here = next(call for call in find_all(file.tree.module, cst.Call) if file.source.code(call) == "here()")
    assert file.steps.in_sight(here) is is_step


CACHED = """\
import torch


class Masks(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.masks = {{}}

    def forward(self, x, step):
        n = x.size(0)
        if {test}:
            mask = here()
            self.masks[n] = mask
        return x * self.masks[n]
{more}

model = Masks()
for step, x in enumerate(loader):
    model(x, step).sum().backward()
"""


@pytest.mark.parametrize(("test", "more", "is_gated"), [
    ("n not in self.masks", "", True),
    ("n in self.masks", "", False),
    ("n not in self.others", "", False),
    ("step not in self.masks", "", False),
    ("n not in self.masks", "\n    def reset(self):\n        self.masks = {}\n", False),
    ("n not in self.masks", "\n    def reset(self):\n        self.masks.clear()\n", False),
    ("n not in self.masks", "\n    def reset(self):\n        del self.masks[1]\n", False),
])  # fmt: skip
def test_what_is_stored_where_it_was_missing_is_made_once(test: str, more: str, is_gated: bool) -> None:
    code = CACHED.format(test=test, more=more)
    file = FileFacts(Source.parse(code.encode(), "train.py"))
    here = next(call for call in find_all(file.tree.module, cst.Call) if file.source.code(call) == "here()")
    assert file.steps.is_gated(here) is is_gated
