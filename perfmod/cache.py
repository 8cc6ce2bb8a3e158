"""Remembers which contents of files held nothing to report, so that a second run does not parse them again.

Files that are read together are remembered together: what is found in one may depend on the others.

One flat file per set of rules and settings: SHA-256, then digests of 16 bytes. It is read whole, and replaced
whole by an atomic rename. Two runs at once may lose entries of one of them, which only costs time; a damaged
file is an empty one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterable
from pathlib import Path

import platformdirs

from perfmod import __version__
from perfmod.writing import write_new

CACHE_VARIABLE = "PERFMOD_CACHE_DIR"
"""The environment variable that moves the cache."""
_WIDTH = 16
_CHECKSUM = 32
_MOST = 200_000
"""Entries of one file (3 MB); beyond, only those of the current run are kept."""
_KEPT_SECONDS = 30 * 24 * 3600
"""A file that no run wrote for so long belongs to rules or settings that are gone."""


class Cache:
    """The clean contents under one `fingerprint` of rules and settings."""

    def __init__(self, fingerprint: str) -> None:
        folder = os.environ.get(CACHE_VARIABLE) or platformdirs.user_cache_dir("perfmod", appauthor=False)
        self._path = Path(folder) / f"clean-{fingerprint}"
        self._known = _load(self._path)
        self._seen: set[bytes] = set()

    def is_clean(self, digest: bytes) -> bool:
        """Whether the files of this digest are known to hold nothing to report."""
        key = digest[:_WIDTH]
        clean = key in self._known
        if clean:
            self._seen.add(key)
        return clean

    def add_clean(self, digest: bytes) -> None:
        """Remember that the files of this digest hold nothing to report."""
        self._seen.add(digest[:_WIDTH])

    def save(self) -> None:
        """Write what is new. A cache that cannot be written is no error."""
        if self._seen <= self._known:
            return
        kept = self._seen | _load(self._path)
        body = b"".join(sorted(kept if len(kept) <= _MOST else self._seen))
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_new(self._path, hashlib.sha256(body).digest() + body)
            _remove_old(self._path.parent)


def fingerprint(codes: Iterable[str], settings: object) -> str:
    """Names the rules and settings that results depend on, and the code of the rules itself."""
    parts = [__version__, *sorted(codes), repr(settings), *_rule_sources()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def _rule_sources() -> list[str]:
    """Place, size and time of our own modules: an edited or upgraded rule is another rule."""
    package = Path(__file__).parent
    found = []
    for folder in ("codemods", "transforms"):
        for path in sorted((package / folder).rglob("*.py")):
            state = path.stat()
            found.append(f"{path} {state.st_size} {state.st_mtime_ns}")
    return found


def _load(path: Path) -> set[bytes]:
    try:
        data = path.read_bytes()
    except OSError:
        return set()
    body = data[_CHECKSUM:]
    if len(body) % _WIDTH or hashlib.sha256(body).digest() != data[:_CHECKSUM]:
        return set()
    return {body[start : start + _WIDTH] for start in range(0, len(body), _WIDTH)}


def _remove_old(folder: Path) -> None:
    for path in folder.glob("clean-*"):
        if time.time() - path.stat().st_mtime > _KEPT_SECONDS:
            path.unlink(missing_ok=True)
