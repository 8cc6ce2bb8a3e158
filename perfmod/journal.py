"""What the last `apply` changed, written before the first file is touched, so that `revert` can take it back.

One JSON file per project in the user's state folder. It holds the old bytes of every file, none for one that is
new, and the hash of the new ones: a file is given back, or removed, only where it still is what perfmod wrote. A file
that a killed run never came to is recognised by its old bytes, and left.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import Any

import platformdirs
from attrs import frozen

from perfmod import __version__
from perfmod.errors import Failure, UsageMistake, explain
from perfmod.roots import shown
from perfmod.writing import NotWritten, permissions, replace, write_new

STATE_VARIABLE = "PERFMOD_STATE_DIR"
"""The environment variable that moves the journals."""
_SCHEMA = 1


@frozen
class Entry:
    """One file of a journal.

    Attributes:
        path: absolute, links followed.
        mode: its permissions before the run.
        before: its bytes before the run; None where there was no such file.
        after: SHA-256 of what the run wrote, or meant to.
    """

    path: Path
    mode: int
    before: bytes | None
    after: str

    @classmethod
    def of(cls, path: Path, before: bytes | None, after: bytes) -> Entry:
        """The entry of a file that is about to be written. Raises `OSError`."""
        mode = permissions(path) if before is None else stat.S_IMODE(path.stat().st_mode)
        return cls(path, mode, before, _digest(after))

    def to_json(self) -> dict[str, Any]:
        """The entry as a row of the journal."""
        return {
            "path": str(self.path),
            "mode": self.mode,
            "before": None if self.before is None else base64.b64encode(self.before).decode("ascii"),
            "after": self.after,
        }

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Entry:
        """The entry in a row of a journal. Raises `KeyError`, `TypeError` or `ValueError`."""
        before = None if row["before"] is None else base64.b64decode(row["before"])
        return cls(Path(row["path"]), int(row["mode"]), before, str(row["after"]))


@frozen
class Reverted:
    """What `revert` did.

    Attributes:
        restored: files that hold their old bytes again.
        removed: files that the run had made.
        untouched: files that the run never came to write.
        refused: files that stay as they are, with the reason; they remain in the journal.
    """

    restored: tuple[Path, ...]
    removed: tuple[Path, ...]
    untouched: tuple[Path, ...]
    refused: tuple[tuple[Path, str], ...]


def journal_path(root: Path) -> Path:
    """Where the journal of the project at `root` (absolute) lies."""
    folder = os.environ.get(STATE_VARIABLE) or platformdirs.user_state_dir("perfmod", appauthor=False)
    return Path(folder) / "journals" / f"{_digest(os.fsencode(root))[:32]}.json"


class Journal:
    """The journal of a run that is going on; it stands on the disk, in the place of the run before.

    Raises:
        Failure: it cannot be written, so nothing else should be.
    """

    def __init__(self, root: Path, entries: Sequence[Entry]) -> None:
        self._path, self._root, self._entries = journal_path(root), root, entries
        try:
            self._previous = self._path.read_bytes() if self._path.exists() else None
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _store(root, entries)
        except OSError as error:
            place = f"{shown(self._path)}: the journal cannot be written: {explain(error)}"
            hint = f"set {STATE_VARIABLE} to a writable folder"
            raise Failure(f"{place}; nothing was changed; {hint}") from error

    def settle(self, written: Container[Path]) -> None:
        """Forget the files that were not written; a run that wrote nothing leaves the run before in place.

        Where the disk does not take that, the journal stays: `revert` recognises such files all the same.
        """
        kept = [entry for entry in self._entries if entry.path in written]
        with contextlib.suppress(OSError):
            if kept:
                _store(self._root, kept)
            elif self._previous is not None:
                write_new(self._path, self._previous)
            else:
                self._path.unlink()


def revert(root: Path) -> Reverted:
    """Give every file of the last run its old bytes and permissions back, where it was not edited since.

    Raises:
        UsageMistake: there is nothing to revert.
        Failure: the journal cannot be read.
    """
    outcomes = [(entry, _restore(entry)) for entry in _load(root)]
    remaining = [entry for entry, outcome in outcomes if isinstance(outcome, NotWritten)]
    with contextlib.suppress(OSError):
        if remaining:
            _store(root, remaining)
        else:
            journal_path(root).unlink()
    return Reverted(
        restored=tuple(entry.path for entry, outcome in outcomes if outcome is True and entry.before is not None),
        removed=tuple(entry.path for entry, outcome in outcomes if outcome is True and entry.before is None),
        untouched=tuple(entry.path for entry, outcome in outcomes if outcome is False),
        refused=tuple((entry.path, out.reason) for entry, out in outcomes if isinstance(out, NotWritten)),
    )


def _store(root: Path, entries: Iterable[Entry]) -> None:
    document = {
        "schema_version": _SCHEMA,
        "perfmod": __version__,
        "root": str(root),
        "files": [entry.to_json() for entry in entries],
    }
    write_new(journal_path(root), json.dumps(document).encode())


def _load(root: Path) -> Sequence[Entry]:
    path = journal_path(root)
    try:
        document = json.loads(path.read_bytes())
        if document["schema_version"] != _SCHEMA:
            raise Failure(f"{shown(path)}: the journal was written by another version of perfmod")
        return [Entry.from_json(row) for row in document["files"]]
    except FileNotFoundError as error:
        raise UsageMistake(f"there is nothing to revert in {shown(root)}; call it where apply was called") from error
    except OSError as error:
        raise Failure(f"{shown(path)}: the journal cannot be read: {explain(error)}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise Failure(f"{shown(path)}: the journal is damaged; nothing was changed") from error


def _restore(entry: Entry) -> bool | NotWritten:
    """Give one file back: whether that was needed, or why it could not be."""
    try:
        is_gone = entry.before is None and not os.path.lexists(entry.path)
        current = None if is_gone else entry.path.read_bytes()
        if current is None or current == entry.before:
            return False
        if _digest(current) != entry.after:
            return NotWritten("was edited after perfmod wrote it, so it was left alone")
        replace(entry.path, entry.before, current, entry.mode)
    except NotWritten as error:
        return error
    except OSError as error:
        return NotWritten(f"cannot be read: {explain(error)}")
    return True


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
