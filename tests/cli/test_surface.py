"""The command line as a whole: its commands and options, and how fast it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.core
import typer.main
from cli_fakes.running import Run, Write

from perfmod import __version__
from perfmod.cli.main import app
from perfmod.errors import ExitCode

SURFACE = Path(__file__).with_name("surface.txt")


def surface() -> str:
    """One line per command and per parameter."""
    program = typer.main.get_group(app)
    lines = [f"perfmod {' '.join(parameter.opts)}" for parameter in program.params]
    return "\n".join([*lines, *_lines("perfmod", program.commands)]) + "\n"


def _lines(above: str, commands: dict[str, typer.core.TyperCommand]) -> Iterator[str]:
    for name, command in commands.items():
        for parameter in command.params:
            yield f"{above} {name} {' '.join([*parameter.opts, *parameter.secondary_opts])}"
        if not command.params:
            yield f"{above} {name}"
        yield from _lines(f"{above} {name}", getattr(command, "commands", {}))


def test_commands_and_options() -> None:
    """Somebody's script relies on each of them: what goes or gets another name belongs in the changelog."""
    assert surface() == SURFACE.read_text("utf-8")


def test_version(perfmod: Run) -> None:
    ran = perfmod("--version")
    assert (ran.code, ran.out, ran.err) == (ExitCode.OK, f"perfmod {__version__}\n".encode(), "")


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], []])
def test_help(perfmod: Run, arguments: list[str]) -> None:
    ran = perfmod(*arguments)
    assert ran.code == ExitCode.OK
    for word in ("apply", "check", "revert", "rules", "explain", "Exit codes: 0 done"):
        assert word in ran.out.decode()


IMPORTED = """
import sys
from perfmod.cli.main import run
for command in COMMANDS:
    sys.argv = ["perfmod", *command]
    try:
        run()
    except SystemExit as ended:
        assert ended.code in (0, 1), (command, ended.code)
    print(*sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""


def imported(project: Path, *commands: list[str]) -> set[str]:
    """Top-level modules that commands import, run one after the other in a process of their own."""
    program = IMPORTED.replace("COMMANDS", repr(commands))
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        cwd=project,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split())


def test_static_commands_import_no_torch(project: Path, write: Write) -> None:
    write("train.py", "import torch\n\nfor x in torch.utils.data.DataLoader([]):\n    x.backward()\n")
    modules = imported(
        project, ["check", "train.py"], ["apply", "--dry-run", "train.py"], ["apply", "train.py"], ["rules"]
    )
    assert "perfmod" in modules
    assert not modules & {"torch", "numpy", "torchvision"}


def test_help_imports_nothing_heavy(project: Path) -> None:
    assert not imported(project, ["--help"]) & {
        "libcst",
        "attrs",
        "pathspec",
        "platformdirs",
        "unidiff",
        "torch",
    }


def test_help_is_quick(project: Path) -> None:
    """Processor time, since a busy machine says nothing about us; the best of three."""

    def seconds() -> float:
        before = os.times()
        done = subprocess.run([sys.executable, "-m", "perfmod", "--help"], cwd=project, check=True, capture_output=True)
        assert b"Usage: perfmod" in done.stdout
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    assert min(seconds() for _ in range(3)) < 0.3
