"""The JSON Schema of `[tool.perfmod]`, read off `Config`: editors complete and check configurations with it."""

from __future__ import annotations

from typing import Any

from perfmod.config_table import KEYS, Config, Kind
from perfmod.records import plain

_DIALECT = "http://json-schema.org/draft-07/schema#"
"""The newest that the TOML language servers know in full."""


def json_schema() -> dict[str, Any]:
    """The schema of the table: that of a `perfmod.toml`, and of `tool.perfmod` in a `pyproject.toml`."""
    return {
        "$schema": _DIALECT,
        "title": "perfmod's configuration",
        "type": "object",
        "properties": {key: _schema(key) for key in KEYS},
        "additionalProperties": False,
    }


def _schema(key: str) -> dict[str, Any]:
    field = KEYS[key]
    kind: Kind = field.metadata["kind"]
    meaning: str = field.metadata["meaning"]
    schema = {"description": f"{meaning[:1].upper()}{meaning[1:]}".replace("`", ""), **kind.schema}
    default = getattr(Config(), field.name)
    if field.default is not None:
        schema["default"] = {} if schema["type"] == "object" else plain(default)
    return schema
