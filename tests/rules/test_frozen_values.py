"""PM314 where Python changes between two rounds what a step reads or does: a replay would not see it."""

from __future__ import annotations

import pytest

from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice

SCRIPT = """\
import os
import random
import sys
import settings_of_run
import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.nn.utils import prune

device = torch.device("cuda")
loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(4)]
model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 3)).to(device)
optimizer = optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
weight, settings, history, noise = 1.0, {{"weight": 1.0}}, [1.0], random.Random(0)
class_weights = torch.ones(3, device=device)


class Schedule:
    def __init__(self):
        self.rounds = 0
        self.table = {{"weight": 1.0}}

    def __getitem__(self, name):
        return self.table[name]

    def __enter__(self):
        self.rounds += 1

    def __exit__(self, *error):
        pass

    @property
    def weight(self):
        return 1 / (1 + self.rounds)

    def advance(self):
        self.table["weight"] *= 0.5


schedule = Schedule()


def weighted(loss):
    return weight * loss


class Decay:
    def __init__(self, settings):
        self.settings = settings

    def apply(self):
        self.settings["weight"] *= 0.5


class Counted:
    rounds = 0

    def __mul__(self, other):
        self.rounds += 1
        return self.rounds * other

    def __float__(self):
        self.rounds += 1
        return 1.0


class Skipped(nn.Module):
    def forward(self, x):
        return x if random.random() < 0.5 else x + 1


class Sorted(nn.Module):
    def forward(self, x):
        return {{"loss": x.mean(), "of": x}}


decay, callbacks = Decay(settings), [schedule]


def drop_more(layer):
    if isinstance(layer, nn.Dropout):
        layer.p += 0.1


{around}
"""
LOOP = """\
for epoch in range(4):
    {front}
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = {loss}
        loss.backward()
        optimizer.step()
        {behind}
        print(loss.item())
    {end}"""
PLAIN = "criterion(model(x), y)"
STEPS = "steps = optim.lr_scheduler.StepLR(optimizer, 2)\n"
HALVED = f"schedule['weight'] * {PLAIN}"
RECORDED = "the recorder is a file of its own"


def reason(around: str) -> str:
    """Why the step is not recorded; the code is given alone, so that none can be."""
    rules = [rule for rule in catalog.rules() if rule.code == "PM314"]
    choice = Choice(opted_in=frozenset({"PM314"}), unsafe=True)
    (finding,) = rewrite(SCRIPT.format(around=around).encode(), "train.py", rules, choice).refused
    return finding.reason


def loop(loss: str = PLAIN, front: str = "pass", behind: str = "pass", end: str = "pass") -> str:
    return LOOP.format(loss=loss, front=front, behind=behind, end=end)


@pytest.mark.parametrize(
    ("around", "why"),
    [
        (loop(f"weighted({PLAIN})", end="weight *= 0.5"), "`weight`, which the step reads"),
        (loop(f"weighted({PLAIN})"), RECORDED),
        (loop(f"settings['weight'] * {PLAIN}", end="settings['weight'] *= 0.5"), "`settings`, which the step reads"),
        (loop(f"settings['weight'] * {PLAIN}", end="settings.update(weight=0.5)"), "`settings`, which the step reads"),
        (loop(f"len(history) * {PLAIN}", behind="history.append(0.5)"), "`history`, which the step reads"),
        (loop(behind="history.append(0.5)"), RECORDED),
        (loop(f"schedule.weight * {PLAIN}", behind="schedule.rounds += 1"), "`self.rounds`, which the step reads"),
        (loop(behind="schedule.rounds += 1"), RECORDED),
        (loop(f"schedule['weight'] * {PLAIN}", end="schedule.advance()"), "`self.table`, which the step reads"),
        (loop(f"noise.random() * {PLAIN}"), "`noise.random()` draws on the host"),
        (loop("F.cross_entropy(model(x), y, class_weights)", end="class_weights[0] *= 0.5"), RECORDED),
        (loop(end="criterion.label_smoothing *= 0.5"), "`criterion.label_smoothing` sets in Python"),
        (loop(front="model[1].p = 0.1 * epoch"), "`model[1].p` sets in Python"),
        (loop(front="model[1] = nn.Identity()"), "`model[1]` sets in Python"),
        (loop(front="model.apply(drop_more)"), "`layer.p` sets in Python"),
        (loop(front="prune.l1_unstructured(model[0], 'weight', amount=0.5)"), "l1_unstructured` sets in Python"),
        (loop(front="model[0].requires_grad_(epoch > 1)"), "which parameters need gradients"),
        (loop(front="for p in model.parameters(): p.requires_grad = epoch > 1"), "which parameters need gradients"),
        (loop(front="optimizer.param_groups[0]['lr'] = 0.1 / (epoch + 1)"), RECORDED),
        (loop(front="optimizer.state.clear()"), "`optimizer.state` may get other memory"),
        (
            loop(f"settings_of_run.weight * {PLAIN}", end="settings_of_run.weight /= 2"),
            "`settings_of_run.weight`, which",
        ),
        (loop(f"float(os.environ['WEIGHT']) * {PLAIN}", end="os.environ['WEIGHT'] = '0.5'"), "`os.environ`, which"),
        (
            loop(f"schedule['weight'] * {PLAIN}", end="for each in callbacks: each.advance()"),
            "`self.table`, which the step reads",
        ),
        (loop(f"settings['weight'] * {PLAIN}", end="decay.apply()"), "`settings`, which the step reads"),
        (loop(f"schedule.rounds * {PLAIN}", end="vars(schedule)['rounds'] = 2"), "`schedule.rounds`, which the step"),
        (loop(f"schedule.rounds * {PLAIN}", end="schedule.__dict__.update(rounds=2)"), "`schedule.rounds`, which"),
        (loop(f"schedule.rounds * {PLAIN}", end="setattr(schedule, str(epoch), 2)"), "`schedule.rounds`, which"),
        (
            "model = nn.Sequential(Skipped(), nn.Linear(4, 3)).to(device)\n" + loop(),
            "`random.random()` draws on the host",
        ),
        (loop(f"int(y.max()) * {PLAIN}"), "waits for the device"),
        (f"hooks = [schedule.advance]\n{loop(HALVED, end='for hook in hooks: hook()')}", "`self.table`, which"),
        (loop(HALVED, end="getattr(callbacks[0], str(epoch))()"), "`self.table`, which"),
        ("hooks = [schedule.advance]\n" + loop(HALVED, end="hooks[0]()"), "`self.table`, which"),
        (f"counted = Counted()\n{loop(f'counted * {PLAIN}')}", "`self.rounds` is changed in Python"),
        (f"counted = Counted()\n{loop(f'float(counted) * {PLAIN}')}", "`self.rounds` is changed in Python"),
        (loop(end="model.append(nn.Tanh())"), "`model.append(nn.Tanh())` sets in Python"),
        (loop(end="model._modules['1'] = nn.Tanh()"), "`model._modules['1']` sets in Python"),
        (loop(end="criterion.register_buffer('weight', class_weights)"), "sets in Python what a layer does"),
        (loop(end="criterion.weight.data = class_weights"), "`criterion.weight.data` gets other memory"),
        (loop(f"weighted({PLAIN})", end="globals()['weight'] = 0.5"), "`globals()['weight']` binds a name"),
        (loop(f"weighted({PLAIN})", end="setattr(sys.modules[__name__], 'weight', 0.5)"), "may bind a name"),
        (loop(f"weighted({PLAIN})", end="sys.modules[__name__].weight = 0.5"), "may bind a name"),
        (
            STEPS + loop(f"steps.last_epoch * {PLAIN}", end="steps.step()"),
            "`steps`, which the step reads, counts in Python",
        ),
        (STEPS + loop(end="steps.step()"), RECORDED),
        (loop(end="criterion.load_state_dict({}, assign=True)"), "gives tensors other memory"),
        (loop(end="criterion.load_state_dict({})"), RECORDED),
        (loop(behind="criterion = nn.CrossEntropyLoss()"), "`criterion` is no tensor and changes"),
        (loop(front="model.train()"), RECORDED),
        (loop(behind="print(model[0].weight.grad.norm().item())"), "reads a gradient"),
    ],
)
def test_what_changes_in_python_keeps_a_step(around: str, why: str) -> None:
    assert why in reason(around)


FLAGS = """
import functools
import somewhere_else


class Flags:
    def __init__(self):
        self.on = self.rounds = self.fed = self.called = 0

    def __bool__(self):
        return self.rounds > 1

    def __gt__(self, other):
        return self.rounds > other

    def __contains__(self, name):
        return self.rounds > 1

    def __call__(self):
        self.called = 1

    def turn(self, value):
        self.on = value

    def another(self):
        self.rounds += 1
        return self.rounds < 4


class Images(torch.utils.data.Dataset):
    def __getitem__(self, index):
        flags.fed = 1
        return index


def toggling(function):
    def toggled():
        flags.on = 1
        return function()
    return toggled


@toggling
def validate():
    return 0


flags, seen = Flags(), []
turn_on = lambda: setattr(flags, "on", 1)
turn_later = functools.partial(flags.turn, 1)
"""
SWITCHED = "`flags.on`, which the step reads"


def switched(condition: str = "flags.on", **lines: str) -> str:
    """A step with a branch, in a loop whose other lines may change its condition."""
    branch = f"        if {condition}: loss = loss * 2\n"
    return FLAGS + loop(**lines).replace("        loss.back", f"{branch}        loss.back")


@pytest.mark.parametrize(
    ("around", "why"),
    [
        (switched(), RECORDED),
        (switched("flags.fed"), "`flags.fed`, which the step reads"),
        (switched("flags.called", end="for each in [flags]: each()"), "`flags.called`, which the step reads"),
        (switched(end="flags.on = 1"), SWITCHED),
        (switched(end="del flags.on"), SWITCHED),
        (switched(end="with schedule as flags.on: pass"), SWITCHED),
        (switched(end="for flags.on in range(2): pass"), SWITCHED),
        (switched().replace("for epoch in", "for flags.on in"), SWITCHED),
        (switched(end="flags.__setattr__('on', 1)"), SWITCHED),
        (switched(end="object.__setattr__(flags, 'on', 1)"), SWITCHED),
        (switched(end="flags.__class__ = Schedule"), SWITCHED),
        (switched(end="turn_on()"), SWITCHED),
        (switched(end="turn_later()"), SWITCHED),
        (switched(end="list(map(flags.turn, [1]))"), SWITCHED),
        (switched(end="validate()"), SWITCHED),
        (switched(end="somewhere_else.configure(flags)"), "does with `flags`, which the step reads, is not in sight"),
        (switched(end="exec('weight = 2.0')"), "may bind a name"),
        (switched(end="globals().update(weight=2.0)"), "may bind a name"),
        (switched("hasattr(flags, 'late')", end="flags.late = 1"), "`hasattr(flags, 'late')`, which the step reads"),
        (switched("not hasattr(flags, 'on')", end="del flags.on"), "`hasattr(flags, 'on')`, which the step reads"),
        (switched("flags", end="flags.another()"), "`self.rounds`, which the step reads"),
        (switched("flags > 1", end="flags.another()"), "`self.rounds`, which the step reads"),
        (switched("'late' in flags", end="flags.another()"), "`self.rounds`, which the step reads"),
        (switched("not flags", end="flags.another()"), "`self.rounds`, which the step reads"),
        (switched("flags.rounds").replace("for epoch in range(4)", "while flags.another()"), "`flags.rounds`, which"),
        (
            switched("torch.backends.cudnn.benchmark", end="torch.backends.cudnn.benchmark = True"),
            "`torch.backends.cudnn.benchmark`, which the step reads",
        ),
        (loop(f"weighted({PLAIN})", end="print(settings); os.makedirs('x')"), RECORDED),
    ],
)
def test_what_switches_a_branch_keeps_a_step(around: str, why: str) -> None:
    assert why in reason(around.replace("{", "{{").replace("}", "}}"))


def test_code_of_a_context_would_run_once() -> None:
    step = loop().replace("        loss = ", "        with schedule:\n            loss = ")
    assert "`with schedule` would run its Python code only once" in reason(step)


def in_function(first: str = "pass") -> str:
    lines = loop(f"weight * {PLAIN}").replace("\n", "\n    ")
    return f"def train():\n    {first}\n    {lines}\n\n\ndef decay():\n    global weight\n    weight *= 0.5\n\n\n"


@pytest.mark.parametrize(
    ("around", "why"),
    [
        (in_function("global loss") + "train()", "`loss` is a name outside of the function"),
        (in_function() + "train()\ndecay()\ntrain()", RECORDED),  # the function records its step anew
        (in_function().replace("weight *", "schedule.rounds *", 1) + "train()\nschedule.rounds = 2\ntrain()",
         "`schedule.rounds`, which the step reads"),
    ],
)  # fmt: skip
def test_functions_run_again_with_what_changed(around: str, why: str) -> None:
    assert why in reason(around)


@pytest.mark.parametrize(
    ("kept", "why"),
    [
        ("[(x.to(device), y.to(device)) for x, y in loader]", "`x` is changed in the step, and may be kept"),
        ("torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(8, 4), torch.ones(8)))", RECORDED),
    ],
)
def test_batches_that_outlive_a_round_are_not_changed_in_a_copy(kept: str, why: str) -> None:
    step = loop().replace("        optimizer.zero", "        x.mul_(0.9)\n        optimizer.zero")
    assert why in reason(f"batches = {kept}\n" + step.replace("in loader", "in batches"))


@pytest.mark.parametrize(
    ("step", "kept", "why"),
    [
        ("out = Sorted()(model(x)); loss = out['loss']", "out", "`out`, which other lines keep, may be no tensor"),
        ("rows = x.size(0); loss = criterion(model(x), y)", "rows", "`rows`, which other lines keep, may be no tensor"),
        ("parts = {'loss': model(x).mean()}; loss = parts['loss']", "parts", "`parts`, which other lines keep"),
        ("parts = dict(loss=model(x).mean()); loss = parts['loss']", "parts", "`parts`, which other lines keep"),
        ("out = model(x); loss = criterion(out, y)", "out", RECORDED),
        ("loss = sum([criterion(model(x), y)])", "loss", RECORDED),
    ],
)
def test_what_is_kept_is_a_tensor(step: str, kept: str, why: str) -> None:
    lines = loop(behind=f"history.append({kept})").replace(f"loss = {PLAIN}", step)
    assert why in reason(lines)


def test_numbers_of_the_host_are_not_read_in_the_step() -> None:
    loop_on_cpu = loop().replace(
        "x, y = x.to(device)", "longest = torch.arange(4).max().item()\n        x, y = x.to(device)"
    )
    assert "`longest`" in reason(loop_on_cpu.replace("model(x)", "model(x)[:longest]"))
