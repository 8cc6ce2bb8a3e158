"""How the disk is read where results depend on it: what was read is noted, so that a later run can tell without
reading whether it would read the same.

A note holds the state of a file or folder (size, times, inode) and a digest of its content, by which a touched file
or a fresh clone is known again. Of a folder, names are the content, without those that nobody looks for.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

State = tuple[int, ...]
"""Kind, size, times of change in ns, inode and device; empty where nothing is."""
Note = tuple[str, State, str]
"""A path, its state when it was read, and the digest of its content."""

_UNSTEADY = 2_000_000_000
"""Nanoseconds: what was changed so shortly before may change again without another time, on any file system."""
_LARGEST = 100_000_000
"""Bytes of a file that anybody reads."""
_KNOWN: State = (-1,)
"""In a note: the state says nothing, only the content does."""
_PASSED_OVER = ("__pycache__", ".git", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints")
"""Folders that come and go in others, and that no walk enters."""
ENDINGS = (".py", ".ipynb", ".yaml", ".yml", ".json", ".sh", ".txt", ".toml", ".cfg")
"""How files are called that somebody looks for."""

_noted: dict[str, State] | None = None
_overlay: Mapping[str, bytes] = {}
_OVERLAID = -2
"""The kind of a file that is overlaid, in its state; the digest of its content follows."""


@contextlib.contextmanager
def noting() -> Iterator[Mapping[str, State]]:
    """Within it, whatever is read is noted: states by path, as they were before the first look."""
    global _noted
    before, _noted = _noted, {}
    try:
        yield _noted
    finally:
        _noted = before


@contextlib.contextmanager
def overlaid(contents: Mapping[Path, bytes]) -> Iterator[None]:
    """Within it, `read` gives these contents of files (real paths) that lie on the disk: an editor has changed them."""
    global _overlay
    before, _overlay = _overlay, {os.fspath(path): data for path, data in contents.items()}
    try:
        yield
    finally:
        _overlay = before


def note(path: str | os.PathLike[str]) -> None:
    """Note a path that is about to be looked at by other means than the functions of this module."""
    if _noted is not None and (text := os.fspath(path)) not in _noted:
        _noted[text] = _state(text)


def exists(path: Path) -> bool:
    """Whether something lies there, be it a link to nowhere."""
    note(path)
    return os.path.lexists(path)


def is_file(path: Path) -> bool:
    """Whether a file lies there."""
    note(path)
    return path.is_file()


def read(path: Path) -> bytes:
    """The bytes of a file. Raises `OSError`."""
    note(path)
    return data if (data := _overlay.get(os.fspath(path))) is not None else path.read_bytes()


def text(path: Path, largest: int) -> str:
    """The text of a file in UTF-8; empty where it is larger, in bytes. Raises `OSError`, `UnicodeDecodeError`."""
    note(path)
    return path.read_text("utf-8") if path.stat().st_size <= largest else ""


def entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """What lies in a folder. Raises `OSError`."""
    note(folder)
    with os.scandir(folder) as listing:
        yield from listing


def matching(folder: Path, patterns: Iterable[str]) -> list[Path]:
    """The files of a folder whose names match one of some patterns, sorted."""
    note(folder)
    return sorted({path for pattern in patterns for path in folder.glob(pattern)})


def settled(noted: Mapping[str, State]) -> list[Note] | None:
    """Notes with the contents; None where something has changed since it was noted."""
    now = time.time_ns()
    found: list[Note] = []
    for path, state in noted.items():
        content = _content(path, state)
        if _state(path) != state:
            return None
        found.append((path, state if _is_steady(state, now) else _KNOWN, content))
    return found


def unchanged(notes: Iterable[Note]) -> list[Note] | None:
    """The notes as they are now, where everything that they speak of is as it was; else None."""
    now = time.time_ns()
    found: list[Note] = []
    for each in notes:
        path, old, content = each
        state = _state(path)
        if state != old:
            if _content(path, state) != content:
                return None
            each = path, state if _is_steady(state, now) else _KNOWN, content
        found.append(each)
    return found


def digest(data: bytes) -> str:
    """Names a content."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _state(path: str) -> State:
    if path in _overlay:
        return _OVERLAID, int(digest(_overlay[path]), 16)
    try:
        found = os.stat(path)  # noqa: PTH116, thousands of them: a `Path` for each would take as long again
    except OSError:
        return ()
    kind = stat.S_IFMT(found.st_mode)
    return kind, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev


def _is_steady(state: State, now: int) -> bool:
    return not state or now - max(state[2:4], default=0) > _UNSTEADY


def _content(path: str, state: State) -> str:
    if not state:
        return ""
    if path in _overlay:
        return digest(_overlay[path])
    try:
        if state[0] == stat.S_IFDIR:
            return digest("\0".join(sorted(_names(path))).encode("utf-8", "surrogateescape"))
        # To read a pipe would wait for somebody who writes to it, and nobody reads what is so large.
        if state[0] != stat.S_IFREG or state[1] > _LARGEST:
            return repr(state)
        return digest(Path(path).read_bytes())
    except OSError:
        return "unreadable"


def _names(folder: str) -> Iterator[str]:
    with os.scandir(folder) as listing:
        for entry in listing:
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.is_symlink():
                yield f"{entry.name}@{os.path.realpath(entry.path)}"
            elif entry.name not in _PASSED_OVER if is_folder else entry.name.endswith(ENDINGS):
                yield f"{entry.name}/" if is_folder else entry.name
