"""Scripts that ask the terminal: they find one of 80 columns, at which nobody sits."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path

import pytest
from verify_workshop import job

from perfmod.verify import terminal
from perfmod.verify.calling import Call
from perfmod.verify.failures import Kind
from perfmod.verify.running import Ran, Runner
from perfmod.verify.scratch import Scratch
from perfmod.verify.sides import ORIGINAL, Side
from perfmod.verify.tree import Tree

pytestmark = pytest.mark.skipif(not terminal.HAS_TERMINALS, reason="needs pseudo-terminals")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "setup.py").touch()
    return tmp_path


def run(root: Path, code: str) -> Ran:
    """Run the code under the harness, with an environment that tells nothing of a terminal."""
    (root / "train.py").write_text(textwrap.dedent(code))
    environment = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    call = Call(sys.executable, cwd=root, environment=environment)
    side = Side(ORIGINAL, Tree.of(root / "train.py"), Path("train.py"))
    with Scratch.temporary() as scratch:
        return Runner(scratch, call, timeout=300.0, forks=False).run(side, job())


@pytest.mark.parametrize(("asking", "told"), [
    ("import os; print(os.popen('stty size', 'r').read().split())", "['24', '80']"),
    ("import os; print(*os.get_terminal_size())", "80 24"),
    ("import os, sys; print(*os.get_terminal_size(sys.stderr.fileno()))", "80 24"),
    ("import os; print(*os.get_terminal_size(0))", "80 24"),
    ("import shutil; print(*shutil.get_terminal_size((0, 0)))", "80 24"),
    ("import sys; print(sys.stdin.isatty(), repr(sys.stdin.read()), sys.stdin.readlines())", "True '' []"),
    ("import select, sys; print(select.select([sys.stdin], [], [], 0))", "([], [], [])"),
    ("import subprocess; print(subprocess.run('cat').returncode)", "0"),
])  # fmt: skip
def test_the_terminal_answers(root: Path, asking: str, told: str) -> None:
    ran = run(root, asking)
    assert ran.tail == f"{told}\n"


def test_nobody_answers_however_often_one_asks(root: Path) -> None:
    ran = run(
        root,
        """
        import readline, sys
        for _ in range(5000):
            try:
                input()
            except EOFError:
                continue
            sys.exit("somebody was there")
        print(sys.stdin.isatty())
        input("Overwrite? ")
        """,
    )
    assert "True\nOverwrite? " in ran.tail
    assert ran.trouble is not None
    assert ran.trouble.kind is Kind.INPUT_WANTED


def test_breakpoint_that_was_left_in(root: Path) -> None:
    ran = run(root, "breakpoint()\nx = 1\n")
    assert "bdb.BdbQuit" in ran.tail
    assert ran.seconds < 20


def test_what_is_no_terminal_has_no_size(root: Path) -> None:
    ran = run(root, "import os\nwith open('file', 'w') as file: os.get_terminal_size(file.fileno())")
    assert "Inappropriate ioctl" in ran.tail
    closed = run(
        root, "import os\nos.close(1)\ntry: os.get_terminal_size()\nexcept OSError as error: os.write(2, b'none')"
    )
    assert closed.tail.startswith("none")


def test_an_error_comes_after_what_was_printed_before_it(root: Path) -> None:
    ran = run(root, "import sys\nfor n in range(9): print('epoch', n)\nsys.exit('no data in ./data')")
    assert ran.trouble is not None
    assert ran.trouble.kind is Kind.EXITED
    assert ran.trouble.reason == (
        "it exited with status 1 before it had trained: epoch 7 / epoch 8 / no data in ./data"
    )


def test_no_terminals_are_left(root: Path) -> None:
    before = descriptors()
    run(root, "print('hello')")
    with terminal.nobodys():
        assert len(descriptors()) == len(before) + 2
    assert descriptors() == before


def descriptors() -> list[str]:
    """Those of this process that are open."""
    return sorted(path.name for path in Path("/dev/fd").iterdir())


def test_a_machine_without_terminals(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> tuple[int, int]:
        raise OSError("out of pty devices")

    monkeypatch.setattr(os, "openpty", none)
    assert run(root, "import sys\nprint(sys.stdin.isatty(), repr(sys.stdin.read()))").tail == "False ''\n"
