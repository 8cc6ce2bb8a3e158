"""What git ignores, and what the configuration excludes, asked entry by entry while a folder is walked."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from attrs import frozen
from pathspec import GitIgnoreSpec

from perfmod.errors import UsageMistake
from perfmod.roots import git_root, shown

DEFAULT_EXCLUDES = (
    ".git/",
    ".hg/",
    ".svn/",
    ".venv/",
    "venv/",
    ".tox/",
    ".nox/",
    ".eggs/",
    ".mypy_cache/",
    ".pytest_cache/",
    ".ruff_cache/",
    ".ipynb_checkpoints/",
    "__pycache__/",
    "__pypackages__/",
    "node_modules/",
    "site-packages/",
    "build/",
    "dist/",
)
"""Folders that hold no code of the user's own; a path given by name is read all the same."""


@frozen
class Patterns:
    """Patterns in the language of `.gitignore`, relative to `base`."""

    base: Path
    spec: GitIgnoreSpec

    @classmethod
    def of(cls, base: Path, lines: Iterable[str]) -> Patterns:
        """Raises `ValueError` (with the pattern) where a line is no pattern."""
        return cls(base, GitIgnoreSpec.from_lines(lines))

    @classmethod
    def read(cls, base: Path, file: Path) -> Patterns | None:
        """The patterns of `file`; None where there is none or it cannot be read, as git has it."""
        try:
            return cls.of(base, file.read_text("utf-8", "surrogateescape").splitlines())
        except (OSError, ValueError):
            return None

    def verdict(self, path: Path, is_folder: bool) -> bool | None:
        """Whether `path` is ignored; None where no pattern speaks of it."""
        inner = path.relative_to(self.base).as_posix()
        return self.spec.check_file(f"{inner}/" if is_folder else inner).include


@frozen
class Ignores:
    """The patterns that hold in one folder of a walk.

    Attributes:
        levels: those of git, outermost first; the innermost that speaks of a path decides.
        excludes: those of the configuration and the default ones; git cannot take them back.
    """

    levels: tuple[Patterns, ...]
    excludes: tuple[Patterns, ...]

    @classmethod
    def above(cls, folder: Path, exclude: Iterable[str], exclude_root: Path | None) -> Ignores:
        """What holds when a walk begins at `folder` (absolute), before its own `.gitignore`.

        Where the user names a folder that git ignores, it is walked, and the patterns above it do not count.

        Raises:
            UsageMistake: a pattern of the configuration is none.
        """
        excludes = [Patterns.of(folder, DEFAULT_EXCLUDES)]
        if exclude_root is not None:
            try:
                excludes.append(Patterns.of(exclude_root, exclude))
            except ValueError as error:
                place = shown(exclude_root / "pyproject.toml")
                raise UsageMistake(f'{place}: [tool.perfmod] "exclude": {error}') from error
        ignores = cls((), tuple(excludes))
        root = git_root(folder)
        if root is None or root == folder:
            return ignores
        for parent in reversed(folder.parents):
            if parent.is_relative_to(root):
                ignores = ignores.inside(parent)
        named = folder.relative_to(root).parts
        parents = [root.joinpath(*named[: depth + 1]) for depth in range(len(named))]
        if any(ignores.by_git(parent, is_folder=True) for parent in parents):
            return cls((), tuple(excludes))
        return ignores

    def inside(self, folder: Path) -> Ignores:
        """What holds in `folder`: its own patterns added, or alone where it is a repository itself."""
        is_repository = (folder / ".git").exists()
        found = [
            Patterns.read(folder, folder / ".git" / "info" / "exclude") if is_repository else None,
            Patterns.read(folder, folder / ".gitignore"),
        ]
        inherited = () if is_repository else self.levels
        own = tuple(patterns for patterns in found if patterns is not None)
        return Ignores((*inherited, *own), self.excludes)

    def by_git(self, path: Path, is_folder: bool) -> bool:
        """Whether git would ignore `path`."""
        for patterns in reversed(self.levels):
            if path.is_relative_to(patterns.base) and (verdict := patterns.verdict(path, is_folder)) is not None:
                return verdict
        return False

    def match(self, path: Path, is_folder: bool) -> bool:
        """Whether the walk leaves out `path`, an entry of the folder."""
        excluded = any(
            path.is_relative_to(patterns.base) and patterns.verdict(path, is_folder) for patterns in self.excludes
        )
        return excluded or self.by_git(path, is_folder)
