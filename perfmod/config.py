"""`[tool.perfmod]` of the nearest `pyproject.toml`, with the command line over it: the settings of files."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import attrs
from attrs import field, frozen

from perfmod import disk
from perfmod.errors import UsageMistake, explain
from perfmod.roots import shown
from perfmod.transforms.policy import Target

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


_LIST, _TRUTH, _SECONDS = "a list of strings", "true or false", "a positive number of seconds"
_TARGET = '"cuda" or "portable"'


@frozen
class Config:
    """What `[tool.perfmod]` may say; the names of the fields, with hyphens, are the keys.

    Attributes:
        select: codes, names or prefixes of the rules to run, instead of all.
        extend_select: those of rules to run in addition; a code or name also selects a rule that is off by default.
        ignore: codes, names or prefixes of the rules to leave out.
        exclude: patterns in the language of `.gitignore`, relative to the folder of the file.
        unsafe: take open questions as answered with yes.
        low_impact: apply findings that are safe and worth little, too.
        target: the platforms that the code has to run on, see `Target`.
        time_limit: seconds of processor time for files that are read together; beyond, they are not analysed.
            A limit of their work is reached first, see `perfmod.task`.
        path: the `pyproject.toml` it comes from; None for the defaults. Not a key.
    """

    select: tuple[str, ...] = field(default=(), metadata={"type": _LIST})
    extend_select: tuple[str, ...] = field(default=(), metadata={"type": _LIST})
    ignore: tuple[str, ...] = field(default=(), metadata={"type": _LIST})
    exclude: tuple[str, ...] = field(default=(), metadata={"type": _LIST})
    unsafe: bool = field(default=False, metadata={"type": _TRUTH})
    low_impact: bool = field(default=False, metadata={"type": _TRUTH})
    target: Target = field(default=Target.CUDA, converter=Target, metadata={"type": _TARGET})
    time_limit: float = field(default=120.0, metadata={"type": _SECONDS})
    path: Path | None = None


KEYS: Mapping[str, str] = {
    key.name.replace("_", "-"): key.metadata["type"] for key in attrs.fields(Config) if "type" in key.metadata
}
"""The keys of `[tool.perfmod]` and what their values are."""


@frozen
class Options:
    """What the command line says; None and empty say nothing."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    unsafe: bool | None = None
    time_limit: float | None = None
    low_impact: bool | None = None
    proposing: bool = False
    extend_select: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()


@frozen
class Settings:
    """What holds for the files of one target.

    Attributes:
        select, ignore, unsafe, low_impact, target, time_limit: as in `Config`, after the command line had its say; what
            the configuration adds to its selection is in `select`.
        extend_select: what the command line adds, which no `ignore` takes back.
        exclude: as in `Config`.
        proposing: a run will decide what is kept, so whatever it can prove is applied, see `Choice`.
        accepted: fingerprints of findings that are applied whatever their outcome is by default, in order.
        origin: the `pyproject.toml` that took part, for messages; None where there is none.
    """

    select: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    unsafe: bool = False
    low_impact: bool = False
    target: Target = Target.CUDA
    proposing: bool = False
    accepted: tuple[str, ...] = ()
    time_limit: float = Config().time_limit
    origin: Path | None = None

    @property
    def exclude_root(self) -> Path | None:
        """The folder that the patterns of `exclude` are relative to."""
        return self.origin.parent if self.origin is not None else None


def settings_for(folder: Path, options: Options) -> Settings:
    """The settings of files in `folder` (absolute): the command line over the nearest configuration.

    `--select` replaces what the configuration selects and ignores, `--extend-select` adds to it; `--ignore` replaces
    what it ignores.

    Raises:
        UsageMistake: the configuration is wrong.
    """
    config = nearest_config(folder)
    configured = (*(config.select or ("ALL",)), *config.extend_select) if config.extend_select else config.select
    return Settings(
        select=options.select or configured,
        extend_select=options.extend_select,
        ignore=options.ignore or (() if options.select else config.ignore),
        exclude=config.exclude,
        unsafe=config.unsafe if options.unsafe is None else options.unsafe,
        low_impact=config.low_impact if options.low_impact is None else options.low_impact,
        target=config.target,
        proposing=options.proposing,
        accepted=options.accepted,
        time_limit=config.time_limit if options.time_limit is None else options.time_limit,
        origin=config.path,
    )


def nearest_config(folder: Path) -> Config:
    """The nearest `[tool.perfmod]`: that of the first `pyproject.toml` at or above `folder` that has one.

    Raises:
        UsageMistake: it cannot be read, is no TOML, or has a key or value that is not ours.
    """
    for parent in (folder, *folder.parents):
        path = parent / "pyproject.toml"
        if disk.is_file(path) and (table := _read_table(path)) is not None:
            return _config(table, path)
    return Config()


def _read_table(path: Path) -> Mapping[str, Any] | None:
    try:
        document = _parsed(disk.read(path).decode("utf-8"))
    except OSError as error:
        raise UsageMistake(f"{shown(path)}: cannot be read: {explain(error)}") from error
    except UnicodeDecodeError as error:
        raise UsageMistake(f"{shown(path)}: is not UTF-8: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageMistake(f"{shown(path)}: is not valid TOML: {error}") from error
    table = document.get("tool", {}).get("perfmod")
    if table is not None and not isinstance(table, Mapping):
        raise UsageMistake(f"{shown(path)}: tool.perfmod must be a table")
    return table


@lru_cache
def _parsed(text: str) -> Mapping[str, Any]:
    return tomllib.loads(text)


def _config(table: Mapping[str, Any], path: Path) -> Config:
    for key, value in table.items():
        if key not in KEYS:
            near = difflib.get_close_matches(key, KEYS, n=1, cutoff=0.5)
            hint = f'did you mean "{near[0]}"?' if near else f"the keys are {', '.join(KEYS)}"
            raise UsageMistake(f'{shown(path)}: [tool.perfmod] has no key "{key}"; {hint}')
        if not _fits(value, KEYS[key]):
            raise UsageMistake(f'{shown(path)}: [tool.perfmod] "{key}" must be {KEYS[key]}')
    values: dict[str, Any] = {
        key.replace("-", "_"): tuple(value) if isinstance(value, list) else value for key, value in table.items()
    }
    return Config(**values, path=path)


def _fits(value: object, wanted: str) -> bool:
    if wanted == _TARGET:
        return value in [target.value for target in Target]
    if wanted == _TRUTH:
        return isinstance(value, bool)
    if wanted == _SECONDS:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)
