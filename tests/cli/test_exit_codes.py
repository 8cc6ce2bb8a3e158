"""One test per exit code, and what a mistake looks like."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli_fakes.running import Run, Write

from perfmod import applying
from perfmod.errors import ExitCode


def test_0_apply_worked(write: Write, perfmod: Run) -> None:
    path = write("train.py", "torch_slow()\n")
    assert perfmod("apply", "train.py").code == ExitCode.OK
    assert path.read_text() == "torch_fast()\n"


def test_0_check_found_nothing(write: Write, perfmod: Run) -> None:
    write("train.py", "torch_fast()\n")
    assert perfmod("check", ".").code == ExitCode.OK


@pytest.mark.parametrize(("call", "why"), [
    ("torch_kept", ""),
    ("torch_risky", "open question (--unsafe): the fast one does the same"),
    ("torch_minor", "low impact (--low-impact): the fast one does the same"),
    ("torch_optional", "on request (--extend-select PM903): the fast one does the same"),
])  # fmt: skip
def test_0_check_found_nothing_that_apply_would_rewrite(write: Write, perfmod: Run, call: str, why: str) -> None:
    write("train.py", f"{call}()\n")
    ran = perfmod("check", ".", "-v")
    assert ran.code == ExitCode.OK
    assert why in ran.out.decode()
    assert perfmod("apply", ".").err.splitlines()[0] == "nothing to rewrite in 1 file"


def test_0_if_that_is_wished(write: Write, perfmod: Run) -> None:
    """The findings are printed all the same; what fails is no finding."""
    write("train.py", "torch_slow()\n")
    plain, ran = perfmod("check", "."), perfmod("check", ".", "--exit-zero")
    assert (plain.code, ran.code) == (ExitCode.FOUND, ExitCode.OK)
    assert (plain.out, plain.err) == (ran.out, ran.err)
    assert json.loads(perfmod("check", ".", "--exit-zero", "--output-format", "json").out)["summary"]["fixable"] == 1
    write("bad.py", "torch_slow(\n")
    assert perfmod("check", ".", "--exit-zero").code == ExitCode.FAILED


@pytest.mark.parametrize(("call", "options"), [
    ("torch_slow", []),
    ("torch_risky", ["--unsafe"]),
    ("torch_optional", ["--select", "PM903"]),
])  # fmt: skip
def test_1_check_found_something(write: Write, perfmod: Run, call: str, options: list[str]) -> None:
    """What `apply` with the same options rewrites."""
    path = write("train.py", f"{call}()\n")
    assert perfmod("check", ".", *options).code == ExitCode.FOUND
    assert path.read_text() == f"{call}()\n"
    assert perfmod("apply", ".", *options).code == ExitCode.OK
    assert path.read_text() != f"{call}()\n"
    assert perfmod("check", ".", *options).code == ExitCode.OK


def test_1_although_another_file_failed(write: Write, perfmod: Run) -> None:
    write("bad.py", "torch_slow(\n")
    write("good.py", "torch_slow()\n")
    ran = perfmod("check", ".")
    assert ran.code == ExitCode.FOUND
    assert ran.err.startswith("bad.py: failed: ")
    assert ran.err.endswith("\n1 file failed\n")
    assert perfmod("check", "bad.py").code == ExitCode.FAILED
    write("good.py", "torch_risky()\n")
    assert perfmod("check", ".").code == ExitCode.FAILED


@pytest.mark.parametrize(("arguments", "complaint"), [
    (["aply"], "No such command 'aply'."),
    (["apply"], "Missing argument"),
    (["apply", ""], "a path is empty; . stands for the current folder"),
    (["apply", ".", "--report", "proof"], "--report goes with --verify"),
    (["apply", "--dryrun", "."], "--dry-run"),
    (["apply", "--jobs", "0", "."], "--jobs"),
    (["check", "--output-format", "xml", "."], "xml"),
    (["check", "--time-limit", "0", "."], "--time-limit"),
    (["apply", "--time-limit", "soon", "."], "--time-limit"),
    (["apply", "--exit-zero", "."], "--exit-zero"),
    (["apply", "-", "."], "- stands for standard input"),
    (["explain", "kept-cal"], "did you mean PM904 kept-call?"),
    (["explain", "nonsense"], "`perfmod rules` lists them"),
    (["revert"], "nothing to revert"),
])  # fmt: skip
def test_2_wrong_usage(perfmod: Run, arguments: list[str], complaint: str) -> None:
    ran = perfmod(*arguments)
    assert ran.code == ExitCode.USAGE
    assert complaint in ran.complaint


def test_3_a_file_failed_and_the_others_are_done(write: Write, perfmod: Run) -> None:
    write("bad.py", "torch_slow(\n")
    good = write("good.py", "torch_slow()\n")
    ran = perfmod("apply", ".")
    assert ran.code == ExitCode.FAILED
    assert good.read_text() == "torch_fast()\n"
    assert ran.err.endswith("\n1 rewrite made in 1 of 2 files\n1 file failed\n")


def test_3_internal_error(write: Write, perfmod: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> None:
        raise ZeroDivisionError("by a mistake of ours")

    write("train.py", "torch_slow()\n")
    monkeypatch.setattr(applying, "write", crash)
    ran = perfmod("apply", ".")
    assert ran.code == ExitCode.FAILED
    assert "Traceback" in ran.err
    assert "perfmod: internal error, please report it: ZeroDivisionError('by a mistake of ours')" in ran.err


def test_130_interrupted_while_reading(write: Write, perfmod: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    path = write("train.py", "torch_slow()\n")
    monkeypatch.setattr(applying, "write", interrupt)
    ran = perfmod("apply", ".")
    assert ran.code == ExitCode.INTERRUPTED
    assert ran.last_words == "interrupted"
    assert path.read_text() == "torch_slow()\n"


def test_130_interrupted_while_writing(write: Write, perfmod: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Path] = []

    def interrupt(path: Path, data: bytes, _expected: bytes) -> None:
        if written:
            raise KeyboardInterrupt
        path.write_bytes(data)
        written.append(path)

    for name in ("a.py", "b.py"):
        write(name, "torch_slow()\n")
    with monkeypatch.context() as context:
        context.setattr(applying, "replace", interrupt)
        ran = perfmod("apply", ".")
    assert ran.code == ExitCode.INTERRUPTED
    assert ran.last_words == "interrupted after 1 of 2 files were written; `perfmod revert` takes them back"
    assert perfmod("revert").code == ExitCode.OK
    assert written[0].read_text() == "torch_slow()\n"


def test_141_reader_went_away(project: Path, write: Write) -> None:
    write("train.py", "torch_slow()\n" * 800)
    with subprocess.Popen(
        [sys.executable, "-m", "cli_fakes", "check", "."],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=project,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == ExitCode.BROKEN_PIPE


def test_ctrl_c_of_a_whole_process(project: Path) -> None:
    """Standard input never ends, so the run is waiting when the signal comes."""
    with subprocess.Popen(
        [sys.executable, "-m", "cli_fakes", "apply", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=project,
    ) as process:
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), True)
        # A pipe holds 64 KiB: once more than that is taken, the program has started to read.
        process.stdin.write(b"#" * 200_000)
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        assert process.returncode == ExitCode.INTERRUPTED
        assert out == b""
        assert err == b"perfmod: interrupted\n"
