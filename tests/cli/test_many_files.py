"""The cache and the processes: neither may be seen in a result."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_fakes.running import Run, RunProcess, Write

from perfmod import cache, parallel
from perfmod.cache import Cache
from perfmod.errors import ExitCode
from perfmod.task import Task


def cache_file(folder: Path) -> Path:
    """The one file of the cache."""
    (path,) = folder.glob("clean-*")
    return path


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


def test_clean_files_are_remembered(write: Write, perfmod: Run, parsed: list[str]) -> None:
    write("clean.py", "torch_slow = 1\n")
    write("kept.py", "torch_kept()\n")
    first = perfmod("check", ".")
    assert parsed == ["clean.py", "kept.py"]
    parsed.clear()
    assert perfmod("check", ".") == first
    assert parsed == ["kept.py"]
    parsed.clear()
    write("clean.py", "torch_slow()\n")
    assert perfmod("check", ".").code == ExitCode.FOUND
    assert parsed == ["clean.py", "kept.py"]


@pytest.mark.parametrize("option", [["--no-cache"], ["--unsafe"], ["--select", "PM901"]])
def test_other_settings_are_another_cache(write: Write, perfmod: Run, parsed: list[str], option: list[str]) -> None:
    write("clean.py", "torch_slow = 1\n")
    perfmod("check", ".")
    perfmod("check", ".", *option)
    assert parsed == ["clean.py", "clean.py"]


def test_another_rule_source_is_another_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    before = cache.fingerprint(["PM901"], None)
    assert before == cache.fingerprint(["PM901"], None)
    monkeypatch.setattr(cache, "_rule_sources", lambda: ["edited.py 1 2"])
    assert cache.fingerprint(["PM901"], None) != before


@pytest.mark.parametrize("damage", [b"", b"x", b"\0" * 48, b"\0" * 50], ids=["empty", "cut", "zeros", "odd"])
def test_damaged_cache_is_an_empty_one(
    tmp_path: Path, write: Write, perfmod: Run, parsed: list[str], damage: bytes
) -> None:
    write("clean.py", "torch_slow = 1\n")
    perfmod("check", ".")
    cache_file(tmp_path / "cache").write_bytes(damage)
    assert perfmod("check", ".").code == ExitCode.OK
    assert parsed == ["clean.py"] * 2
    assert perfmod("check", ".").code == ExitCode.OK
    assert parsed == ["clean.py"] * 2


def test_cache_that_cannot_be_written(
    tmp_path: Path, write: Write, perfmod: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "blocked").write_text("")
    monkeypatch.setenv("PERFMOD_CACHE_DIR", str(tmp_path / "blocked"))
    write("clean.py", "x = 1\n")
    assert perfmod("check", ".").code == ExitCode.OK


@pytest.mark.usefixtures("project")
def test_two_runs_at_once_keep_both() -> None:
    first, second = Cache("f"), Cache("f")
    first.add_clean(b"1" * 32)
    second.add_clean(b"2" * 32)
    first.save()
    second.save()
    assert Cache("f").is_clean(b"1" * 32)
    assert Cache("f").is_clean(b"2" * 32)
    assert not Cache("f").is_clean(b"3" * 32)


@pytest.mark.usefixtures("project")
def test_too_large_a_cache_starts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_MOST", 2)
    for content in (b"1" * 32, b"2" * 32, b"3" * 32):
        run = Cache("f")
        run.add_clean(content)
        run.save()
    assert [Cache("f").is_clean(content) for content in (b"1" * 32, b"2" * 32, b"3" * 32)] == [
        False,
        False,
        True,
    ]


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
