"""Notebooks on the command line: found, examined, shown, written and given back like scripts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import notebooks
import pytest
from cli_fakes.running import Run, RunProcess, Write

from perfmod.errors import ExitCode

NOTEBOOK = notebooks.document(
    notebooks.text("# Title"), "%%time\nx = 1\ntorch_slow()\ntorch_risky()", "!ls\ntorch_kept()", indent=2, end=""
)
TALK = """\
train.ipynb:cell 2:3:1: PM901 slow-call: a slow call
    rewritten (bitwise): the fast one does the same; outside of the training steps that perfmod found
train.ipynb:cell 2:4:1: PM902 risky-call: a slow call
    open question (--unsafe): the fast one does the same; outside of the training steps that perfmod found
"""


def test_findings_name_cells(write: Write, perfmod: Run) -> None:
    write("train.ipynb", NOTEBOOK)
    ran = perfmod("check", ".", "-v")
    assert ran.code == ExitCode.FOUND
    assert ran.out.decode() == TALK
    assert ran.err.splitlines()[0] == "1 rewrite in 1 of 1 file; `perfmod apply .` makes it"
    assert perfmod("check", ".").out.decode() == TALK.splitlines(keepends=True)[0]


def test_json_names_cells(write: Write, perfmod: Run) -> None:
    write("train.ipynb", NOTEBOOK)
    write("train.py", "torch_slow()\n")
    rows = json.loads(perfmod("check", ".", "--output-format", "json").out)["findings"]
    places = [(row["path"], row["cell"], row["line"], row["column"]) for row in rows]
    assert places == [
        ("train.ipynb", 2, 3, 1),
        ("train.ipynb", 2, 4, 1),
        ("train.ipynb", 3, 2, 1),
        ("train.py", None, 1, 1),
    ]


def test_there_and_back(project: Path, write: Write, perfmod: Run) -> None:
    """The diff is one that git takes, what is written is what it says, and revert restores every byte."""
    path = write("my notes/train.ipynb", NOTEBOOK)
    diff = perfmod("apply", ".", "--dry-run").out
    assert perfmod("apply", ".", "--patch", "p.diff").code == ExitCode.OK
    assert (project / "p.diff").read_bytes() == diff
    assert path.read_bytes() == NOTEBOOK
    changed = [line for line in diff.splitlines()[3:] if line[:1] in b"+-"]
    assert changed == [rb'-        "torch_slow()\n",', rb'+        "torch_fast()\n",']

    subprocess.run(["git", "apply", "p.diff"], check=True, cwd=project)
    patched = path.read_bytes()
    assert patched == NOTEBOOK.replace(b"torch_slow", b"torch_fast")
    subprocess.run(["git", "apply", "-R", "p.diff"], check=True, cwd=project)
    assert path.read_bytes() == NOTEBOOK

    path.chmod(0o640)
    assert perfmod("apply", ".").code == ExitCode.OK
    assert path.read_bytes() == patched
    assert perfmod("apply", ".").err.startswith("nothing to rewrite in 1 file\n")
    assert perfmod("revert").code == ExitCode.OK
    assert path.read_bytes() == NOTEBOOK
    assert path.stat().st_mode & 0o777 == 0o640


def test_cells_of_one_string_stay_that(project: Path, write: Write, perfmod: Run) -> None:
    """The diff is the one line of the file, and git and revert agree about every byte."""
    cell = notebooks.code(["import torch\nx = 'é'\ntorch_slow()\n"])
    other = notebooks.code([]) | {"source": "y = 1\ntorch_slow()"}
    path = write("train.ipynb", notebooks.document(cell, "z = 1\ntorch_slow()", other))
    before = path.read_bytes()
    diff = perfmod("apply", ".", "--dry-run").out
    assert perfmod("apply", ".").code == ExitCode.OK
    assert path.read_bytes() == before.replace(b"torch_slow", b"torch_fast")
    cells = json.loads(path.read_bytes())["cells"]
    assert [type(each["source"]) for each in cells] == [list, list, str]
    assert [len(each["source"]) for each in cells[:2]] == [1, 2]
    added, removed = ([line for line in diff.splitlines()[3:] if line[:1] == sign] for sign in (b"+", b"-"))
    assert (len(added), len(removed)) == (3, 3)
    subprocess.run(["git", "apply", "-R", "-"], input=diff, check=True, cwd=project)
    assert path.read_bytes() == before


@pytest.mark.parametrize(("data", "named", "found"), [
    (b"{torch_slow", "failed: is not a notebook: broken JSON", "failed: is not a notebook: broken JSON"),
    (b"", "failed: is not a notebook: it is empty", ""),
    (b'{"cells": [1', "failed: is not a notebook: broken JSON", ""),
    (notebooks.document("torch_slow(", "x"), "failed: line 1 of cell 1", "skipped: line 1 of cell 1"),
    (notebooks.document("torch_slow()", "First we train, then we look."),
     "failed: line 1 of cell 2, column 7: syntax error: First we train",
     "skipped: line 1 of cell 2, column 7: syntax error: First we train"),
    (notebooks.document("x = (", "y"), "failed: line 1 of cell 1", ""),
    (notebooks.document("torch_slow()", metadata={"kernelspec": {"language": "R"}}),
     "failed: is a notebook in R, not in Python", "skipped: is a notebook in R, not in Python"),
    (notebooks.document("torch_slow()", nbformat=3),
     "failed: is a notebook of format 3: save it with a current Jupyter to convert it",
     "skipped: is a notebook of format 3"),
])  # fmt: skip
def test_what_cannot_be_read(write: Write, perfmod: Run, data: bytes, named: str, found: str) -> None:
    """A failure where somebody gave it by name; in a folder only a broken file, if rules would look into it."""
    write("a.ipynb", data)
    for target, expected in (("a.ipynb", named), (".", found)):
        ran = perfmod("apply", target)
        lines = [line for line in ran.err.splitlines() if line.startswith("a.ipynb: ")]
        assert len(lines) == bool(expected)
        assert all(line.startswith(f"a.ipynb: {expected}") for line in lines)
        assert ran.code == (ExitCode.FAILED if expected.startswith("failed") else ExitCode.OK)


def test_checkpoints_are_read_if_they_are_named(write: Write, perfmod: Run) -> None:
    write("train.ipynb", NOTEBOOK)
    path = write(".ipynb_checkpoints/train-checkpoint.ipynb", NOTEBOOK)
    assert "1 rewrite made in 1 of 1 file\n" in perfmod("apply", ".").err
    assert path.read_bytes() == NOTEBOOK
    assert "1 rewrite made in 1 of 1 file\n" in perfmod("apply", str(path)).err
    assert path.read_bytes() != NOTEBOOK


def test_the_same_bytes_as_a_script_are_another_file(write: Write, perfmod: Run) -> None:
    """JSON may be Python, with nothing to find in it; what the cache knows of that is nothing about notebooks."""
    data = notebooks.document("x = 'torch_slow'", "torch_slow()").replace(b"null", b"0")
    write("a.py", data)
    write("b.ipynb", data)
    assert perfmod("check", "a.py").code == ExitCode.OK
    assert perfmod("check", "b.ipynb").code == ExitCode.FOUND


def test_a_clean_notebook_is_remembered(write: Write, perfmod: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    write("train.ipynb", notebooks.document("import torch_slow", "x = 1"))
    assert perfmod("check", ".").code == ExitCode.OK
    monkeypatch.setattr("perfmod.task.Task.run", None)
    assert perfmod("check", ".").code == ExitCode.OK


def test_large_outputs_do_not_matter(write: Write, perfmod: Run) -> None:
    picture = notebooks.code(
        "torch_slow()", outputs=[{"data": {"image/png": "A" * 8_000_000}, "output_type": "display_data"}]
    )
    path = write("train.ipynb", notebooks.document("import torch", picture))
    before = path.read_bytes()
    assert perfmod("apply", "train.ipynb").code == ExitCode.OK
    assert path.read_bytes() == before.replace(b"torch_slow", b"torch_fast")


def test_standard_input(perfmod_process: RunProcess) -> None:
    ran = perfmod_process("apply", "-", stdin=NOTEBOOK)
    assert ran.out == NOTEBOOK.replace(b"torch_slow", b"torch_fast")
    assert ran.err.startswith("<stdin>.ipynb:cell 2:3:1: PM901")


def test_notebooks_are_not_verified(write: Write, perfmod: Run) -> None:
    write("train.ipynb", NOTEBOOK)
    for command in (["verify", "train.ipynb"], ["apply", "train.ipynb", "--verify"]):
        ran = perfmod(*command)
        assert ran.code == ExitCode.USAGE
        assert "is a notebook; verify the script that `jupyter nbconvert --to script` makes" in ran.err


def test_a_notebook_is_read_with_what_it_imports(write: Write, perfmod: Run) -> None:
    write("lib.py", "torch_slow()\n")
    write("train.ipynb", notebooks.document("from lib import *", "torch_slow()"))
    assert "2 rewrites made in 2 of 2 files\n" in perfmod("apply", "train.ipynb").err


@pytest.mark.parametrize("arguments", [["--help"], ["check", "."]])
def test_nbformat_is_not_imported_without_need(write: Write, perfmod_process: RunProcess, arguments: list[str]) -> None:
    write("train.py", "torch_slow()\n")
    write("notes.ipynb", notebooks.document("x = 1"))
    ran = perfmod_process(*arguments, PYTHONPROFILEIMPORTTIME="1")
    imported = {line.rpartition("|")[2].strip() for line in ran.err.splitlines() if line.startswith("import time:")}
    assert "perfmod" in imported
    assert not {name for name in imported if name.startswith(("nbformat", "perfmod.transforms.notebook.source"))}


def test_help_mentions_notebooks() -> None:
    done = subprocess.run([sys.executable, "-m", "perfmod", "check", "--help"], capture_output=True, check=True)
    assert b"notebooks" in done.stdout
