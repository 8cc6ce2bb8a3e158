"""A project to work in, and `perfmod` run in it: in this process, or in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import cli_fakes
import forked_python
import pytest
from cli_fakes.running import Ran, Run, RunProcess, Write

from perfmod.cli.main import run
from perfmod.codemods import catalog

SUPPORT = Path(cli_fakes.__file__).parent.parent


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty git repository, the working directory of the test; state and cache lie beside it."""
    root = tmp_path / "project"
    root.mkdir()
    subprocess.run(["git", "init", "-q", root], check=True)
    monkeypatch.chdir(root)
    monkeypatch.setenv("PERFMOD_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("PERFMOD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(SUPPORT), os.environ.get("PYTHONPATH")))))
    monkeypatch.setenv("COLUMNS", "100")
    for variable in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(variable, raising=False)
    return root


@pytest.fixture
def write(project: Path) -> Write:
    """Writes a file of the project, with the folders above it."""

    def write_file(name: str, content: str | bytes) -> Path:
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


@pytest.fixture
def perfmod(project: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Runs `perfmod` in this process with the made-up rules."""
    monkeypatch.setattr(catalog, "rules", lambda: cli_fakes.RULES)

    def invoke(*arguments: str) -> Ran:
        assert Path.cwd().is_relative_to(project)
        monkeypatch.setattr(sys, "argv", ["perfmod", *arguments])
        capsysbinary.readouterr()
        with pytest.raises(SystemExit) as end:
            run()
        captured = capsysbinary.readouterr()
        assert isinstance(end.value.code, int)
        return Ran(int(end.value.code), captured.out, captured.err.decode())

    return invoke


@pytest.fixture
def perfmod_process(project: Path) -> RunProcess:
    """Runs `perfmod` with the made-up rules in a process of its own."""

    def invoke(*arguments: str, stdin: bytes = b"", **environment: str) -> Ran:
        done = subprocess.run(
            [forked_python.perfmod(), "-m", "cli_fakes", *arguments],
            input=stdin,
            capture_output=True,
            cwd=project,
            env={**os.environ, **environment},
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr.decode())

    return invoke
