"""A small project with rewrites of several kinds, in a repository, and `perfmod` run in it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import forked_python
import pexpect
import pytest
from review_terminal import PROMPT, spawned

TRAIN = """\
import torch
from torch.utils.data import DataLoader

from data import Digits


def main():
    device = torch.device("cuda")
    loader = DataLoader(Digits(), batch_size=32, shuffle=True)
    model = torch.nn.Linear(8, 2).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    total = 0.0
    for images, labels in loader:
        images = images.to(device)
        labels = labels.to(device)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(total)


if __name__ == "__main__":
    main()
"""
DATA = """\
import numpy
import torch
from torch.utils.data import Dataset


class Digits(Dataset):
    def __len__(self):
        return 128

    def __getitem__(self, index):
        return torch.from_numpy(numpy.load(f"digits/{index}.npy")), index % 2
"""

Perfmod = Callable[..., subprocess.CompletedProcess[str]]


def make_project(root: Path) -> Path:
    """The files in a new repository."""
    root.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "main", root], check=True)
    (root / "train.py").write_text(TRAIN)
    (root / "data.py").write_text(DATA)
    return root


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same project for tests that change nothing."""
    return make_project(tmp_path_factory.mktemp("untouched") / "project")


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """State and cache lie in the folder of the test, the terminal is plain, and git knows a name."""
    monkeypatch.setenv("PERFMOD_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("PERFMOD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "A. Reviewer")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "reviewer@example.com")
    for variable in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of the test."""
    root = make_project(tmp_path / "project")
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def perfmod(project: Path) -> Perfmod:
    """Runs `perfmod` in the project, or in a folder of it; answers for `review` come from `answers`."""

    def invoke(*arguments: str, answers: str = "", cwd: Path = project) -> subprocess.CompletedProcess[str]:
        command = [forked_python.perfmod(), "-m", "perfmod", *arguments]
        return subprocess.run(
            command, cwd=cwd, input=answers, capture_output=True, text=True, check=False, timeout=120, env=os.environ
        )

    return invoke


@pytest.fixture
def start(project: Path) -> Iterator[Callable[..., pexpect.spawn[str]]]:
    """Starts `perfmod review` in a terminal, and waits for its first question."""
    children = []

    def begin(*arguments: str, asks: bool = True, python: str = "") -> pexpect.spawn[str]:
        child = spawned(project, *arguments, python=python)
        children.append(child)
        if asks:
            child.expect(PROMPT)
        return child

    yield begin
    for child in children:
        child.close(force=True)
