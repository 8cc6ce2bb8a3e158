"""`ZOO.toml`: how the scripts of a zoo are run for verification."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

from attrs import asdict, field, frozen

from perfmod import disk
from perfmod.errors import UsageMistake, explain
from perfmod.migrate.zoo_commands import NotUnderstood, parsed
from perfmod.roots import shown

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@frozen
class Script:
    """How one script is run.

    Attributes:
        project: name of its project; `*` and `?` match as in file names.
        script: path from the root of the project.
        arguments: of the script.
        folder: where it runs, from the root of the project.
        environment: variables that it gets; nothing else of the user's but what is always let through. A value `$NAME`
            is that of the user's variable on the machine that runs it.
        data: a command that makes its data, run once in the same place before both versions; empty for none.
        links: folders with read-only data on the machine that runs it; relative ones are from the root of the project.
        python: the interpreter; empty for the one that runs perfmod.
        steps: that are compared; 0 for the default of `verify`. quick: as `verify --quick`.
        device: `cuda` or `cpu`. gpus: how many GPUs it has to itself, and processes under torchrun where several.
        timeout: seconds for the whole verification.
        network: whether it, and the command that makes its data, may use the network.
    """

    project: str
    script: str
    arguments: tuple[str, ...] = ()
    folder: str = ""
    environment: dict[str, str] = field(factory=dict)
    data: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    python: str = ""
    steps: int = 0
    quick: bool = False
    device: str = "cuda"
    gpus: int = 1
    timeout: float = 1800.0
    network: bool = False


@frozen
class Zoo:
    """What a file says, in its order."""

    path: Path
    scripts: tuple[Script, ...]

    @classmethod
    def read(cls, path: Path) -> Zoo:
        """What the file `path` says. Raises `UsageMistake` where it cannot be read, or says what has no meaning."""
        text = _text(path)
        try:
            document = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise UsageMistake(f"{shown(path)}: is not valid TOML: {error}") from error
        return cls(path, _scripts(document, text, shown(path)))

    def scripts_of(self, project_name: str) -> tuple[Script, ...]:
        """The scripts of a project."""
        return tuple(each for each in self.scripts if fnmatchcase(project_name, each.project))

    def without_project(self, project_names: Iterable[str]) -> tuple[Script, ...]:
        """The scripts that belong to none of some projects: mistyped, most likely."""
        names = tuple(project_names)
        return tuple(each for each in self.scripts if not any(fnmatchcase(name, each.project) for name in names))


def digest(script: Script) -> str:
    """Equal for what is run alike, and for nothing else; 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(asdict(script), sort_keys=True).encode()).hexdigest()


@frozen
class _Key:
    """What the values of a key are.

    Attributes:
        said: in words, as the end of `must be …`.
        fits: whether a value of a TOML file is one.
        problem: what is wrong with a value that fits, in words that follow the name of the key; empty where nothing is.
        read: the value as `Script` has it. Raises `ValueError`.
    """

    said: str
    fits: Callable[[Any], bool]
    problem: Callable[[Any], str] = lambda _value: ""
    read: Callable[[Any], Any] = lambda value: value


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value) and "\0" not in value


def _is_words(value: object) -> bool:
    return _is_text(value) or (isinstance(value, list) and all(isinstance(each, str) for each in value))


def _words(value: str | list[str]) -> tuple[str, ...]:
    return tuple(shlex.split(value)) if isinstance(value, str) else tuple(value)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def leaves(path: str) -> bool:
    """Whether a path from the root of a project leads out of it, by its spelling."""
    pure = PurePosixPath(path)
    return pure.is_absolute() or ".." in pure.parts or path.startswith("~") or "\\" in path


def _inside(value: str) -> str:
    return f"{shown(value)} leaves the project; paths are from its root" if leaves(value) else ""


def _of_a_script(value: str) -> str:
    if value.endswith(".ipynb"):
        return f"{shown(value)} is a notebook; name the script that `jupyter nbconvert --to script` makes"
    return _inside(value)


def _of_links(values: Iterable[str]) -> str:
    """Folders of the machine are named in full; a relative one is made by the project itself."""
    wrong = [each for each in values if not each or (leaves(each) and not each.startswith(("/", "~/")))]
    return f'"{shown(wrong[0])}" is neither absolute nor in the project' if wrong else ""


def _of_a_python(value: str) -> str:
    is_found = "/" not in value or value.startswith(("/", "~/"))
    return "" if is_found else f"{shown(value)} must be absolute, or the name of a program on the PATH"


def _of_an_environment(values: Mapping[str, object]) -> str:
    for name in values:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            return f'"{shown(name)}" is no name of a variable'
    if "CUDA_VISIBLE_DEVICES" in values:
        return '"CUDA_VISIBLE_DEVICES" is chosen for each run; "gpus" says how many it has'
    return ""


def _is_environment(value: object) -> bool:
    """Whole numbers are welcome as values: `OMP_NUM_THREADS = 1`."""
    return isinstance(value, Mapping) and all(
        (isinstance(each, str) and "\0" not in each) or (isinstance(each, int) and not isinstance(each, bool))
        for each in value.values()
    )


_COMMAND = "command"
_TEXT = "a text that is not empty"
_WORDS = "a list of strings, or a text that is split as a shell does"
_KEYS: Mapping[str, _Key] = {
    "project": _Key(_TEXT, _is_text),
    "script": _Key("a path", _is_text, _of_a_script),
    _COMMAND: _Key("a command line", _is_text),
    "arguments": _Key(_WORDS, _is_words, read=_words),
    "folder": _Key("a path", lambda value: isinstance(value, str), _inside),
    "environment": _Key(
        "a table of texts",
        _is_environment,
        _of_an_environment,
        lambda value: {name: str(each) for name, each in value.items()},
    ),
    "data": _Key(_WORDS, _is_words, read=_words),
    "links": _Key(
        "a list of folders",
        lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value),
        _of_links,
        tuple,
    ),
    "python": _Key("an interpreter", lambda value: isinstance(value, str), _of_a_python),
    "steps": _Key("a whole number from 2 on, or 0", lambda value: _is_count(value) and value != 1),
    "quick": _Key("true or false", lambda value: isinstance(value, bool)),
    "device": _Key('"cuda" or "cpu"', lambda value: value in ("cuda", "cpu")),
    "gpus": _Key("a whole number from 0 on", _is_count),
    "timeout": _Key(
        "a positive number of seconds", lambda value: _is_number(value) and 0 < value < float("inf"), read=float
    ),
    "network": _Key("true or false", lambda value: isinstance(value, bool)),
}
_OF_ONE = ("script", _COMMAND, "arguments")
"""What defaults do not have: it is each script's own."""
_TABLES = {"defaults": "a table", "script": "tables, each under [[script]]"}
_HEADER = re.compile(r"^[ \t]*\[\[[ \t]*(?:script|\"script\"|'script')[ \t]*\]\]", re.MULTILINE)


def _text(path: Path) -> str:
    try:
        return disk.read(path).decode("utf-8")
    except OSError as error:
        raise UsageMistake(f"{shown(path)}: cannot be read: {explain(error)}") from error
    except UnicodeDecodeError as error:
        raise UsageMistake(f"{shown(path)}: is not UTF-8: {error}") from error


def _scripts(document: Mapping[str, Any], text: str, file: str) -> tuple[Script, ...]:
    for name in document:
        if name not in _TABLES:
            raise UsageMistake(f'{file}: has no table "{shown(name)}"; {_nearest(name, _TABLES)}')
    defaults, tables = document.get("defaults", {}), document.get("script", [])
    if not isinstance(defaults, Mapping):
        raise UsageMistake(f'{file}: "defaults" must be {_TABLES["defaults"]}')
    if not isinstance(tables, list) or not all(isinstance(each, Mapping) for each in tables):
        raise UsageMistake(f'{file}: "script" must be {_TABLES["script"]}')
    if not tables:
        raise UsageMistake(f"{file}: has no [[script]], so there is nothing to run")
    usual = _values(defaults, f"{file}: [defaults]", [key for key in _KEYS if key not in _OF_ONE])
    # A header may also stand in a text of several lines; then nobody knows which line a table begins in.
    lines = [text.count("\n", 0, match.start()) + 1 for match in _HEADER.finditer(text)]
    found: dict[str, str] = {}
    scripts = []
    for number, table in enumerate(tables, start=1):
        place = _place(file, number, table, lines[number - 1] if len(lines) == len(tables) else None)
        script = _script(usual, _values(table, place, _KEYS), place)
        same = found.setdefault(digest(script), f"script {number}")
        if same != f"script {number}":
            raise UsageMistake(f"{place} says the same as {same}")
        scripts.append(script)
    return tuple(scripts)


def _place(file: str, number: int, table: Mapping[str, Any], line: int | None) -> str:
    """Where a table stands, as messages begin."""
    name = table.get("script", table.get(_COMMAND))
    told = f" ({shown(name)})" if isinstance(name, str) else ""
    return f"{file}{f', line {line}' if line else ''}: script {number}{told}"


def _values(table: Mapping[str, Any], place: str, allowed: Iterable[str]) -> dict[str, Any]:
    """The values of a table as `Script` has them. Raises `UsageMistake`."""
    allowed = list(allowed)
    values = {}
    for name, value in table.items():
        if name not in allowed:
            hint = "it is each script's own" if name in _KEYS else _nearest(name, allowed)
            raise UsageMistake(f'{place} has no key "{shown(name)}"; {hint}')
        key = _KEYS[name]
        if not key.fits(value):
            raise UsageMistake(f'{place} "{name}" must be {key.said}')
        try:
            values[name] = key.read(value)
        except ValueError as error:
            raise UsageMistake(f'{place} "{name}": {str(error).lower()}') from error
        if problem := key.problem(values[name]):
            raise UsageMistake(f'{place} "{name}": {problem}')
    return values


def _script(usual: Mapping[str, Any], own: dict[str, Any], place: str) -> Script:
    values = {**usual, **own, "environment": {**usual.get("environment", {}), **own.get("environment", {})}}
    if _COMMAND in values:
        _read_command(values, own, place)
    for key in ("project", "script"):
        if key not in values:
            raise UsageMistake(f'{place} has no "{key}"')
    if values.get("device") == "cpu":
        values.setdefault("gpus", 0)
    elif values.get("gpus") == 0:
        raise UsageMistake(f'{place} "gpus": 0 is for device = "cpu"')
    return Script(**values)


def _read_command(values: dict[str, Any], own: Mapping[str, Any], place: str) -> None:
    """Put what `command` says in the place of `command`; its script is named from the folder that it runs in."""
    for key in ("script", "arguments"):
        if key in values:
            raise UsageMistake(f'{place} has both "{_COMMAND}" and "{key}"')
    try:
        command = parsed(values.pop(_COMMAND))
    except NotUnderstood as error:
        raise UsageMistake(f'{place} "{_COMMAND}": {error}') from error
    path = str(PurePosixPath(values.get("folder", "")) / command.script)
    environment = {**values["environment"], **command.environment}
    for problem in (_of_a_script(path), _of_an_environment(environment)):
        if problem:
            raise UsageMistake(f'{place} "{_COMMAND}": {problem}')
    values |= {"script": path, "arguments": command.arguments, "environment": environment}
    for key, told in (("python", command.python), ("gpus", command.processes)):
        if told:
            if key in own and own[key] != told:
                raise UsageMistake(f'{place} "{key}" says something else than "{_COMMAND}"')
            values[key] = told


def _nearest(name: str, known: Iterable[str]) -> str:
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f'did you mean "{near[0]}"?' if near else f"there are {', '.join(known)}"
