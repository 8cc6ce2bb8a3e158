"""All code cells of a notebook as one `Source`, which facts read from top to bottom."""

from __future__ import annotations

import re
from collections.abc import Iterable

import libcst as cst
from attrs import define

from perfmod.transforms.decoding import ForeignSource, SourceError
from perfmod.transforms.finding import Edit
from perfmod.transforms.notebook.cells import Cells
from perfmod.transforms.notebook.document import Document
from perfmod.transforms.source import LINE_NUMBERS, Place, Source, parse_module, parsed


@define(eq=False)
class Notebook(Source):
    """A notebook.

    Attributes:
        cells: its code cells, whose text `text` is.
    """

    cells: Cells

    @classmethod
    def read(cls, data: bytes, path: str) -> Notebook:
        """Decode and parse a notebook.

        Raises:
            ForeignSource: a notebook of another format or language, or a cell that is no Python.
            SourceError: no notebook.
        """
        document = Document.read(data)
        return cls._of(path, Cells.read(document))

    @classmethod
    def _of(cls, path: str, cells: Cells, *, is_in_full: bool = False) -> Notebook:
        try:
            tree = parsed(cells.text, in_full=is_in_full)
        except SourceError as error:
            raise _explained(cells) from error
        notebook = cls(path, cells.text, "utf-8", cells.document.bom, tree, cells, is_in_full=is_in_full)
        if not notebook._is_whole():
            raise _explained(cells)
        return notebook

    def reparse(self, text: str) -> Notebook:
        """The same notebook with another text. Raises `SourceError` where a cell is no Python then."""
        return self._of(self.path, self.cells.with_text(text), is_in_full=self.is_in_full)

    def to_bytes(self) -> bytes:
        """The notebook as it is written to disk; raises `SourceError` where that cannot be done."""
        return self.cells.document_as_edited().to_bytes()

    @property
    def has_cells(self) -> bool:
        """Always."""
        return True

    @property
    def newline(self) -> str:
        """The line ending of the cells."""
        return self.cells.marks.newline

    def place(self, offset: int) -> Place:
        """The cell of a character, and line and column in it."""
        return self.cells.place(offset)

    def in_words(self, text: str) -> str:
        """A message with the cells of the lines that it names."""
        return _in_words(text, self.cells, self.line_starts)

    def obstacle(self, edits: Iterable[Edit]) -> str:
        """Why one of the edits cannot be made in a notebook; empty where all can."""
        return next((reason for edit in edits if (reason := self.cells.obstacle(edit))), "")

    def doubt(self, edits: Iterable[Edit]) -> str:
        """Why the edits may be wrong unless cells run once and in their order; empty where they hold in any case."""
        return self.cells.doubt(edits)

    def part_end(self, offset: int) -> int:
        """The end of the cell that holds a character."""
        return self.cells.end(offset)

    def _is_whole(self) -> bool:
        """Whether every divider is a statement, and nothing that was put in is gone."""
        marks, cells = self.cells.marks, self.cells.document.cells
        found = [match["number"] for match in marks.pattern.finditer(self.text) if match["number"]]
        dividers = sum(self._is_divider(line) for line in self.module.body)
        return dividers == max(0, len(cells) - 1) and found == [str(number) for number, _ in enumerate(marks.hidden)]

    def _is_divider(self, line: cst.CSTNode) -> bool:
        end = self.span(line)[1]
        return self.text[end : self.line_end(end)].strip(" \t\r\n;") == f"# {self.cells.marks.mark}|"


def _explained(cells: Cells) -> ForeignSource:
    """What is wrong with the first cell that is no Python by itself; most likely it is prose."""
    complaints = (_complaint(cells, offset, part) for offset, part in cells.parts())
    return ForeignSource(next(filter(None, complaints), "a cell reaches into the next"))


def _complaint(cells: Cells, offset: int, part: str) -> str:
    """Why the part of the text that starts at `offset` is no Python; empty where it is."""
    try:
        parse_module(part)
    except SourceError as error:
        return _in_words(error.reason, cells, [offset + start for start in _line_starts(part)])
    return ""


def _in_words(text: str, cells: Cells, starts: list[int]) -> str:
    """A message with the cells of the lines that it names; `starts` are the offsets of these lines."""

    def named(match: re.Match[str]) -> str:
        numbers = [int(number) for number in re.findall(r"\d+", match.group())]
        if not all(0 < number <= len(starts) for number in numbers):
            return match.group()
        places = {number: cells.place(starts[number - 1]) for number in numbers}
        if len({place.cell for place in places.values()}) == 1:
            lines = re.sub(r"\d+", lambda number: str(places[int(number.group())].line), match.group())
            return f"{lines} of cell {places[numbers[0]].cell}"
        rest = re.sub(r"^lines? ", "", match.group())
        return re.sub(r"\d+", lambda n: "line {0.line} of cell {0.cell}".format(places[int(n.group())]), rest)

    return cells.marks.restored(LINE_NUMBERS.sub(named, text))


def _line_starts(text: str) -> list[int]:
    return [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]
