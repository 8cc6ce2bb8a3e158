"""PM308: which zeroings are dropped, when the difference could show, and which zeros are meant."""

from __future__ import annotations

import textwrap

import pytest
from whole_files import WholeFiles

from perfmod.transforms.compute.zeroed_gradients import ZeroedGradients
from perfmod.transforms.finding import Numerics, Safety

FILES = WholeFiles(ZeroedGradients())
FIT = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x{more}):
{forward}
        return self.head(self.body(x))


def fit(loader):
    model = Net()
    optimizer = {optimizer}
    for step, (x, y) in enumerate(loader):
{step}
"""
PLAIN = "torch.optim.SGD(model.parameters(), lr=0.1)"
STEP = "{zero}\nloss = F.cross_entropy(model(x), y)\nloss.backward()\n{between}\noptimizer.step()\n{last}"


def fit(
    zero: str = "", *, between: str = "", last: str = "", optimizer: str = PLAIN, forward: str = "", more: str = ""
) -> str:
    step = "\n".join(line for line in STEP.format(zero=zero, between=between, last=last).splitlines() if line.strip())
    code = FIT.format(
        step=textwrap.indent(step, " " * 8), optimizer=optimizer, forward=textwrap.indent(forward, " " * 8), more=more
    )
    return "\n".join(line for line in code.splitlines() if line.strip())


BY_HAND = "for p in model.parameters():\n    if p.grad is not None:\n        p.grad.zero_()"
CHANGES = {
    "keyword": ("optimizer.zero_grad(set_to_none=False)", "optimizer.zero_grad(set_to_none=True)"),
    "position": ("optimizer.zero_grad(False)", "optimizer.zero_grad(True)"),
    "model": ("model.zero_grad(set_to_none=False)", "model.zero_grad(set_to_none=True)"),
    "by hand": (BY_HAND, "model.zero_grad(set_to_none=True)"),
    "without a guard": ("for p in model.parameters():\n    p.grad.data.fill_(0)", "model.zero_grad(set_to_none=True)"),
    "detached first": (("for p in model.parameters():\n    if p.grad is not None:\n        p.grad.detach_()\n"
          "        p.grad.zero_()"), "model.zero_grad(set_to_none=True)"),
    "with a comment": ("for p in model.parameters():\n    p.grad.zero_()  # again",
        "for p in model.parameters():\n    p.grad = None  # again"),
    "groups": (("for group in optimizer.param_groups:\n    for p in group['params']:\n"
          "        if p.grad is not None:\n            p.grad.detach_()\n            p.grad.zero_()"),
        ("for group in optimizer.param_groups:\n    for p in group['params']:\n        if p.grad is not None:\n"
          "            p.grad = None")),
}  # fmt: skip


@pytest.mark.parametrize("at_the_end", [False, True])
@pytest.mark.parametrize(("before", "after"), CHANGES.values(), ids=CHANGES)
def test_gradients_are_dropped_where_all_steps_are_alike(before: str, after: str, at_the_end: bool) -> None:
    if at_the_end:
        FILES.assert_becomes(fit(last=before), fit(last=after))
    else:
        FILES.assert_becomes(fit(before), fit(after))


@pytest.mark.parametrize("optimizer", [
    "torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)",
    "torch.optim.SGD(model.parameters(), 0.1, 0.9)",
    "torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=1e-4)",
    "torch.optim.SGD([{'params': model.parameters(), 'momentum': 0.9}], lr=0.1)",
    "torch.optim.SGD(model.parameters(), **options)",
    "torch.optim.RMSprop(model.parameters())",
    "torch.optim.Adam(model.parameters())",
])  # fmt: skip
def test_other_optimizers_may_move_what_has_no_gradient(optimizer: str) -> None:
    code = fit("optimizer.zero_grad(set_to_none=False)", optimizer=optimizer)
    after = code.replace("set_to_none=False", "set_to_none=True")
    FILES.assert_becomes(code, after, Safety.UNSAFE, Numerics.BEHAVIOURAL)


REFUSED = {
    "masked before the step": (fit("optimizer.zero_grad()", between=BY_HAND), "may depend on the zeros"),
    "clipped after it": (fit(last="optimizer.zero_grad(False)\nnn.utils.clip_grad_norm_(model.parameters(), 1)"),
        "may depend on the zeros"),
    "kept in a list": (fit("optimizer.zero_grad(False)", between="kept.append(model.head.weight.grad)"),
        "may depend on the zeros"),
    "read behind the loop": (fit(last="optimizer.zero_grad(False)") + "\n    print(model.head.weight.grad)",
        "may depend on the zeros"),
    "read by a function before the backward pass": (
        "def norm(model):\n    return model.head.weight.grad.norm()\n\n"
        + fit("optimizer.zero_grad(False)\nprint(norm(model))"),
        "may depend on the zeros",
    ),
    "views of one buffer": (
        fit("optimizer.zero_grad(False)").replace(
            "    for step", "    model.head.weight.grad = flat[:8].view(2, 4)\n    for step"
        ),
        "may depend on the zeros",
    ),
    "kept in a name": (fit("optimizer.zero_grad(False)", between="g = model.head.weight.grad"),
        "may depend on the zeros"),
    "some of them": (fit("for n, p in model.named_parameters():\n    if 'bias' in n:\n        p.grad.zero_()"),
        "under a condition"),
}  # fmt: skip


@pytest.mark.parametrize(("code", "reason"), REFUSED.values(), ids=REFUSED)
def test_is_refused(code: str, reason: str) -> None:
    assert reason in " | ".join(FILES.reasons(code))


READS = {
    "norm": "print(model.head.weight.grad.norm())",
    "arithmetic": "g = model.head.weight.grad * 2",
    "clipping": "nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
    "test": "assert model.head.weight.grad is not None",
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_reads_behind_the_backward_pass_do_not_matter(read: str) -> None:
    code = fit("optimizer.zero_grad(set_to_none=False)", between=read)
    FILES.assert_becomes(code, code.replace("set_to_none=False", "set_to_none=True"))


def test_a_leaf_without_a_model() -> None:
    before = """
        def fit(x, y, w):
            for _ in range(10):
                loss = (x @ w - y).square().sum()
                loss.backward()
                with torch.no_grad():
                    w -= 0.1 * w.grad
                    w.grad.zero_()
    """
    FILES.assert_becomes(before, before.replace("w.grad.zero_()", "w.grad = None"))


def test_zeroing_in_a_helper_is_held_back() -> None:
    before = "def zero(model):\n    for p in model.parameters():\n        p.grad.zero_()"
    after = "def zero(model):\n    for p in model.parameters():\n        p.grad = None"
    FILES.assert_becomes(before, after, Safety.UNSAFE, Numerics.BEHAVIOURAL)


@pytest.mark.parametrize("zero", [
    "optimizer.zero_grad()",
    "optimizer.zero_grad(set_to_none=True)",
    "optimizer.zero_grad(set_to_none=drop)",
    "optimizer.zero_grad(**options)",
    "for p in model.parameters(): p.grad = None",
    "buffer.zero_()",
    "model.head.weight.grad[0].zero_()",
    "model.head.weight.grad.fill_(1)",
])  # fmt: skip
def test_is_silent(zero: str) -> None:
    assert FILES.reasons(fit(zero)) == []
