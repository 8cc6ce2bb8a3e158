"""Goldens of several files: a folder before, and the files of it that change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from attrs import frozen

from golden_harness.golden import ROOT, Head, HeadError

MAIN = "train.py"
"""The file that is run, and whose first line says what the case shows."""


@frozen
class Project:
    """One case: `<rule>/<case>.in/` holds the files as they were written, `<case>.out/` those that change."""

    path: Path
    head: Head

    @classmethod
    def read(cls, path: Path) -> Project:
        """The golden of an `.in` folder. Raises `HeadError` where its first line is malformed."""
        head = Head.parse((path / MAIN).read_text(encoding="utf-8").split("\n", 1)[0])
        if not head.script:
            raise HeadError(f"goldens of several files are scripts: {path}")
        return cls(path, head)

    @property
    def rules(self) -> tuple[str, ...]:
        """Names of the rules that it is given to."""
        return (self.path.parent.name, *self.head.others)

    @property
    def name(self) -> str:
        """Rule and case, as printed by the tests."""
        return f"{self.path.parent.name}/{self.path.stem}"

    @property
    def out_path(self) -> Path:
        """Where the files that change stand, if any does."""
        return self.path.with_suffix(".out")

    @property
    def before(self) -> Mapping[str, bytes]:
        """The files as they were written, by their paths."""
        return _files(self.path)

    @property
    def after(self) -> Mapping[str, bytes]:
        """The files as they must be after the rewrite."""
        return {**self.before, **_files(self.out_path)}


def projects(root: Path = ROOT) -> Iterator[Project]:
    """All goldens of several files under `root`, in alphabetical order."""
    for path in sorted(root.glob("*/*.in/")):
        yield Project.read(path)


def _files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.py"))}
