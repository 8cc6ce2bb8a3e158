"""Data classes as JSON, by the positions of their fields, and back by their types. Nothing that is read can run."""

from __future__ import annotations

import base64
import enum
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

import attrs

Record = TypeVar("Record")
_Reader = Callable[[Any], Any]


def plain(value: object) -> Any:  # noqa: ANN401
    """A value as JSON knows it; sets are sorted."""
    if value is None or type(value) in (str, int, bool, float):
        return value
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (tuple, list)):
        return [plain(each) for each in value]
    if isinstance(value, (set, frozenset)):
        return sorted(plain(each) for each in value)
    if isinstance(value, Mapping):
        if all(type(key) is str for key in value):
            return {key: plain(each) for key, each in value.items()}
        return sorted([plain(key), plain(each)] for key, each in value.items())
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Path):
        return str(value)
    kind: Any = type(value)
    return [plain(getattr(value, name)) for name in _names(kind)]


def restored(kind: type[Record], value: Any) -> Record:  # noqa: ANN401
    """What `plain` was given, a value of the type `kind`. Raises `ValueError` where it is none."""
    try:
        reader: _Reader = _reader(cast(Any, kind))
        return cast(Record, reader(value))
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"no {kind}") from error


@cache
def _names(kind: type[attrs.AttrsInstance]) -> tuple[str, ...]:
    return tuple(each.name for each in attrs.fields(kind))


def _same(value: Any) -> Any:  # noqa: ANN401
    return value


@cache
def _reader(kind: Any) -> _Reader:  # noqa: ANN401
    if kind in (str, int, bool, float):
        return _same
    if kind is bytes:
        return base64.b64decode
    if kind is Path:
        return Path
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {member.value: member for member in kind}.__getitem__
    arguments = get_args(kind)
    if NoneType in arguments:
        (inner,) = (_reader(each) for each in arguments if each is not NoneType)
        return lambda value: None if value is None else inner(value)
    if get_origin(kind) is not None:
        inner = _reader(arguments[1] if issubclass(get_origin(kind), Mapping) else arguments[0])
        if issubclass(get_origin(kind), Mapping):
            return lambda value: {key: inner(each) for key, each in value.items()}
        sequence = get_origin(kind)
        return sequence if inner is _same else lambda value: sequence(map(inner, value))
    hints = get_type_hints(kind)
    readers = [_reader(hints[name]) for name in _names(kind)]
    return lambda value: kind(*[read(each) for read, each in zip(readers, value, strict=True)])
