"""A new file beside a script: the rewritten side has it, and it is written with what is kept."""

from __future__ import annotations

from pathlib import Path

import forked_python
import pytest

from perfmod import applying
from perfmod.again import answered
from perfmod.codemods.results import Outcome
from perfmod.config import Options
from perfmod.examine import examine
from perfmod.examined import Examined
from perfmod.journal import STATE_VARIABLE
from perfmod.transforms.compute.recorder import recorder
from perfmod.verify.evidence import Evidence, Verdict
from perfmod.verify.narrowing import groups
from perfmod.verify.request import Request
from perfmod.verify.stacks import Rewriting
from perfmod.verify.template import Template
from perfmod.verify.verification import keep_proven
from perfmod.withholding import Withheld, place_of

SCRIPT = """\
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
criterion = nn.CrossEntropyLoss()
for _ in range(32):
    x, y = torch.randn(8, 16).to(device), torch.randint(0, 4, (8,)).to(device)
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""
RATE = "0.1"
RATE_BY_FILES = '0.1 * len(list(Path(__file__).parent.glob("*.py")))'
"""Another rate where another file lies beside the script."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project for scripts, which run by a Python that has imported torch for all tests."""
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    monkeypatch.setattr(Template, "fork", lambda *_: None)
    for name, value in forked_python.THREADS.items():
        monkeypatch.setenv(name, value)
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").touch()
    return project


def _examined(folder: Path, *names: str) -> list[Examined]:
    return examine([*names], Options(select=("PM314",)), cwd=folder, use_cache=False)


def _rewriting(folder: Path, *names: str) -> Rewriting:
    for name in names:
        (folder / name).write_text(SCRIPT.replace("RATE", RATE))
    return Rewriting.of(_examined(folder, *names))


def _changed(examined: tuple[Examined, ...] | list[Examined]) -> list[str]:
    return [each.result.path for each in examined if each.result.outcome is Outcome.CHANGED]


def _request(script: Path) -> Request:
    return Request(
        script=script,
        against=None,
        arguments=(),
        device="cpu",
        python=forked_python.python(),
        steps=8,
        quick=True,
        nproc=None,
        timeout=60.0,
        numerics=None,
        links=(),
        command="",
    )


def _silent(text: str) -> None:
    del text


def _kept(folder: Path, rate: str, *names: str) -> tuple[Evidence, list[Examined]]:
    for name in names:
        (folder / name).write_text(SCRIPT.replace("RATE", rate))
    return keep_proven(_request(folder / "train.py"), Rewriting.of(_examined(folder, *names)), _silent)


@pytest.mark.long
def test_is_written_where_the_rewrite_is_proven(folder: Path) -> None:
    """And another script beside it that may need it, too, changes nothing."""
    evidence, kept = _kept(folder, RATE, "other.py", "train.py")
    assert evidence.verdict is Verdict.PROVEN
    assert evidence.warnings == ("other.py: is not imported by this script, so its rewrites are not verified",)
    assert "new file mode 100644\n--- /dev/null\n+++ b/graphed_step.py\n" in evidence.diff
    assert "b/other.py" not in evidence.diff
    assert sorted(path.name for path in folder.iterdir()) == ["other.py", "pyproject.toml", "train.py"]
    applying.write(kept, folder)
    assert (folder / "graphed_step.py").read_text() == recorder()
    assert "from graphed_step import GraphedStep\n" in (folder / "train.py").read_text()
    assert (folder / "other.py").read_text() == SCRIPT.replace("RATE", RATE)


def test_is_not_written_where_the_rewrite_is_withdrawn(folder: Path) -> None:
    evidence, kept = _kept(folder, RATE_BY_FILES, "train.py")
    assert (evidence.verdict, _changed(kept)) == (Verdict.REFUTED, [])
    assert [each.result.path for each in kept] == ["train.py"]


def test_stays_while_one_of_two_scripts_needs_it(folder: Path) -> None:
    rewriting = _rewriting(folder, "other.py", "train.py")
    assert _changed(rewriting.examined) == ["graphed_step.py", "other.py", "train.py"]
    places = [place_of(each, finding) for each in rewriting.examined for finding in each.result.applied]
    assert [place.path for place in places] == ["other.py", "train.py"]
    for place, rest in zip(places, ("train.py", "other.py"), strict=True):
        left = rewriting.without({place: Withheld("")})
        assert _changed(left.examined) == ["graphed_step.py", rest]
        assert _changed(rewriting.sparing({folder / place.path}).examined) == ["graphed_step.py", rest]
        # What is left is asked about with the task of the script that needs it.
        assert _changed(left.restricted(()).examined) == []
    assert _changed(rewriting.without(dict.fromkeys(places, Withheld(""))).examined) == []


def test_files_that_share_it_are_tried_one_by_one(folder: Path) -> None:
    (folder / "other.py").write_text(SCRIPT.replace("RATE", RATE))
    (folder / "train.py").write_text(f"from other import loss as other\n{SCRIPT.replace('RATE', RATE)}")
    rewriting = Rewriting.of(_examined(folder, "train.py"))
    assert _changed(rewriting.examined) == ["graphed_step.py", "other.py", "train.py"]
    assert len(rewriting.tasks()) == 1
    assert len(groups(rewriting)) == 2


def test_comes_with_a_finding_that_was_not_there_before(folder: Path) -> None:
    rewriting = _rewriting(folder, "train.py")
    (task,) = rewriting.tasks()
    bare = rewriting.restricted(())
    assert [each.result.path for each in bare.examined] == ["train.py"]
    (rest,) = bare.tasks()
    again = answered(bare.examined, {id(rest): (task, task.run())})
    assert _changed(again) == ["graphed_step.py", "train.py"]
    assert [each.file for each in again] == [each.file for each in rewriting.examined]
