"""What earlier runs found out, in one file for all projects of a user.

It holds values by keys, both made by `perfmod.memory`. Several processes may use it at once, and any of them may be
killed: a value is there whole or not at all. A broken file is thrown away, and one that cannot be used costs time only.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from attrs import define, field, frozen

CACHE_VARIABLE = "PERFMOD_CACHE_DIR"
"""The environment variable that moves the cache."""
MOST_BYTES = 200_000_000
"""Bytes of values; beyond, those go that were not used for the longest time."""
_OLDEST = 30 * 24 * 3600
"""Seconds; values that no run used for so long go when the next one writes."""
_USED_AGAIN = 3600
"""Seconds after which a value's use is noted again: most runs only read."""
_PATIENCE = 5.0
"""Seconds to wait for another process."""
_AT_ONCE = 500
_TABLE = "CREATE TABLE IF NOT EXISTS known (key TEXT PRIMARY KEY, used INTEGER, value BLOB)"
_SURPLUS = """
DELETE FROM known WHERE used < :oldest OR key IN (
    SELECT key FROM (SELECT key, sum(length(value)) OVER (ORDER BY used DESC, key) AS total FROM known)
    WHERE total > :most
)
"""

Result = TypeVar("Result")


@frozen
class Extent:
    """How much is remembered.

    Attributes:
        size: bytes on the disk.
        answers: values.
    """

    size: int
    answers: int


def location() -> Path:
    """The file of the cache, which need not be there."""
    folder = os.environ.get(CACHE_VARIABLE)
    if not folder:
        import platformdirs

        folder = platformdirs.user_cache_dir("perfmod", appauthor=False)
    return Path(folder) / "cache.sqlite3"


@define
class Cache:
    """The values of one file. No method raises for what is wrong with it."""

    path: Path = field(factory=location)

    def get(self, keys: Iterable[str]) -> dict[str, bytes]:
        """The values that are known of some keys."""
        wanted = list(dict.fromkeys(keys))

        def found(connection: sqlite3.Connection) -> dict[str, bytes]:
            now = int(time.time())
            values: dict[str, bytes] = {}
            stale: list[str] = []
            for start in range(0, len(wanted), _AT_ONCE):
                part = wanted[start : start + _AT_ONCE]
                marks = ",".join("?" * len(part))
                for key, used, value in connection.execute(f"SELECT * FROM known WHERE key IN ({marks})", part):
                    with contextlib.suppress(zlib.error):
                        values[key] = zlib.decompress(value)
                    if now - used > _USED_AGAIN:
                        stale.append(key)
            if stale:
                with contextlib.suppress(sqlite3.OperationalError):
                    connection.executemany("UPDATE known SET used = ? WHERE key = ?", [(now, key) for key in stale])
            return values

        return self._using(found, {}) if wanted and self._is_there() else {}

    def _is_there(self) -> bool:
        # `Path.exists` raises where a folder above may not be entered.
        return os.path.exists(self.path)  # noqa: PTH110

    def put(self, values: Mapping[str, bytes]) -> None:
        """Remember values."""

        def kept(connection: sqlite3.Connection) -> None:
            now = int(time.time())
            rows = [(key, now, zlib.compress(value, 1)) for key, value in values.items()]
            connection.execute(_TABLE)
            connection.executemany("INSERT OR REPLACE INTO known VALUES (?, ?, ?)", rows)

        if values:
            self._using(kept, None)

    def trim(self) -> None:
        """Forget what is old or too much."""

        def trimmed(connection: sqlite3.Connection) -> None:
            connection.execute(_SURPLUS, {"oldest": int(time.time()) - _OLDEST, "most": MOST_BYTES})

        self._using(trimmed, None)

    def extent(self) -> Extent:
        """How much is remembered."""

        def counted(connection: sqlite3.Connection) -> Extent:
            (answers,) = connection.execute("SELECT count(*) FROM known").fetchone()
            return Extent(self.path.stat().st_size, answers)

        return self._using(counted, Extent(0, 0)) if self._is_there() else Extent(0, 0)

    def clear(self) -> None:
        """Forget everything. Raises `OSError` where the file cannot be removed."""
        for ending in ("-journal", ""):
            self.path.with_name(self.path.name + ending).unlink(missing_ok=True)

    def _using(self, use: Callable[[sqlite3.Connection], Result], otherwise: Result) -> Result:
        """What `use` returns, within one transaction."""
        try:
            with self._connection() as connection, connection:
                return use(connection)
        except sqlite3.OperationalError:
            return otherwise  # busy, read-only, or no place for it
        except sqlite3.DatabaseError:
            with contextlib.suppress(OSError):
                self.clear()
            return otherwise
        except OSError:
            return otherwise

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path, timeout=_PATIENCE)
        try:
            # After a power cut the file may be broken, which costs time only; waiting for the disk costs some always.
            connection.execute("PRAGMA synchronous = OFF")
            yield connection
        finally:
            connection.close()
