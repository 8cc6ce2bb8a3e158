"""The file beside a script with the code that its rewrites import: what it is called, and whether it is there."""

from __future__ import annotations

import re
from pathlib import Path

from perfmod import disk
from perfmod.transforms.beside import Beside
from perfmod.transforms.compute.recorder import MODULE, recorder
from perfmod.transforms.decoding import is_notebook

_MOST_NAMES = 9
_RELATIVE = re.compile(rb"^[ \t]*from[ \t]+\.", re.MULTILINE)
_WORDS = (b"torch", b"backward")


def beside(real: Path, shown: str, data: bytes, imported_as: frozenset[str]) -> Beside | None:
    """The file beside the one at `real`, whose bytes are `data`; None where no rule would put code into it.

    `imported_as` are the names by which other files import that one, as they are written there.
    """
    if is_notebook(real.name) or any(word not in data for word in _WORDS):
        return None
    wanted = recorder().encode()
    for number in range(1, _MOST_NAMES + 1):
        name = MODULE if number == 1 else f"{MODULE}_{number}"
        found = _content(real.with_name(f"{name}.py"))
        if (found is None or found == wanted) and not disk.exists(real.with_name(name)):
            is_relative = _RELATIVE.search(data) is not None
            path = str(Path(shown).with_name(f"{name}.py"))
            module = f".{name}" if is_relative else name
            return Beside(path, module, found is not None, "" if is_relative else _problem(real, imported_as))
    return Beside("", "", problem=f"every name from {MODULE}.py to {name}.py is taken in its folder")


def _content(path: Path) -> bytes | None:
    """The bytes of a file, empty where they cannot be had; None where nothing lies there."""
    if not disk.exists(path):
        return None
    try:
        return disk.read(path)
    except OSError:
        return b""


def _problem(real: Path, imported_as: frozenset[str]) -> str:
    """Why a file that imports nothing relatively could not import one beside it; empty where it can."""
    what = f"`import {MODULE}` would not find a file beside it"
    if disk.exists(real.with_name("__init__.py")):
        return f"it lies in a package and imports nothing from there with `from .`, so {what}"
    inside = sorted(name for name in imported_as if "." in name)
    return f"it is imported as `{inside[0]}`, from another folder, so {what}" if inside else ""
