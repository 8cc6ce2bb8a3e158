"""What git ignores, and what the configuration excludes, asked entry by entry while a folder is walked."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from attrs import evolve, frozen

from perfmod import disk
from perfmod.roots import git_root, project_root

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


_FOLDER = "ps_d"
"""The group of the slash behind a folder, in what `pathspec` makes of a pattern."""


@frozen
class Patterns:
    """Patterns in the language of `.gitignore`, relative to `base`."""

    base: Path
    rules: tuple[tuple[bool, re.Pattern[str]], ...]
    """Whether it ignores what it matches, or takes that back; the last one counts."""

    @classmethod
    def of(cls, base: Path, lines: Iterable[str]) -> Patterns:
        """Raises `ValueError` with the pattern where a line is none."""
        return cls(base, tuple(rule for line in lines if (rule := _rule(line)) is not None))

    @classmethod
    def read(cls, base: Path, file: Path) -> Patterns | None:
        """The patterns of `file`, without lines that are none, as in git; None where it cannot be read."""
        try:
            lines = disk.read(file).decode("utf-8", "surrogateescape").splitlines()
        except OSError:
            return None
        return cls.of(base, filter(_is_pattern, lines))

    def verdict(self, path: Path, is_folder: bool) -> bool | None:
        """Whether `path` is ignored; None where no pattern speaks of it."""
        inner = path.relative_to(self.base).as_posix()
        asked = f"{inner}/" if is_folder else inner
        return next((ignores for ignores, rule in reversed(self.rules) if _names(rule, asked)), None)

    def covers(self, file: Path) -> bool:
        """Whether a pattern speaks of `file`, or of a folder above it."""
        if not file.is_relative_to(self.base):
            return False
        folders = (folder for folder in file.parents if folder != self.base and folder.is_relative_to(self.base))
        return any(self.verdict(path, is_folder=path != file) for path in (file, *folders))


@lru_cache(maxsize=1000)
def _rule(line: str) -> tuple[bool, re.Pattern[str]] | None:
    """The pattern of a line; None where the line is blank or a comment. Raises `ValueError` where it is no pattern."""
    from pathspec import GitIgnoreSpec  # twenty modules, which a run over a known tree does without

    if not line.strip() or line.startswith("#"):
        return None
    try:
        (pattern,) = GitIgnoreSpec.from_lines([line]).patterns
    except ValueError:
        pattern = None
    if pattern is None or pattern.include is None or pattern.regex is None:
        raise ValueError(f"invalid pattern {line!r}")
    return pattern.include, pattern.regex


def _is_pattern(line: str) -> bool:
    try:
        return _rule(line) is not None
    except ValueError:
        return False


def _names(rule: re.Pattern[str], asked: str) -> bool:
    """Whether a pattern matches a path itself: not a folder above it, which was asked about before, nor what is in it.

    Git takes `!*/` for folders and not for what they hold, and `data/**` for what the folder holds and not for it.
    """
    for match in rule.finditer(asked):
        of_folder = match.groupdict().get(_FOLDER) is not None
        if of_folder == (match.group().endswith("/") and match.end() == len(asked)):
            return True
    return False


@frozen
class Ignores:
    """The patterns that hold in one folder of a walk.

    Attributes:
        levels: those of git, outermost first; the innermost that speaks of a path decides.
        defaults: those of `DEFAULT_EXCLUDES`.
        excludes: those of the configuration, where it has some; as the default ones, git cannot take them back.
    """

    levels: tuple[Patterns, ...]
    defaults: Patterns
    excludes: Patterns | None = None

    @classmethod
    def above(cls, folder: Path, exclude: Iterable[str], exclude_root: Path | None) -> Ignores:
        """What holds when a walk begins at `folder` (absolute), before its own `.gitignore`.

        Where the user names a folder that git ignores, it is walked, and the patterns above it do not count.
        """
        ignores = cls((), Patterns.of(folder, DEFAULT_EXCLUDES)).excluding(exclude, exclude_root)
        root = git_root(folder)
        if root is None or root == folder:
            return ignores
        for parent in reversed(folder.parents):
            if parent.is_relative_to(root):
                ignores = ignores.inside(parent)
        named = folder.relative_to(root).parts
        parents = [root.joinpath(*named[: depth + 1]) for depth in range(len(named))]
        if any(ignores.by_git(parent, is_folder=True) for parent in parents):
            return evolve(ignores, levels=())
        return ignores

    def excluding(self, exclude: Iterable[str], exclude_root: Path | None) -> Ignores:
        """The same with what another configuration excludes, in place of what this one does."""
        return evolve(self, excludes=Patterns.of(exclude_root, exclude) if exclude_root is not None else None)

    def inside(self, folder: Path) -> Ignores:
        """What holds in `folder`: its own patterns added, or alone where it is a repository itself."""
        is_repository = disk.exists(folder / ".git")
        found = [
            Patterns.read(folder, folder / ".git" / "info" / "exclude") if is_repository else None,
            Patterns.read(folder, folder / ".gitignore"),
        ]
        inherited = () if is_repository else self.levels
        own = tuple(patterns for patterns in found if patterns is not None)
        return evolve(self, levels=(*inherited, *own))

    def by_git(self, path: Path, is_folder: bool) -> bool:
        """Whether git would ignore `path`."""
        for patterns in reversed(self.levels):
            if path.is_relative_to(patterns.base) and (verdict := patterns.verdict(path, is_folder)) is not None:
                return verdict
        return False

    def match(self, path: Path, is_folder: bool) -> bool:
        """Whether the walk leaves out `path`, an entry of the folder."""
        return self.excluded(path, is_folder) or self.by_git(path, is_folder)

    def excluded(self, path: Path, is_folder: bool) -> bool:
        """Whether the configuration or a default pattern leaves out `path`, an entry of the folder."""
        patterns = (self.defaults, *([self.excludes] if self.excludes is not None else []))
        return any(path.is_relative_to(each.base) and each.verdict(path, is_folder) for each in patterns)


def is_forcibly_excluded(path: Path, is_folder: bool, exclude: Iterable[str], exclude_root: Path | None) -> bool:
    """Whether a walk through the project of `path` (absolute) would leave it out, whatever git says."""
    root = project_root(path.parent)
    ignores = Ignores((), Patterns.of(root, DEFAULT_EXCLUDES)).excluding(exclude, exclude_root)
    above = [folder for folder in path.parents if folder != root and folder.is_relative_to(root)]
    return any(ignores.excluded(folder, is_folder=True) for folder in above) or ignores.excluded(path, is_folder)
