"""Where things belong: the repository, the project, and how a path is shown."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from perfmod import disk


def git_root(start: Path) -> Path | None:
    """The nearest folder at or above `start` (absolute) with a `.git`, or None outside of repositories."""
    for folder in (start, *start.parents):
        if disk.exists(folder / ".git"):
            return folder
    return None


def project_root(start: Path) -> Path:
    """The folder a run in `start` belongs to: its repository, else its project, else `start` itself."""
    root = git_root(start)
    if root is not None:
        return root
    for folder in (start, *start.parents):
        if disk.is_file(folder / "pyproject.toml"):
            return folder
    return start


def patch_root(files: Iterable[Path], cwd: Path) -> Path:
    """The folder that paths in a patch over `files` (absolute) are relative to: where `git apply` stands.

    That is the repository that holds them all, else `cwd`, else their nearest common folder.
    """
    common = Path(os.path.commonpath([str(file.parent) for file in files]))
    root = git_root(common)
    if root is not None:
        return root
    return cwd if common.is_relative_to(cwd) else common


def shown(path: str | Path) -> str:
    """A path or a line as it can be printed anywhere: undecodable and control characters are escaped."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def from_here(path: Path) -> Path:
    """A path from the current folder, where it lies below that."""
    cwd = Path.cwd()
    return path.relative_to(cwd) if path.is_relative_to(cwd) else path
