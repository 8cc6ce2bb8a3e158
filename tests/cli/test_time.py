"""What takes long: findings are there as soon as their file is done, and no file holds up the others."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli_fakes.running import Run, RunProcess, Write

from perfmod import task
from perfmod.errors import ExitCode

FILLER = "# " + "x" * 300_000
"""So much that processes are started for it."""
BUSY = "torch_busy()\n"
LIMIT = ("--time-limit", "0.5")
ALONE = "not analysed: it needs more than 0.5 s; raise --time-limit"


@pytest.mark.exhaustive
@pytest.mark.parametrize("command", [["check"], ["apply"], ["apply", "--dry-run"]], ids=" ".join)
@pytest.mark.parametrize("filler", ["", FILLER], ids=["alone", "processes"])
def test_findings_are_printed_as_files_finish(
    project: Path, write: Write, tmp_path: Path, command: list[str], filler: str
) -> None:
    """The second file is never done; the run is ended as soon as the first one's finding is there."""
    write("a.py", f"torch_slow()\n{filler}")
    write("b.py", f"torch_endless()\n{filler}")
    program = [sys.executable, "-m", "cli_fakes", *command, ".", "--jobs", "2"]
    environment = {**os.environ, "CLI_FAKES_PID_FILE": str(tmp_path / "pid")}
    with subprocess.Popen(
        program, cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        try:
            readable, _, _ = select.select([process.stdout], [], [], 60)
            assert readable
            assert process.stdout.readline() == b"a.py:1:1: PM901 slow-call: a slow call\n"
            assert process.poll() is None
        finally:
            process.terminate()


def test_ctrl_c_in_the_middle_of_a_file(project: Path, write: Write) -> None:
    write("a.py", "torch_slow()\n")
    write("b.py", BUSY)
    with subprocess.Popen(
        [sys.executable, "-m", "cli_fakes", "check", "."],
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"a.py:1:1: PM901")
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=300)
    assert (process.returncode, complaint) == (ExitCode.INTERRUPTED, b"perfmod: interrupted\n")


@pytest.mark.exhaustive
def test_the_order_does_not_depend_on_processes(write: Write, perfmod_process: RunProcess) -> None:
    """Not even where the first file takes longest."""
    write("a.py", "torch_slow()\n" * 100 + FILLER)
    for name in ("b.py", "c.py", "d.py"):
        write(name, f"torch_slow()\n{FILLER}")
    alone, spread = (perfmod_process("check", ".", "--no-cache", "--jobs", jobs) for jobs in ("1", "3"))
    assert alone == spread
    places = [line.partition(b":")[0] for line in alone.out.splitlines()]
    assert places == [b"a.py"] * 100 + [b"b.py", b"c.py", b"d.py"]


@pytest.mark.parametrize("filler", ["", FILLER], ids=["alone", "processes"])
def test_a_file_that_takes_too_long_is_left(write: Write, perfmod_process: RunProcess, filler: str) -> None:
    """The run goes on behind it; in a folder that is no failure."""
    for name, code in (("a.py", "torch_slow()\n"), ("b.py", BUSY), ("c.py", "torch_slow()\n")):
        write(name, code + filler)
    ran = perfmod_process("check", ".", *LIMIT, "--jobs", "2")
    assert ran.code == ExitCode.FOUND
    assert [line.partition(":")[0] for line in ran.out.decode().splitlines()] == ["a.py", "c.py"]
    assert ran.err.splitlines() == [
        f"b.py: skipped: {ALONE}",
        "2 rewrites in 2 of 3 files; `perfmod apply . --time-limit 0.5` makes them",
        "1 file skipped",
    ]


def test_it_is_a_failure_where_it_was_named(write: Write, perfmod: Run) -> None:
    path = write("busy.py", BUSY)
    for command in ("check", "apply"):
        ran = perfmod(command, "busy.py", *LIMIT)
        assert ran.code == ExitCode.FAILED
        assert ran.err == f"busy.py: failed: {ALONE}\n1 file failed\n"
    assert perfmod("check", ".", *LIMIT).code == ExitCode.OK
    assert path.read_text() == BUSY


@pytest.mark.parametrize(("target", "outcome"), [(".", "skipped"), ("busy.py", "failed")])
def test_time_limit_in_json(write: Write, perfmod: Run, target: str, outcome: str) -> None:
    write("busy.py", BUSY)
    ran = perfmod("check", target, *LIMIT, "--output-format", "json")
    assert ran.code == (ExitCode.OK if outcome == "skipped" else ExitCode.FAILED)
    document = json.loads(ran.out)
    (row,) = document["files"]
    assert (row["outcome"], row["would_change"], row["reason"]) == (outcome, False, ALONE)
    assert document["summary"]["files"][outcome] == 1


def test_files_that_are_read_together_are_left_together(write: Write, perfmod: Run) -> None:
    """What only links them is not spoken of; a file besides is examined."""
    write("train.py", "import torch, engine, notes\ntorch_slow()\n")
    write("engine.py", BUSY)
    write("notes.py", "x = 1\n")
    write("other.py", "torch_slow()\n")
    ran = perfmod("apply", "train.py", "other.py", *LIMIT)
    reason = "not analysed: 2 files that belong together need more than 0.5 s; raise --time-limit"
    assert ran.code == ExitCode.FAILED
    assert ran.err.splitlines() == [
        "other.py:1:1: PM901 slow-call: a slow call",
        f"engine.py: skipped: {reason}",
        f"train.py: failed: {reason}",
        "1 rewrite made in 1 of 4 files",
        "1 file failed, 1 file skipped",
    ]


def test_it_is_said_how_many_files_were_analysed_in_part(
    write: Write, perfmod: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is too large as a whole is analysed file by file."""
    write("train.py", "import torch, engine\ntorch_slow()\n")
    write("engine.py", "import torch\ntorch_slow()\n")
    monkeypatch.setattr(task, "_MOST_WORK", 1)
    ran = perfmod("check", ".", "--no-cache", "--jobs", "1")
    assert ran.out.decode().count("PM901") == 2
    assert "2 files analysed in part: " in ran.err


def test_time_limit_of_the_configuration(write: Write, perfmod: Run) -> None:
    write("pyproject.toml", "[tool.perfmod]\ntime-limit = 0.2\n")
    write("busy.py", BUSY)
    assert "needs more than 0.2 s" in perfmod("check", ".").err
    assert "needs more than 0.3 s" in perfmod("check", ".", "--time-limit", "0.3").err


def test_standard_input_has_a_limit(perfmod_process: RunProcess) -> None:
    ran = perfmod_process("apply", "-", *LIMIT, stdin=BUSY.encode())
    assert (ran.code, ran.out.decode()) == (ExitCode.FAILED, BUSY)
    assert ran.err.startswith(f"<stdin>: failed: {ALONE}\n")


def test_what_was_not_analysed_is_not_remembered_as_clean(
    write: Write, perfmod: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cli_fakes

    write("busy.py", BUSY)
    assert perfmod("check", ".", *LIMIT).code == ExitCode.OK
    monkeypatch.setattr(cli_fakes.BusyCall, "check", cli_fakes._CallRule.check)
    monkeypatch.setattr(cli_fakes.BusyCall, "fast", "torch_done")
    assert perfmod("check", ".", *LIMIT).code == ExitCode.FOUND
