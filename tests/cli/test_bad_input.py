"""Every bad input gets one clear line and the right exit code."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from cli_fakes.running import Ran, Run, Write

from perfmod import files
from perfmod.config import Options
from perfmod.errors import ExitCode


def failed(ran: Ran, path: str) -> str:
    """The reason of the one file that failed; asserts the exit code and that nothing else went wrong."""
    assert ran.code == ExitCode.FAILED
    prefix = f"{path}: failed: "
    (line,) = [line for line in ran.err.splitlines() if line.startswith(prefix)]
    return line.removeprefix(prefix)


def test_missing_path(write: Write, perfmod: Run) -> None:
    path = write("train.py", "torch_slow()\n")
    ran = perfmod("apply", "train.py", "trian.py")
    assert ran.code == ExitCode.USAGE
    assert ran.complaint == "trian.py: no such file or folder"
    assert path.read_text() == "torch_slow()\n"


def test_dangling_link(project: Path, perfmod: Run) -> None:
    (project / "train.py").symlink_to("gone.py")
    assert perfmod("check", "train.py").complaint == "train.py: no such file or folder"


def test_folder_without_python(write: Write, perfmod: Run) -> None:
    write("notes/readme.md", "torch_slow()")
    ran = perfmod("check", "notes")
    assert ran.code == ExitCode.USAGE
    assert ran.complaint == "notes: no Python file found, apart from ignored or excluded ones"


def test_folder_whose_python_is_ignored(write: Write, perfmod: Run) -> None:
    write(".gitignore", "*.py\n")
    write("train.py", "torch_slow()\n")
    assert perfmod("check", ".").complaint == ".: no Python file found, apart from ignored or excluded ones"


def test_syntax_error(write: Write, perfmod: Run) -> None:
    write("train.py", "x = 1\ntorch_slow(]\n")
    reason = failed(perfmod("check", "train.py"), "train.py")
    assert "line 2" in reason
    assert "torch_slow(]" in reason


def test_a_named_file_is_read_even_if_no_rule_would(write: Write, perfmod: Run) -> None:
    """Whether it was seen in a folder before or not: there, only candidates are parsed."""
    write("pkg/train.py", "x = (\n")
    assert perfmod("check", "pkg").code == ExitCode.OK
    assert "line 1" in failed(perfmod("check", "pkg/train.py"), "pkg/train.py")


def test_python_2(write: Write, perfmod: Run) -> None:
    write("train.py", 'x = torch_slow()\nprint "done"\n')
    reason = failed(perfmod("apply", "train.py"), "train.py")
    assert "line 2" in reason
    assert "Python 2" in reason


def test_undecodable_bytes(write: Write, perfmod: Run) -> None:
    content = b"torch_slow('\xff')\n"
    path = write("train.py", content)
    assert "cannot be decoded" in failed(perfmod("apply", "train.py"), "train.py")
    assert path.read_bytes() == content


def test_null_bytes(write: Write, perfmod: Run) -> None:
    write("train.py", b"torch_slow()\0\n")
    assert "null bytes" in failed(perfmod("apply", "train.py"), "train.py")


def test_enormous_file(write: Write, perfmod: Run) -> None:
    path = write("pkg/train.py", "torch_slow()\n" * 500_000)
    write("pkg/small.py", "torch_slow()\n")
    ran = perfmod("apply", "pkg")
    assert ran.code == ExitCode.OK
    assert "pkg/train.py: skipped: is too large: 6.5 MB, and perfmod reads up to 5 MB" in ran.err
    assert "1 rewrite made in 1 of 2 files\n1 file skipped\n" in ran.err
    assert "is too large" in failed(perfmod("apply", "pkg/train.py"), "pkg/train.py")
    assert path.read_text() == "torch_slow()\n" * 500_000


def test_unreadable_file(write: Write, perfmod: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a patched read, since an administrator can read everything."""
    read_bytes = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path.name == "secret.py":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return read_bytes(path)

    write("secret.py", "torch_slow()\n")
    write("train.py", "torch_slow()\n")
    monkeypatch.setattr(Path, "read_bytes", refuse)
    ran = perfmod("apply", ".", "--dry-run")
    assert failed(ran, "secret.py") == "cannot be read: permission denied"
    assert "train.py:1:1: PM901" in ran.err


def test_unlistable_folder(write: Write, perfmod: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    scandir = os.scandir

    def refuse(path: Path) -> object:
        if Path(path).name == "secret":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return scandir(path)

    write("secret/train.py", "torch_slow()\n")
    write("train.py", "torch_slow()\n")
    monkeypatch.setattr(os, "scandir", refuse)
    assert failed(perfmod("apply", ".", "--dry-run"), "secret") == "cannot be listed: permission denied"


def test_symlink_loop_by_name(project: Path, perfmod: Run) -> None:
    (project / "a.py").symlink_to("b.py")
    (project / "b.py").symlink_to("a.py")
    ran = perfmod("check", "a.py")
    assert ran.code == ExitCode.USAGE
    assert ran.complaint == "a.py: cannot be opened: a loop of symbolic links"


def test_symlink_loops_in_a_folder(project: Path, write: Write, perfmod: Run) -> None:
    write("pkg/train.py", "torch_slow()\n")
    (project / "pkg" / "again").symlink_to("..")
    (project / "pkg" / "loop.py").symlink_to("loop.py")
    ran = perfmod("apply", ".")
    assert ran.code == ExitCode.OK
    assert "1 rewrite made in 1 of 1 file\n" in ran.err


def test_vanished_file(write: Write, perfmod: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    discover = files.discover

    def remove_after(targets: Sequence[str], options: Options, cwd: Path) -> files.Discovery:
        found = discover(targets, options, cwd)
        gone.unlink()
        return found

    gone = write("pkg/gone.py", "torch_slow()\n")
    write("pkg/train.py", "torch_slow()\n")
    monkeypatch.setattr("perfmod.asking.discover", remove_after)
    ran = perfmod("apply", "pkg")
    assert ran.code == ExitCode.OK
    assert "pkg/gone.py: skipped: was removed while perfmod ran" in ran.err


def test_pipe(project: Path, write: Write, perfmod: Run) -> None:
    """Nobody writes to it, so that reading it would wait for ever."""
    write("train.py", "torch_slow()\n")
    os.mkfifo(project / "pipe.py")
    assert failed(perfmod("apply", "pipe.py"), "pipe.py") == "is not a regular file"
    ran = perfmod("apply", ".")
    assert ran.code == ExitCode.OK
    assert "pipe.py: skipped: is not a regular file" in ran.err


def test_notebook(write: Write, perfmod: Run) -> None:
    write("train.ipynb", "{broken")
    assert failed(perfmod("apply", "train.ipynb"), "train.ipynb").startswith("is not a notebook: broken JSON")


@pytest.mark.parametrize(("line", "complaint"), [
    ('selct = ["PM9"]', 'has no key "selct"; did you mean "select"?'),
    ("colour = 1", 'has no key "colour"; the keys are select, extend-select, ignore, per-file-ignores, '),
    ('select = "PM9"', '"select" must be a list of strings'),
    ("ignore = [1]", '"ignore" must be a list of strings'),
    ('unsafe = "yes"', '"unsafe" must be true or false'),
    ("time-limit = 0", '"time-limit" must be a positive number of seconds'),
    ("time-limit = -1.5", '"time-limit" must be a positive number of seconds'),
    ("time-limit = nan", '"time-limit" must be a positive number of seconds'),
    ("time-limit = true", '"time-limit" must be a positive number of seconds'),
    ('time-limit = "20"', '"time-limit" must be a positive number of seconds'),
    ("time_limit = 20", 'has no key "time_limit"; did you mean "time-limit"?'),
    ('exclude = ["data/", "["]', "\"exclude\": invalid pattern '['"),
    ('exclude = ["!"]', "\"exclude\": invalid pattern '!'"),
    ('per-file-ignores = ["PM9"]', '"per-file-ignores" must be a table of patterns, each with a list of rules'),
    ('per-file-ignores = { "a/" = "PM9" }', '"per-file-ignores" must be a table of patterns, each with '),
    ('per-file-ignores = { "[" = ["PM9"] }', "\"per-file-ignores\": invalid pattern '['"),
    ('per-file-ignores = { "!a" = ["PM9"] }', "\"per-file-ignores\": '!a' would take back a pattern"),
    ('per-file-ignores = { "a" = ["PM777"] }', "\"per-file-ignores\": unknown rule 'PM777'"),
    ('force-exclude = "yes"', '"force-exclude" must be true or false'),
    ("workers = 0", '"workers" must be a whole number from 1 on'),
    ("workers = 2.0", '"workers" must be a whole number from 1 on'),
    ("workers = true", '"workers" must be a whole number from 1 on'),
    ('target = "mps"', '"target" must be "cuda" or "portable"'),
    ("target = [1]", '"target" must be "cuda" or "portable"'),
    ('assume = "is-scalar"', '"assume" must be a list of strings'),
    ('assume = ["leaves-arguments"]',
     '"leaves-arguments" is no question that perfmod asks; did you mean "leaves-its-arguments-alone"?'),
    ('assume = ["?"]', '"?" is no question that perfmod asks; the questions are is-tensor, is-scalar, '),
    ("extend = 1", '"extend" must be the path of a TOML file'),
    ('extend = ""', '"extend" must be the path of a TOML file'),
    ("select = [1 2]", "is not valid TOML"),
    ('unsafe = true\nselect = ["PM9" "PM1"]', "line 3"),
])  # fmt: skip
def test_bad_configuration(write: Write, perfmod: Run, line: str, complaint: str) -> None:
    write("pyproject.toml", f"[tool.perfmod]\n{line}\n")
    path = write("train.py", "torch_slow()\n")
    ran = perfmod("apply", ".")
    assert ran.code == ExitCode.USAGE
    assert "pyproject.toml: " in ran.complaint
    assert complaint in ran.complaint
    assert path.read_text() == "torch_slow()\n"


def test_table_that_is_none(write: Write, perfmod: Run) -> None:
    write("pyproject.toml", "[tool]\nperfmod = 1\n")
    write("train.py", "torch_slow()\n")
    assert perfmod("apply", ".").complaint.endswith("tool.perfmod must be a table")


@pytest.mark.parametrize("option", ["--select", "--extend-select", "--ignore"])
def test_unknown_rule(write: Write, perfmod: Run, option: str) -> None:
    write("pyproject.toml", "[tool.perfmod]\n")
    write("train.py", "torch_slow()\n")
    ran = perfmod("apply", ".", option, "PM777")
    assert ran.code == ExitCode.USAGE
    assert ran.complaint.startswith("unknown rule 'PM777'")


def test_unknown_rule_in_the_configuration(write: Write, perfmod: Run) -> None:
    write("pyproject.toml", '[tool.perfmod]\nselect = ["PM777"]\n')
    write("train.py", "torch_slow()\n")
    complaint = perfmod("apply", ".").complaint
    assert "pyproject.toml: [tool.perfmod] \"select\": unknown rule 'PM777'" in complaint


def test_control_characters_in_a_name(write: Write, perfmod: Run) -> None:
    write("a\x1b[31m.py", "torch_slow(\n")
    ran = perfmod("apply", ".")
    assert "\x1b" not in ran.err
    assert "a\\x1b[31m.py: failed" in ran.err
