"""The JSON Schema of data classes, read off their annotations and docstrings."""

from __future__ import annotations

import enum
import inspect
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeAlias

import attrs

_Type: TypeAlias = Any
"""An annotation, which need not be a class."""
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SIMPLE: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    float: {"$ref": "#/$defs/number"},
}


def document(title: str, record: dict[str, Any], definitions: dict[str, Any], identifier: str = "") -> dict[str, Any]:
    """A whole schema of a record and of the classes in it; `identifier` is its `$id`."""
    head = {"$schema": _DIALECT, **({"$id": identifier} if identifier else {}), "title": title}
    return {**head, **record, "$defs": dict(sorted(definitions.items()))}


def record(kind: _Type, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of an attrs class; classes of its fields go into `definitions` once.

    What has a default is not required. `definitions` has to hold `number` where there are fields of type float.
    """
    hints = typing.get_type_hints(kind)
    fields = attrs.fields(kind)
    return {
        "description": _summary(kind),
        "type": "object",
        "properties": {field.name: _schema(hints[field.name], definitions) for field in fields},
        "required": [field.name for field in fields if field.default is attrs.NOTHING],
    }


def _schema(kind: _Type, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of an annotated type."""
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
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _schema(arguments[1], definitions)}
    if kind.__name__ not in definitions:
        definitions[kind.__name__] = {}  # taken, should the class hold itself
        definitions[kind.__name__] = _enumeration(kind) if issubclass(kind, enum.Enum) else record(kind, definitions)
    return {"$ref": f"#/$defs/{kind.__name__}"}


def _enumeration(kind: type[enum.Enum]) -> dict[str, Any]:
    return {"description": _summary(kind), "enum": [member.value for member in kind]}


def _summary(kind: _Type) -> str:
    return (inspect.getdoc(kind) or "").partition("\n")[0]
