"""Comments that `check` writes and removes."""

from __future__ import annotations

import notebooks
import pytest
from cli_fakes.running import Run, Write

from perfmod.errors import ExitCode


def test_a_team_starts_from_zero(write: Write, perfmod: Run) -> None:
    """Also what comes up only once something else is silenced; what needs another option stays as it is."""
    before = "x = torch_slow(torch_twice())\ntorch_risky()\n"
    path = write("a b.py", before)
    ran = perfmod("check", ".", "--add-ignore", "--reason", "later")
    assert (ran.code, ran.out) == (ExitCode.OK, b"")
    assert ran.err.splitlines() == [
        "comments changed in 1 file; `perfmod revert` takes them back",
        "nothing to rewrite in 1 file",
        "1 open question: `perfmod apply . --unsafe` answers it with yes",
        "-v shows it, and says why",
        "2 silenced by comments",
    ]
    assert path.read_text() == "x = torch_slow(torch_twice())  # perfmod: ignore[PM901, PM908] later\ntorch_risky()\n"
    perfmod("check", ".", "--add-ignore", "--unsafe")
    assert path.read_text().endswith("torch_risky()  # perfmod: ignore[PM902]\n")
    assert perfmod("revert").code == ExitCode.OK
    assert perfmod("check", ".").err.startswith("nothing to rewrite")


def test_unused_comments_of_others_stay(write: Write, perfmod: Run) -> None:
    path = write("a.py", "torch_twice()\ny = 1  # perfmod: ignore[PM901]\ny = torch_twice()\n")
    ran = perfmod("check", ".", "--add-ignore")
    assert "a.py: warning: line 2: unused `# perfmod: ignore[PM901]`" in ran.err
    assert path.read_text().count("[PM908]\n") == 2
    assert path.read_text().count("[PM901]\n") == 1


def test_a_finding_over_several_files_is_silenced_in_one(write: Write, perfmod: Run) -> None:
    library = write("library.py", "def torch_far(): ...\n")
    write("train.py", "from library import torch_far\n\ntorch_far()\n")
    assert perfmod("check", ".", "--add-ignore").code == ExitCode.OK
    assert library.read_text() == "def torch_far(): ...\n"
    assert perfmod("check", ".").code == ExitCode.OK


def test_in_cells(write: Write, perfmod: Run) -> None:
    cells = ["%%time\nx = 1\ntorch_slow()", "!ls\nx = torch_slow()\n", "torch_slow()"]
    path = write("a.ipynb", notebooks.document(*cells))
    rest = notebooks.others(path.read_bytes())
    assert perfmod("check", ".", "--add-ignore").code == ExitCode.OK
    assert notebooks.others(path.read_bytes()) == rest
    assert notebooks.sources(path.read_bytes()) == [
        "%%time\nx = 1\ntorch_slow()  # perfmod: ignore[PM901]",
        "!ls\nx = torch_slow()  # perfmod: ignore[PM901]\n",
        "torch_slow()  # perfmod: ignore[PM901]",
    ]
    path.write_bytes(path.read_bytes().replace(b"torch_slow", b"torch_fast"))
    assert perfmod("check", ".", "--remove-unused-ignores").code == ExitCode.OK
    assert notebooks.sources(path.read_bytes()) == [cell.replace("slow", "fast") for cell in cells]


def test_unused_comments_are_removed_if_their_rules_ran(write: Write, perfmod: Run) -> None:
    code = "x = 1  # perfmod: ignore[PM901]\ny = 1  # perfmod: ignore\ntorch_slow()\n"
    path = write("a.py", code)
    warned = perfmod("check", ".", "--exit-zero", "--ignore", "PM902")
    assert warned.err.count("unused") == 1
    ran = perfmod("check", ".", "--remove-unused-ignores", "--ignore", "PM902")
    assert (ran.code, ran.out) == (ExitCode.FOUND, b"a.py:3:1: PM901 slow-call: a slow call\n")
    assert "unused" not in ran.err
    assert path.read_text() == code.replace("  # perfmod: ignore[PM901]", "")
    perfmod("revert")
    assert path.read_text() == code


def test_a_file_that_cannot_be_written_fails(write: Write, perfmod: Run) -> None:
    write("a.py", "torch_slow()\n").chmod(0o444)
    done = write("b.py", "torch_slow()\n")
    ran = perfmod("check", ".", "--add-ignore", "--exit-zero")
    assert ran.code == ExitCode.FAILED
    assert "a.py: failed: is read-only; make it writable first\n" in ran.err
    assert "ignore[PM901]" in done.read_text()


@pytest.mark.parametrize(("options", "complaint"), [
    (["--reason", "x"], "--reason stands behind the comments that --add-ignore writes: add it"),
    (["--add-ignore", "--reason", "a\nb"], "--reason has to be one line of text"),
    (["--add-ignore", "--remove-unused-ignores"], "--add-ignore and --remove-unused-ignores are two steps"),
    (["--add-ignore", "--new-only"], "--add-ignore silences all findings"),
])  # fmt: skip
def test_options_that_do_not_go_together(write: Write, perfmod: Run, options: list[str], complaint: str) -> None:
    path = write("a.py", "torch_slow()\n")
    ran = perfmod("check", ".", *options)
    assert ran.code == ExitCode.USAGE
    assert ran.complaint.startswith(complaint)
    assert path.read_text() == "torch_slow()\n"
