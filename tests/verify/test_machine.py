"""What is said of the machine, and of the interpreter that a script would run in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from perfmod.errors import Failure
from perfmod.verify import machine
from perfmod.verify.machine import Facts, Gpu, probe


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The first folder of PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def program(path: Path, code: str) -> Path:
    path.write_text(f"#!/bin/sh\n{code}\n")
    path.chmod(0o755)
    return path


def python_that_says(path: Path, **fields: Any) -> str:
    """An interpreter whose answer is made up."""
    known = {"version": [3, 12, 1], "torch": "2.4.0", "cuda": None, "gpus": 0, "gpu": None, "free": None, "total": None}
    known |= {"error": None, "capability": None, "bytecode": False}
    answer = json.dumps({**known, **fields})
    return str(program(path, f"echo 'a banner of some package'\necho '{answer}'"))


def test_this_interpreter() -> None:
    facts = probe(sys.executable)
    assert facts.python == sys.executable
    assert facts.version == ".".join(map(str, sys.version_info[:3]))
    assert facts.torch == torch.__version__
    assert facts.gpus == torch.cuda.device_count()
    assert bool(facts.no_gpu) is not torch.cuda.is_available()
    assert facts.has_bytecode is Path(torch.__cached__).exists()


@pytest.mark.cuda
def test_gpu_of_this_interpreter() -> None:
    facts = probe(sys.executable)
    assert facts.gpu == torch.cuda.get_device_name(0)
    assert facts.free_mib is not None
    assert facts.total_mib is not None
    assert 0 < facts.free_mib <= facts.total_mib
    facts.require("cuda")
    seen = machine.gpu()
    assert seen.name
    assert seen.driver
    assert "MHz" in seen.clocks
    assert seen.throttle


@pytest.mark.parametrize(("capability", "wanted"), [(None, True), ([7, 5], False), ([8, 0], True), ([9, 0], True)])
def test_gpus_that_compute_bfloat16(tmp_path: Path, capability: list[int] | None, wanted: bool) -> None:
    assert probe(python_that_says(tmp_path / "python", capability=capability)).computes_bfloat16 is wanted


def test_interpreter_on_path(bin_folder: Path) -> None:
    python_that_says(bin_folder / "mypython", gpus=2, gpu="H200", free=2**30, total=2**31, cuda="12.4")
    assert probe("mypython") == Facts(
        str(bin_folder / "mypython"), "3.12.1", "2.4.0", "12.4", 2, "H200", free_mib=1024.0, total_mib=2048.0
    )


def test_link_of_a_virtual_environment_is_kept(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.symlink_to(python_that_says(tmp_path / "real"))
    assert probe(str(python)).python == str(python)


@pytest.mark.parametrize(("fields", "words"), [
    ({"version": [3, 7, 9]}, "is Python 3.7.9, but perfmod needs 3.8 or later"),
    ({"version": [2, 7, 18], "torch": None}, "is Python 2.7.18"),
    ({"torch": None, "error": "No module named torch"}, "cannot import torch: No module named torch; install it"),
    ({"torch": "1.13.1+cu117"}, "has torch 1.13.1+cu117, but perfmod needs 2.1 or later"),
    ({"torch": "2.0.1"}, "has torch 2.0.1"),
])  # fmt: skip
def test_interpreter_that_will_not_do(tmp_path: Path, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(Failure) as error:
        probe(python_that_says(tmp_path / "python", **fields))
    assert words in str(error.value)
    assert str(tmp_path / "python") in str(error.value)
    assert str(error.value).isprintable()


def test_versions_of_nightly_builds_are_understood(tmp_path: Path) -> None:
    assert probe(python_that_says(tmp_path / "python", torch="2.10.0a0+git1234")).torch == "2.10.0a0+git1234"


def test_no_interpreter(tmp_path: Path) -> None:
    (tmp_path / "text").touch()
    with pytest.raises(Failure, match=r"missing: cannot be started: no such program; name another with --python"):
        probe(str(tmp_path / "missing"))
    with pytest.raises(Failure, match="text: cannot be started"):
        probe(str(tmp_path / "text"))
    with pytest.raises(Failure, match="is not a working Python: it printed nothing"):
        probe(str(program(tmp_path / "true", "true")))
    with pytest.raises(Failure, match="is not a working Python: no licence"):
        probe(str(program(tmp_path / "false", "echo 'no licence' >&2; exit 1")))


def test_working_directory_is_not_imported_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text("raise RuntimeError('the wrong torch')")
    (tmp_path / "json.py").write_text("raise RuntimeError('the wrong json')")
    monkeypatch.chdir(tmp_path)
    assert probe(sys.executable).torch == torch.__version__


def test_device_that_is_not_there() -> None:
    facts = Facts("/venv/bin/python", "3.12.1", "2.4.0", no_gpu="No CUDA GPUs are available")
    facts.require("cpu", 8)
    with pytest.raises(
        Failure, match=r"no GPU for /venv/bin/python \(torch 2.4.0\): No CUDA GPUs are available; --device"
    ):
        facts.require("cuda")
    with pytest.raises(Failure, match="--nproc 4: only 2 GPUs are available"):
        Facts("python", "3.12.1", "2.4.0", gpus=2).require("cuda", 4)


def test_gpu_as_nvidia_smi_describes_it(bin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    line = "NVIDIA H200, 570.86.15, 1980, 1980, 3201, 3201, 0x0000000000000024"
    program(bin_folder / "nvidia-smi", f'case "$*" in *--id=3*) echo "{line}";; *) exit 6;; esac')
    assert machine.gpu() == Gpu(
        "NVIDIA H200", "570.86.15", "SM 1980 of 1980 MHz, memory 3201 of 3201 MHz", "power cap, thermal slowdown"
    )


def test_older_driver(bin_folder: Path) -> None:
    line = "Tesla V100, 470.1, 135, 1530, 877, 877, 0x0000000000000000"
    program(bin_folder / "nvidia-smi", f'case "$*" in *event_reasons*) exit 2;; *) echo "{line}";; esac')
    assert machine.gpu().throttle == "none"


@pytest.mark.parametrize("code", ["exit 9", "echo 'No devices were found'", "echo"])
def test_no_gpu(bin_folder: Path, code: str) -> None:
    program(bin_folder / "nvidia-smi", code)
    assert machine.gpu() == Gpu()


def test_cpu() -> None:
    assert machine.cpu().endswith(" threads")
    assert len(machine.cpu()) > len("1 threads")


def git(folder: Path, *arguments: str) -> str:
    settings = ("-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    ran = subprocess.run(["git", *settings, "-C", str(folder), *arguments], check=True, capture_output=True, text=True)
    return ran.stdout.strip()


def test_commit(tmp_path: Path) -> None:
    assert machine.commit(tmp_path) == ""
    git(tmp_path, "init", "--quiet")
    assert machine.commit(tmp_path) == ""
    script = tmp_path / "train.py"
    script.write_text("1\n")
    git(tmp_path, "add", "train.py")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    (tmp_path / "untracked").touch()
    head = git(tmp_path, "rev-parse", "HEAD")
    os.utime(script, (0, 0))
    index = tmp_path / ".git" / "index"
    before = (index.stat().st_mtime_ns, index.read_bytes())
    assert machine.commit(tmp_path) == head
    assert (index.stat().st_mtime_ns, index.read_bytes()) == before
    script.write_text("2\n")
    assert machine.commit(tmp_path) == f"{head}-dirty"


def test_no_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.commit(tmp_path) == ""
