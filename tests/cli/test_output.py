"""What stands on stdout, and what on stderr."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from pathlib import Path

import cli_fakes
import forked_python
import pytest
from cli_fakes.running import Run, RunProcess, Write

from perfmod.codemods.catalog import PRESETS
from perfmod.errors import ExitCode

ALL = "torch_slow()\ntorch_risky()\ntorch_optional()\ntorch_kept()\ntorch_minor()\n"
TALK = "train.py:1:1: PM901 slow-call: a slow call\n"
SUMMARY = """\
1 rewrite in 1 of 1 file; nothing was written
1 open question: `perfmod apply train.py --unsafe` answers it with yes
1 low impact: `perfmod apply train.py --low-impact` applies it
1 on request: `perfmod apply train.py --extend-select PM903` applies it
-v shows them, and says why
"""
VERBOSE_TALK = """\
train.py:1:1: PM901 slow-call: a slow call
    rewritten (bitwise): the fast one does the same; outside of the training steps that perfmod found
train.py:2:1: PM902 risky-call: a slow call
    open question (--unsafe): the fast one does the same; outside of the training steps that perfmod found
train.py:3:1: PM903 optional-call: a slow call
    on request (--extend-select PM903): the fast one does the same; printed values may differ in the last \
digits; outside of the training steps that perfmod found
train.py:5:1: PM909 minor-call: a slow call
    low impact (--low-impact): the fast one does the same; outside of the training steps that perfmod found
"""
VERBOSE_SUMMARY = SUMMARY.replace(
    "-v shows them, and says why\n", "1 left as it is: `perfmod check train.py --explain-all` says why\n"
)


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
    assert ran.err == SUMMARY.replace("nothing was written", "`perfmod apply train.py` makes it")


def test_apply_says_what_it_wrote(write: Write, perfmod: Run) -> None:
    write("train.py", ALL)
    ran = perfmod("apply", "train.py")
    assert ran.out == b""
    assert ran.err == TALK + SUMMARY.replace(
        "1 rewrite in 1 of 1 file; nothing was written", "1 rewrite made in 1 of 1 file"
    )


@pytest.mark.parametrize("option", ["-v", "--verbose"])
def test_verbose_says_why(write: Write, perfmod: Run, option: str) -> None:
    write("train.py", ALL)
    ran = perfmod("check", "train.py", option)
    assert ran.out.decode() == VERBOSE_TALK
    assert ran.err == VERBOSE_SUMMARY.replace("nothing was written", "`perfmod apply train.py` makes it")
    dry = perfmod("apply", "--dry-run", "train.py", option)
    assert dry.err == VERBOSE_TALK + VERBOSE_SUMMARY
    assert dry.out == perfmod("apply", "--dry-run", "train.py").out
    assert perfmod("apply", "train.py", option).err.startswith(VERBOSE_TALK + "1 rewrite made in 1 of 1 file\n")


def test_numbers(write: Write, perfmod: Run) -> None:
    """One or several of everything that is counted."""
    for name in ("a.py", "b.py"):
        write(name, ALL + ALL)
    write("pkg/c.py", "torch_fast()\n")
    for name in ("bad.py", "worse.py"):
        write(name, "torch_slow(\n")
    assert perfmod("check", ".").err.splitlines()[2:] == [
        "4 rewrites in 2 of 5 files; `perfmod apply .` makes them",
        "4 open questions: `perfmod apply . --unsafe` answers them with yes",
        "4 low impact: `perfmod apply . --low-impact` applies them",
        "4 on request: `perfmod apply . --extend-select PM903` applies them",
        "-v shows them, and says why",
        "2 files failed",
    ]
    assert perfmod("apply", ".").err.splitlines()[6] == "4 rewrites made in 2 of 5 files"
    assert perfmod("check", "pkg").err == "nothing to rewrite in 1 file\n"


def test_rules_that_a_preset_selects_are_named_by_it(tmp_path: Path) -> None:
    script = """\
import torch
from torch import nn

device = torch.device("cuda")
model = nn.Linear(3, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in range(10):
    loss = model(torch.randn(8, 3, device=device)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    (tmp_path / "train.py").write_text(script)
    command = [forked_python.perfmod(), "-m", "perfmod", "apply", "train.py", "--dry-run"]
    first = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    (line,) = [line for line in first.stderr.splitlines() if "--preset" in line]
    assert line.endswith(" on request: `perfmod apply train.py --preset fast` applies them")
    assert not any(f"--extend-select {code}" in first.stderr for code in PRESETS["fast"])
    second = subprocess.run([*command, "--preset", "fast"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert f"{line.partition(' ')[0]} rewrites in 1 of 1 file" in second.stderr


def test_commands_that_are_named_do_what_they_say(write: Write, perfmod: Run) -> None:
    """They can be pasted as they are, in any order, and keep what was given already."""
    path = write("a file.py", ALL)
    hints = [
        line.split("`")[1] for line in perfmod("check", "a file.py").err.splitlines() if "`perfmod apply 'a" in line
    ]
    commands = [shlex.split(hint)[1:] for hint in hints]
    assert [len(command) for command in commands] == [2, 3, 3, 4]
    for command in reversed(commands):
        perfmod(*command)
    assert path.read_text() == "torch_fast()\ntorch_brave()\ntorch_chosen()\ntorch_kept()\ntorch_major()\n"


def test_commands_keep_what_was_given(write: Write, perfmod: Run) -> None:
    write("train.py", ALL)
    given = (
        "--select",
        "PM902",
        "--extend-select",
        "PM903,PM904",
        "--no-low-impact",
        "--time-limit",
        "9",
        "--isolated",
    )
    ran = perfmod("check", "train.py", *given)
    assert f"1 open question: `perfmod apply train.py {' '.join(given)} --unsafe` answers it" in ran.err


def test_a_rule_that_is_selected_is_not_named_again(tmp_path: Path) -> None:
    """One that waits for an answer as well."""
    pictures = Path(__file__).parents[2] / "golden" / "data-set-in-host-memory" / "pictures.in.py"
    shutil.copy(pictures, tmp_path / "train.py")
    command = [forked_python.perfmod(), "-m", "perfmod", "apply", "train.py", "--dry-run"]
    for given, said in (
        (["--select", "PM315"], "--select PM315 --unsafe"),
        (["--select", "PM1,PM315"], "--select PM1,PM315 --unsafe"),
        (["--select", "PM3"], "--select PM3 --extend-select PM315 --unsafe"),
        (["--unsafe"], "--unsafe --extend-select PM315"),
    ):
        ran = subprocess.run([*command, *given], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert f"1 on request: `perfmod apply train.py {said}` applies it" in ran.stderr


def test_one_place_has_one_outcome(write: Write, perfmod: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The strongest: what is rewritten is not left as it is as well, whichever rules say so."""
    for name in ("slow", "kept"):
        write(f"{name}.py", f"torch_{name}()\n")
    monkeypatch.setattr(cli_fakes.KeptCall, "slow", "torch_slow")
    monkeypatch.setattr(cli_fakes.KeptCall, "triggers", frozenset({"torch_slow", "torch_kept"}))
    ran = perfmod("check", ".", "--explain-all")
    assert ran.out.decode().count("slow.py:1:1") == 1
    assert "left as it is" not in ran.out.decode() + ran.err
    assert perfmod("check", ".", "--explain-all", "--select", "PM904").out.decode().count("left as it is") == 2


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
    assert ran.last_words == "missing/speed.patch: cannot be written: no such file or directory"


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
    assert ran.err.endswith("\n1 rewrite made in 1 of 1 file\n1 silenced by comments\n")
    assert path.read_text() == "torch_slow()  # perfmod: ignore[PM901]\ntorch_fast()\n"


def test_rules(perfmod: Run) -> None:
    ran = perfmod("rules")
    assert ran.code == ExitCode.OK
    assert ran.out.splitlines()[0] == b"PM901\tslow-call\tbitwise\trewritten\ta slow call"
    rows = json.loads(perfmod("rules", "--output-format", "json").out)["rules"]
    assert [row["code"] for row in rows] == [f"PM90{number}" for number in range(1, 10)]


@pytest.mark.parametrize("name", ["PM901", "pm901", "slow-call"])
def test_explain(perfmod: Run, name: str) -> None:
    ran = perfmod("explain", name)
    page = ran.out.decode()
    assert ran.code == ExitCode.OK
    assert page.startswith(
        "PM901 slow-call: a slow call\nsyncs; numerics bitwise; rewritten; torch 2.1 or later; stable\n"
    )
    assert "\nWhen this changes results\nNever: both functions are made up.\n" in page
