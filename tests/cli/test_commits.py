"""`apply --commits`: by git itself, with its hooks, and with nothing else of the working tree."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_fakes.running import Run, Write
from repositories import PLAIN, commit_all, git, subjects

from perfmod.errors import ExitCode

BEFORE = {"a.py": "torch_slow()\n", "b.py": "torch_optional()\n", "c.py": "x = 1\n"}
EVERYTHING = ("apply", ".", "--extend-select", "PM903", "--commits")
SLOW = "PM901 slow-call: Call the fast function (a.py:1)"
OPTIONAL = "PM903 optional-call: Call the fast function (b.py:1)"


@pytest.fixture
def repository(project: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in PLAIN.items():
        monkeypatch.setenv(name, value)
    for name, content in BEFORE.items():
        write(name, content)
    git(project, "checkout", "-q", "-b", "main")
    commit_all(project)
    return project


def hook(repository: Path, script: str, name: str = "pre-commit") -> None:
    path = repository / ".git" / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_one_a_rule_and_nothing_else(repository: Path, write: Write, perfmod: Run) -> None:
    hook(repository, "git diff --cached --name-only >> ../seen")
    write("c.py", "x = 2\n")
    write("new.txt", "staged\n")
    git(repository, "add", "new.txt")
    ran = perfmod(*EVERYTHING)
    assert ran.code == ExitCode.OK
    assert "2 rewrites made in 2 of 3 files" in ran.err
    assert "2 commits: `git log -p -2` shows them" in ran.err
    assert subjects(repository) == ["everything", SLOW, OPTIONAL]
    assert git(repository, "show", "--name-only", "--format=%an", "HEAD~1").decode() == "Ada Löve\n\na.py\n"
    assert git(repository, "status", "--porcelain") == b" M c.py\nA  new.txt\n"
    assert (repository.parent / "seen").read_text() == "a.py\nb.py\n"
    assert (repository / "a.py").read_text() == "torch_fast()\n"


def test_on_a_new_branch(repository: Path, perfmod: Run) -> None:
    assert perfmod(*EVERYTHING, "--branch", "faster").code == ExitCode.OK
    assert git(repository, "branch", "--show-current") == b"faster\n"
    assert len(subjects(repository)) == 3
    ran = perfmod(*EVERYTHING, "--branch", "main")
    assert (ran.code, ran.complaint) == (
        ExitCode.USAGE,
        "--branch main: that branch is there already; name a new one",
    )
    assert perfmod(*EVERYTHING, "--branch", "a..b").complaint == "--branch a..b: is no name for a branch"


def test_a_detached_head(repository: Path, perfmod: Run) -> None:
    git(repository, "checkout", "-q", "--detach")
    ran = perfmod(*EVERYTHING)
    assert ran.code == ExitCode.OK
    assert ran.err.endswith("HEAD is detached: `git switch -c NAME` gives the commits a branch\n")


@pytest.mark.parametrize("staged", [False, True])
def test_changes_that_are_not_committed(repository: Path, write: Write, perfmod: Run, staged: bool) -> None:
    write("b.py", "torch_optional(1)\n")
    if staged:
        git(repository, "add", "b.py")
    ran = perfmod(*EVERYTHING, "--branch", "faster")
    assert ran.code == ExitCode.USAGE
    assert ran.last_words == "b.py: has changes that are not committed; commit or stash them first"
    assert (repository / "a.py").read_text() == BEFORE["a.py"]
    assert git(repository, "branch", "--show-current") == b"main\n"


@pytest.mark.usefixtures("repository")
def test_a_file_that_git_does_not_know(write: Write, perfmod: Run) -> None:
    write("new.py", "torch_slow()\n")
    assert perfmod(*EVERYTHING).last_words == "new.py: is not under version control; commit it first"


def test_not_in_the_middle_of_something(repository: Path, write: Write, perfmod: Run) -> None:
    git(repository, "checkout", "-q", "-b", "other")
    write("c.py", "x = 3\n")
    git(repository, "commit", "-qam", "three")
    git(repository, "checkout", "-q", "main")
    git(repository, "merge", "-q", "--no-ff", "--no-commit", "other")
    ran = perfmod(*EVERYTHING)
    assert (ran.code, ran.complaint) == (
        ExitCode.USAGE,
        f"{repository}: is in the middle of a merge; finish it or abort it first",
    )


def test_no_repository(repository: Path, perfmod: Run) -> None:
    (repository / ".git").rename(repository.parent / "git")
    ran = perfmod(*EVERYTHING)
    assert ran.code == ExitCode.USAGE
    assert ran.complaint == f"{repository}: is in no git repository, so --commits cannot make commits here"


def test_a_hook_that_refuses(repository: Path, perfmod: Run) -> None:
    hook(repository, "! git diff --cached --name-only | grep -q b.py")
    ran = perfmod(*EVERYTHING, "--branch", "faster")
    assert ran.code == ExitCode.FAILED
    assert ran.last_words == (
        f"commit 2 of 2 ({OPTIONAL}) was not made, and its files are as before: git or a hook refused it, for the "
        "reason above; remove that; 1 commit was made; `perfmod apply . --extend-select PM903 --commits` makes what is "
        "left"
    )
    assert subjects(repository) == ["everything", SLOW]
    assert git(repository, "status", "--porcelain") == b""
    hook(repository, "true")
    assert perfmod(*ran.last_words.split("`")[1].split()[1:]).code == ExitCode.OK
    assert subjects(repository) == ["everything", SLOW, OPTIONAL]


@pytest.mark.parametrize("staged", [False, True])
def test_a_hook_that_reformats(repository: Path, perfmod: Run, staged: bool) -> None:
    """As pre-commit's do: the files are changed, and the commit fails; or they are added and it does not."""
    hook(repository, f"echo '# fmt' >> a.py; {'git add a.py' if staged else 'exit 1'}")
    ran = perfmod(*EVERYTHING)
    assert ran.code == ExitCode.FAILED
    if staged:
        assert ran.last_words.startswith(
            f"the commit ({SLOW}) was made, but a hook changed a.py in it; look at `git show"
        )
        assert (repository / "a.py").read_text() == "torch_fast()\n# fmt\n"
    else:
        assert "a hook changed a.py, as formatters do" in ran.last_words
        assert (repository / "a.py").read_text() == BEFORE["a.py"]
        assert git(repository, "status", "--porcelain") == b""


def test_interrupted(repository: Path) -> None:
    hook(repository, "touch ../begun; sleep 60")
    command = [sys.executable, "-m", "cli_fakes", *EVERYTHING]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)
    deadline = time.monotonic() + 60
    while not (repository.parent / "begun").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == ExitCode.INTERRUPTED
    assert said.decode().splitlines()[-1].startswith("perfmod: interrupted; 0 commits were made; `perfmod apply")
    assert (repository / "a.py").read_text() == BEFORE["a.py"]
    assert git(repository, "status", "--porcelain") == b""
    hook(repository, "true")
    git(repository, "commit", "--allow-empty", "-qm", "no lock is left")


def test_revert_knows_nothing_of_commits(repository: Path, perfmod: Run) -> None:
    perfmod(*EVERYTHING)
    assert perfmod("revert").complaint.startswith(f"there is nothing to revert in {repository}; ")
