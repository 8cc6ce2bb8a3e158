"""Steps that are replayed as a graph are seen as others are; on the CPU, by a recorder that stands in for CUDA's."""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness_child
import pytest

from perfmod.transforms.finding import Numerics
from perfmod.verify.evidence import Equality, Verdict
from perfmod.verify.job import Mode
from perfmod.verify.judging import Controls, judge
from perfmod.verify.trace import Backward, Forward, Step, Trace

RECORDER = Path(__file__).parents[2] / "support" / "verify_recorder" / "graphed_step.py"
HANDED = (5, 8, 14, 18)
TRAINING = """
import copy
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(36, 4), torch.randint(3, (36,))
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.25), nn.Linear(8, 3))
average = copy.deepcopy(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 15, gamma=0.5)


def zero():
    optimizer.zero_grad()


def follow():
    with torch.no_grad():
        for mine, its in zip(average.parameters(), model.parameters()):
            mine.lerp_(its, 0.1)


def step(x, y):
    zero()
    loss = 0.0
    for part, wanted in zip(x.chunk(2), y.chunk(2)):
        half = nn.functional.cross_entropy(model(part), wanted) / 2
        half.backward()
        loss = loss + half.detach()
    optimizer.step()
    follow()
    return loss


RECORDED
done = 0
for epoch in range(6):
    for batch in DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True):
        print(f"{step(*batch):.6f}")
        done += 1
        schedule.step()
        if done == 9:
            optimizer.param_groups[0]["weight_decay"] = 0.0
print("the end")
"""
IMPORT = """
import graphed_step
from graphed_step import Stepper
"""
MADE = "step = recorder = Stepper(step, [optimizer], [model, average])"


def run(folder: Path, recorded: str, mode: Mode = Mode.EQUALITY, **job: Any) -> harness_child.Child:
    (folder / "tree" / "parts").mkdir(parents=True)
    shutil.copy(RECORDER, folder / "tree")
    shutil.copy(RECORDER, folder / "tree" / "parts" / "graphed_step_2.py")
    return harness_child.run(folder, TRAINING.replace("RECORDED", recorded), mode, **job)


def trace(recorded: str, *, writes: bool = False, **job: Any) -> Trace:
    if not writes:
        original()  # the others wait for its states
    (states() / "handed").mkdir(exist_ok=True)
    given = {"steps": 22, "states": str(states() / "handed"), "writes_states": writes, "handed": HANDED, **job}
    child = run(Path(tempfile.mkdtemp(dir=states())), recorded, **given)
    assert child.status == 0, child.stderr
    return Trace.load(child.out / "rank0.json")


@functools.cache
def states() -> Path:
    return Path(tempfile.mkdtemp(prefix="replays-"))


@pytest.fixture(scope="module", autouse=True)
def _taken_away() -> Iterator[None]:
    yield
    shutil.rmtree(states())


@functools.cache
def original() -> Trace:
    return trace("", writes=True)


@functools.cache
def again() -> Trace:
    """The control of all tests: another run of what nobody recorded."""
    return trace("")


def judged(recorded: str) -> Equality:
    controls = Controls((again(),))
    return judge(original(), trace(recorded), controls, Numerics.BITWISE)


def kinds(events: Trace) -> list[tuple[type, int]]:
    return [(type(each), each.step) for each in events.events if isinstance(each, (Forward, Backward, Step))]


ZEROED_BEHIND = """
inner, zero = step, lambda: None
def step(x, y):
    loss = inner(x, y)
    optimizer.zero_grad()
    return loss
"""
WIPED = ZEROED_BEHIND.replace("zero_grad()", "zero_grad(set_to_none=False)")


@pytest.mark.parametrize("before", ["", ZEROED_BEHIND], ids=["zeroed before", "zeroed behind"])
def test_a_replayed_step_is_seen_as_any_other(before: str) -> None:
    replayed = trace(IMPORT + before + MADE)
    assert (replayed.ended, replayed.steps, replayed.handed) == ("steps", {"0": 22}, HANDED)
    assert kinds(replayed) == kinds(original())
    assert replayed.drawn == original().drawn
    assert replayed.losses() == original().losses()
    equality = judge(original(), replayed, Controls((again(),)), Numerics.BITWISE)
    assert equality.verdict is Verdict.PROVEN, equality.reason
    assert "single steps: gradients" in {check.name for check in equality.checks}


def test_gradients_that_a_step_overwrites_are_left_out() -> None:
    replayed = trace(IMPORT + WIPED + MADE)
    assert replayed.lacks_gradients()
    equality = judge(original(), replayed, Controls((again(),)), Numerics.BITWISE)
    assert equality.verdict is Verdict.PROVEN, equality.reason
    rows = {check.name for check in equality.checks}
    assert {"single steps: parameter updates", "gradients of step 1", "norms of gradients"} <= rows
    assert replayed.snapshot("gradients", 6) == {} != original().snapshot("gradients", 6)


def test_a_recorder_is_known_in_whatever_folder_it_lies() -> None:
    replayed = trace("from parts.graphed_step_2 import Stepper as Recorder\n" + MADE.replace("Stepper(", "Recorder("))
    assert (replayed.ended, replayed.steps) == ("steps", {"0": 22})
    assert replayed.losses() == original().losses()


GRAD = """
def step(x, y):
    loss = nn.functional.cross_entropy(model(x), y)
    parameters = list(model.parameters())
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters)):
        parameter.grad = gradient
    optimizer.step()
    return loss
"""


@pytest.mark.parametrize("before", ["", GRAD], ids=["backward", "grad"])
def test_replays_go_through_what_other_steps_do(before: str) -> None:
    plain, replayed = (trace(before + made, handed=(), dropout=False) for made in ("", IMPORT + MADE))
    assert (replayed.left_out, replayed.losses()) == (plain.left_out, plain.losses())
    assert list(plain.left_out or ()) == ["0.25"]
    assert kinds(replayed) == kinds(plain)
    assert replayed.events == plain.events


LATE = "a loss that is one step late"
MUTANTS = {
    "inputs not refreshed": "def _refresh(self, inputs, batch):\n        inputs[1].copy_(batch[1])",
    "labels not refreshed": "def _refresh(self, inputs, batch):\n        inputs[0].copy_(batch[0])",
    "stale learning rate": (
        "def _kind(self, batch):\n        return len(batch[0]), optimizer.param_groups[0]['weight_decay']"
    ),
    "weight decay frozen": "def _kind(self, batch):\n        return len(batch[0]), optimizer.param_groups[0]['lr']",
    "dropout that repeats its draw": (
        "def _replay(self, *rest):\n        torch.manual_seed(3)\n        return super()._replay(*rest)"
    ),
    "statistics that stand still": (
        "def _replay(self, *rest):\n"
        "        former = [each.clone() for each in model.buffers()]\n"
        "        loss = super()._replay(*rest)\n"
        "        [each.copy_(old) for each, old in zip(model.buffers(), former)]\n"
        "        return loss"
    ),
    "one graph for all shapes": (
        "def _kind(self, batch):\n"
        "        return tuple(optimizer.param_groups[0][name] for name in ('lr', 'weight_decay'))\n"
        "    def _refresh(self, inputs, batch):\n"
        "        [place[:len(new)].copy_(new[:len(place)]) for place, new in zip(inputs, batch)]"
    ),
    "average outside of the graph": "is_recording = property(lambda self: 0, lambda self, on: follow_or_not(on))",
    "zeroed between the parts": "is_recording = property(lambda self: 0, lambda self, on: zero_between(on))",
    LATE: (
        "late = torch.zeros(())\n"
        "    def _replay(self, *rest):\n"
        "        shown, self.late = self.late, super()._replay(*rest).clone()\n"
        "        return shown"
    ),
    "gradients of the warm-up": (
        "is_recording = property(lambda self: 0, lambda self, on: zero_or_not(on))\n"
        "    def _forget_gradients(self): pass"
    ),
}
HELP = """
following, zeroing, called = follow, zero, model.forward
def follow_or_not(on):
    global follow
    follow = (lambda: None) if on else following
def zero_or_not(on):
    global zero
    zero = (lambda: None) if on else zeroing
def zero_between(on):
    model.forward = (lambda x: (optimizer.zero_grad(), called(x))[1]) if on else called
"""


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_replay_is_refuted(mutant: str) -> None:
    wrong = f"class Wrong(Stepper):\n    {MUTANTS[mutant]}\n"
    equality = judged(IMPORT + HELP + wrong + MADE.replace("Stepper(", "Wrong("))
    # What is printed refutes nothing by itself.
    assert equality.verdict is (Verdict.INCONCLUSIVE if mutant == LATE else Verdict.REFUTED), equality.reason


SEVERAL = """
other = torch.optim.SGD(average.parameters(), lr=0.1)
inner = step
def step(x, y):
    loss = inner(x, y)
    other.zero_grad()
    nn.functional.cross_entropy(average(x), y).backward()
    other.step()
    return loss
"""
NOISY = SEVERAL.replace("average(x)", "average(x + torch.rand(x.shape))")
CLIPPED = """
inner = step
def step(x, y):
    loss = inner(x, y)
    with torch.no_grad():
        model[0].weight.clamp_(-0.1, 0.1)
    return loss
"""
NEVER = "Stepper.__call__ = lambda self, *batch: self._as_it_is(batch)\n"
GIVEN_UP = "\nrecorder._give_up('it waits for the device')"


@pytest.mark.parametrize(
    ("before", "made", "reason"),
    [
        (SEVERAL, MADE, "goes on behind the step of an optimizer"),
        (CLIPPED, MADE, "goes on behind the step of an optimizer"),
        ("", NEVER + MADE, "no step was replayed in the steps that were compared"),
        ("", MADE + GIVEN_UP, "no step was replayed in the steps that were compared: it waits for the device"),
    ],
    ids=["several optimizers", "clipped weights", "never recorded", "given up"],
)
def test_what_is_not_seen_of_replays_is_said(before: str, made: str, reason: str) -> None:
    seen = trace(before, handed=())
    replayed = trace(before + IMPORT + made, handed=())
    equality = judge(seen, replayed, Controls((trace(before, handed=()),)), Numerics.BITWISE)
    assert (equality.verdict, reason in equality.reason) == (Verdict.INCONCLUSIVE, True), equality.reason


@pytest.mark.parametrize("several", [SEVERAL, NOISY], ids=["plain", "with noise"])
def test_a_round_of_several_optimizers_is_seen_behind_the_last_one(several: str) -> None:
    job = {"handed": (), "clock": 1}
    seen, again, replayed = (trace(several + recorded, **job) for recorded in ("", "", IMPORT + MADE))
    assert replayed.steps == {"0": 22, "1": 22}
    assert replayed.drawn == seen.drawn
    equality = judge(seen, replayed, Controls((again,)), Numerics.BITWISE)
    assert equality.verdict is Verdict.PROVEN, equality.reason
    wrong = several.replace("other.step()", "other.param_groups[0]['lr'] = 0.1 if done < 5 else 0.05; other.step()")
    stale = judge(seen, trace(wrong + IMPORT + MADE, **job), Controls((again,)), Numerics.BITWISE)
    assert stale.verdict is Verdict.REFUTED, stale.reason


def test_replays_are_timed(tmp_path: Path) -> None:
    settings = {"warmup_steps": 3, "warmup_seconds": 0.0, "window_steps": 500, "window_seconds": 9.0}
    record = run(tmp_path, IMPORT + MADE, Mode.TIMING, **settings).record
    assert record["ended"] == "exit"
    plain = run(tmp_path / "plain", "", Mode.TIMING, **settings).record
    assert record["window_steps"] >= 10
    assert record["window_steps"] + record["warmup_steps"] == plain["window_steps"] + plain["warmup_steps"] == 30
    assert plain["ended"] == "exit"
    assert record["not_recorded"] == plain["not_recorded"] == ""
    given_up = run(tmp_path / "given up", IMPORT + MADE + GIVEN_UP, Mode.TIMING, **settings).record
    assert given_up["not_recorded"] == "it waits for the device"
