"""Writing a file so that at any moment either the old or the new one is there, whole."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from perfmod.errors import explain

_PATIENCE = 10.0
"""Seconds to wait for somebody else who writes the same file, which takes milliseconds."""
_PREFIX = ".perfmod-"
_TEMPORARY = re.compile(rf"{re.escape(_PREFIX)}[a-z0-9_]{{8}}")
_STALE = 3600.0
"""Seconds after which nobody writes a temporary file any more."""


class NotWritten(Exception):
    """The file is as it was. `reason` is one line."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def replace(path: Path, data: bytes | None, expected: bytes | None, mode: int | None = None) -> None:
    """Put `data` in the place of `expected`, the whole content of the file that lies at `path` (no link).

    Permissions and ownership are kept; `mode` sets other permissions. None stands for no file: it is made, or removed.

    Raises:
        NotWritten: it is read-only, was edited or removed since it was read, or the disk does not take it.
    """
    with _reasons():
        if expected is None:
            _require_free(path)
            if data is not None:
                write_new(path, data, permissions(path))
            return
        state = _writable(path)
        if data is None:
            _require(path, expected)
            path.unlink()
            _sync_folder(path.parent)
            return
        with _temporary(path.parent, data) as temporary:
            _take_over(temporary, state, mode)
            _require(path, expected)
            temporary.replace(path)
        _sync_folder(path.parent)


def check(path: Path, expected: bytes | None) -> None:
    """Raise `NotWritten` where `replace` would, as far as that can be told before it is tried."""
    with _reasons():
        if expected is None:
            _require_free(path)
        else:
            _writable(path)
            _require(path, expected)
        if not os.access(path.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


@contextlib.contextmanager
def _reasons() -> Iterator[None]:
    """Turns errors of the system into reasons."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotWritten("was removed while perfmod ran") from error
    except PermissionError as error:
        raise NotWritten(f"its folder cannot be written: {explain(error)}") from error
    except OSError as error:
        raise NotWritten(f"cannot be written: {explain(error)}") from error


def _writable(path: Path) -> os.stat_result:
    state = path.stat()
    if not state.st_mode & 0o222 or not os.access(path, os.W_OK):
        raise NotWritten("is read-only; make it writable first")
    return state


def _require(path: Path, expected: bytes) -> None:
    if path.read_bytes() != expected:
        raise NotWritten("was edited while perfmod ran, so it was left alone; run perfmod again")


def _require_free(path: Path) -> None:
    if os.path.lexists(path):
        raise NotWritten("was made by somebody else while perfmod ran, so it was left alone; run perfmod again")


def write_new(path: Path, data: bytes, mode: int | None = None) -> None:
    """Write a file of our own, or replace it. Raises `OSError`, and leaves the old one then.

    Nobody else can read it unless `mode` sets other permissions.
    """
    with _temporary(path.parent, data) as temporary:
        if mode is not None:
            temporary.chmod(mode)
        temporary.replace(path)
    _sync_folder(path.parent)


def permissions(path: Path) -> int:
    """Those that a file has, or that a new one gets."""
    if path.exists():
        return stat.S_IMODE(path.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Within it, nobody else is within it for the same file, in this process or another; a lock lies beside the file.

    The system gives back what a killed process locked. Raises `NotWritten` where somebody else keeps the lock for some
    seconds, and `OSError`.
    """
    lock = path.with_name(f"{path.name}.lock")
    deadline = time.monotonic() + _PATIENCE
    while (descriptor := _locked(lock)) is None:
        if time.monotonic() > deadline:
            raise NotWritten("cannot be written: another perfmod is writing it, and does not end")
        time.sleep(0.01)
    try:
        yield
    finally:
        if sys.platform != "win32":
            lock.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(lock: Path) -> int | None:
    """The descriptor of a lock that is ours until it is closed; None where somebody else has it. Raises `OSError`."""
    if sys.platform == "win32":
        with contextlib.suppress(FileExistsError, PermissionError):
            return os.open(lock, os.O_CREAT | os.O_EXCL | os.O_TEMPORARY)
        return None
    import fcntl

    descriptor = os.open(lock, os.O_CREAT | os.O_RDWR, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Whoever had it before has removed it meanwhile, and the next one makes another.
        if os.path.samestat(os.fstat(descriptor), lock.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def remove_stale(folder: Path) -> None:
    """Remove the temporary files that killed runs left in a folder: one lives for moments, and these are hours old."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if _TEMPORARY.fullmatch(path.name) and time.time() - path.stat().st_mtime > _STALE:
                path.unlink()


@contextlib.contextmanager
def _temporary(folder: Path, data: bytes) -> Iterator[Path]:
    """The path of a file that holds `data` on the disk; removed at the end unless it was renamed."""
    descriptor, name = tempfile.mkstemp(prefix=_PREFIX, dir=folder)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _take_over(temporary: Path, state: os.stat_result, mode: int | None) -> None:
    """Give the new file the old one's owner, then its permissions, whose set-id bits a new owner clears."""
    created = temporary.stat()
    if (created.st_uid, created.st_gid) != (state.st_uid, state.st_gid):
        try:
            os.chown(temporary, state.st_uid, state.st_gid)
        except PermissionError as error:
            raise NotWritten("belongs to another user, and replacing it would change its owner") from error
    temporary.chmod(stat.S_IMODE(state.st_mode) if mode is None else mode)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself survive a power cut, where the system lets a folder be opened."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
