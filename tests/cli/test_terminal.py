"""What a terminal gets and a pipe does not: colours, and lines that are wrapped at its width."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import termios
from pathlib import Path

import forked_python
import pytest
from cli_fakes.running import RunProcess, Write
from rich.console import Console

from perfmod.codemods import catalog
from perfmod.report import pages

NAME = "experiments/a_folder_of_some_length/train_the_whole_model.py"
REASON = "open question (--unsafe): the fast one does the same; outside of the training steps that perfmod found"


def on_terminal(project: Path, *arguments: str, width: int = 60, **environment: str) -> str:
    """All that `perfmod` writes where stdout and stderr are a terminal so wide."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    variables = {**os.environ, "TERM": "xterm-256color", **environment}
    variables.pop("COLUMNS", None)
    command = [forked_python.perfmod(), "-m", "cli_fakes", *arguments]
    shown = b""
    with subprocess.Popen(
        command, cwd=project, env=variables, stdin=subprocess.DEVNULL, stdout=follower, stderr=follower
    ):
        os.close(follower)
        # Reading a terminal that nobody writes to any more is an error on Linux, and the end elsewhere.
        with contextlib.suppress(OSError):
            while block := os.read(leader, 65_536):
                shown += block
    os.close(leader)
    return shown.decode().replace("\r\n", "\n")


def plain(shown: str) -> str:
    """The text without the codes of colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", shown)


def is_coloured(shown: str) -> bool:
    """Whether some of it has a colour; bold is none."""
    return re.search(r"\x1b\[[0-9;]*3[0-9]", shown) is not None


def test_lines_are_wrapped_at_the_width(project: Path, write: Write, perfmod_process: RunProcess) -> None:
    """The second line of a finding keeps its indentation; a pipe, and what can be pasted, gets lines as they are."""
    write(NAME, "torch_risky()\n")
    lines = plain(on_terminal(project, "check", ".", "-v")).splitlines()
    assert max(map(len, lines[:-1])) <= 60
    *first, why, again, summary, hint = (line.rstrip() for line in lines)
    assert hint == "1 open question: `perfmod apply . --unsafe` answers it with yes"
    assert "".join(first).replace(" ", "") == f"{NAME}:1:1:PM902risky-call:aslowcall"
    assert f"{why} {again.strip()}" == f"    {REASON}"
    assert re.match(r" {4}\S", again)
    assert summary == "nothing to rewrite in 1 file"
    wide = plain(on_terminal(project, "check", ".", "-v", width=200)).splitlines()
    assert [line.rstrip() for line in wide[:2]] == [f"{NAME}:1:1: PM902 risky-call: a slow call", f"    {REASON}"]
    ran = perfmod_process("check", ".", "-v", COLUMNS="60")
    assert ran.out.decode() == f"{NAME}:1:1: PM902 risky-call: a slow call\n    {REASON}\n"


@pytest.mark.exhaustive
@pytest.mark.parametrize("arguments", [["check", "."], ["apply", ".", "--dry-run"]])
def test_colour_only_on_a_terminal(
    project: Path, write: Write, perfmod_process: RunProcess, arguments: list[str]
) -> None:
    write("bad.py", "torch_slow(\n")
    write("train.py", "torch_slow()\n")
    shown = on_terminal(project, *arguments)
    assert is_coloured(shown)
    bare = on_terminal(project, *arguments, NO_COLOR="1")
    assert not is_coloured(bare)
    assert plain(bare) == plain(shown)
    ran = perfmod_process(*arguments, TERM="xterm-256color")
    assert "\x1b" not in ran.err
    assert b"\x1b" not in ran.out


def test_a_diff_has_colours_and_no_other_line_ends(project: Path, write: Write, perfmod_process: RunProcess) -> None:
    """What is taken away is red, what is new green; a long line stays one, so that it can be copied."""
    write("train.py", f"x = '{'x' * 100}'\ntorch_slow()  # [red]\n")
    shown = on_terminal(project, "apply", "train.py", "--dry-run")
    assert "\x1b[31m-torch_slow()  # [red]\x1b[0m\n\x1b[32m+torch_fast()  # [red]\x1b[0m\n" in shown
    assert "\x1b[36m@@ -1,2 +1,2 @@\x1b[0m\n" in shown
    diff = perfmod_process("apply", "train.py", "--dry-run").out.decode()
    assert diff in plain(shown)


def test_explanations_fit_a_narrow_terminal() -> None:
    """The text of a rule is wrapped anew, not line by line as it stands in the source."""
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    pages.render_page(pages.find("PM207", catalog.rules()), console)
    assert isinstance(console.file, io.StringIO)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    text = lines[lines.index("What it finds") : lines.index("What it writes")]
    assert max(map(len, text)) <= 80
    assert "to stack, pin and copy, for a model that computes with float32 and casts them;" in text
