"""Findings on lines that did not change since a revision of git."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from perfmod.codemods.results import Outcome
from perfmod.errors import UsageMistake
from perfmod.examined import Examined
from perfmod.files import FoundFile, Unreadable, read
from perfmod.git import Changes
from perfmod.report.rows import UNLISTED, FindingRow, Report
from perfmod.roots import git_root
from perfmod.transforms.decoding import SourceError

Place = tuple[str, int | None, int, int]
"""Path as it is printed, cell, first and last line."""


def unchanged(report: Report, examined: Sequence[Examined], since: str) -> set[int]:
    """The numbers of the findings whose code, and whose rewrite, touch no line that changed since a revision.

    The revision stands for the commit at which the current branch left it. `report` is made of `examined`.

    Raises:
        UsageMistake: a file is in no repository, or git does not know the revision.
        Failure: git cannot be asked.
    """
    files = {each.result.path: each.file for each in examined if each.result.outcome is not Outcome.FAILED}
    changed = _Changed(files, since)
    findings = ((number, row) for number, row in enumerate(report.findings) if row.state not in UNLISTED)
    return {number for number, row in findings if not any(map(changed.holds, _places(row)))}


def _places(row: FindingRow) -> Iterator[Place]:
    yield row.path, row.cell, row.line, _last_line(row.line, row.end_line, row.end_column)
    for edit in row.edits or ():
        yield edit.path, edit.cell, edit.line, _last_line(edit.line, edit.end_line, edit.end_column)


def _last_line(first: int, end: int, end_column: int) -> int:
    """The line of the last character of what ends before a column."""
    return end - 1 if end_column == 1 and end > first else max(first, end)


class _Changed:
    """The lines of files that changed; of notebooks the cells whose code stood in no cell before."""

    def __init__(self, files: dict[str, FoundFile], since: str) -> None:
        self._files = files
        self._since = since
        self._changes: dict[Path, Changes] = {}
        self._new_cells: dict[str, frozenset[int] | None] = {}

    def holds(self, place: Place) -> bool:
        """Whether a line there changed; never in a file that was not examined."""
        path, cell, first, last = place
        if path not in self._files:
            return False
        if cell is not None:
            if path not in self._new_cells:
                self._new_cells[path] = self._find_new_cells(self._files[path])
            cells = self._new_cells[path]
            return cells is None or cell in cells
        lines = self._of(self._files[path]).lines(self._files[path].real)
        return lines is None or any(start <= last and first <= end for start, end in lines)

    def _of(self, file: FoundFile) -> Changes:
        root = git_root(file.real.parent)
        if root is None:
            raise UsageMistake(f"{file.shown}: is in no git repository, so nobody knows what is new in it")
        if root not in self._changes:
            self._changes[root] = Changes(root, self._since)
        return self._changes[root]

    def _find_new_cells(self, file: FoundFile) -> frozenset[int] | None:
        """The numbers of the cells whose code is new; None where all are."""
        from perfmod.transforms.notebook.document import Document

        before = self._of(file).before(file.real)
        if before is None:
            return None
        try:
            old = {cell.source for cell in Document.read(before).cells}
            return frozenset(cell.number for cell in Document.read(read(file)).cells if cell.source not in old)
        except (SourceError, Unreadable):
            return None
