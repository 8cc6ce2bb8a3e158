"""The newest torch and Python that a project allows, as the lists of requirements beside its files tell it.

A rewrite may need a newer torch than a repository of some years ago asks for. Such lists are read as text, because none
of them is run here: `requirements*.txt`, `environment*.yml`, `pyproject.toml`, `setup.cfg` and `setup.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from attrs import define, field

from perfmod import disk
from perfmod.codemods.results import Pin
from perfmod.roots import project_root, shown

_LISTS = ("requirements*.txt", "environment*.yml", "environment*.yaml", "pyproject.toml", "setup.cfg", "setup.py")
_PROJECTS = ("pyproject.toml", "setup.cfg", "setup.py")
_LARGEST = 200_000
"""Bytes of a list; what is larger is none that somebody wrote."""
_REQUIREMENT = re.compile(
    r"(?<![\w./-])(?:py)?torch[ \t]*(?P<bounds>(?:[ \t]*,?[ \t]*(?:[=<>!~]=?=?)[ \t]*\d[\w.*+]*)+)"
)
_BOUND = re.compile(r"(?<![<>!~=])(?P<operator>===?|=|<=|<|~=)[ \t]*(?P<version>\d+(?:\.\d+)*)")


_PYTHON = re.compile(
    r"(?:requires-python|python_requires|^python)[ \t]*=[^#\n]*<(?P<too>=?)[ \t]*3\.(?P<minor>\d+)", re.MULTILINE
)
_LAST_THAT_FORKS = 13


@define
class Pins:
    """The pins of the folders of a run, each looked up once."""

    _known: dict[Path, Pin | None] = field(factory=dict, init=False)
    _forks: dict[Path, bool] = field(factory=dict, init=False)
    _roots: dict[Path, Path] = field(factory=dict, init=False)

    def of(self, file: Path) -> Pin | None:
        """What the nearest folder at or above a file says that pins torch, up to the project's root."""
        return self._at(file.parent, self._root(file.parent))

    def forks_by_default(self, file: Path) -> bool:
        """Whether the project asks for a Python below 3.14: those fork processes on Linux unless told otherwise."""
        folder, root = file.parent, self._root(file.parent)
        while folder != root and folder != folder.parent and not self._forks_at(folder):
            folder = folder.parent
        return self._forks_at(folder)

    def _root(self, folder: Path) -> Path:
        if folder not in self._roots:
            self._roots[folder] = project_root(folder)
        return self._roots[folder]

    def _forks_at(self, folder: Path) -> bool:
        if folder not in self._forks:
            found = (match for _, text in _texts(folder, _PROJECTS) for match in _PYTHON.finditer(text))
            self._forks[folder] = any(int(match["minor"]) - (not match["too"]) <= _LAST_THAT_FORKS for match in found)
        return self._forks[folder]

    def _at(self, folder: Path, root: Path) -> Pin | None:
        if folder not in self._known:
            pins = list(_in_lists(folder))
            above = self._at(folder.parent, root) if folder != root and folder != folder.parent else None
            self._known[folder] = min(pins, key=lambda pin: pin.newest) if pins else above
        return self._known[folder]


def _in_lists(folder: Path) -> Iterator[Pin]:
    for name, text in _texts(folder, _LISTS):
        for line in text.splitlines():
            yield from _in_line(line.partition("#")[0], name)


def _texts(folder: Path, patterns: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Files of a folder by name, with what they hold; not what nobody wrote or cannot be read."""
    for path in disk.matching(folder, patterns):
        try:
            text = disk.text(path, _LARGEST)
        except (OSError, UnicodeDecodeError):
            continue
        yield shown(path.name), text


def _in_line(line: str, name: str) -> Iterator[Pin]:
    for requirement in _REQUIREMENT.finditer(line):
        for bound in _BOUND.finditer(requirement["bounds"]):
            version = tuple(map(int, bound["version"].split(".")))
            if bound["operator"] == "<":
                version = _below(version)
            elif bound["operator"] == "~=":
                version = version[:-1]
            yield Pin(version, f"{name} asks for {' '.join(requirement[0].split())}")


def _below(version: tuple[int, ...]) -> tuple[int, ...]:
    """The newest release line under a version: 1.7 under 1.8 and under 1.7.1, and any 1 under 2.0."""
    major, minor, *patches = (*version, 0)[: max(2, len(version))]
    if any(patches):
        return (major, minor)
    return (major, minor - 1) if minor else (major - 1,)
