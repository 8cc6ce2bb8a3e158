"""What an E-run keeps of trainings of many kinds."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import harness_child
import pytest

from perfmod.verify.job import Mode
from perfmod.verify.trace import Backward, Forward, Step, Trace

BEGIN = """
import torch
from torch import nn

"""


def recorded(folder: Path, script: str, steps: int = 3, **job: Any) -> Trace:
    """The E-run of a script."""
    folder.mkdir(exist_ok=True)
    child = harness_child.run(folder, BEGIN + script, Mode.EQUALITY, steps=steps, **job)
    assert child.status == 0, child.stderr
    return Trace.load(child.out / "rank0.json")


def kinds(trace: Trace) -> list[str]:
    return [type(event).__name__.lower() for event in trace.events]


def steps(trace: Trace) -> list[Step]:
    return [event for event in trace.events if isinstance(event, Step)]


PLAIN = """
from torch.utils.data import DataLoader, TensorDataset

x = torch.arange(24.0).reshape(12, 2)
model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 1))
with torch.no_grad():
    for parameter in model.parameters():
        parameter.fill_(0.25)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
for epoch in range(2):
    for (batch,) in DataLoader(TensorDataset(x), batch_size=6):
        optimizer.zero_grad()
        loss = (model(batch) - 1).square().mean()
        loss.backward()
        optimizer.step()
        schedule.step()
"""


def test_everything_that_is_kept_of_a_plain_training(tmp_path: Path) -> None:
    trace = recorded(tmp_path, PLAIN)
    assert (trace.ended, trace.error, trace.half) == ("steps", "", False)
    assert (trace.steps, trace.backwards, trace.samples, trace.skipped) == ({"0": 3}, 3, 18, 0)
    assert kinds(trace) == ["batch", "forward", "backward", "step"] * 3
    assert [event.step for event in trace.events] == [0] * 4 + [1] * 4 + [2] * 4
    assert [event.hyper[0]["lr"] for event in steps(trace)] == [0.5, 0.25, 0.125]
    assert steps(trace)[0].hyper[0]["momentum"] == 0.9
    assert "foreach" not in steps(trace)[0].hyper[0]
    output = next(trace.forwards())
    assert (output.module, output.leaves[0].shape, output.leaves[0].dtype) == ("Sequential", (6, 1), "float32")
    # Small tensors are kept as they are: the recorded outputs give the recorded loss.
    assert math.isclose(sum((y - 1) ** 2 for y in output.leaves[0].sketch or ()) / 6, trace.losses()[0], rel_tol=1e-6)

    names = ["0.0.weight", "0.0.bias", "0.1.weight", "0.1.bias", "0.3.weight", "0.3.bias"]
    assert list(trace.snapshots) == [
        ("parameters", 0),
        ("buffers", 0),
        ("gradients", 1),
        *((name, step) for step in (1, 3) for name in ("parameters", "buffers", "optimizer state")),
    ]
    before, after = trace.snapshot("parameters", 0), trace.snapshot("parameters", 1)
    gradients, state = trace.snapshot("gradients", 1), trace.snapshot("optimizer state", 1)
    assert list(before) == list(after) == list(gradients) == names
    assert list(state) == [f"{name}/momentum_buffer" for name in names]
    assert list(before["0.0.weight"].sketch) == [0.25] * 6
    # Before the first step, not after it, and before the forward pass that counts a batch.
    assert before["0.3.bias"].bits != after["0.3.bias"].bits
    assert after["0.3.bias"].sketch[0] == pytest.approx(0.25 - 0.5 * gradients["0.3.bias"].sketch[0])
    assert [list(trace.snapshot("buffers", step)["0.1.num_batches_tracked"].sketch) for step in (0, 1, 3)] == [
        [0.0],
        [1.0],
        [3.0],
    ]
    assert steps(trace)[0].gradient_norm == pytest.approx(math.hypot(*(each.norm for each in gradients.values())))
    assert recorded(tmp_path / "again", PLAIN) == trace


GAN = """
class Wrapper(nn.Module):  # has no parameters of its own, and holds its model where torch does not look
    def __init__(self, model):
        super().__init__()
        self.models = [model]

    def forward(self, *args):
        return self.models[0](*args)


generator, critic = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
loose = nn.Parameter(torch.zeros(2))
for_critic = torch.optim.Adam(critic.parameters())
for_generator = torch.optim.SGD([*generator.parameters(), loose], lr=0.1)
for step in range(5):
    fake = Wrapper(generator)(torch.randn(8, 4))
    points = fake.detach().requires_grad_()
    slope, = torch.autograd.grad(critic(points).sum(), points, create_graph=True)
    for_critic.zero_grad()
    (critic(points).mean() + slope.norm()).backward()
    for_critic.step()
    for_generator.zero_grad()
    torch.autograd.backward([critic(fake).mean(), loose.sum()])
    for_generator.step()
"""


def test_two_optimizers_a_gradient_penalty_and_several_roots(tmp_path: Path) -> None:
    trace = recorded(tmp_path, GAN)
    # The one that stepped first counts: its third step ends the run.
    assert trace.steps == {"0": 3, "1": 2}
    assert trace.backwards == 5
    backwards = [event for event in trace.events if isinstance(event, Backward)]
    assert [len(event.losses) for event in backwards[:3]] == [1, 1, 2]
    assert len(backwards) == 5 + 3
    assert [event.module for event in trace.forwards()][:4] == ["Linear", "Sequential", "Sequential", "Sequential"]
    assert [(event.step, event.optimizer) for event in steps(trace)] == [(0, 0), (1, 1), (2, 0), (3, 1), (4, 0)]
    assert set(trace.snapshot("gradients", 1)) == {
        *("0.weight", "0.bias", "1.0.weight", "1.0.bias", "1.2.weight", "1.2.bias", "optimizer1.0.2")
    }
    assert trace.snapshot("parameters", 0)["optimizer1.0.2"].norm == 0.0
    assert trace.snapshot("parameters", 3)["optimizer1.0.2"].norm == pytest.approx(0.2 * math.sqrt(2))


OTHERS = """
from torch.utils.checkpoint import checkpoint

model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2, affine=False))
embedding = nn.Embedding(9, 2, sparse=True)
first = torch.optim.SparseAdam(embedding.parameters())
second = torch.optim.LBFGS(model.parameters(), max_iter=3)
for step in range(6):
    first.zero_grad()
    hidden = checkpoint(embedding, torch.tensor([1, 1, 5]), use_reentrant=False)
    checkpoint(model, hidden, use_reentrant=step % 2 == 0).backward(torch.ones(3, 2))
    first.step()
    inputs = hidden.detach()

    def closure():
        second.zero_grad()
        loss = model(inputs).square().sum() + next(model.parameters()).square().sum()
        loss.backward()
        return loss

    second.step(closure)
"""


def test_sparse_gradients_checkpoints_closures_and_roots_that_are_no_scalars(tmp_path: Path) -> None:
    trace = recorded(tmp_path, OTHERS)
    # Of a checkpointed part, only the script's own call is seen.
    assert kinds(trace)[:4] == ["forward", "forward", "backward", "step"]
    # A closure is called several times; the step is noted with the last of its gradients, under the same number.
    assert kinds(trace)[4:7] == ["forward", "backward", "forward"]
    assert [(event.step, event.optimizer) for event in steps(trace)] == [(0, 0), (1, 1), (2, 0), (3, 1), (4, 0)]
    assert all(event.gradient_norm > 0 for event in steps(trace))
    output = next(event for event in trace.events if isinstance(event, Forward) and event.module == "Sequential")
    first = next(event for event in trace.events if isinstance(event, Backward))
    assert first.losses == (pytest.approx(sum(output.leaves[0].sketch or ()), abs=1e-6),)
    gradients = trace.snapshot("gradients", 1)
    assert gradients["0.weight"].shape == (9, 2)
    assert set(gradients) == {"0.weight", "1.0.weight", "1.0.bias"}
    assert "1.0.weight/old_dirs.0" in trace.snapshot("optimizer state", 3)


SCALED = """
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=FUSED)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for step in range(9):
    optimizer.zero_grad()
    with torch.autocast("cpu", enabled=HALF):
        loss = model(torch.ones(3, 4)).float().sum()
    if step == 1:
        loss = loss * float("inf")
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


@pytest.mark.parametrize("fused", [False, True])
def test_scaled_losses_are_noted_unscaled_and_steps_left_out_are_counted(tmp_path: Path, *, fused: bool) -> None:
    script = SCALED.replace("FUSED", str(fused)).replace("HALF", str(not fused))
    trace = recorded(tmp_path, script)
    assert (trace.steps, trace.backwards, trace.skipped, trace.half) == ({"0": 3}, 4, 1, not fused)
    first, second, *_ = trace.losses()
    output = next(trace.forwards()).leaves[0]
    assert output.dtype == ("float32" if fused else "bfloat16")
    assert first == pytest.approx(sum(output.sketch or ()), rel=1e-6)
    assert math.isinf(second)
    # The gradients are unscaled, too: three rows of ones for each weight, three for each bias.
    assert steps(trace)[0].gradient_norm == pytest.approx(math.sqrt(10 * 9))
    assert trace.snapshot("gradients", 1)["0.weight"].sketch[0] == pytest.approx(3.0)


COMPILED = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))

    def forward(self, x):
        return self.layers(x)


model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
x, y = torch.randn(16, 8), torch.randint(0, 3, (16,))


def step(network):
    loss = nn.functional.cross_entropy(network(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


WAY
"""
WAYS = {
    "eager": "[step(model) for _ in range(5)]",
    "module": "model = torch.compile(model, backend='eager', fullgraph=True)\n[step(model) for _ in range(5)]",
    "in place": "model.compile(backend='eager', fullgraph=True)\n[step(model) for _ in range(5)]",
    "step": "step = torch.compile(step, backend='eager')\n[step(model) for _ in range(5)]",
}


@pytest.mark.long
def test_compiled_models_are_seen_as_they_are_and_compiled_steps_are_counted(tmp_path: Path) -> None:
    traces = {way: recorded(tmp_path / way, COMPILED.replace("WAY", code)) for way, code in WAYS.items()}
    eager = traces["eager"]
    assert eager.steps == {"0": 3}
    assert traces["module"] == traces["in place"] == eager
    # A compiled optimizer computes the same in another order.
    assert traces["step"].losses() == pytest.approx(eager.losses(), rel=1e-5)
    norms = [event.gradient_norm for event in steps(eager)]
    assert [event.gradient_norm for event in steps(traces["step"])] == pytest.approx(norms, rel=1e-4)


LEAVES = """
from collections import namedtuple
from torch.utils.data import DataLoader

Pair = namedtuple("Pair", "left right")


class Graph:
    def __init__(self, x):
        self.x, self.num_graphs = x, 5

    def to_dict(self):
        return {"x": self.x, "num_graphs": 5}


def collate(samples):
    x = torch.stack(samples)
    return {"mask": x > 3, "graph": Graph(x), "pair": Pair(x.numpy(), "text"), "a": (x.T, None)}


model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in DataLoader(torch.arange(20.0).reshape(10, 2), batch_size=5, collate_fn=collate):
    model(batch["graph"].x).sum().backward()
    optimizer.step()
"""


def test_what_a_batch_may_consist_of(tmp_path: Path) -> None:
    batch = next(recorded(tmp_path, LEAVES).batches())
    assert [(leaf.dtype, leaf.shape) for leaf in batch.leaves] == [
        ("float32", (2, 5)),
        ("int", ()),
        ("float32", (5, 2)),
        ("bool", (5, 2)),
        ("float32", (5, 2)),
        ("str", ()),
    ]
    # On the host, an array is what the tensor with its values is; nothing else is alike.
    assert batch.leaves[2].bits == batch.leaves[4].bits
    assert len({leaf.bits for leaf in batch.leaves}) == 5


DRAWING = """
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(3, 4)
    DRAWN
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "drawn", ["torch.rand(1)", "import random; random.random()", "import numpy; numpy.random.rand()"]
)
def test_what_is_drawn_more_in_a_step_is_seen_in_that_step(tmp_path: Path, drawn: str) -> None:
    plain = recorded(tmp_path / "plain", DRAWING.replace("DRAWN", drawn if "numpy" not in drawn else "import numpy"))
    again = recorded(tmp_path / "again", DRAWING.replace("DRAWN", drawn if "numpy" not in drawn else "import numpy"))
    assert plain.steps_drawn_otherwise(again) == []
    more = recorded(tmp_path / "more", DRAWING.replace("DRAWN", f"{drawn}\n    if step == 1: {drawn}"))
    assert plain.steps_drawn_otherwise(more) == ([1, 2, 3] if "numpy" in drawn else [2])


@pytest.mark.parametrize(("loss", "is_in_half"), [
    ("model(x).square().mean()", False),
    ("model(x).bfloat16().float().square().mean()", False),
    ("model(x).square().mean() + model(x).bfloat16().square().mean()", True),
    ("sum(model(x).square().mean(1).half()).float()", True),
])  # fmt: skip
def test_parts_of_a_loss_that_are_summed_up_in_half_types_are_seen(tmp_path: Path, loss: str, is_in_half: bool) -> None:
    assert "model(x).square().mean()" in DRAWING
    script = DRAWING.replace("DRAWN", "pass").replace("model(x).square().mean()", loss)
    assert recorded(tmp_path, script).adds_up_in_half is is_in_half


def test_parameters_that_hold_values_of_half_types_are_counted(tmp_path: Path) -> None:
    script = DRAWING.replace("DRAWN", "pass").replace(
        "nn.Linear(4, 2)", "nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8))"
    )
    assert recorded(tmp_path / "plain", script).held_in_half == 0
    rounded = "    with torch.no_grad():\n        for p in model[0].parameters():\n            p.copy_(p.bfloat16())\n"
    # A bias of eight values is too small to tell.
    assert recorded(tmp_path / "rounded", script + rounded).held_in_half == 1
    assert (
        recorded(
            tmp_path / "half", script.replace("8))", "8)).bfloat16()").replace("3, 4)", "3, 4).bfloat16()")
        ).held_in_half
        == 2
    )


def test_hooks_of_steps_are_not_among_those_of_the_script(tmp_path: Path) -> None:
    looked = """
from torch.optim import optimizer as module
assert not module._global_optimizer_pre_hooks and not len(module._global_optimizer_post_hooks)
called = []
before = module.register_optimizer_step_pre_hook(lambda *_: called.append("before"))
module.register_optimizer_step_post_hook(lambda *_: called.append("after"))
"""
    checked = """
    assert called == ["before", "after"] if step == 0 else called == ["before", "after", "after"], called
    before.remove()
    if step == 1:
        break
"""
    trace = recorded(tmp_path, looked + DRAWING.replace("DRAWN", "pass") + checked)
    assert (trace.ended, trace.steps) == ("exit", {"0": 2})


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_compiled_code_draws_what_the_same_code_draws_without_it(tmp_path: Path) -> None:
    noisy = "nn.functional.dropout(model(x) + torch.randn(3, 2), 0.5)"
    eager = f"def noisy(x): return {noisy}\n{DRAWING}".replace("DRAWN", "pass").replace("model(x).", "noisy(x).")
    compiled = eager.replace("for step", "noisy = torch.compile(noisy)\nfor step")
    losses = [recorded(tmp_path / str(n), each).losses() for n, each in enumerate((eager, compiled))]
    assert len(losses[0]) == 3
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)
