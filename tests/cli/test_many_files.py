"""The cache and the processes: neither may be seen in a result."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from cli_fakes.running import Run, RunProcess, Write

from perfmod import cache, parallel, task
from perfmod.budget import OutOfTime
from perfmod.cache import Cache, location
from perfmod.errors import ExitCode
from perfmod.task import Task


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that reached the engine, in order."""
    paths: list[str] = []
    run = Task.run

    def record(task: Task) -> object:
        paths.extend(file.path for file in task.files)
        return run(task)

    monkeypatch.setattr(Task, "run", record)
    return paths


EVERYTHING = {
    "clean.py": "torch_slow = 1\n",
    "kept.py": "torch_kept()\n",
    "slow.py": "torch_slow()\n",
    "broken.py": "torch_slow(\n",
    "silent.py": "torch_slow()  # perfmod: ignore[PM901]\n",
    "also.ipynb": '{"nbformat": 3}',
}
"""A file for each kind of answer."""


def written(write: Write, files: Mapping[str, str] = EVERYTHING) -> list[str]:
    """Writes files, and gives those that the engine is asked about."""
    for name, content in files.items():
        write(name, content)
    return sorted(name for name, content in files.items() if "torch" in content)


def test_answers_of_all_kinds_are_remembered(write: Write, perfmod: Run, parsed: list[str]) -> None:
    asked = written(write)
    first = perfmod("check", ".", "--explain-all")
    assert sorted(parsed) == asked
    parsed.clear()
    assert perfmod("check", ".", "--explain-all") == first
    assert perfmod("apply", ".", "--dry-run").out
    assert perfmod("apply", ".").code == ExitCode.FAILED
    assert not parsed
    assert b"PM901" not in perfmod("check", ".").out


def later(path: Path) -> None:
    """Touches a file."""
    state = path.stat()
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 10**9))


@pytest.mark.parametrize(("change", "asked"), [
    (lambda root: later(root / "clean.py"), []),
    (lambda root: (root / "notes.md").write_text("x"), []),
    (lambda root: (root / "__pycache__").mkdir(), []),
    (lambda root: (root / "new.py").write_text("torch_slow()"), ["new.py"]),
    (lambda root: (root / "clean.py").write_text("torch_slow = 2\n"), ["clean.py"]),
    (lambda root: (root / "kept.py").unlink(), []),
    (lambda root: (root / "requirements.txt").write_text("torch==1.4"), ["broken.py", "slow.py"]),
    (lambda root: (root / ".gitignore").write_text("kept.py"), []),
    (lambda root: (root / "pyproject.toml").write_text("[tool.perfmod]\nunsafe = true"), ["slow.py"]),
], ids=["touched", "beside", "compiled", "new", "edited", "removed", "pinned", "ignored", "configured"])  # fmt: skip
def test_what_changed_is_noticed(
    project: Path,
    write: Write,
    perfmod: Run,
    parsed: list[str],
    change: Callable[[Path], object],
    asked: list[str],
) -> None:
    """Whatever is remembered, the result is that of a run that remembers nothing."""
    written(write)
    perfmod("check", ".", "--explain-all")
    parsed.clear()
    change(project)
    warm = perfmod("check", ".", "--explain-all")
    assert set(asked) <= set(parsed)
    assert bool(parsed) == bool(asked)
    assert perfmod("check", ".", "--explain-all") == warm == perfmod("check", ".", "--explain-all", "--no-cache")


@pytest.mark.parametrize("option", [["--no-cache"], ["--unsafe"], ["--select", "PM901"]])
def test_other_settings_are_another_question(write: Write, perfmod: Run, parsed: list[str], option: list[str]) -> None:
    write("clean.py", "torch_slow = 1\n")
    perfmod("check", ".")
    perfmod("check", ".", *option)
    assert parsed == ["clean.py", "clean.py"]


def test_what_ran_out_of_time_is_asked_again(write: Write, perfmod: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    write("slow.py", "torch_slow()\n")

    def never(*_: object) -> None:
        raise OutOfTime

    with monkeypatch.context() as patched:
        patched.setattr(task, "within", never)
        assert b"PM901" not in perfmod("check", ".").out
    assert b"PM901" in perfmod("check", ".").out


@pytest.mark.parametrize("damage", [b"", b"x", b"\0" * 5000, None], ids=["empty", "cut", "zeros", "in a value"])
def test_damaged_cache_is_an_empty_one(write: Write, perfmod: Run, damage: bytes | None) -> None:
    written(write)
    first = perfmod("check", ".")
    path = location()
    if damage is None:
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE known SET value = x'00'")
    else:
        path.write_bytes(damage)
    assert [perfmod("check", ".") for _ in range(2)] == [first] * 2
    assert Cache().extent().answers > 0


def test_cache_that_cannot_be_written(
    tmp_path: Path, write: Write, perfmod: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "blocked").write_text("")
    monkeypatch.setenv("PERFMOD_CACHE_DIR", str(tmp_path / "blocked"))
    write("clean.py", "x = 1\n")
    assert perfmod("check", ".").code == ExitCode.OK


@pytest.mark.usefixtures("project")
def test_what_was_not_used_for_the_longest_time_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Cache()
    now = time.time()
    for number in range(3):
        monkeypatch.setattr(cache.time, "time", lambda number=number: now + 7200 * number)
        kept.put({str(number): os.urandom(1000)})
        kept.get(["0"])
    monkeypatch.setattr(cache, "MOST_BYTES", 2500)
    kept.trim()
    assert set(kept.get("012")) == {"0", "2"}


def test_the_cache_is_shown_and_cleared(write: Write, perfmod: Run) -> None:
    write("clean.py", "torch_slow = 1\n")
    perfmod("check", ".")
    shown = perfmod("cache").out.decode()
    assert str(location()) in shown
    assert "3 cached results" in shown
    assert "0 cached results" in perfmod("cache", "--clear").out.decode()
    assert not location().exists()


def test_a_known_tree_is_answered_without_a_parser(write: Write, project: Path) -> None:
    """In two processes, whose hashes differ."""
    write("train.py", "import torch\nloss = torch.ones(1)\nloss.backward()\nprint(loss.item())\n")
    script = "import sys; from perfmod.cli.main import run\ntry: run()\nfinally: print('libcst' in sys.modules)"
    ends = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", script, "check", "."]
        ran = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
        ends.append(ran.stdout.splitlines()[-1])
    assert ends == ["True", "False"]


def test_processes_change_nothing(write: Write, perfmod_process: RunProcess) -> None:
    """Enough to parse that a pool starts; failed, unread and clean files among the others."""
    filler = "# " + "x" * 60 + "\n"
    for number in range(6):
        write(f"pkg/f{number}.py", f"torch_slow({number})\ntorch_kept()\n" + filler * 1_000)
    write("pkg/bad.py", "torch_slow(\n")
    write("pkg/clean.py", "x = 1\n")
    alone = perfmod_process("check", ".", "--jobs", "1", "--no-cache", "--output-format", "json")
    spread = perfmod_process("check", ".", "--jobs", "3", "--no-cache", "--output-format", "json")
    assert alone == spread
    assert json.loads(alone.out)["summary"]["files"] == {
        "changed": 6,
        "unchanged": 1,
        "skipped": 0,
        "failed": 1,
    }
    assert len(json.loads(alone.out)["findings"]) == 12


@pytest.mark.exhaustive
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_the_run(
    project: Path, tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch, end: signal.Signals
) -> None:
    """Even in the middle of a file, whether the run is interrupted or killed."""
    pid_file = tmp_path / "pid"
    monkeypatch.setenv("CLI_FAKES_PID_FILE", str(pid_file))
    for name in ("a.py", "b.py"):
        write(name, "torch_endless()\n# " + "x" * 300_000)
    command = [sys.executable, "-m", "cli_fakes", "check", ".", "--jobs", "2"]
    with subprocess.Popen(command, cwd=project, stderr=subprocess.PIPE) as process:
        wait_until(pid_file.exists)
        process.send_signal(end)
        _, complaint = process.communicate(timeout=300)
    if end is signal.SIGINT:
        assert process.returncode == ExitCode.INTERRUPTED
        assert complaint == b"perfmod: interrupted\n"
    worker = int(pid_file.read_text())
    wait_until(lambda: not is_running(worker))


def wait_until(condition: Callable[[], bool]) -> None:
    """Waits for something that another process does; asserts that it does not take five minutes."""
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_running(process: int) -> bool:
    """Whether a process exists and is not waiting to be buried."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True, check=False)
    return bool(state.stdout.strip()) and not state.stdout.startswith("Z")


def test_a_pool_starts_only_where_it_pays(write: Write, perfmod: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a pool was started")

    monkeypatch.setattr(parallel, "_spread", refuse)
    write("small.py", "torch_slow()\n")
    write("large.py", "# " + "x" * 300_000)
    assert perfmod("check", ".", "--jobs", "8").code == ExitCode.FOUND
