"""The text of a notebook's code cells with what was put into it, and the way back.

Cells are divided by a statement of their own, so that none reaches into the next. What was put in bears a mark, a
character that the notebook does not hold, and is found again by it after the text was edited.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator

from attrs import define, field, frozen

from perfmod.transforms.decoding import SourceError
from perfmod.transforms.finding import Edit
from perfmod.transforms.notebook import ipython, order
from perfmod.transforms.notebook.document import Document
from perfmod.transforms.source import Place

_LINE_END = re.compile(r"\r\n|\r|\n")
_CODE = re.compile(r"^[ \t]*[^\s#]", re.MULTILINE)
_MARKS = range(0xE000, 0xF8FF)
"""Characters for private use: Python has them in strings and comments only, and nobody else has them at all."""


@frozen
class Marks:
    """What stands in the text of a notebook and not in its cells.

    Attributes:
        mark: the character that all of it holds.
        newline: the line ending of the notebook.
        hidden: what the stand-ins stand for, by number.
    """

    mark: str
    newline: str
    hidden: tuple[str, ...]

    @property
    def divider(self) -> str:
        """The line between two cells."""
        return f"pass  # {self.mark}|{self.newline}"

    @property
    def opening(self) -> str:
        """Stands before an expression whose value is shown; reading it is what `print` does."""
        return f"print('{self.mark}<', "

    @property
    def closing(self) -> str:
        """Stands behind it."""
        return f", '{self.mark}>')"

    def line(self, number: int) -> str:
        """Ends the line of a stand-in."""
        return f"  # {self.mark}{number};"

    @property
    def added_line(self) -> str:
        """Ends a line that stands for nothing."""
        return f"  # {self.mark}+"

    @property
    def pattern(self) -> re.Pattern[str]:
        """Matches all of it but the divider."""
        mark = re.escape(self.mark)
        return re.compile(
            rf"(?P<opening>{re.escape(self.opening)})|(?P<closing>{re.escape(self.closing)})"
            rf"|(?<![^\r\n])(?P<added>[^\r\n]*  # {mark}\+(?:\r\n|\r|\n)?)"
            rf"|(?<![^\r\n])(?P<line>[^\r\n]*  # {mark}(?P<number>\d+);)"
        )

    def restored(self, text: str) -> str:
        """A part of the text as it stands in its cell."""
        return self.pattern.sub(lambda found: self.hidden[int(found["number"])] if found["number"] else "", text)


@define
class Cells:
    """The code cells of a notebook as one text.

    Attributes:
        document: where they come from.
        marks: what was put in.
        text: all of it, as it was or as it was edited.
        regions: for every code cell the characters that are its own; dividers lie between them.
    """

    document: Document
    marks: Marks
    text: str
    regions: tuple[tuple[int, int], ...] = field(init=False)

    def __attrs_post_init__(self) -> None:
        regions, at = [], 0
        for part in self.text.split(self.marks.divider) if self.document.cells else ():
            regions.append((at, at + len(part)))
            at += len(part) + len(self.marks.divider)
        self.regions = tuple(regions)

    @classmethod
    def read(cls, document: Document) -> Cells:
        """The cells of a document. Raises `SourceError` for text that no Python can hold."""
        for cell in document.cells:
            if "\0" in cell.source:
                raise SourceError(f"cell {cell.number} contains null bytes, so it is not Python source")
            if any("\ud800" <= character <= "\udfff" for character in cell.source):
                raise SourceError(f"cell {cell.number} contains half a character, a surrogate without its other half")
        sources = [cell.source for cell in document.cells]
        mark = next(mark for mark in map(chr, _MARKS) if not any(mark in source for source in sources))
        newline = "\r\n" if any("\r\n" in source for source in sources) else "\n"
        hidden: list[str] = []
        marks = Marks(mark, newline, ())
        parts = [_marked(source, marks, hidden) for source in sources]
        return cls(document, Marks(mark, newline, tuple(hidden)), marks.divider.join(parts))

    def with_text(self, text: str) -> Cells:
        """The same cells after they were edited."""
        return Cells(self.document, self.marks, text)

    def parts(self) -> Iterator[tuple[int, str]]:
        """The text of every cell, with the offset at which it starts."""
        return ((start, self.text[start:end]) for start, end in self.regions)

    def place(self, offset: int) -> Place:
        """The cell, and line and column in it, of a character of the text."""
        index = self._index(offset)
        start, end = self.regions[index]
        offset = min(offset, end)
        hidden = next((each for each in self.hidden(index) if each.kind == "line" and each.holds(offset)), None)
        if hidden is not None:
            # A stand-in has columns of its own; those of what it stands for are wanted.
            indentation = re.compile(r"[ \t]*").match(self.text, hidden.start)
            offset = indentation.end() if indentation else hidden.start
        before = self.marks.restored(self.text[start:offset])
        lines = [0, *(match.end() for match in _LINE_END.finditer(before))]
        return Place(len(lines), len(before) - lines[-1] + 1, self.document.cells[index].number)

    def obstacle(self, edit: Edit) -> str:
        """Why an edit cannot be made, in words; empty where it can. Lines that it names are those of the text."""
        index = self._index(edit.start)
        end = self.regions[index][1]
        number = self.document.cells[index].number
        whole_lines = edit.replacement.endswith(("\n", "\r"))
        if edit.end > end or (edit.end == end and not whole_lines and not self._empties_lines(edit)):
            return f"the change would reach beyond the end of cell {number}"
        if not self.document.cells[index].editable:
            return f"the metadata of cell {number} mark it as not editable"
        if ipython.is_foreign(self.document.cells[index].source):
            return f"cell {number} belongs to a cell magic"
        for hidden in self.hidden(index):
            if hidden.kind == "closing" and edit.start >= hidden.end and _CODE.search(edit.replacement):
                return f"cell {number} would no longer show the value of its last line"
            at_start = edit.start == edit.end == hidden.start
            above = at_start and whole_lines and not self._opens_cell(hidden)
            beside = at_start and hidden.kind in ("opening", "closing")
            if not above and not beside and hidden.touched_by(edit):
                line = len(_LINE_END.findall(self.text, 0, hidden.start)) + 1
                return f"line {line} is not plain Python or displays a value in the notebook, and is not changed"
        return ""

    def end(self, offset: int) -> int:
        """The end of the cell that holds a character."""
        return self.regions[self._index(offset)][1]

    def doubt(self, edits: Iterable[Edit]) -> str:
        """Why edits, none of which has an obstacle, may be wrong unless cells run once and in their order."""
        edited: dict[int, list[Edit]] = {}
        for edit in edits:
            edited.setdefault(self._index(edit.start), []).append(edit)
        numbers = [cell.number for cell in self.document.cells]
        before = {number: self.text[start:end] for number, (start, end) in zip(numbers, self.regions, strict=True)}
        after = {}
        for index, own in edited.items():
            pieces, at = [], self.regions[index][0]
            for edit in sorted(own, key=lambda edit: (edit.start, edit.end)):
                pieces += [self.text[at : edit.start], edit.replacement]
                at = edit.end
            after[numbers[index]] = "".join([*pieces, self.text[at : self.regions[index][1]]])
        return order.doubt(before, after, sorted(after))

    def hidden(self, index: int) -> Iterator[Hidden]:
        """What was put into a cell, given by its index."""
        for match in self.marks.pattern.finditer(self.text, *self.regions[index]):
            yield Hidden(*match.span(), match.lastgroup or "")

    def document_as_edited(self) -> Document:
        """The document with the sources of this text. Raises `SourceError` where that cannot be written."""
        sources: dict[int, str] = {}
        for index, (cell, (start, end)) in enumerate(zip(self.document.cells, self.regions, strict=True)):
            source = self.marks.restored(self.text[start:end])
            if not cell.source.endswith(("\n", "\r")):
                source = source.rstrip("\r\n")
            if source != cell.source:
                sources[index] = source
        return self.document.with_sources(sources)

    def _index(self, offset: int) -> int:
        """The cell that holds a character; a divider counts for the cell above it."""
        return max(0, bisect.bisect_right(self.regions, offset, key=lambda region: region[0]) - 1)

    def _empties_lines(self, edit: Edit) -> bool:
        """Whether an edit removes whole lines, or nothing."""
        before = self.text[: edit.start]
        return not edit.replacement and (not before or before.endswith(("\n", "\r")))

    def _opens_cell(self, hidden: Hidden) -> bool:
        """Whether something has to stay first in its cell, as `%%time` has to."""
        return hidden.kind == "added" or self.marks.restored(self.text[hidden.start : hidden.end]).lstrip().startswith(
            "%%"
        )


@frozen
class Hidden:
    """The characters `start` to `end` of a text were put in: an `opening`, a `closing`, a `line` or an `added` one."""

    start: int
    end: int
    kind: str

    def holds(self, offset: int) -> bool:
        """Whether it covers a character."""
        return self.start <= offset <= self.end

    def touched_by(self, edit: Edit) -> bool:
        """Whether an edit changes it, or the line that it is."""
        if edit.start == edit.end:
            last = self.end if self.kind == "line" else self.end - 1
            return self.start <= edit.start <= last
        return edit.start < self.end and self.start < edit.end


def _marked(source: str, marks: Marks, hidden: list[str]) -> str:
    """The text of a cell with what has to be put into it; what that hides is added to `hidden`."""
    pieces, at = [], 0
    for stand_in in ipython.stand_ins(source):
        pieces.append(source[at : stand_in.start] + stand_in.indentation + stand_in.python)
        if stand_in.start == stand_in.end:
            pieces.append(marks.added_line + marks.newline)
        else:
            pieces.append(marks.line(len(hidden)))
            hidden.append(source[stand_in.start : stand_in.end])
        at = stand_in.end
    text = "".join([*pieces, source[at:]])
    shown = ipython.shown(text)
    if shown is not None and not _is_marked(text, shown, marks):
        expression = text[shown.start : shown.end]
        text = f"{text[: shown.start]}{marks.opening}{expression}{marks.closing}{text[shown.end :]}"
    return text + marks.newline if text and not text.endswith(("\n", "\r")) else text


def _is_marked(text: str, shown: ipython.Shown, marks: Marks) -> bool:
    rest = _LINE_END.split(text[shown.end :], maxsplit=1)[0]
    return marks.mark in text[shown.start : shown.end] + rest
