"""The record as strict JSON, and back.

JSON knows neither NaN nor infinities: they stand as the strings `NaN`, `Infinity` and `-Infinity`, and only where a
number is due. What a later version of perfmod added to the record is passed over; a document of a later schema version
is refused, because fields that are known may mean something else there.
"""

from __future__ import annotations

import enum
import json
import math
import re
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

import attrs

from perfmod.verify.evidence import SCHEMA_VERSION, Evidence

NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

_Record = TypeVar("_Record")
_Json: TypeAlias = Any
"""What `json` gives and takes."""
_Type: TypeAlias = Any
"""An annotation, which need not be a class."""
_NUMBER = r'(?:-?[0-9][0-9.e+-]*|"NaN"|"-?Infinity"),?'
_NUMBERS = re.compile(rf"\[\n\s+((?:{_NUMBER}\n\s*)+)\]")
"""An array of nothing but numbers, over several lines; a string cannot look so, since it holds no bare line end."""


class NotEvidence(ValueError):
    """A text that is no record of a verification, or not one that this version can read; says where."""


def render(evidence: Evidence) -> str:
    """The document, ending in a newline; arrays of numbers take one line."""
    fields = _plain(evidence)
    document = {"schema": fields.pop("schema"), **fields}
    text = json.dumps(document, indent=2, allow_nan=False)
    return _NUMBERS.sub(lambda match: f"[{' '.join(match[1].split())}]", text) + "\n"


def load(text: str) -> Evidence:
    """The record that `render` wrote. Raises `NotEvidence`."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotEvidence(f"not valid JSON: {error}") from error
    version: _Json = document.get("schema") if isinstance(document, dict) else None
    if not _is_whole(version) or version < 1:
        raise NotEvidence("not a record of a verification: it has no schema version")
    if version > SCHEMA_VERSION:
        raise NotEvidence(f"schema version {version} is from a later perfmod; this one reads up to {SCHEMA_VERSION}")
    return _record(Evidence, document, "")


def _plain(value: object) -> _Json:
    """`value` in the types that JSON has."""
    kind: _Type = type(value)
    if attrs.has(kind):
        return {field.name: _plain(getattr(value, field.name)) for field in attrs.fields(kind)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _record(kind: type[_Record], value: _Json, where: str) -> _Record:
    if not isinstance(value, Mapping):
        raise _wrong(where, f"{kind.__name__}")
    hints = typing.get_type_hints(kind)
    given: dict[str, Any] = {}
    for field in attrs.fields(typing.cast("_Type", kind)):
        inside = f"{where}.{field.name}" if where else field.name
        if field.name in value:
            given[field.name] = _value(hints[field.name], value[field.name], inside)
        elif field.default is attrs.NOTHING:
            raise NotEvidence(f"{inside}: is missing")
    return kind(**given)


def _value(kind: _Type, value: _Json, where: str) -> object:
    """`value` as the annotated type `kind` has it; `where` names it in errors."""
    origin: _Type = typing.get_origin(kind)
    arguments = typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        (inner,) = (argument for argument in arguments if argument is not type(None))
        return None if value is None else _value(inner, value, where)
    if origin is tuple:
        return _tuple(arguments, value, where)
    if attrs.has(kind):
        return _record(kind, value, where)
    if issubclass(kind, enum.Enum):
        names = [member.value for member in kind]
        if value not in names:
            raise _wrong(where, f"one of {', '.join(names)}")
        return kind(value)
    return _scalar(kind, value, where)


def _tuple(arguments: tuple[Any, ...], value: _Json, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise _wrong(where, "an array")
    kinds = [arguments[0]] * len(value) if arguments[1:] == (...,) else list(arguments)
    if len(kinds) != len(value):
        raise _wrong(where, f"an array of {len(kinds)}")
    return tuple(
        _value(kind, item, f"{where}[{index}]") for index, (kind, item) in enumerate(zip(kinds, value, strict=True))
    )


def _scalar(kind: type, value: _Json, where: str) -> object:
    if kind is float:
        if isinstance(value, str) and value in NON_FINITE:
            return NON_FINITE[value]
        if isinstance(value, float) or _is_whole(value):
            return float(value)
        raise _wrong(where, "a number")
    if kind is int and _is_whole(value):
        return value
    if kind in (str, bool) and isinstance(value, kind):
        return value
    raise _wrong(where, {int: "a whole number", str: "a string", bool: "true or false"}[kind])


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _wrong(where: str, wanted: str) -> NotEvidence:
    return NotEvidence(f"{where or 'the document'}: {wanted} is expected")
