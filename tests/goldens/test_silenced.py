"""Comments written into goldens silence all that would be rewritten, and taken away again they leave no trace."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import forked_python
import pytest
from golden_harness.golden import goldens

from perfmod.codemods.results import Unused
from perfmod.codemods.silencing import without_unused
from perfmod.codemods.suppress import Suppressions
from perfmod.errors import ExitCode
from perfmod.transforms.source import Source

SAMPLE = [golden for golden in goldens() if golden.head.change][::29]


def perfmod(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    chosen = ("--isolated", "--unsafe", "--low-impact", "--extend-select", "PM203")
    command = [forked_python.perfmod(), "-m", "perfmod", "check", ".", *chosen, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_there_and_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFMOD_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("PERFMOD_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "project"
    folder.mkdir()
    files = {folder / f"{number}.py": golden.before for number, golden in enumerate(SAMPLE)}
    for path, before in files.items():
        path.write_bytes(before)
    ran = perfmod(folder, "--add-ignore")
    assert (ran.returncode, ran.stdout) == (ExitCode.OK, "")
    assert "unused" not in ran.stderr
    commented = {path: path.read_bytes() for path in files}
    assert sum(commented[path] != before for path, before in files.items()) > len(files) / 2
    for path, before in files.items():
        assert ast.dump(ast.parse(commented[path])) == ast.dump(ast.parse(before))
        comments = Suppressions.read(Source.parse(commented[path])).directives
        ours = [Unused(each.offset, each.line, each.kind.value, name) for each in comments for name in each.selectors]
        if b"perfmod:" not in before:
            assert without_unused(commented[path], path.name, ours) == before
