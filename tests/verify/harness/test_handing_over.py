"""States that the original's run writes, and the others take over."""

from __future__ import annotations

from pathlib import Path

import harness_child
import pytest

from perfmod.verify.job import Mode
from perfmod.verify.trace import Trace

TRAINING = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
scaler = SCALER
for step in range(9):
    loss = model(torch.randn(8, 3)).square().mean()
    ZERO
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    AFTER
"""
SCALER = "torch.amp.GradScaler('cpu', init_scale=4.0, growth_interval=2)"
HANDED = (2, 3, 6)


def trace(
    folder: Path,
    *,
    writes: bool = False,
    after: str = "pass",
    zero: str = "optimizer.zero_grad()",
    script: str = TRAINING,
    handed: tuple[int, ...] = HANDED,
) -> Trace:
    """A run with the states in `folder / "states"`."""
    (folder / "states").mkdir(exist_ok=True)
    room = folder / str(len(list(folder.iterdir())))
    room.mkdir()
    text = script.replace("SCALER", SCALER).replace("AFTER", after).replace("ZERO", zero)
    job = {"states": str(folder / "states"), "writes_states": writes, "handed": handed, "steps": 8}
    child = harness_child.run(room, text, Mode.EQUALITY, **job)
    assert child.status == 0, child.stderr
    return Trace.load(child.out / "rank0.json")


def bits(one: Trace, name: str, step: int) -> dict[str, str]:
    return {key: digest.bits for key, digest in one.snapshot(name, step).items()}


def test_a_step_begins_with_what_the_original_had(tmp_path: Path) -> None:
    original = trace(tmp_path, writes=True)
    astray = "[p.data.mul_(1.001) for p in model.parameters() if step == 4]"
    other = trace(tmp_path, after=astray)
    assert original.handed == other.handed == HANDED
    for part in ("parameters", "buffers", "optimizer state"):
        # After the sixth step they had gone astray, and then they had not.
        assert bits(original, part, 3) == bits(other, part, 3)
        assert bits(original, part, 6) != bits(other, part, 6)
        for step in HANDED:
            assert bits(original, f"{part} at the start", step + 1) == bits(other, f"{part} at the start", step + 1)
            assert bits(original, f"{part} at the start", step + 1) == bits(original, part, step)
        assert bits(original, part, 7) == bits(other, part, 7)
    assert bits(original, "gradients", 7) == bits(other, "gradients", 7) != {}
    assert original.losses()[:5] == other.losses()[:5]
    assert original.losses()[5] != other.losses()[5]
    assert original.losses()[6:] == other.losses()[6:]


@pytest.mark.exhaustive
def test_gradients_that_are_added_up_over_steps_are_handed_over(tmp_path: Path) -> None:
    never = {"zero": "pass", "handed": (6,)}
    original = trace(tmp_path, writes=True, **never)  # type: ignore[arg-type]
    other = trace(tmp_path, after="[p.grad.mul_(1.001) for p in model.parameters() if step == 4]", **never)  # type: ignore[arg-type]
    assert bits(original, "gradients", 7) == bits(other, "gradients", 7) != {}


@pytest.mark.exhaustive
def test_scales_are_handed_over(tmp_path: Path) -> None:
    # An infinity in one run only halves its scale.
    shown = "print(scaler.get_scale()) if step > 5 else None"
    (tmp_path / "states").mkdir()
    lines = []
    for writes, lowered in ((True, "pass"), (False, "scaler._scale.mul_(0.5) if step == 4 else None")):
        room = tmp_path / str(writes)
        room.mkdir()
        text = TRAINING.replace("SCALER", SCALER).replace("ZERO", "optimizer.zero_grad()")
        job = {"states": str(tmp_path / "states"), "writes_states": writes, "handed": (6,), "steps": 8}
        child = harness_child.run(room, text.replace("AFTER", f"{lowered}; {shown}"), Mode.EQUALITY, **job)
        lines.append(child.stdout.split())
    assert lines[0] == lines[1] != []


@pytest.mark.exhaustive
def test_names_may_differ_where_places_do_not(tmp_path: Path) -> None:
    original = trace(tmp_path, writes=True)
    renamed = TRAINING.replace(
        "model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2))",
        "from collections import OrderedDict\n"
        "model = nn.Sequential(OrderedDict(a=nn.Linear(3, 4), b=nn.BatchNorm1d(4), c=nn.Tanh(), d=nn.Linear(4, 2)))",
    )
    astray = "[p.data.mul_(1.001) for p in model.parameters() if step == 4]"
    other = trace(tmp_path, after=astray, script=renamed)
    assert list(bits(original, "parameters", 7)) != list(bits(other, "parameters", 7))
    assert list(bits(original, "parameters", 7).values()) == list(bits(other, "parameters", 7).values())
    assert original.losses()[6:] == other.losses()[6:]


def test_one_step_is_a_run_of_its_own(tmp_path: Path) -> None:
    original = trace(tmp_path, writes=True)
    alone = original.single(7)
    assert alone.losses() == original.losses()[6:7]
    assert alone.last == 1
    assert alone.snapshot("parameters", 0) == original.snapshot("parameters at the start", 7)
    assert alone.snapshot("parameters", 1) == original.snapshot("parameters", 7)
    assert original.last == 8


@pytest.mark.exhaustive
def test_who_waits_in_vain_goes_on(tmp_path: Path) -> None:
    """The run that was to write ended too early."""
    (tmp_path / "states").mkdir()
    (tmp_path / "states" / "0-ended").touch()
    assert trace(tmp_path).handed == ()


@pytest.mark.exhaustive
@pytest.mark.parametrize(("free", "handed"), [(0, ()), (3500, (6,)), (10**12, HANDED)])
def test_only_as_many_states_as_there_is_room_for(tmp_path: Path, free: int, handed: tuple[int, ...]) -> None:
    # A state has 34 parameters with gradients, 68 numbers of Adam's and some more, and may take a quarter of the disk.
    room = f"""
import shutil
from collections import namedtuple
shutil.disk_usage = lambda _path: namedtuple("Usage", "free")({free})
"""
    script = TRAINING.replace("\nimport torch\n", f"{room}\nimport torch\n", 1)
    original = trace(tmp_path, writes=True, script=script)
    assert original.handed == handed
    assert trace(tmp_path).handed == handed
