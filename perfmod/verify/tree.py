"""The user's tree of files: where it begins, and what of it a run needs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

from attrs import Factory, define, frozen

from perfmod.errors import Failure, UsageMistake, explain
from perfmod.roots import shown

MARKERS = (".git", ".hg", "pyproject.toml", "setup.py", "setup.cfg")
"""What the top folder of a project holds, one of them."""
LEFT_OUT = frozenset(
    {
        ".eggs",
        ".git",
        ".hg",
        ".hypothesis",
        ".ipynb_checkpoints",
        ".jj",
        ".mypy_cache",
        ".nox",
        ".pytest_cache",
        ".ruff_cache",
        ".svn",
        ".tox",
        "__pycache__",
        "node_modules",
    }
)
"""Names of folders and files that no training reads, and some that it must not write."""
ENVIRONMENT_MARKERS = ("pyvenv.cfg", "conda-meta")
"""What the top folder of a virtual environment holds; its interpreter is named by `--python`."""
SCRATCH_PREFIX = "tmp-verify-"
"""How the names of our own scratch folders begin, which may lie in the tree (TMPDIR)."""
MOST_ENTRIES = 200_000
_LARGEST_NAMED = 3


@frozen
class TreeFile:
    """A regular file as it was when the tree was read. `path` is relative to the root; `size` is in bytes."""

    path: Path
    size: int
    modified_ns: int


@frozen
class Tree:
    """The files that a run of a script may read. All paths are relative to `root`, which is absolute and no link.

    Symbolic links that point to something in the tree point to its copy in a copy. Those that leave the tree, or lead
    to a part that is left out, keep their target: what a script writes through them, it writes to the user's files.

    Attributes:
        folders: parents before children.
        links: path, and the text of the link that stands there in a copy.
        outside_links: those of `links` that leave the tree and that nobody asked for; worth a warning.
        beyond: what else was asked to be linked, outside of the tree; absolute.
    """

    root: Path
    folders: tuple[Path, ...]
    files: tuple[TreeFile, ...]
    links: tuple[tuple[Path, str], ...]
    outside_links: tuple[Path, ...]
    beyond: tuple[Path, ...] = ()

    @classmethod
    def of(cls, script: Path, linked: Collection[Path] = ()) -> Tree:
        """The tree that `script` belongs to.

        Args:
            script: the file, absolute or relative to the working directory.
            linked: data that is only read, not copied but linked to. What lies outside of the tree is found by the
                script where it says `../data`.

        Raises:
            UsageMistake: a linked folder holds the script.
            Failure: a folder cannot be read, or there are more entries than any script needs.
        """
        script = script.resolve()
        root = tree_root(script)
        kept = {path.resolve() for path in linked}
        for path in kept:
            if script.is_relative_to(path):
                raise UsageMistake(f"--link {shown(path)}: holds the script itself; link the folder of its data")
        return _Reader(root, frozenset(kept)).read()

    @property
    def size(self) -> int:
        """Bytes in its files."""
        return sum(file.size for file in self.files)

    def largest(self) -> list[tuple[Path, int]]:
        """The files and folders, none within another, that hold most of the bytes; with these, largest first."""
        totals: Counter[Path] = Counter()
        for file in self.files:
            for path in (file.path, *file.path.parents[:-1]):
                totals[path] += file.size
        # A folder that one entry fills is not what to name.
        filled = {path.parent for path, size in totals.items() if size >= 0.9 * totals[path.parent]}
        named: list[tuple[Path, int]] = []
        for path, size in totals.most_common():
            apart = all(not path.is_relative_to(other) and not other.is_relative_to(path) for other, _ in named)
            if path not in filled and apart:
                named.append((path, size))
            if len(named) == _LARGEST_NAMED:
                break
        return named


def tree_root(script: Path) -> Path:
    """The nearest folder above `script` (resolved) that looks like a project's, else its own folder.

    Neither the home folder nor the root of the file system is a project's, whatever lies there.
    """
    beyond = {Path.home().resolve(), Path(script.anchor)}
    for folder in script.parents:
        if folder in beyond:
            break
        if any(os.path.lexists(folder / marker) for marker in MARKERS):
            return folder
    return script.parent


@define
class _Reader:
    """Reads a tree once. `linked` are resolved paths."""

    root: Path
    linked: frozenset[Path]
    folders: list[Path] = Factory(list)
    files: list[TreeFile] = Factory(list)
    links: dict[Path, Path] = Factory(dict)

    def read(self) -> Tree:
        asked: list[tuple[Path, str]] = []
        pending = [self.root]
        while pending:
            for entry in self._entries(pending.pop()):
                path = Path(entry.path)
                inner = path.relative_to(self.root)
                if entry.is_symlink():
                    self.links[inner] = path.resolve()
                elif path in self.linked:
                    asked.append((inner, str(path)))
                elif entry.is_dir(follow_symlinks=False):
                    if not _is_environment(path):
                        self.folders.append(inner)
                        pending.append(path)
                elif entry.is_file(follow_symlinks=False):
                    state = entry.stat(follow_symlinks=False)
                    self.files.append(TreeFile(inner, state.st_size, state.st_mtime_ns))
                # Sockets, pipes and devices mean nothing in a copy.
            if len(self.folders) + len(self.files) + len(self.links) > MOST_ENTRIES:
                raise Failure(
                    f"{shown(self.root)}: has more than {MOST_ENTRIES} files and cannot be copied for every run; "
                    "--link the folder of the data that the script only reads"
                )
        held = {Path(), *self.folders, *(file.path for file in self.files), *self.links}
        beyond = sorted(path for path in self.linked if not path.is_relative_to(self.root) and path.exists())
        links = [(path, self._text(path, target, held)) for path, target in self.links.items()]
        return Tree(
            root=self.root,
            folders=tuple(self.folders),
            files=tuple(self.files),
            links=(*((path, text) for path, text in links if text), *asked),
            outside_links=tuple(path for path, text in links if Path(text).is_absolute() and not self._asked(text)),
            beyond=tuple(beyond),
        )

    def _entries(self, folder: Path) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except FileNotFoundError:
            return
        except OSError as error:
            raise Failure(
                f"{shown(folder)}: cannot be read: {explain(error)}; --link it if the script does not write there"
            ) from error
        yield from (each for each in found if each.name not in LEFT_OUT and not each.name.startswith(SCRATCH_PREFIX))

    def _text(self, path: Path, target: Path, held: Collection[Path]) -> str:
        """The text of a link in a copy: relative within the copy, absolute to the outside, empty to drop it."""
        if target.is_relative_to(self.root) and target.relative_to(self.root) in held:
            text = (self.root / path).readlink()
            spelled = Path(os.path.normpath(self.root / path.parent / text))
            if not text.is_absolute() and spelled.is_relative_to(self.root):
                return str(text)
            return os.path.relpath(target, self.root / path.parent)
        # A dangling link would have the script create a file out there.
        return str(target) if target.exists() else ""

    def _asked(self, target: str) -> bool:
        return any(Path(target).is_relative_to(linked) for linked in self.linked)


def _is_environment(folder: Path) -> bool:
    return any(os.path.lexists(folder / marker) for marker in ENVIRONMENT_MARKERS)
