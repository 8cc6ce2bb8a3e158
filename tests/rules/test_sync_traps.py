"""Whole scripts in which what a sync rule would write changes what is printed, or raises on CUDA."""

from __future__ import annotations

import textwrap

import pytest

from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, Outcome
from perfmod.transforms.rule import Rule
from perfmod.transforms.syncs.masked_loss import MaskedLoss
from perfmod.transforms.syncs.scalar_accumulation import ScalarAccumulation

SCRIPT = """
import torch
import torch.nn as nn
import torch.nn.functional as F

device = torch.device("cuda")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 3)
        self.alpha = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return self.fc(x) * self.alpha


class Meter:
    def __init__(self):
        self.sum = 0.0
        self.count = 0

    def update(self, value):
        self.sum += value
        self.count += 1


class Log:
    def log(self, name, value):
        seen.append(value)
        kept.zero_()


def train(data, loader, optimizer, split, logger=Log()):
    net, meter, total = Net().to(device), Meter(), 0.0
{before}
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        mask = y.view(-1) != 0
        loss = F.cross_entropy(net(x), y)
{inside}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
{behind}
    return total, meter.sum


seen, kept = [], torch.zeros((), device=device)
"""


def reasons(rule: Rule, inside: str, before: str = "", behind: str = "") -> str:
    """Why the script stays as it is: refused, or held back."""
    parts = {"before": (before, 4), "inside": (inside, 8), "behind": (behind, 8)}
    filled = {name: textwrap.indent(text, " " * indent) for name, (text, indent) in parts.items()}
    found = rewrite(SCRIPT.format(**filled).encode(), "train.py", [rule])
    assert found.outcome is Outcome.UNCHANGED, found.after.decode()
    return " ".join(finding.reason for finding in (*found.refused, *found.held_back))


@pytest.mark.parametrize("place", ["total += {}", "meter.update({})"])
def test_figures_of_several_devices_are_not_added_up(place: str) -> None:
    teacher = 'teacher = Net().to("cuda:1")'
    inside = 'other = F.cross_entropy(teacher(x.to("cuda:1")), y.to("cuda:1"))'
    behind = "\n".join(place.format(f"{name}.item()") for name in ("loss", "other"))
    assert "may be on several devices (line" in reasons(ScalarAccumulation(), inside, teacher, behind)


@pytest.mark.parametrize(("one", "other"), [("dev_a", "dev_b"), ("device", "teacher_device"), ("cfg.dev1", "cfg.dev2")])
def test_devices_may_be_told_apart_by_the_names_of_variables(one: str, other: str) -> None:
    inside = f"first = F.cross_entropy(a(x.to({one})), y)\nsecond = F.cross_entropy(b(x.to({other})), y)"
    reason = reasons(ScalarAccumulation(), inside, behind="total += first.item() + second.item()")
    assert "may be on several devices (line" in reason


ENSEMBLE = """
import torch
import torch.nn.functional as F


def train(nets, opts, devices, loader, device):
    total, losses = 0.0, []
    for x, y in loader:
        for i, (net, opt) in enumerate(zip(nets, opts)):
            {binding}
            loss = F.cross_entropy(net(x.to({device})), y.to({device}))
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
            losses.append(loss.item())
    print(total, losses)
"""


@pytest.mark.parametrize(("device", "binding"), [
    ("devices[i]", "pass"),
    ("d", "d = next(net.parameters()).device"),
    ("d", "d = net.head.weight.device"),
    ("d", "d = torch.device(f'cuda:{i}')"),
    ("torch.device('cuda', i)", "pass"),
])  # fmt: skip
def test_a_loop_over_models_may_go_over_devices(device: str, binding: str) -> None:
    code = ENSEMBLE.format(device=device, binding=binding)
    found = rewrite(code.encode(), "train.py", [ScalarAccumulation()])
    assert [finding.reason.count("may change from round to round") for finding in found.refused] == [1, 1]
    assert found.outcome is Outcome.UNCHANGED


def test_a_loop_over_models_may_stay_on_one_device() -> None:
    code = ENSEMBLE.format(device="device", binding="pass")
    selected = Choice(opted_in=frozenset({ScalarAccumulation.code}))
    after = rewrite(code.encode(), "train.py", [ScalarAccumulation()], selected).after.decode()
    assert "total += loss.detach()" in after
    assert "torch.stack(losses)" in after


PAIRS = "pred = net(x).view(-1)\nloss = F.mse_loss(pred[mask], target.view(-1, 1)[mask])"
SOFT = "out = net(x).view(-1, 3)\nloss = F.cross_entropy(out[mask], target.view(-1, 3)[mask])"


def test_rows_are_not_compared_with_elements() -> None:
    assert "has fewer dimensions than the tensor it selects from" in reasons(
        MaskedLoss(), f"target = y.float()\n{PAIRS}"
    )


def test_labels_with_a_number_for_each_class_are_soft() -> None:
    assert "class probabilities" in reasons(MaskedLoss(), f"target = y\n{SOFT}")


@pytest.mark.parametrize(("change", "reason"), [
    ('setattr(criterion, "reduction", "sum")', "sets an attribute of a loss by name"),
    ("criterion.register_forward_hook(lambda *given: print(given))", "sees the inputs of the loss"),
])  # fmt: skip
def test_losses_that_are_watched_or_changed_stay(change: str, reason: str) -> None:
    inside = "pred, target = net(x).view(-1), y.view(-1).float()\nloss = criterion(pred[mask], target[mask])"
    assert reason in reasons(MaskedLoss(), inside, f"criterion = nn.MSELoss()\n{change}")


@pytest.mark.parametrize("store", [
    'data.train_mask = split["train"].to(device)',
    'data.train_mask, data.val_mask = split["train"], split["valid"]',
    'data = Data(x=data.x, y=data.y, train_mask=split["train"])',
])  # fmt: skip
def test_what_is_called_a_mask_may_hold_indices(store: str) -> None:
    inside = "loss = F.cross_entropy(net(data.x)[data.train_mask], data.y[data.train_mask])"
    assert "`data.train_mask` is not known to be a boolean mask" in reasons(MaskedLoss(), inside, store)


@pytest.mark.parametrize("key", ['"train_mask"', "name"])
def test_a_mask_may_be_set_by_its_name(key: str) -> None:
    code = f"""\
import torch
import torch.nn.functional as F
from graphs import load

net = torch.nn.Linear(5, 3).cuda()


def resample(graph, name):
    setattr(graph, {key}, graph.x[:, 0].cuda() > torch.rand(()).cuda())


def train():
    data = load()
    for epoch in range(3):
        resample(data, "train_mask")
        F.cross_entropy(net(data.x)[data.train_mask], data.y[data.train_mask]).backward()
"""
    found = rewrite(code.encode(), "train.py", [MaskedLoss()])
    assert "nonzero" not in found.after.decode()
    fixed = rewrite(code.replace("setattr(graph", "print(graph").encode(), "train.py", [MaskedLoss()])
    assert "nonzero" in fixed.after.decode()
