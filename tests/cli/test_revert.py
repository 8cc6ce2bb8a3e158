"""Taking the last apply back."""

from __future__ import annotations

import signal
import stat
from pathlib import Path

import pytest
from cli_fakes.running import Run, RunProcess, Write

from perfmod import journal
from perfmod.errors import ExitCode

HARD = b"\xef\xbb\xbf# \xc3\xa4\r\n\ttorch_slow()  \r\n".replace(b"\t", b"if x:\r\n\t")


def test_every_byte_and_the_mode(write: Write, perfmod: Run) -> None:
    paths = [write("a.py", HARD), write("pkg/b.py", "torch_slow()")]
    paths[1].chmod(0o750)
    assert perfmod("apply", ".").code == ExitCode.OK
    assert b"torch_fast" in paths[0].read_bytes()
    paths[1].chmod(0o640)
    ran = perfmod("revert")
    assert ran.code == ExitCode.OK
    assert "a.py: restored\npkg/b.py: restored\n2 files: 2 restored" in ran.err
    assert paths[0].read_bytes() == HARD
    assert paths[1].read_bytes() == b"torch_slow()"
    assert stat.S_IMODE(paths[1].stat().st_mode) == 0o750


def test_twice(write: Write, perfmod: Run) -> None:
    write("a.py", "torch_slow()\n")
    perfmod("apply", ".")
    perfmod("revert")
    ran = perfmod("revert")
    assert ran.code == ExitCode.USAGE
    assert ran.complaint.startswith("there is nothing to revert in ")


def test_apply_that_changes_nothing_keeps_the_journal(write: Write, perfmod: Run) -> None:
    path = write("a.py", "torch_slow()\n")
    perfmod("apply", ".")
    assert perfmod("apply", ".").err == "nothing to rewrite in 1 file\n"
    perfmod("revert")
    assert path.read_text() == "torch_slow()\n"


def test_apply_that_could_write_nothing_keeps_the_journal(write: Write, perfmod: Run) -> None:
    first, second = write("a.py", "torch_slow()\n"), write("b.py", "torch_slow()\n")
    perfmod("apply", "a.py")
    second.chmod(0o444)
    assert perfmod("apply", "b.py").code == ExitCode.FAILED
    assert perfmod("revert").code == ExitCode.OK
    assert first.read_text() == "torch_slow()\n"


def test_edited_since(write: Write, perfmod: Run) -> None:
    edited, other = write("a.py", "torch_slow()\n"), write("b.py", "torch_slow()\n")
    perfmod("apply", ".")
    edited.write_text("torch_fast(1)\n")
    ran = perfmod("revert")
    assert ran.code == ExitCode.FAILED
    assert "a.py: not restored: was edited after perfmod wrote it, so it was left alone" in ran.err
    assert "2 files: 1 restored, 1 not restored" in ran.err
    assert edited.read_text() == "torch_fast(1)\n"
    assert other.read_text() == "torch_slow()\n"
    edited.write_text("torch_fast()\n")
    assert "1 file: 1 restored" in perfmod("revert").err
    assert edited.read_text() == "torch_slow()\n"


def test_removed_since(write: Write, perfmod: Run) -> None:
    path = write("a.py", "torch_slow()\n")
    perfmod("apply", ".")
    path.unlink()
    ran = perfmod("revert")
    assert ran.code == ExitCode.FAILED
    assert "a.py: not restored: cannot be read: no such file or directory" in ran.err


def test_from_a_subfolder(write: Write, perfmod: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("pkg/a.py", "torch_slow()\n")
    perfmod("apply", ".")
    monkeypatch.chdir(path.parent)
    assert "a.py: restored" in perfmod("revert").err
    assert path.read_text() == "torch_slow()\n"


@pytest.mark.parametrize("written", [0, 1, 2])
def test_killed_in_the_middle(write: Write, perfmod: Run, perfmod_process: RunProcess, written: int) -> None:
    paths = [write(f"{name}.py", "torch_slow()\n") for name in "abc"]
    ran = perfmod_process("apply", ".", CLI_FAKES_DIE_AFTER=str(written))
    assert ran.code == -signal.SIGKILL
    assert [path.read_text() for path in paths].count("torch_fast()\n") == written
    reverted = perfmod("revert")
    assert reverted.code == ExitCode.OK
    assert reverted.err.count("restored\n") == written
    assert reverted.err.count("already as it was before\n") == 3 - written
    assert {path.read_text() for path in paths} == {"torch_slow()\n"}


def test_journal_that_cannot_be_written(
    tmp_path: Path, write: Write, perfmod: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("a.py", "torch_slow()\n")
    (tmp_path / "blocked").write_text("a file where a folder should be")
    monkeypatch.setenv("PERFMOD_STATE_DIR", str(tmp_path / "blocked"))
    ran = perfmod("apply", ".")
    assert ran.code == ExitCode.FAILED
    assert "nothing was changed; set PERFMOD_STATE_DIR to a writable folder" in ran.last_words
    assert path.read_text() == "torch_slow()\n"


@pytest.mark.parametrize("content", [b"{", b"{}", b"[]", b'{"schema_version": 1, "files": [{}]}', b"\xff"])
def test_damaged_journal(project: Path, write: Write, perfmod: Run, content: bytes) -> None:
    path = write("a.py", "torch_slow()\n")
    perfmod("apply", ".")
    journal.journal_path(project).write_bytes(content)
    ran = perfmod("revert")
    assert ran.code == ExitCode.FAILED
    assert "the journal is damaged; nothing was changed" in ran.complaint
    assert path.read_text() == "torch_fast()\n"


def test_journal_of_another_version(project: Path, write: Write, perfmod: Run) -> None:
    write("a.py", "torch_slow()\n")
    perfmod("apply", ".")
    journal.journal_path(project).write_text('{"schema_version": 2}')
    assert "another version of perfmod" in perfmod("revert").complaint
