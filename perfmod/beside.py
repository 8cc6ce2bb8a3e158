"""The file beside a script with the code that its rewrites import: what it is called, and whether it is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from perfmod import disk
from perfmod.codemods.results import Outcome
from perfmod.examined import Examined
from perfmod.files import FoundFile
from perfmod.transforms.beside import Beside
from perfmod.transforms.compute.recorder import MODULE, recorder
from perfmod.transforms.decoding import is_notebook

_MOST_NAMES = 9
_RELATIVE = re.compile(rb"^[ \t]*from[ \t]+\.", re.MULTILINE)
_DEFINING = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
_WORDS = (b"torch", b"backward")


def beside(
    real: Path, shown: str, data: bytes, imported_as: Collection[str], imports: Mapping[str, Path]
) -> Beside | None:
    """The file beside the one at `real`, whose bytes are `data`; None where no rule would put code into it.

    `imported_as` are the names by which other files import that one, as they are written there, and `imports` the other
    files of its project that it imports itself, by the names that it writes.
    """
    if is_notebook(real.name) or any(word not in data for word in _WORDS):
        return None
    wanted = recorder().encode()
    for number in range(1, _MOST_NAMES + 1):
        name = MODULE if number == 1 else f"{MODULE}_{number}"
        found = _content(real.with_name(f"{name}.py"))
        if (found is None or found == wanted) and not disk.exists(real.with_name(name)):
            path = str(Path(shown).with_name(f"{name}.py"))
            is_relative = _imports_relatively(data)
            if is_relative is None:
                problem = (
                    f"it imports with `from .` in some cases only, so `import {MODULE}` may not find a file beside it"
                )
                return Beside(path, name, found is not None, problem)
            is_relative = is_relative or _is_of_package(real, data, imported_as, imports)
            package = "" if is_relative else _package(real, data, imports)
            module = f".{name}" if is_relative else f"{package}.{name}" if package else name
            problem = "" if is_relative or package else _problem(real, imported_as, imports)
            return Beside(path, module, found is not None, problem)
    return Beside("", "", problem=f"every name from {MODULE}.py to {name}.py is taken in its folder")


def found_beside(place: Beside, script: FoundFile) -> FoundFile:
    """The file beside a script as one to be written, though nothing lies there yet."""
    return FoundFile(place.path, script.real.with_name(Path(place.path).name), False, script.settings, script.given)


def imported_beside(examined: Iterable[Examined]) -> list[Path]:
    """The files (real paths) beside scripts that are there already, and that only their rewrites import.

    Raises `Failure` where files that an earlier run examined were edited meanwhile.
    """
    found: dict[Path, None] = {}
    for each in examined:
        task = each.task if each.result.outcome is Outcome.CHANGED and not each.result.is_new else None
        for given in task.files if task is not None else ():
            place = given.beside if given.path == each.result.path else None
            words = f"from {place.module} import ".encode() if place is not None and place.is_present else b""
            if place is not None and words and words in each.result.after and words not in each.result.before:
                found[each.file.real.with_name(Path(place.path).name)] = None
    return list(found)


def _content(path: Path) -> bytes | None:
    """The bytes of a file, empty where they cannot be had; None where nothing lies there."""
    if not disk.exists(path):
        return None
    try:
        return disk.read(path)
    except OSError:
        return b""


def _imports_relatively(data: bytes) -> bool | None:
    """Whether a file runs as part of a package only; None where it does so in some cases, or cannot be read."""
    if _RELATIVE.search(data) is None:
        return False
    try:
        module = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if any(map(_is_relative, module.body)):
        return True
    return None if any(map(_is_relative, ast.walk(module))) else False


def _is_relative(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and node.level > 0


def _is_of_package(real: Path, data: bytes, imported_as: Collection[str], imports: Mapping[str, Path]) -> bool:
    """Whether a file only runs as part of a package: all that import it name one, and by itself it does nothing."""
    imports_bare = any("." not in name and target.parent == real.parent for name, target in imports.items())
    is_named = bool(imported_as) and all("." in name for name in imported_as)
    return is_named and not imports_bare and _only_defines(data)


def _only_defines(data: bytes) -> bool:
    try:
        body = ast.parse(data).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(
        isinstance(node, _DEFINING) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for node in body
    )


def _package(real: Path, data: bytes, imports: Mapping[str, Path]) -> str:
    """By which name a file imports others of its own folder: `pkg` in `from pkg.sizes import SIZE`; empty by none.

    Whatever is on Python's path when it runs, that name leads to its folder. It has to be imported above all else, as
    what a rewrite imports is.
    """
    for name in _imported_first(data):
        target = imports.get(name)
        if target is not None and target.parent == real.parent:
            package = name if target.name == "__init__.py" else name.rpartition(".")[0]
            if package:
                return package
    return ""


def _imported_first(data: bytes) -> Iterator[str]:
    """What a file imports before it does anything else, by dotted name."""
    try:
        body = ast.parse(data).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            return


def _problem(real: Path, imported_as: Collection[str], imports: Collection[str]) -> str:
    """Why a file that imports nothing relatively could not import one beside it; empty where it can."""
    what = f"`import {MODULE}` would not find a file beside it"
    if disk.exists(real.with_name("__init__.py")):
        return f"it lies in a package and imports nothing from there with `from .`, so {what}"
    inside = sorted(name for name in imported_as if "." in name)
    if inside:
        return f"it is imported as `{inside[0]}`, from another folder, so {what}"
    # `python -m training.train` looks in the folder where it is started, not in the script's.
    elsewhere = sorted(name for name in imports if not _is_beside(real, name.partition(".")[0]))
    return f"it imports `{elsewhere[0]}`, which is not beside it, so {what}" if elsewhere else ""


def _is_beside(real: Path, name: str) -> bool:
    return disk.exists(real.with_name(f"{name}.py")) or disk.exists(real.with_name(name))
