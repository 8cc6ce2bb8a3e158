"""What may be tried with a script."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from perfmod.cli.examining import examined
from perfmod.config import Options
from perfmod.transforms.finding import Numerics
from perfmod.tune.space import Space
from perfmod.tune.stack import Stack
from perfmod.verify.stacks import Rewriting

SCRIPT = """\
import torch

device = "cuda"
model = torch.nn.Linear(4, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(9):
    loss = model(torch.randn(8, 4).to(device)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
"""


TENSORS = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

device = "cuda"
model = torch.nn.Linear(4, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = TensorDataset(torch.randn(80, 4), torch.randn(80, 3))
for x, y in DataLoader(data, batch_size=8, shuffle=True):
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
"""


def space(folder: Path, allow: Numerics, report_every: int | None = None, code: str = SCRIPT) -> Space:
    script = folder / "train.py"
    script.write_text(code)
    every = (("report_every", report_every),) if report_every is not None else ()

    def examine(stack: Stack) -> Rewriting:
        options = evolve(Options(), proposing=allow, instead=(*every, *stack.settings))
        return Rewriting.of(examined([str(script)], options))

    return Space(examine(Stack()), examine)


def test_an_interval_of_reports_may_be_tried_where_what_is_shown_may_change(tmp_path: Path) -> None:
    found = space(tmp_path, Numerics.BEHAVIOURAL, 10)
    assert found.numerics(("PM107",)) is Numerics.BEHAVIOURAL
    assert "PM107" not in found.within(Numerics.PRECISION)
    assert "PM107" not in found.harmless
    (made,) = found.rewriting(Stack.of(found.within(Numerics.BEHAVIOURAL))).replacements(("PM107",)).values()
    assert b"    if step % 10 == 0:\n        print(step, loss.item())\n" in made


@pytest.mark.parametrize(("allow", "every"), [(Numerics.PRECISION, 10), (Numerics.BEHAVIOURAL, None)])
def test_an_interval_of_reports_is_not_tried_otherwise(tmp_path: Path, allow: Numerics, every: int | None) -> None:
    assert "PM107" not in space(tmp_path, allow, every).codes


def test_a_data_set_on_the_device_is_judged_with_the_loader(tmp_path: Path) -> None:
    found = space(tmp_path, Numerics.BITWISE, code=TENSORS)
    assert "PM315" in found.feeding
    assert "PM315" not in found.harmless
    (made,) = found.rewriting(Stack.of(("PM201", "PM202", "PM315"))).replacements(("PM201", "PM202", "PM315")).values()
    assert b"data = TensorDataset(torch.randn(80, 4).to(device), torch.randn(80, 3).to(device))\n" in made
    assert b"pin_memory=True" not in made
    assert b"num_workers" not in made
    assert found.effective(Stack.of(("PM201", "PM202", "PM315"))) == Stack.of({"PM315"})
    assert found.effective(Stack.of(("PM201", "PM202"))) == Stack.of(("PM201", "PM202"))
