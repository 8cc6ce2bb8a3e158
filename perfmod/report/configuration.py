"""What a configuration says, key by key, and where that comes from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from perfmod import __version__
from perfmod.config_table import KEYS, Config, Kind
from perfmod.records import plain
from perfmod.roots import from_here, shown

if TYPE_CHECKING:
    from rich.console import Console

_SCHEMA_VERSION = 1


@frozen
class KeyRow:
    """One key.

    Attributes:
        value: as JSON and TOML know it; None where nothing is set.
        files: where it comes from, the nearest first; none where it is the default.
        is_extended: for each of these, whether it was taken over by `extend`.
    """

    key: str
    value: Any
    files: tuple[Path, ...]
    is_extended: tuple[bool, ...]

    @property
    def toml(self) -> str:
        """The value as it stands in a TOML file."""
        return _toml(self.value)

    @property
    def origin(self) -> str:
        """Where it comes from, in words."""
        if not self.files:
            return "default"
        return ", ".join(
            f"{'extended from ' if is_extended else ''}{shown(from_here(file))}"
            for file, is_extended in zip(self.files, self.is_extended, strict=True)
        )


def key_rows(config: Config) -> tuple[KeyRow, ...]:
    """The rows of all keys."""
    return tuple(
        KeyRow(
            key,
            _value(getattr(config, field.name), field.metadata["kind"]),
            files := config.sources(key),
            tuple(file != config.path for file in files),
        )
        for key, field in KEYS.items()
    )


def render_json(path: Path, config: Config) -> str:
    """One JSON document, ending in a newline."""
    document = {
        "schema_version": _SCHEMA_VERSION,
        "perfmod": __version__,
        "path": str(path),
        "files": [str(layer.path) for layer in config.layers],
        "settings": {
            row.key: {"value": row.value, "from": [str(file) for file in row.files]} for row in key_rows(config)
        },
    }
    return json.dumps(document, indent=2) + "\n"


def render_table(rows: Iterable[KeyRow], console: Console) -> None:
    """A table on a terminal; in a pipe one line per key, columns separated by tabs."""
    cells = [(row.key, row.toml, row.origin) for row in rows]
    if not console.is_terminal:
        for line in cells:
            console.file.write("\t".join(line) + "\n")
        return
    from rich.table import Table
    from rich.text import Text

    table = Table("key", "value", "from", box=None, header_style="bold")
    for key, value, origin in cells:
        table.add_row(Text(key, no_wrap=True), Text(value), Text(origin, "dim" if origin == "default" else ""))
    console.print(table)


def _value(value: Any, kind: Kind) -> Any:  # noqa: ANN401
    if kind.schema["type"] == "object":
        return {each.pattern: list(each.rules) for each in value}
    return plain(value)


def _toml(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, Mapping):
        if not value:
            return "{}"
        return "{ " + ", ".join(f"{_toml(key)} = {_toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, float):
        return f"{value:g}"
    return shown(json.dumps(value, ensure_ascii=False))
