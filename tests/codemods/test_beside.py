"""A new file beside a script: it is written once, in every form of output, and taken back."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from golden_harness.golden import ROOT

from perfmod import applying, journal
from perfmod.codemods.patch import unified_diff
from perfmod.config import Options
from perfmod.examine import examine
from perfmod.examined import Examined
from perfmod.journal import STATE_VARIABLE
from perfmod.patches.by import By
from perfmod.patches.series import Series
from perfmod.selection import rules_for
from perfmod.transforms.compute.recorder import recorder

SCRIPT = (ROOT / "launch-bound-step" / "two-loops.in.py").read_bytes()

FUNCTION = """\
import torch


def fit(model, optimizer, loader, device):
    for x in loader:
        x = x.to(device)
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        print(loss.item())
"""
MAIN = """\
import torch
from torch import nn
from engine.loop import fit

device = torch.device("cuda")
model = nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
fit(model, optimizer, [torch.randn(8, 4)], device)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one script that trains twice."""
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").touch()
    (project / "train.py").write_bytes(SCRIPT)
    return project


def _examined(folder: Path, *, creates: bool = True) -> list[Examined]:
    return examine(["."], Options(select=("PM314",)), cwd=folder, jobs=1, use_cache=False, creates=creates)


def _names(examined: list[Examined]) -> list[str]:
    return [each.file.real.name for each in examined if each.result.before != each.result.after]


def _reasons(examined: list[Examined]) -> set[str]:
    return {finding.reason for each in examined for finding in each.result.refused}


def test_is_written_with_the_script_and_taken_back(folder: Path) -> None:
    written = applying.write(_examined(folder), folder)
    assert _names(written) == ["graphed_step.py", "train.py"]
    assert (folder / "graphed_step.py").read_text() == recorder()
    assert not _names(_examined(folder))
    journal.revert(folder)
    assert (folder / "train.py").read_bytes() == SCRIPT
    assert not (folder / "graphed_step.py").exists()


def test_stays_where_it_was_edited_since(folder: Path) -> None:
    applying.write(_examined(folder), folder)
    (folder / "graphed_step.py").write_text("mine = 1\n")
    ((refused, _),) = journal.revert(folder).refused
    assert refused.name == "graphed_step.py"
    assert (folder / "graphed_step.py").read_text() == "mine = 1\n"


def test_nothing_is_written_where_somebody_made_the_file_meanwhile(folder: Path) -> None:
    examined = _examined(folder)
    (folder / "graphed_step.py").write_text("mine = 1\n")
    written = applying.write(examined, folder)
    assert {each.result.reason for each in written} >= {
        "was made by somebody else while perfmod ran, so it was left alone; run perfmod again"
    }
    assert (folder / "train.py").read_bytes() == SCRIPT


def test_scripts_that_were_not_read_together_share_it(folder: Path) -> None:
    (folder / "other.py").write_bytes(SCRIPT)
    assert _names(_examined(folder)) == ["graphed_step.py", "other.py", "train.py"]


def test_one_that_is_there_is_used(folder: Path) -> None:
    (folder / "graphed_step.py").write_text(recorder())
    examined = _examined(folder)
    assert _names(examined) == ["train.py"]
    assert any(b"from graphed_step import GraphedStep\n" in each.result.after for each in examined)


def test_another_file_of_that_name_is_left(folder: Path) -> None:
    (folder / "graphed_step.py").write_text("mine = 1\n")
    examined = _examined(folder)
    assert _names(examined) == ["graphed_step_2.py", "train.py"]
    assert any(b"from graphed_step_2 import GraphedStep\n" in each.result.after for each in examined)


def test_a_module_of_a_package_imports_it_relatively_or_stays(folder: Path) -> None:
    (folder / "__init__.py").touch()
    assert not _names(_examined(folder))
    assert any("lies in a package" in reason for reason in _reasons(_examined(folder)))
    (folder / "sizes.py").write_text("SIZE = 8\n")
    (folder / "train.py").write_bytes(SCRIPT.replace(b"import torch\n", b"import torch\nfrom .sizes import SIZE\n", 1))
    (after,) = (each.result.after for each in _examined(folder) if each.file.real.name == "train.py")
    assert b"from .graphed_step import GraphedStep\n" in after


def test_a_file_that_is_imported_from_another_folder_stays(folder: Path) -> None:
    (folder / "engine").mkdir()
    (folder / "train.py").rename(folder / "engine" / "loop.py")
    (folder / "main.py").write_text("from engine.loop import device\n\nprint(device)\n")
    assert not _names(_examined(folder))
    assert any("imported as `engine.loop`" in reason for reason in _reasons(_examined(folder)))


def test_a_file_that_others_import_by_its_package_imports_it_relatively(folder: Path) -> None:
    (folder / "engine").mkdir()
    (folder / "train.py").unlink()
    (folder / "engine" / "loop.py").write_text(FUNCTION)
    (folder / "main.py").write_text(MAIN)
    assert _names(_examined(folder)) == ["graphed_step.py", "loop.py"]
    (after,) = (each.result.after for each in _examined(folder) if each.file.real.name == "loop.py")
    assert b"from .graphed_step import GraphedStep\n" in after
    (folder / "engine" / "again.py").write_text("from loop import fit\n")
    assert not _names(_examined(folder))


@pytest.mark.parametrize(
    "lines",
    [
        b"try:\n    from .sizes import SIZE\nexcept ImportError:\n    from sizes import SIZE\n",
        b"def size():\n    from .sizes import SIZE\n",
    ],
    ids=["as a script too", "in a function"],
)
def test_a_file_that_may_be_run_in_two_ways_stays(folder: Path, lines: bytes) -> None:
    (folder / "sizes.py").write_text("SIZE = 8\n")
    (folder / "train.py").write_bytes(SCRIPT.replace(b"import torch\n", b"import torch\n" + lines, 1))
    assert not _names(_examined(folder))
    assert any("`from .` in some cases only" in reason for reason in _reasons(_examined(folder)))


def test_relative_imports_in_a_text_are_none(folder: Path) -> None:
    (folder / "train.py").write_bytes(b'"""Once:\n\nfrom .sizes import SIZE\n"""\n' + SCRIPT.partition(b'"""\n')[2])
    assert any(b"\nfrom graphed_step import GraphedStep\n" in each.result.after for each in _examined(folder))


def _in_folder(folder: Path, line: bytes) -> bytes:
    """The script, moved to `training/train.py` beside `sizes.py`, with `line` below its import of torch."""
    (folder / "training").mkdir()
    (folder / "train.py").unlink()
    for place in ("training", "common"):
        (folder / place).mkdir(exist_ok=True)
        (folder / place / "sizes.py").write_text("SIZE = 8\n")
    code = SCRIPT.replace(b"import torch\n", b"import torch\n" + line, 1)
    (folder / "training" / "train.py").write_bytes(code)
    return code


def test_a_file_that_is_started_from_another_folder_stays(folder: Path) -> None:
    _in_folder(folder, b"from common.sizes import SIZE\n")
    assert not _names(_examined(folder))
    assert any("imports `common.sizes`, which is not beside it" in reason for reason in _reasons(_examined(folder)))


@pytest.mark.parametrize(
    ("line", "is_package"),
    [(b"from training.sizes import SIZE\n", False), (b"import training.sizes\n", True),
     (b"from training import sizes\n", True)],
)  # fmt: skip
def test_a_file_that_names_its_folder_when_it_imports_does_so_again(
    folder: Path, line: bytes, is_package: bool
) -> None:
    _in_folder(folder, line)
    if is_package:
        (folder / "training" / "__init__.py").write_text("VERSION = 1\n")
    (after,) = (each.result.after for each in _examined(folder) if each.file.real.name == "train.py")
    assert line + b"from training.graphed_step import GraphedStep\n" in after


def test_a_file_that_names_its_folder_behind_other_code_stays(folder: Path) -> None:
    _in_folder(folder, b"import sys\nsys.path.insert(0, '.')\nfrom training.sizes import SIZE\n")
    assert not _names(_examined(folder))
    assert any("imports `training.sizes`, which is not beside it" in reason for reason in _reasons(_examined(folder)))


def test_is_left_out_where_no_new_file_may_be_written(folder: Path) -> None:
    examined = _examined(folder, creates=False)
    assert not _names(examined)
    assert any("none can be made beside this code" in reason for reason in _reasons(examined))


def test_a_series_makes_it_in_its_first_step(folder: Path) -> None:
    examined = _examined(folder)
    cards, _ = rules_for(examined[0].file.settings)
    series = Series.of(examined, By.FINDING, cards, folder, None)
    diffs = [series.diff(step) for step, _ in series.steps]
    assert [diff.count(b"--- /dev/null\n") for diff in diffs] == [1, 0]
    for number, diff in enumerate(diffs):
        patch = folder.parent / f"{number}.patch"
        patch.write_bytes(diff)
        subprocess.run(["git", "apply", str(patch)], cwd=series.root, check=True)
    assert (folder / "graphed_step.py").read_text() == recorder()


def test_a_diff_of_a_new_file_is_one_for_git(tmp_path: Path) -> None:
    (tmp_path / "new.patch").write_bytes(unified_diff("a b.py", None, b"x = 1\n"))
    subprocess.run(["git", "apply", "new.patch"], cwd=tmp_path, check=True)
    assert (tmp_path / "a b.py").read_bytes() == b"x = 1\n"
