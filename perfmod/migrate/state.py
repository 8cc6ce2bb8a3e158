"""The state of a campaign: one SQLite file, written by the one run that holds the campaign's lock.

Every piece of work that is over has a row with the key of all that it depends on: a piece whose key is another by now
counts for nothing, so that nothing is done twice and nothing is passed over for ever.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from attrs import frozen

from perfmod.errors import Failure, UsageMistake
from perfmod.migrate.results import Analysis, Branches, Cloned, Refused, Result, Verification
from perfmod.migrate.targets import Project
from perfmod.records import plain, restored
from perfmod.roots import shown

DATABASE = "state.sqlite"
_VERSION = 1
_SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE projects (name TEXT PRIMARY KEY, position INTEGER NOT NULL, project TEXT NOT NULL);
CREATE TABLE pieces (
    project TEXT NOT NULL, step TEXT NOT NULL, key TEXT NOT NULL, result TEXT NOT NULL, finished TEXT NOT NULL,
    seconds REAL NOT NULL, peak_mib REAL, worker TEXT NOT NULL, revision TEXT NOT NULL, wanted TEXT NOT NULL,
    PRIMARY KEY (project, step)
);
CREATE TABLE tips (project TEXT NOT NULL, branch TEXT NOT NULL, tip TEXT NOT NULL, PRIMARY KEY (project, branch));
"""
_RESULTS: Mapping[str, type[Result]] = {
    kind.__name__: kind for kind in (Analysis, Verification, Branches, Cloned, Refused)
}


@frozen
class Piece:
    """A piece of work that is over.

    Attributes:
        step: `analysis`, `verification SCRIPT` or `branches`.
        key: of all that the result depends on.
        finished: ISO 8601, UTC.
        commit: of an analysis: what was analysed.
        wanted: of an analysis: the steps that are to follow it.
    """

    project: str
    step: str
    key: str
    result: Result
    finished: str
    seconds: float = 0.0
    peak_mib: float | None = None
    worker: str = ""
    commit: str = ""
    wanted: tuple[str, ...] = ()


def now() -> str:
    """The time as pieces hold it."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


class State:
    """What is known of a campaign. Reading is possible at any time, while another process writes."""

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        """Raises `UsageMistake` where the folder holds no campaign, or one that this version cannot read."""
        path = folder / DATABASE
        if not create and not path.is_file():
            raise UsageMistake(f"{shown(folder)}: holds no campaign; `perfmod migrate TARGET --out FOLDER` starts one")
        self._path = path
        with _told(path):
            self._connection = sqlite3.connect(path, isolation_level=None, timeout=30.0)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=FULL")
            version: int = self._connection.execute("PRAGMA user_version").fetchone()[0]
            if version == 0 and create:
                with self._writing():
                    for statement in filter(str.strip, _SCHEMA.split(";")):
                        self._connection.execute(statement)
                    self._connection.execute(f"PRAGMA user_version = {_VERSION}")
                version = _VERSION
        if version != _VERSION:
            raise UsageMistake(f"{shown(folder)}: holds a campaign of another perfmod; start one in a new folder")

    def close(self) -> None:
        """Give the file back."""
        self._connection.close()

    def fact(self, name: str) -> Any:  # noqa: ANN401  # what `keep` was given
        """What is kept under a name; None where nothing is."""
        row = self._rows("SELECT value FROM facts WHERE name = ?", name)
        return json.loads(row[0][0]) if row else None

    def keep(self, name: str, value: object) -> None:
        """Keep something, as JSON. Raises `Failure`."""
        with self._writing():
            self._connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(value)))

    def plan(self, projects: Sequence[Project]) -> None:
        """Make these the projects of the campaign; what is known of others goes. Raises `Failure`."""
        rows = [(each.name, number, json.dumps(plain(each))) for number, each in enumerate(projects)]
        with self._writing():
            self._connection.execute("DELETE FROM projects")
            self._connection.executemany("INSERT INTO projects VALUES (?, ?, ?)", rows)
            for table in ("pieces", "tips"):
                self._connection.execute(f"DELETE FROM {table} WHERE project NOT IN (SELECT name FROM projects)")

    def projects(self) -> list[Project]:
        """The projects in their order."""
        rows = self._rows("SELECT project FROM projects ORDER BY position")
        return [restored(Project, json.loads(text)) for (text,) in rows]

    def pieces(self, project: str) -> dict[str, Piece]:
        """What is done of a project, by step."""
        found = (_piece(row) for row in self._rows("SELECT * FROM pieces WHERE project = ?", project))
        return {piece.step: piece for piece in found}

    def all_pieces(self) -> Iterator[Piece]:
        """What is done of all projects."""
        return map(_piece, self._rows("SELECT * FROM pieces"))

    def finish(self, piece: Piece, tips: Mapping[str, str] | None = None) -> None:
        """Record what a piece came to, and what branches point at now. Raises `Failure`."""
        result = [type(piece.result).__name__, plain(piece.result)]
        values = (piece.project, piece.step, piece.key, json.dumps(result), piece.finished)
        rest = (piece.seconds, piece.peak_mib, piece.worker, piece.commit, json.dumps(piece.wanted))
        with self._writing():
            self._connection.execute(f"INSERT OR REPLACE INTO pieces VALUES ({_MARKS})", (*values, *rest))
            for branch, tip in (tips or {}).items():
                self._connection.execute("INSERT OR REPLACE INTO tips VALUES (?, ?, ?)", (piece.project, branch, tip))

    def forget(self, project: str, steps: Iterable[str]) -> None:
        """Take back what is known of pieces, so that they are done again. Raises `Failure`."""
        with self._writing():
            for step in steps:
                self._connection.execute("DELETE FROM pieces WHERE project = ? AND step = ?", (project, step))

    def tips(self, project: str) -> dict[str, str]:
        """The branches that the campaign has made in a project, with their commits."""
        return dict(self._rows("SELECT branch, tip FROM tips WHERE project = ?", project))

    def _rows(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        with _told(self._path):
            return self._connection.execute(query, values).fetchall()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """All of it, or nothing."""
        with _told(self._path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise


_MARKS = ", ".join("?" * 10)


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turns what goes wrong with the file into one line."""
    try:
        yield
    except sqlite3.Error as error:
        raise Failure(f"{shown(path)}: cannot be read or written: {error}") from error


def _piece(row: tuple[Any, ...]) -> Piece:
    project, step, key, text, finished, seconds, peak_mib, worker, commit, wanted = row
    name, value = json.loads(text)
    result = restored(_RESULTS[name], value)
    rest = finished, seconds, peak_mib, worker, commit, tuple(json.loads(wanted))
    return Piece(project, step, key, result, *rest)
