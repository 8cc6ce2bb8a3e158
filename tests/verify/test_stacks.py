from __future__ import annotations

from pathlib import Path

import pytest

from perfmod.config import Options
from perfmod.errors import Failure
from perfmod.examine import examine
from perfmod.transforms.finding import Numerics
from perfmod.verify.stacks import Rewriting, prefixes

SCRIPT = """\
import torch
from torch import nn

model = nn.Linear(4, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()


def step(inputs: torch.Tensor, target: torch.Tensor):
    found = torch.nonzero(target == 2, as_tuple=True)
    target[found] = -1
    mask = target != -1
    loss = criterion(model(inputs)[mask], target[mask])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


for _ in range(3):
    step(torch.randn(8, 4).cuda(), torch.randint(0, 3, (8,)).cuda())
"""


@pytest.fixture
def rewriting(tmp_path: Path) -> Rewriting:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    return Rewriting.of(examine([str(script)], Options(select=("PM101", "PM104")), cwd=tmp_path, use_cache=False))


def after(rewriting: Rewriting, *stack: str) -> str:
    (new,) = rewriting.replacements(stack).values()
    return new.decode()


def test_a_stack_grows_one_rule_at_a_time(rewriting: Rewriting) -> None:
    assert rewriting.stack == ("PM101", "PM104")
    assert prefixes(rewriting.stack) == [("PM101",), ("PM101", "PM104")]
    assert prefixes(()) == []


def test_each_part_of_the_stack_holds_only_its_rules(rewriting: Rewriting) -> None:
    assert "nonzero" not in after(rewriting, "PM101")
    assert "[mask]" in after(rewriting, "PM101")
    assert "nonzero" in after(rewriting, "PM104")
    assert "[mask]" not in after(rewriting, "PM104")
    (each,) = rewriting.files
    assert after(rewriting, "PM101", "PM104") == each.result.after.decode()
    assert rewriting.replacements(()) == {}


def test_the_widest_class_of_a_stack_counts(rewriting: Rewriting) -> None:
    assert rewriting.numerics(("PM101",)) is Numerics.BITWISE
    assert rewriting.numerics(("PM101", "PM104")) is Numerics.ROUNDING
    assert rewriting.numerics(()) is Numerics.BITWISE


def test_lines_are_those_of_the_original(rewriting: Rewriting, tmp_path: Path) -> None:
    touched = rewriting.touched()[(tmp_path / "train.py").resolve()]
    number = SCRIPT.splitlines().index
    assert touched[number("    found = torch.nonzero(target == 2, as_tuple=True)") + 1] == ["PM101"]
    assert touched[number("    loss = criterion(model(inputs)[mask], target[mask])") + 1] == ["PM104"]
    assert number("    loss.backward()") + 1 not in touched
    assert rewriting.lines("PM101", tmp_path.resolve()) == ("train.py:10",)
    assert rewriting.names()["PM104"] == "masked-loss"


def test_a_file_that_cannot_be_read_ends_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\nfor x in (:\n")
    with pytest.raises(Failure, match=r"train\.py"):
        Rewriting.of(examine(["train.py"], Options(), cwd=tmp_path, use_cache=False))
