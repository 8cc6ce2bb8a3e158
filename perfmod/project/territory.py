"""How far a project reaches: the Python files and notebooks around a given file or folder."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from attrs import Factory, define, field

from perfmod import disk
from perfmod.config import Configurations
from perfmod.config_files import NAMES
from perfmod.errors import UsageMistake
from perfmod.files import INSTALLED, SUFFIXES
from perfmod.ignores import Ignores
from perfmod.roots import project_root

MOST_ENTRIES = 50_000
"""Files and folders that are looked at; what lies nearest to the given place comes first."""
ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")
"""What the top folder of a virtual environment holds."""


def roots(places: Iterable[Path]) -> list[Path]:
    """The folders of the projects that folders (absolute) belong to; none lies in another."""
    found: list[Path] = []
    for root in sorted({_root(place) for place in places}, key=lambda path: path.parts):
        if not found or not root.is_relative_to(found[-1]):
            found.append(root)
    return found


def _root(place: Path) -> Path:
    """The repository or project around a folder. The home folder is none, and neither is what is installed."""
    root = project_root(place)
    beyond = {Path.home(), Path(place.anchor)}
    above = [folder for folder in (place, *place.parents) if folder.is_relative_to(root)]
    for inner, folder in zip((place, *above), above, strict=False):
        if folder in beyond or folder.name in INSTALLED:
            return inner
    return root


@define
class Territory:
    """A walk from given folders outwards to the `root` of their project.

    What git ignores or the configuration excludes is not entered, nor are links and virtual environments.

    Attributes:
        root: absolute, links followed.
        suffixes: how the names of the files end.
        installable: folders that hold a file of `markers`, found on the way.
    """

    root: Path
    markers: frozenset[str]
    suffixes: tuple[str, ...] = SUFFIXES
    configurations: Configurations = Factory(Configurations)
    installable: set[Path] = field(factory=set, init=False)
    _seen: set[Path] = field(factory=set, init=False)
    _left: int = field(factory=lambda: MOST_ENTRIES, init=False)

    def files(self, places: Iterable[Path]) -> Iterator[Path]:
        """The files of these names, each once: those in `places` first, then those around them."""
        starts = sorted({self._inside(place) for place in places}, key=lambda path: path.parts)
        rings = [folder for start in starts for folder in (start, *start.parents) if folder.is_relative_to(self.root)]
        for folder in sorted(dict.fromkeys(rings), key=lambda path: -len(path.parts)):
            yield from self._walk(folder)

    def _inside(self, place: Path) -> Path:
        return place if place.is_relative_to(self.root) else self.root

    def _walk(self, start: Path) -> Iterator[Path]:
        pending = deque([(start, self._configured(Ignores.above(start, (), None), start))])
        while pending:
            folder, outer = pending.popleft()
            if folder in self._seen:
                continue
            self._seen.add(folder)
            ignores, entries = outer.inside(folder), self._entries(folder)
            if not {entry.name for entry in entries}.isdisjoint(NAMES):
                ignores = self._configured(ignores, folder)
            for entry in entries:
                path = folder / entry.name
                is_folder = entry.is_dir(follow_symlinks=False)
                if entry.name in self.markers:
                    self.installable.add(folder)
                if not is_folder and not (entry.name.endswith(self.suffixes) and entry.is_file(follow_symlinks=False)):
                    continue
                if ignores.match(path, is_folder):
                    continue
                if not is_folder:
                    yield path
                elif not any(disk.exists(path / marker) for marker in ENVIRONMENTS):
                    pending.append((path, ignores))

    def _configured(self, ignores: Ignores, folder: Path) -> Ignores:
        """With what the configuration of a folder excludes; a wrong one is told where its files are asked about."""
        with suppress(UsageMistake):
            settings = self.configurations.settings(folder)
            return ignores.excluding(settings.exclude, settings.root)
        return ignores

    def _entries(self, folder: Path) -> list[os.DirEntry[str]]:
        found = []
        try:
            for entry in disk.entries(folder):
                self._left -= 1
                if self._left < 0:
                    return []
                found.append(entry)
        except OSError:
            pass  # whoever needs this folder has been told already, or will be
        return sorted(found, key=lambda entry: entry.name)
