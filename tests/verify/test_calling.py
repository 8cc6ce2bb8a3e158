"""How a script is called in a copy: what of the call is led there, and what stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perfmod.verify.calling import Call, CallInCopy
from perfmod.verify.disguise import PLAIN
from perfmod.verify.job import Job, Mode

SCRIPT = Path("tools/train.py")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The user's tree; `.venv` is not in the copy."""
    for root in (tmp_path / "home" / "project", tmp_path / "room" / "project"):
        (root / "tools").mkdir(parents=True)
        (root / "data").mkdir()
    (tmp_path / "home" / "project" / ".venv").mkdir()
    (tmp_path / "home" / "datasets").mkdir()
    return tmp_path / "home" / "project"


def in_copy(home: Path, cwd: Path, *arguments: str, mode: Mode = Mode.EQUALITY, **environment: str) -> CallInCopy:
    room = home.parents[1] / "room"
    call = Call("python", arguments, cwd, environment=environment)
    return CallInCopy(call, home, Job(mode, room / "out", room / "project", "cuda"), room)


def argument(home: Path, cwd: Path, text: str) -> str:
    """What becomes of an argument, with the places spelled short."""
    *_, found = in_copy(home, cwd, text).command(SCRIPT)
    return found.replace(str(home.parents[1]), "")


@pytest.mark.parametrize(("given", "becomes"), [
    ("--epochs", "--epochs"),
    ("data", "data"),
    ("data/train.csv", "data/train.csv"),
    ("--out=runs/1", "--out=runs/1"),
    ("../datasets", "/home/datasets"),
    ("--data=../datasets", "--data=/home/datasets"),
    ("../missing", "../missing"),
    ("{home}/data", "/room/project/data"),
    ("{home}/runs/new", "/room/project/runs/new"),
    ("--out={home}/runs/new", "--out=/room/project/runs/new"),
    ("trainer.root={home}/data", "trainer.root=/room/project/data"),
    ("{home}/.venv", "/home/project/.venv"),
    ("/etc/hosts", "/etc/hosts"),
    ("lr=0.1", "lr=0.1"),
    ("a/b=c/d", "a/b=c/d"),
])  # fmt: skip
def test_arguments_of_a_user_in_the_tree(home: Path, given: str, becomes: str) -> None:
    assert argument(home, home, given.format(home=home)) == becomes


@pytest.mark.parametrize(("given", "becomes"), [
    ("project/data", "/room/project/data"),
    ("--data=./project/data", "--data=/room/project/data"),
    ("datasets", "datasets"),
    ("./datasets", "/home/datasets"),
    ("facebook/opt-125m", "facebook/opt-125m"),
])  # fmt: skip
def test_arguments_of_a_user_elsewhere(home: Path, given: str, becomes: str) -> None:
    assert argument(home, home.parent, given) == becomes


def test_tree_behind_a_link_is_the_same_tree(home: Path) -> None:
    link = home.parent / "link"
    link.symlink_to(home)
    assert argument(home, home, f"{link}/data") == "/room/project/data"
    assert in_copy(home, link / "tools").cwd(SCRIPT) == home.parents[1] / "room" / "project" / "tools"


def test_working_directory(home: Path) -> None:
    copy = home.parents[1] / "room" / "project"
    assert in_copy(home, home / "data").cwd(SCRIPT) == copy / "data"
    assert in_copy(home, home.parent).cwd(SCRIPT) == copy / "tools"
    assert in_copy(home, home / ".venv").cwd(SCRIPT) == copy / "tools"


def test_command(home: Path) -> None:
    script = str(home.parents[1] / "room" / "project" / SCRIPT)
    assert in_copy(home, home, "-x").command(SCRIPT) == ["python", script, "-x"]
    job = in_copy(home, home).job
    ranks = CallInCopy(Call("python", cwd=home), home, job, home)
    launcher = ["python", "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    assert ranks.command(SCRIPT, 2) == [*launcher, script]


def test_environment(home: Path) -> None:
    copy = home.parents[1] / "room" / "project"
    search = os.pathsep.join(["data", str(home / "tools"), "/usr/lib"])
    call = in_copy(
        home,
        home,
        PYTHONPATH=search,
        DATA_DIR=str(home / "data"),
        VIRTUAL_ENV=str(home / ".venv"),
        PATH=f"{home}/data{os.pathsep}/usr/bin",
        WANDB_MODE="online",
        CUDA_VISIBLE_DEVICES="3",
        CUBLAS_WORKSPACE_CONFIG=":16:8",
    )
    environment = call.environment(SCRIPT, Path("job.json"))
    assert environment["PYTHONPATH"].split(os.pathsep) == [
        str(PLAIN),
        str(copy / "data"),
        str(copy / "tools"),
        "/usr/lib",
    ]
    assert environment["DATA_DIR"] == str(copy / "data")
    assert environment["VIRTUAL_ENV"] == str(home / ".venv")
    assert environment["PATH"] == f"{home}/data{os.pathsep}/usr/bin"
    assert environment["WANDB_MODE"] == "disabled"
    assert environment["CUDA_VISIBLE_DEVICES"] == "3"
    assert environment["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"
    assert environment["PWD"] == str(copy)


def test_cublas_is_left_alone_where_time_is_taken(home: Path) -> None:
    timed = in_copy(home, home, mode=Mode.TIMING).environment(SCRIPT, Path("job.json"))
    assert "CUBLAS_WORKSPACE_CONFIG" not in timed
    pinned = in_copy(home, home).environment(SCRIPT, Path("job.json"))
    assert pinned["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"


def test_harness_is_where_it_is_looked_for() -> None:
    assert (PLAIN / "sitecustomize.py").is_file()
