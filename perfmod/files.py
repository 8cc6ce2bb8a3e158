"""From the paths a user gives to the Python files and notebooks to read, and their bytes.

Files given by name are taken, unless exclusion is forced. Folders are walked: entries that git ignores or that are
excluded are left out, links to folders are not followed. Every file comes once, in the order of its path.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from attrs import frozen

from perfmod import disk
from perfmod.config import Configurations, Options, Settings
from perfmod.config_files import NAMES
from perfmod.errors import UsageMistake, explain
from perfmod.ignores import Ignores, is_forcibly_excluded
from perfmod.roots import shown
from perfmod.transforms.decoding import is_notebook

STDIN = "-"
SUFFIXES = (".py", ".ipynb")
"""How files are called that a walk through a folder finds."""
LARGEST_FILE = 5_000_000
"""Bytes; a larger file is generated, and would take minutes."""
LARGEST_NOTEBOOK = 100_000_000
"""Bytes, most of which are pictures that nobody parses."""
INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Folders of code that is not the user's own."""


@frozen
class FoundFile:
    """One file to read.

    Attributes:
        shown: its path as it is printed.
        real: where it lies, symbolic links followed; what is read and written.
        named: whether the user gave it by name, so that leaving it out would be a failure.
        settings: those of the folder in which it lies.
        given: the folder of that target, or that target if it is a folder, links followed; its project is what is
            around it.
    """

    shown: str
    real: Path
    named: bool
    settings: Settings
    given: Path


@frozen
class Unreadable(Exception):
    """A file that is not read, with the reason in one line; leaving it out is a fault where it `failed`."""

    reason: str
    failed: bool = True


class NoPython(UsageMistake):
    """A folder in which there is nothing to read."""


def read(file: FoundFile) -> bytes:
    """The bytes of `file`. Raises `Unreadable`."""
    largest = LARGEST_NOTEBOOK if is_notebook(file.real.name) else LARGEST_FILE
    try:
        disk.note(file.real)
        state = file.real.stat()
        if not stat.S_ISREG(state.st_mode):
            raise Unreadable("is not a regular file", failed=file.named)
        if state.st_size > largest:
            size = f"{state.st_size / 1e6:.1f} MB, and perfmod reads up to {largest / 1e6:.0f} MB"
            raise Unreadable(f"is too large: {size}", failed=file.named)
        return disk.read(file.real)
    except FileNotFoundError as error:
        raise Unreadable("was removed while perfmod ran", failed=file.named) from error
    except OSError as error:
        raise Unreadable(f"cannot be read: {explain(error)}") from error


@frozen
class Discovery:
    """What the given paths lead to.

    Attributes:
        files: the files to read, each once, in the order of their paths.
        unlisted: folders that could not be listed, with the reason.
        configurations: what holds in the folders of the files.
    """

    files: tuple[FoundFile, ...]
    unlisted: tuple[tuple[str, str], ...]
    configurations: Configurations


def discover(targets: Iterable[str], options: Options, cwd: Path) -> Discovery:
    """Find the Python files of `targets`, none of which is `-`.

    Raises:
        UsageMistake: a path that does not exist, a folder without Python (`NoPython`), a wrong configuration.
    """
    found: dict[Path, FoundFile] = {}
    unlisted: dict[str, str] = {}
    configurations = Configurations(options)
    for real, target in sorted((resolve(cwd / target, target), target) for target in targets):
        is_folder = real.is_dir()
        settings = configurations.settings(real if is_folder else real.parent)
        if settings.force_exclude and is_forcibly_excluded(real, is_folder, settings.exclude, settings.root):
            continue
        if not is_folder:
            found[real] = FoundFile(shown(Path(target)), real, True, settings, real.parent)
            continue
        walk = _Walk(Path(target), real, configurations)
        inside = list(walk.files())
        unlisted |= walk.unlisted
        if not inside and not walk.unlisted:
            raise NoPython(f"{shown(target)}: no Python file found, apart from ignored or excluded ones")
        for file in inside:
            found.setdefault(file.real, file)
    files = sorted(found.values(), key=lambda file: file.real.parts)
    return Discovery(tuple(files), tuple(sorted(unlisted.items())), configurations)


def is_left_out(path: Path, settings: Settings, root: Path) -> bool:
    """Whether a walk through the project at `root` (a real path) would leave out a file in it."""
    if not INSTALLED.isdisjoint(path.parts):
        return True
    ignores = Ignores.above(root, settings.exclude, settings.root)
    place = root
    for name in path.relative_to(root).parts:
        ignores = ignores.inside(place)
        place = place / name
        if ignores.match(place, is_folder=place != path):
            return True
    return False


def resolve(path: Path, target: str) -> Path:
    """A path with links followed. Raises `UsageMistake`, which names it as the user did, where nothing is there.

    An empty one is what a shell makes of a variable that is not set: it does not stand for the current folder.
    """
    if not target:
        raise UsageMistake("a path is empty; . stands for the current folder")
    try:
        return Path(os.path.realpath(path, strict=True))
    except FileNotFoundError as error:
        raise UsageMistake(f"{shown(target)}: no such file or folder") from error
    except OSError as error:
        reason = "a loop of symbolic links" if error.errno == errno.ELOOP else explain(error)
        raise UsageMistake(f"{shown(target)}: cannot be opened: {reason}") from error


class _Walk:
    """A walk through a folder that the user gave: `path` as it was written, `real` with links followed."""

    def __init__(self, path: Path, real: Path, configurations: Configurations) -> None:
        self.path, self.real, self.configurations = path, real, configurations
        self.unlisted: dict[str, str] = {}

    def files(self) -> Iterator[FoundFile]:
        settings = self.configurations.settings(self.real)
        yield from self._folder(self.real, Ignores.above(self.real, settings.exclude, settings.root), settings)

    def _folder(self, folder: Path, outer: Ignores, settings: Settings) -> Iterator[FoundFile]:
        ignores = outer.inside(folder)
        try:
            entries = sorted(disk.entries(folder), key=lambda entry: entry.name)
        except OSError as error:
            self.unlisted[self._shown(folder)] = f"cannot be listed: {explain(error)}"
            return
        if not {entry.name for entry in entries}.isdisjoint(NAMES):
            settings = self.configurations.settings(folder)
            ignores = ignores.excluding(settings.exclude, settings.root)
        for entry in entries:
            path = folder / entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if not is_folder and not entry.name.endswith(SUFFIXES):
                continue
            if ignores.match(path, is_folder):
                continue
            if is_folder:
                yield from self._folder(path, ignores, settings)
            elif not entry.is_symlink():
                yield FoundFile(self._shown(path), path, False, settings, self.real)
            elif (real := self._inside(path)) is not None:
                yield FoundFile(self._shown(path), real, False, self.configurations.settings(real.parent), self.real)

    def _inside(self, link: Path) -> Path | None:
        """The file behind a link, if it lies in the given folder: nobody expects changes elsewhere."""
        disk.note(link)
        try:
            real = Path(os.path.realpath(link, strict=True))
        except OSError:
            return None
        return real if real.is_relative_to(self.real) and real.is_file() else None

    def _shown(self, path: Path) -> str:
        return shown(self.path / path.relative_to(self.real))
