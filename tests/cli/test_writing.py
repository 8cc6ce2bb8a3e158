"""Either the old or the new file, whole, with its permissions."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest
from cli_fakes.running import Run, Write

from perfmod import writing
from perfmod.errors import ExitCode
from perfmod.writing import NotWritten, replace


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of three bytes, alone in a folder."""
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "train.py"
    path.write_bytes(b"old")
    return path


def alone(path: Path) -> bool:
    """Whether no temporary file was left beside `path`."""
    return list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("mode", [0o644, 0o755, 0o600, 0o4711])
def test_permissions_are_kept(path: Path, mode: int) -> None:
    path.chmod(mode)
    replace(path, b"new", b"old")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert alone(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_ownership_is_kept(path: Path) -> None:
    os.chown(path, 12345, 23456)
    replace(path, b"new", b"old")
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 23456)


def test_ownership_that_cannot_be_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    created = os.stat_result((0o100600, 0, 0, 1, os.geteuid() + 1, os.getegid(), 3, 0, 0, 0))
    monkeypatch.setattr(os, "chown", refuse)
    with pytest.raises(NotWritten, match="belongs to another user"):
        writing._take_over(path, created, None)


def test_read_only_file(path: Path) -> None:
    path.chmod(0o444)
    with pytest.raises(NotWritten, match="is read-only"):
        replace(path, b"new", b"old")
    assert path.read_bytes() == b"old"
    assert alone(path)


def test_read_only_folder(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a patched call, since an administrator can write everywhere."""

    def refuse(**_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    with pytest.raises(NotWritten, match="its folder cannot be written: permission denied"):
        replace(path, b"new", b"old")


def test_edited_in_the_meantime(path: Path) -> None:
    with pytest.raises(NotWritten, match="was edited while perfmod ran"):
        replace(path, b"new", b"older")
    assert path.read_bytes() == b"old"
    assert alone(path)


def test_gone_in_the_meantime(path: Path) -> None:
    path.unlink()
    with pytest.raises(NotWritten, match="was removed"):
        replace(path, b"new", b"old")
    assert not list(path.parent.iterdir())


@pytest.mark.parametrize("step", ["os.fsync", "pathlib.Path.chmod"])
def test_full_disk(path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(step, refuse)
    with pytest.raises(NotWritten, match="cannot be written: no space left on device"):
        replace(path, b"new", b"old")
    assert path.read_bytes() == b"old"
    assert alone(path)


def test_link_stays_a_link(project: Path, write: Write, perfmod: Run) -> None:
    target = write("pkg/train.py", "torch_slow()\n")
    (project / "link.py").symlink_to("pkg/train.py")
    assert perfmod("apply", "link.py").code == ExitCode.OK
    assert (project / "link.py").is_symlink()
    assert target.read_text() == "torch_fast()\n"


def test_failed_write_is_reported(write: Write, perfmod: Run) -> None:
    """Its findings are not counted as rewritten, and the other file is written."""
    locked, other = write("a.py", "torch_slow()\n"), write("b.py", "torch_slow()\n")
    locked.chmod(0o444)
    ran = perfmod("apply", ".")
    assert ran.code == ExitCode.FAILED
    assert "a.py: failed: is read-only; make it writable first" in ran.err
    assert ran.err.endswith("\n1 rewrite made in 1 of 2 files\n1 file failed\n")
    assert other.read_text() == "torch_fast()\n"
    assert locked.read_text() == "torch_slow()\n"
