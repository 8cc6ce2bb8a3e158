"""What stands on stdout, and what on stderr."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cli_fakes.running import Run, RunProcess, Write

from perfmod.errors import ExitCode

ALL = "torch_slow()\ntorch_risky()\ntorch_optional()\ntorch_kept()\n"
TALK = """\
train.py:1:1: PM901 slow-call [bitwise] a slow call
    rewrite: the fast one does the same (no training step in sight)
train.py:2:1: PM902 risky-call [bitwise] a slow call
    held back, unsafe (--unsafe): the fast one does the same (no training step in sight)
train.py:3:1: PM903 optional-call [precision] a slow call
    held back, opt-in (--select PM903): the fast one does the same; shown figures may differ in the last \
digits (no training step in sight)
train.py:4:1: PM904 kept-call [bitwise] a slow call
    refused: its result is used on line 41 (no training step in sight)
"""
SUMMARY = """\
1 held back; --unsafe applies it
1 held back; --select PM903 applies it
1 file: 1 would change, 0 unchanged, 0 skipped, 0 failed
4 findings: 1 rewritten, 2 held back, 1 refused, 0 advice, 0 suppressed
"""


def git(*arguments: str, cwd: Path, stdin: bytes = b"") -> None:
    """Run git; asserts that it succeeds."""
    done = subprocess.run(["git", *arguments], cwd=cwd, input=stdin, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_dry_run(write: Write, perfmod: Run) -> None:
    path = write("train.py", ALL)
    ran = perfmod("apply", "--dry-run", "train.py")
    assert ran.code == ExitCode.OK
    assert ran.err == TALK + SUMMARY
    assert ran.out.startswith(b"diff --git a/train.py b/train.py\n--- a/train.py\n+++ b/train.py\n@@ ")
    assert path.read_text() == ALL


def test_check_puts_findings_on_stdout(write: Write, perfmod: Run) -> None:
    write("train.py", ALL)
    ran = perfmod("check", "train.py")
    assert ran.out.decode() == TALK
    assert ran.err == SUMMARY


def test_apply_says_what_it_wrote(write: Write, perfmod: Run) -> None:
    write("train.py", ALL)
    ran = perfmod("apply", "train.py")
    assert ran.out == b""
    assert ran.err == TALK.replace("rewrite:", "rewritten:") + SUMMARY.replace("would change", "changed")


def test_flags_that_are_named_do_what_they_say(write: Write, perfmod: Run) -> None:
    path = write("train.py", ALL)
    perfmod("apply", "train.py", "--unsafe")
    perfmod("apply", "train.py", "--select", "PM903")
    assert path.read_text() == "torch_fast()\ntorch_brave()\ntorch_chosen()\ntorch_kept()\n"


@pytest.mark.parametrize("where", [".", "pkg", "pkg/deep"])
def test_git_takes_the_diff_and_gives_it_back(
    project: Path, write: Write, perfmod: Run, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """From the repository's root, wherever perfmod stood: CRLF, tabs, BOM, Latin-1, no newline, odd names."""
    originals = {
        "pkg/deep/crlf.py": b"x = 1\r\n\r\nif x:\r\n\ttorch_slow()\r\n",
        "pkg/deep/bom.py": b"\xef\xbb\xbftorch_slow()\n",
        "pkg/deep/latin.py": b"# coding: latin-1\ntorch_slow('\xe4')\n",
        "pkg/deep/no newline.py": b"x = 1\ntorch_slow()",
        "pkg/deep/form\xc3\xa4.py".encode("latin-1").decode(): b"torch_slow()\n\x0c\ntorch_slow()\n",
    }
    paths = {name: write(name, content) for name, content in originals.items()}
    git("add", ".", cwd=project)
    monkeypatch.chdir(project / where)
    diff = perfmod("apply", "--dry-run", str(project / "pkg")).out
    git("apply", "--check", "-", cwd=project, stdin=diff)
    perfmod("apply", str(project / "pkg"))
    written = {name: path.read_bytes() for name, path in paths.items()}
    assert all(written[name] == content.replace(b"slow", b"fast") for name, content in originals.items())
    git("apply", "--reverse", "-", cwd=project, stdin=diff)
    assert {name: path.read_bytes() for name, path in paths.items()} == originals


def test_patch_file(project: Path, write: Write, perfmod: Run) -> None:
    path = write("train.py", ALL)
    on_stdout = perfmod("apply", "--dry-run", ".").out
    ran = perfmod("apply", "--patch", "speed.patch", ".")
    assert ran.code == ExitCode.OK
    assert ran.out == b""
    assert (project / "speed.patch").read_bytes() == on_stdout
    assert path.read_text() == ALL
    git("apply", "--check", "speed.patch", cwd=project)


def test_patch_file_that_cannot_be_written(write: Write, perfmod: Run) -> None:
    write("train.py", ALL)
    ran = perfmod("apply", "--patch", "missing/speed.patch", ".")
    assert ran.code == ExitCode.FAILED
    assert ran.complaint == "missing/speed.patch: cannot be written: no such file or directory"


def test_stdin(perfmod_process: RunProcess) -> None:
    ran = perfmod_process("apply", "-", stdin=b"torch_slow()\r\n")
    assert ran.code == ExitCode.OK
    assert ran.out == b"torch_fast()\r\n"
    assert "<stdin>:1:1: PM901" in ran.err
    assert perfmod_process("apply", "--dry-run", "-", stdin=b"torch_slow()\n").out.endswith(
        b"-torch_slow()\n+torch_fast()\n"
    )
    assert perfmod_process("check", "-", stdin=b"torch_slow()\n").code == ExitCode.FOUND


def test_stdin_that_fails_passes_through(perfmod_process: RunProcess) -> None:
    ran = perfmod_process("apply", "-", stdin=b"torch_slow(\n")
    assert ran.code == ExitCode.FAILED
    assert ran.out == b"torch_slow(\n"


def test_json(write: Write, perfmod: Run) -> None:
    write("train.py", ALL)
    write("bad.py", "torch_slow(\n")
    dry = perfmod("apply", "--dry-run", ".")
    ran = perfmod("apply", "--dry-run", "--output-format", "json", ".")
    document = json.loads(ran.out)
    assert ran.code == ExitCode.FAILED
    assert ran.err == ""
    assert document["schema_version"] == 1
    assert (document["command"], document["wrote"]) == ("apply", False)
    bad, good = document["files"]
    assert (bad["path"], bad["outcome"], bad["patch"]) == ("bad.py", "failed", None)
    assert "line 1" in bad["reason"]
    assert good == {
        "path": "train.py",
        "outcome": "changed",
        "reason": "",
        "warnings": [],
        "patch": dry.out.decode(),
    }
    assert [(row["code"], row["state"], row["flag"]) for row in document["findings"]] == [
        ("PM901", "rewritten", ""),
        ("PM902", "held-back", "--unsafe"),
        ("PM903", "held-back", "--select PM903"),
        ("PM904", "refused", ""),
    ]
    assert [row["figures_may_differ"] for row in document["findings"]] == [False, False, True, False]
    assert sum(document["summary"]["files"].values()) == len(document["files"])
    assert sum(document["summary"]["findings"].values()) == len(document["findings"])


def test_json_of_a_patch_that_is_not_utf_8(write: Write, perfmod: Run) -> None:
    write("train.py", b"# coding: latin-1\ntorch_slow('\xe4')\n")
    (row,) = json.loads(perfmod("check", "--output-format", "json", ".").out)["files"]
    assert row["patch"] is None
    (row,) = json.loads(perfmod("apply", "--output-format", "json", ".").out)["files"]
    assert (row["outcome"], row["patch"]) == ("changed", None)


@pytest.mark.parametrize("again", [1, 2])
def test_warnings_about_comments(write: Write, perfmod: Run, again: int) -> None:
    write("train.py", "x = 1  # perfmod: ignore[PM777]\n")
    for _ in range(again):
        ran = perfmod("check", ".")
    assert ran.code == ExitCode.OK
    assert ran.err.startswith("train.py: warning: line 1: ")
    assert "PM777" in ran.err


def test_suppressed_findings_are_counted(write: Write, perfmod: Run) -> None:
    path = write("train.py", "torch_slow()  # perfmod: ignore[PM901]\ntorch_slow()\n")
    ran = perfmod("apply", ".")
    assert "2 findings: 1 rewritten, 0 held back, 0 refused, 0 advice, 1 suppressed" in ran.err
    assert path.read_text() == "torch_slow()  # perfmod: ignore[PM901]\ntorch_fast()\n"


def test_rules(perfmod: Run) -> None:
    ran = perfmod("rules")
    assert ran.code == ExitCode.OK
    assert ran.out.splitlines()[0] == b"PM901\tslow-call\tbitwise\tsafe\ta slow call"
    rows = json.loads(perfmod("rules", "--output-format", "json").out)["rules"]
    assert [row["code"] for row in rows] == ["PM901", "PM902", "PM903", "PM904", "PM905", "PM906"]


@pytest.mark.parametrize("name", ["PM901", "pm901", "slow-call"])
def test_explain(perfmod: Run, name: str) -> None:
    ran = perfmod("explain", name)
    page = ran.out.decode()
    assert ran.code == ExitCode.OK
    assert page.startswith("PM901 slow-call: a slow call\nsyncs; numerics bitwise; safe; torch 2.1 or later; stable\n")
    assert "\nWhen this changes results\nNever: both functions are made up.\n" in page


def colours(project: Path, **environment: str) -> bool:
    """Whether there is colour on stderr when it is a terminal."""
    leader, follower = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "cli_fakes", "check", "."],
        stdout=subprocess.DEVNULL,
        stderr=follower,
        cwd=project,
        env={**os.environ, "TERM": "xterm-256color", **environment},
        check=False,
    )
    os.close(follower)
    shown = os.read(leader, 100_000)
    os.close(leader)
    assert done.returncode == ExitCode.FAILED
    assert b"bad.py" in shown
    return re.search(rb"\x1b\[[0-9;]*3[0-9]", shown) is not None


def test_colour_only_on_a_terminal(project: Path, write: Write, perfmod_process: RunProcess) -> None:
    write("bad.py", "torch_slow(\n")
    assert colours(project)
    assert not colours(project, NO_COLOR="1")
    ran = perfmod_process("check", ".", TERM="xterm-256color")
    assert "\x1b" not in ran.err
    assert b"\x1b" not in ran.out
