"""The JSON Schema of `evidence.json`, read off the classes of the record."""

from __future__ import annotations

import enum
import inspect
import types
import typing
from typing import Any, TypeAlias

import attrs

from perfmod.verify.evidence import SCHEMA_VERSION, Evidence
from perfmod.verify.report.evidence_json import NON_FINITE

_Type: TypeAlias = Any
"""An annotation, which need not be a class."""
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SIMPLE: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    float: {"$ref": "#/$defs/number"},
}


def json_schema() -> dict[str, Any]:
    """The schema. Fields that nobody knows are allowed, as a later perfmod may have written them."""
    definitions: dict[str, Any] = {"number": {"anyOf": [{"type": "number"}, {"enum": list(NON_FINITE)}]}}
    record = _record(Evidence, definitions)
    record["properties"]["schema"] = {"const": SCHEMA_VERSION}
    record["required"].insert(0, "schema")
    definitions = dict(sorted(definitions.items()))
    return {"$schema": _DIALECT, "title": "perfmod verify: evidence.json", **record, "$defs": definitions}


def _record(kind: _Type, definitions: dict[str, Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    fields = attrs.fields(kind)
    return {
        "description": (inspect.getdoc(kind) or "").partition("\n")[0],
        "type": "object",
        "properties": {field.name: _schema(hints[field.name], definitions) for field in fields},
        "required": [field.name for field in fields if field.default is attrs.NOTHING],
    }


def _schema(kind: _Type, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of an annotated type; classes go into `definitions` once."""
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    origin: _Type = typing.get_origin(kind)
    arguments = typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return {
            "anyOf": [_schema(argument, definitions) for argument in arguments if argument is not type(None)]
            + [{"type": "null"}]
        }
    if origin is tuple:
        if arguments[1:] == (...,):
            return {"type": "array", "items": _schema(arguments[0], definitions)}
        items = [_schema(argument, definitions) for argument in arguments]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if kind.__name__ not in definitions:
        definitions[kind.__name__] = {}  # taken, should the class hold itself
        definitions[kind.__name__] = _enumeration(kind) if issubclass(kind, enum.Enum) else _record(kind, definitions)
    return {"$ref": f"#/$defs/{kind.__name__}"}


def _enumeration(kind: type[enum.Enum]) -> dict[str, Any]:
    return {"description": (inspect.getdoc(kind) or "").partition("\n")[0], "enum": [member.value for member in kind]}
