"""The hooks of .pre-commit-hooks.yaml, run by pre-commit in a repository with files to commit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from attrs import frozen

ROOT = Path(__file__).resolve().parents[2]
STEP = """\
import torch


def train(model, loader, optimizer, loss_of):
    total = 0.0
    for images, labels in loader:
        loss = loss_of(model(images.cuda()), labels.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total


if __name__ == "__main__":
    train(*torch.load("all.pt"))
"""


@frozen
class Ran:
    code: int
    log: str


class Commits:
    """A repository with a configuration of pre-commit, and what `git commit` needs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self.folder.mkdir()
        self.environment = os.environ | {
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
            "PERFMOD_CACHE_DIR": str(folder / "cache"),
            "PERFMOD_STATE_DIR": str(folder / "state"),
            "PRE_COMMIT_HOME": str(folder / "pre-commit"),
        }
        self.environment.pop("SKIP", None)
        self.git("init", "-q")

    def configure(self, repository: dict[str, Any]) -> None:
        """Write the configuration, and install pre-commit's hook into git."""
        (self.folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump({"repos": [repository]}))
        command = [sys.executable, "-m", "pre_commit", "install"]
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True, env=self.environment)

    def git(self, *arguments: str) -> Ran:
        who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        command = ["git", *who, *arguments]
        environment = self.environment
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False, env=environment)
        return Ran(done.returncode, done.stdout + done.stderr)

    def commit(self, files: dict[str, str]) -> Ran:
        """Write, add and commit files."""
        for name, text in files.items():
            (self.folder / name).write_bytes(text.encode())
        self.git("add", "--all")
        return self.git("commit", "-m", "work")

    def read(self, name: str) -> str:
        return (self.folder / name).read_bytes().decode()


@pytest.fixture
def commits(tmp_path: Path) -> Commits:
    return Commits(tmp_path)


def local(hook: str, **more: object) -> dict[str, Any]:
    """A hook as it is published, but run with the perfmod of this environment."""
    published = {each["id"]: each for each in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))}
    return {"repo": "local", "hooks": [published[hook] | {"language": "system"} | more]}


def notebook(code: str) -> str:
    cell = {"cell_type": "code", "execution_count": None, "id": "a", "metadata": {}, "outputs": [], "source": code}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def test_check_refuses_a_commit_and_changes_nothing(commits: Commits) -> None:
    commits.configure(local("perfmod", exclude="^old"))
    ran = commits.commit({"train.py": STEP, "nb.ipynb": notebook(STEP), "old.py": STEP, "notes.txt": STEP})
    assert ran.code == 1
    assert "nb.ipynb:cell 1:11:9: PM106 scalar-accumulation" in ran.log
    assert "train.py:11:9: PM106 scalar-accumulation" in ran.log
    assert "2 rewrites in 2 of 2 files" in ran.log
    assert commits.read("train.py") == STEP
    quiet = commits.commit({"train.py": STEP.replace("loss.item()", "loss.detach()"), "nb.ipynb": notebook("x = 1\n")})
    assert quiet.code == 0, quiet.log


def test_arguments_reach_the_hook(commits: Commits) -> None:
    commits.configure(local("perfmod", args=["--ignore", "scalar-accumulation"]))
    ran = commits.commit({"train.py": STEP})
    assert ran.code == 0, ran.log


def test_fix_rewrites_and_the_second_commit_passes(commits: Commits) -> None:
    commits.configure(local("perfmod-fix"))
    files = {"train.py": STEP, "nb.ipynb": notebook(STEP)}
    ran = commits.commit(files)
    assert ran.code == 1
    assert "files were modified by this hook" in ran.log
    for name in files:
        assert "total += loss.detach()" in commits.read(name)
    assert commits.git("rev-parse", "HEAD").code != 0
    commits.git("add", "--all")
    assert commits.git("commit", "-m", "work").code == 0
    assert commits.git("show", "HEAD:train.py").log == commits.read("train.py")


def test_a_file_that_is_no_python_fails(commits: Commits) -> None:
    commits.configure(local("perfmod"))
    ran = commits.commit({"train.py": "import torch\nx = (\n"})
    assert ran.code == 1
    assert "train.py" in ran.log


@pytest.mark.exhaustive
def test_pre_commit_installs_it_from_a_repository(commits: Commits, tmp_path: Path) -> None:
    published = tmp_path / "published"
    subprocess.run(["git", "clone", "-q", "--no-local", ROOT, published], check=True)
    revision = subprocess.run(["git", "rev-parse", "HEAD"], cwd=published, check=True, capture_output=True, text=True)
    hook = {"id": "perfmod", "args": ["--extend-select", "PM203"]}
    commits.configure({"repo": str(published), "rev": revision.stdout.strip(), "hooks": [hook]})
    ran = commits.commit({"train.py": STEP})
    assert ran.code == 1
    assert "train.py:11:9: PM106 scalar-accumulation" in ran.log
