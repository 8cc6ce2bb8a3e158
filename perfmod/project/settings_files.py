"""What files that are no Python set to 0: the number of workers in configurations (YAML, JSON) and shell scripts.

They are searched line by line, because nothing is changed in them; a line is named in an advice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from attrs import define, field

from perfmod import disk
from perfmod.files import FoundFile
from perfmod.project.territory import Territory, roots
from perfmod.roots import shown
from perfmod.transforms.outside import OutsideSetting

_SUFFIXES = (".yaml", ".yml", ".json", ".sh")
_MOST_FILES = 200
_LARGEST = 200_000
"""Bytes; a larger file holds data."""
_NAME = r"[\w-]*(?:worker|cpu|thread)s?"
_SETTING = re.compile(
    rf"(?<![\w-])(?:--(?P<option>{_NAME})(?:=|[ \t]+)|[\"']?(?P<key>{_NAME})[\"']?[ \t]*[:=][ \t]*)"
    r"(?P<number>\d+)(?![\w.]|,\d)",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"(?:^|\s)#.*")


@define
class SettingsFiles:
    """The settings of the projects of a run, each project searched once, and only if one of its files asks."""

    _known: dict[Path, tuple[OutsideSetting, ...]] = field(factory=dict, init=False)

    def of(self, file: FoundFile, data: bytes) -> tuple[OutsideSetting, ...]:
        """What is 0 wherever the project around a file of these bytes sets it."""
        if b"num_workers" not in data:
            return ()
        (root,) = roots([file.real.parent])
        if root not in self._known:
            found = [each for path in _files(root) for each in _settings(path, root)]
            chosen = {setting.name for setting, number in found if number}
            self._known[root] = tuple(setting for setting, _ in found if setting.name not in chosen)
        return self._known[root]


def _files(root: Path) -> Iterator[Path]:
    """The files of a project that may hold settings; not those of continuous integration and of editors."""
    around = Territory(root, frozenset(), _SUFFIXES).files([root])
    named = (path for path in around if not any(part.startswith(".") for part in path.relative_to(root).parts))
    return islice(named, _MOST_FILES)


def _settings(path: Path, root: Path) -> Iterator[tuple[OutsideSetting, int]]:
    """What a file sets, and to which number; nothing where it cannot be read."""
    try:
        text = disk.text(path, _LARGEST)
    except (OSError, UnicodeDecodeError):
        return
    for number, line in enumerate(text.splitlines(), 1):
        for match in _SETTING.finditer(_COMMENT.sub("", line)):
            name = (match["option"] or match["key"]).replace("-", "_")
            where = shown(path.relative_to(root).as_posix())
            yield OutsideSetting(name, where, number, match[0]), int(match["number"])
