"""Configuration files: which one holds for a folder, what it says, and what it takes over from others."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from perfmod import disk
from perfmod.config_table import ADDING, KEYS, Config, Kind, Layer
from perfmod.errors import UsageMistake, explain
from perfmod.roots import shown

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_SHARED = "pyproject.toml"
"""A file of many tools, in which our table is `[tool.perfmod]`."""
NAMES = ("perfmod.toml", ".perfmod.toml", _SHARED)
"""What configuration files are called; the first that is in a folder holds there."""
_TABLE = "[tool.perfmod]"


def config_in(folder: Path) -> Config | None:
    """The configuration that a folder (absolute) has itself; None where it has none.

    Raises:
        UsageMistake: it cannot be read, is no TOML, or has a key or value that is not ours.
    """
    for name in NAMES:
        path = folder / name
        if disk.is_file(path) and (layer := _layer(path)) is not None:
            return _merged([layer, *_extended(layer)])
    return None


def _merged(layers: Iterable[Layer]) -> Config:
    layers = tuple(layers)
    values: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.table.items():
            if key in ADDING:
                values[key] = [*value, *values.get(key, ())]
            else:
                values.setdefault(key, value)
    return Config(**{KEYS[key].name: value for key, value in values.items()}, path=layers[0].path, layers=layers)


def _extended(first: Layer) -> Iterable[Layer]:
    """What the files say that a file extends, the nearest first."""
    layer, seen = first, [Path(os.path.realpath(first.path))]
    while (given := layer.table.get("extend")) is not None:
        path = _place_of(given, layer)
        if path in seen:
            raise UsageMistake(f'{layer.place} "extend": {given} leads back to itself')
        if not disk.is_file(path):
            raise UsageMistake(f'{layer.place} "extend": {shown(path)}: no such file')
        found = _layer(path)
        if found is None:
            raise UsageMistake(f'{layer.place} "extend": {shown(path)} has no {_TABLE}')
        yield found
        layer = found
        seen.append(path)


def _place_of(given: str, layer: Layer) -> Path:
    """The file that a layer extends, links followed."""
    expanded = os.path.expanduser(given)  # noqa: PTH111, `Path.expanduser` raises where there is no home
    path = layer.path.parent / expanded
    disk.note(path)
    return Path(os.path.realpath(path))


def _layer(path: Path) -> Layer | None:
    """What a file says; None where it has no table of ours."""
    document = _document(path)
    tables = document.get("tool", {})
    is_shared = path.name == _SHARED or (isinstance(tables, Mapping) and "perfmod" in tables)
    table = (tables.get("perfmod") if isinstance(tables, Mapping) else None) if is_shared else document
    if table is None:
        return None
    if not isinstance(table, Mapping):
        raise UsageMistake(f"{shown(path)}: tool.perfmod must be a table")
    place = f"{shown(path)}: {_TABLE}" if is_shared else f"{shown(path)}:"
    for key, value in table.items():
        _require(key, value, place)
    return Layer(path, place, table)


def _require(key: str, value: object, place: str) -> None:
    """Raise `UsageMistake` where a key or its value is not ours."""
    if key not in KEYS:
        near = difflib.get_close_matches(key, KEYS, n=1, cutoff=0.5)
        hint = f'did you mean "{near[0]}"?' if near else f"the keys are {', '.join(KEYS)}"
        raise UsageMistake(f'{place} has no key "{key}"; {hint}')
    kind: Kind = KEYS[key].metadata["kind"]
    if not kind.fits(value):
        raise UsageMistake(f'{place} "{key}" must be {kind.said}')
    if problem := kind.problem(value):
        raise UsageMistake(f'{place} "{key}": {problem}')


def _document(path: Path) -> Mapping[str, Any]:
    try:
        return _parsed(disk.read(path).decode("utf-8"))
    except OSError as error:
        raise UsageMistake(f"{shown(path)}: cannot be read: {explain(error)}") from error
    except UnicodeDecodeError as error:
        raise UsageMistake(f"{shown(path)}: is not UTF-8: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageMistake(f"{shown(path)}: is not valid TOML: {error}") from error


@lru_cache
def _parsed(text: str) -> Mapping[str, Any]:
    return tomllib.loads(text)
