"""Dotted names and the files behind them, as Python would find them among the files of a project."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet

from attrs import define, field

from perfmod.transforms.libraries import is_known_by_name

INSTALLABLE = ("pyproject.toml", "setup.py", "setup.cfg")
"""Where one of these lies, `pip install -e` puts the folder, or `src` in it, on the path of every script."""


@define(eq=False)
class Modules:
    """The modules of one project. Files are named by their paths from its root, with slashes.

    Which folders are on Python's path depends on the script that is run, on how it is run and on what is installed.
    So a name is looked up in every folder that may be: that of the file and those above it, `src` in each, and those
    of installable projects. `hits` gives all that it may mean. Where none of these has it, those folders count that the
    file itself puts on the path.

    A library that rules know by name is one for the examples beside its sources, too: what the rules know of it says
    more than its sources, of which a script runs a small part. Only its own files are read together.

    Attributes:
        files: the Python files.
        installable: folders that hold a project that can be installed.
        added: what files put on the path themselves, by file: relative to their folder or one above.
    """

    files: AbstractSet[str]
    installable: Collection[str] = ()
    added: Mapping[str, Collection[str]] = field(factory=dict)
    _folders: set[str] = field(init=False)
    _tops: set[str] = field(init=False)
    _known: dict[tuple[str, str], tuple[str, ...]] = field(factory=dict, init=False)
    _bases: dict[str, tuple[str, ...]] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._folders = {""}
        for file in self.files:
            folder = posixpath.dirname(file)
            while folder not in self._folders:
                self._folders.add(folder)
                folder = posixpath.dirname(folder)
        names = (posixpath.basename(path) for path in (*self.files, *self._folders))
        self._tops = {name.removesuffix(".py") for name in names}

    def hits(self, name: str, file: str) -> tuple[str, ...]:
        """The files that a dotted name may mean in `file`, the likeliest first; several where that is not sure."""
        folder = posixpath.dirname(file)
        if name.startswith("."):
            above = len(name) - len(name.lstrip(".")) - 1
            for _ in range(above):
                if not folder:
                    return ()
                folder = posixpath.dirname(folder)
            found = self._at(folder, name.lstrip("."))
            return (found,) if found is not None else ()
        if name.partition(".")[0] not in self._tops or _is_library(name, folder):
            return ()
        key = folder, name
        if key not in self._known:
            found_at = (self._at(base, name) for base in self._searched(folder))
            self._known[key] = tuple(dict.fromkeys(found for found in found_at if found is not None))
        return self._known[key] or self.hits_added(name, file)

    def hits_added(self, name: str, file: str) -> tuple[str, ...]:
        """The files that a dotted name may mean in the folders that `file` puts on the path."""
        folder = posixpath.dirname(file)
        if _is_library(name, folder):
            return ()
        above = [folder, *_parents(folder)]
        bases = (
            next((path for base in above if (path := posixpath.normpath(_join(base, text))) in self._folders), None)
            for text in self.added.get(file, ())
        )
        found_at = (self._at(base, name) for base in bases if base is not None)
        return tuple(dict.fromkeys(found for found in found_at if found is not None))

    def beside(self, name: str, file: str) -> str | None:
        """The file that a dotted name means if the folder of `file` comes first on Python's path."""
        return self._at(posixpath.dirname(file), name)

    def is_package(self, folder: str) -> bool:
        """Whether a folder has an `__init__.py`."""
        return _join(folder, "__init__.py") in self.files

    def _at(self, base: str, name: str) -> str | None:
        """The file of a module in a folder of Python's path; `name` is empty for the package that `base` is."""
        path = _join(base, name.replace(".", "/")) if name else base
        package = _join(path, "__init__.py")
        if package in self.files:
            return package
        return f"{path}.py" if name and f"{path}.py" in self.files else None

    def _searched(self, folder: str) -> tuple[str, ...]:
        if folder not in self._bases:
            above = [folder, *_parents(folder)]
            bases = (*above, *(_join(base, "src") for base in above), *sorted(self._installed()))
            self._bases[folder] = tuple(base for base in dict.fromkeys(bases) if base in self._folders)
        return self._bases[folder]

    def _installed(self) -> Iterator[str]:
        for folder in self.installable:
            yield folder
            yield _join(folder, "src")


def is_in_library(file: str) -> bool:
    """Whether a file is one of the sources of a library that rules know by name."""
    return any(map(is_known_by_name, posixpath.dirname(file).split("/")))


def _is_library(name: str, folder: str) -> bool:
    """Whether a dotted name is that of a library that rules know, and a file in `folder` is none of its own."""
    return is_known_by_name(name) and name.partition(".")[0] not in folder.split("/")


def _parents(folder: str) -> Iterator[str]:
    while folder:
        folder = posixpath.dirname(folder)
        yield folder


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
