"""What is asked about findings that nobody chose, and what becomes of the answers."""

from __future__ import annotations

from pathlib import Path

import harness_child
import pytest
from cli_fakes import RULES

from perfmod.codemods import catalog
from perfmod.config import Options
from perfmod.examine import examine
from perfmod.transforms.finding import Numerics
from perfmod.verify.job import Mode, Point
from perfmod.verify.running import Ran, Watched, _watched
from perfmod.verify.stacks import Rewriting
from perfmod.verify.watching import Watch

SCRIPT = """\
import torch


def torch_risky(*args):
    return 1.0


for step in range(3):
    loss = torch.zeros(())
    torch_risky(loss)
    torch_risky(loss + 1)
    torch_risky()
"""


TENSORS = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

device = "cuda"
model = torch.nn.Linear(4, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = TensorDataset(torch.randn(80, 4), torch.randn(80, 3))
loader = DataLoader(data, batch_size=8, shuffle=True)
for x, y in loader:
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
"""


IN_A_FUNCTION = """\
import torch

model = torch.nn.Linear(4, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


# one step
def train(x, y):
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


for _ in range(100):
    train(torch.randn(8, 4).cuda(), torch.randn(8, 3).cuda())
"""


@pytest.fixture
def rewriting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rewriting:
    monkeypatch.setattr(catalog, "rules", lambda: RULES)
    (tmp_path / "train.py").write_text(SCRIPT)
    return Rewriting.of(examine(["train.py"], Options(proposing=Numerics.ROUNDING), cwd=tmp_path, use_cache=False))


def test_questions_about_names_are_watched_and_others_stay_open(rewriting: Rewriting, tmp_path: Path) -> None:
    watch = Watch.of(rewriting, tmp_path, "cpu")
    asked = Point("train.py", 10, 10, "is-scalar", (("loss",),))
    assert watch.points == (Point("train.py", 10, 10), asked, Point("train.py", 11, 11), Point("train.py", 12, 12))
    seen = [Watched(number, True, "") for number in (0, 2, 3)]
    scalar = Watched(1, True, "a float32 tensor of shape [] on cpu")

    withheld, observed = watch.decided(Ran(None, watched=(*seen, scalar)))
    ((place, answer),) = withheld.items()
    assert answer.is_open
    assert "a run cannot answer this" in answer.reason
    assert SCRIPT[place.start :].startswith("torch_risky(loss + 1)")
    assert list(observed.values()) == [("`loss`: a float32 tensor of shape [] on cpu",)]

    withheld, observed = watch.decided(Ran(None, watched=(*seen, scalar, Watched(1, False, "a float"))))
    assert not observed
    assert [each.is_open for each in withheld.values()] == [False, True]
    assert "it saw a float" in next(iter(withheld.values())).reason

    withheld, _ = watch.decided(Ran(None, watched=(*seen[:2], scalar)))
    assert any("do not run this code" in each.reason for each in withheld.values())
    assert len(watch.decided(Ran(None))[0]) == 3


def test_what_is_put_in_front_of_a_function_runs_when_that_does(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(IN_A_FUNCTION)
    options = Options(proposing=Numerics.PRECISION)
    made = Rewriting.of(examine(["train.py"], options, cwd=tmp_path, use_cache=False))
    lines = {finding.code: finding.line for each in made.examined for finding in each.result.applied}
    assert (lines["PM301"], lines["PM314"]) == (7, 9)
    starts = [point.first for point in Watch.of(made, tmp_path, "cuda").points]
    assert 9 in starts
    assert not set(starts) & {6, 7, 8}


def test_whether_a_data_set_fits_is_shown_by_the_rewritten_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TENSORS)
    found = examine(["train.py"], Options(proposing=Numerics.BITWISE), cwd=tmp_path, use_cache=False)
    rewriting = Rewriting.of(found)
    watch = Watch.of(rewriting, tmp_path, "cuda")
    (number,) = (number for number, point in enumerate(watch.points) if point.first == 8)
    assert [finding.code for _, finding in rewriting.findings if finding.questions] == ["PM315"]
    withheld, _ = watch.decided(Ran(None, watched=(Watched(number, True, ""),)))
    assert "PM315" not in {place.code for place in withheld}


def test_what_the_user_admits_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "rules", lambda: RULES)
    (tmp_path / "train.py").write_text(SCRIPT)
    found = examine(["train.py"], Options(proposing=Numerics.ROUNDING, unsafe=True), cwd=tmp_path, use_cache=False)
    assert len(Rewriting.of(found).findings) == 3
    assert not Watch.of(Rewriting.of(found), tmp_path, "cpu").points


WATCHED = """\
import torch


class Meter:
    total = torch.ones(2)

    @property
    def costly(self):
        raise SystemExit("asked twice")


def look(self, other):
    if other is None:
        return 1
    return 2


meter = Meter()
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
other = meter.total[:1]
for size in (2, 3):
    x = torch.zeros(size)
    look(meter, other)
    model(torch.ones(1)).sum().backward()
    optimizer.step()
"""


def test_values_are_seen_in_the_lines_that_run(tmp_path: Path) -> None:
    points = (
        Point("train.py", 13, 13),
        Point("train.py", 14, 14),
        Point("train.py", 15, 15, "is-tensor", (("self", "total"),)),
        Point("train.py", 15, 15, "is-tensor", (("self", "costly"),)),
        Point("train.py", 15, 15, "does-not-alias", (("self", "total"), ("other",))),
        Point("train.py", 23, 23, "is-scalar", (("x",),), afterwards=True),
        Point("train.py", 15, 15, "same-dtype", (("self", "total"), ("other",))),
    )
    child = harness_child.run(tmp_path, WATCHED, Mode.EQUALITY, steps=3, points=points)
    assert child.status == 0, child.stderr
    assert _watched(child.out) == (
        Watched(0, True, ""),
        Watched(2, True, "a float32 tensor of shape [2] on cpu"),
        Watched(4, False, "they share memory"),
        Watched(5, False, "a float32 tensor of shape [2] on cpu"),
        Watched(5, False, "a float32 tensor of shape [3] on cpu"),
        Watched(6, True, "a float32 tensor of shape [2] on cpu and a float32 tensor of shape [1] on cpu"),
    )
