"""`apply --commits` where a rewrite makes a file: git gets it with the script, and a revert takes it away."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_fakes.running import Run, Write
from golden_harness.golden import ROOT
from repositories import PLAIN, commit_all, git, subjects

from perfmod.codemods import catalog
from perfmod.errors import ExitCode
from perfmod.patches.commits import Repository
from perfmod.transforms.compute.recorder import recorder

SCRIPT = (ROOT / "launch-bound-step" / "two-loops.in.py").read_text()
RULES = catalog.rules
COMMITS = ("apply", ".", "--select", "PM314", "--commits")


@pytest.fixture
def repository(project: Path, write: Write, perfmod: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    del perfmod  # set up before, with made-up rules
    monkeypatch.setattr(catalog, "rules", RULES)
    for name, value in PLAIN.items():
        monkeypatch.setenv(name, value)
    write("train.py", SCRIPT)
    git(project, "checkout", "-q", "-b", "main")
    commit_all(project)
    return project


def test_is_part_of_the_commit_and_reverted_with_it(repository: Path, perfmod: Run) -> None:
    ran = perfmod(*COMMITS)
    assert ran.code == ExitCode.OK
    assert "(also makes graphed_step.py)" in ran.err
    assert git(repository, "show", "--name-status", "--format=", "HEAD") == b"A\tgraphed_step.py\nM\ttrain.py\n"
    assert git(repository, "status", "--porcelain") == b""
    assert (repository / "graphed_step.py").read_text() == recorder()
    git(repository, "revert", "--no-edit", "HEAD")
    assert not (repository / "graphed_step.py").exists()
    assert (repository / "train.py").read_text() == SCRIPT


def test_revert_says_that_it_is_removed(repository: Path, perfmod: Run) -> None:
    assert perfmod(*COMMITS[:-1]).code == ExitCode.OK
    ran = perfmod("revert")
    assert ran.err.splitlines() == ["train.py: restored", "graphed_step.py: removed", "2 files: 1 restored, 1 removed"]
    assert git(repository, "status", "--porcelain") == b""


def test_is_made_by_the_first_of_several_commits(repository: Path, perfmod: Run) -> None:
    assert perfmod(*COMMITS, "--by", "finding").code == ExitCode.OK
    assert git(repository, "show", "--name-status", "--format=", "HEAD") == b"M\ttrain.py\n"
    assert git(repository, "show", "--name-status", "--format=", "HEAD~1") == b"A\tgraphed_step.py\nM\ttrain.py\n"


def test_is_gone_where_a_hook_refuses_the_commit(repository: Path, perfmod: Run) -> None:
    path = repository / ".git" / "hooks" / "pre-commit"
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\nexit 1\n")
    path.chmod(0o755)
    assert perfmod(*COMMITS).code == ExitCode.FAILED
    assert not (repository / "graphed_step.py").exists()
    assert git(repository, "status", "--porcelain") == b""


def test_one_that_git_ignores_is_no_part_of_a_commit(repository: Path, write: Write, perfmod: Run) -> None:
    write(".gitignore", "graphed_*\n")
    ran = perfmod(*COMMITS)
    assert ran.code == ExitCode.USAGE
    assert "graphed_step.py: has to be made and committed, and git ignores it" in ran.err
    assert subjects(repository) == ["everything"]
    assert (repository / "train.py").read_text() == SCRIPT


def test_one_whose_removal_is_not_committed_is_not_made_again(repository: Path, perfmod: Run) -> None:
    (repository / "graphed_step.py").touch()
    commit_all(repository)
    (repository / "graphed_step.py").unlink()
    ran = perfmod(*COMMITS)
    assert ran.code == ExitCode.USAGE
    assert "graphed_step.py: was removed, and would be made again; commit its removal first" in ran.err


def test_one_that_is_there_has_to_be_committed(repository: Path, perfmod: Run) -> None:
    (repository / "graphed_step.py").write_text(recorder())
    ran = perfmod(*COMMITS)
    assert ran.code == ExitCode.USAGE
    assert "graphed_step.py: is not under version control; commit it first" in ran.err
    assert (repository / "train.py").read_text() == SCRIPT
    commit_all(repository)
    assert perfmod(*COMMITS).code == ExitCode.OK
    assert git(repository, "show", "--name-status", "--format=", "HEAD") == b"M\ttrain.py\n"


def test_one_that_somebody_else_makes_meanwhile_stays(
    repository: Path, perfmod: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made_meanwhile(*_: object, **__: object) -> None:
        (repository / "graphed_step.py").write_text("mine = 1\n")

    monkeypatch.setattr(Repository, "require_clean", made_meanwhile)
    ran = perfmod(*COMMITS)
    assert ran.code == ExitCode.FAILED
    assert "a file was made by somebody else while perfmod ran" in ran.err
    assert (repository / "graphed_step.py").read_text() == "mine = 1\n"
    assert (repository / "train.py").read_text() == SCRIPT
