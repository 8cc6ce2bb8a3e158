"""Lines as the protocol and perfmod both count them, and the edits that make one text of another.

An editor counts a line's characters in units of the encoding that it has agreed on; perfmod counts code points.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from itertools import pairwise

from attrs import define, field
from lsprotocol.types import Position, PositionEncodingKind, Range, TextEdit

_Difference = tuple[int, int, int, int]
"""The first and last offset in the old text, and in the new one."""
_LINE_END = re.compile(r"\r\n|\n|\r")
_SMALL = 4000
"""Below so many lines the smallest edits are looked for; above, difflib may pass over lines that occur often."""
_UNIT_BYTES = {PositionEncodingKind.Utf8.value: 1, PositionEncodingKind.Utf32.value: 4}
"""Bytes in a unit of an encoding; those of UTF-16, the protocol's default, are two."""


@define(eq=False)
class Lines:
    """A text, and places in it.

    Attributes:
        text: without its byte order mark, line endings as they are.
        encoding: in whose units the editor counts: `utf-8`, `utf-16` or `utf-32`.
    """

    text: str
    encoding: str
    _starts: list[int] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(self.text))]

    def offset(self, line: int, column: int) -> int:
        """The character at a line and column, both from 1, as findings have them."""
        return min(self._starts[min(line, len(self._starts)) - 1] + column - 1, len(self.text))

    def position(self, offset: int) -> Position:
        """Where a character stands for the editor."""
        line = bisect.bisect_right(self._starts, offset) - 1
        return Position(line, self._units(self.text[self._starts[line] : offset]))

    def range(self, start: int, end: int) -> Range:
        """Where characters stand for the editor."""
        return Range(self.position(start), self.position(end))

    def edits_to(self, new: str) -> list[TextEdit]:
        r"""Small edits that make `new` of the text; none of them parts a `\r\n`."""
        return [
            TextEdit(self.range(start, end), new[new_start:new_end])
            for start, end, new_start, new_end in _joined(_differences(self.text, new))
        ]

    def _units(self, text: str) -> int:
        if self.encoding == PositionEncodingKind.Utf32.value or text.isascii():
            return len(text)
        name = self.encoding if self.encoding == PositionEncodingKind.Utf8.value else "utf-16-le"
        return len(text.encode(name, "surrogatepass")) // _UNIT_BYTES.get(self.encoding, 2)


def _differences(old: str, new: str) -> Iterator[_Difference]:
    """Where two texts differ, without what is the same at both ends."""
    lines, new_lines = _split(old), _split(new)
    starts, new_starts = _offsets(lines), _offsets(new_lines)
    matcher = SequenceMatcher(None, lines, new_lines, autojunk=len(lines) > _SMALL)
    for kind, first, last, new_first, new_last in matcher.get_opcodes():
        # Lines that are replaced by as many are compared one by one.
        pieces = last - first if kind == "replace" and last - first == new_last - new_first else 1
        for number in range(pieces if kind != "equal" else 0):
            is_last = number == pieces - 1
            start, new_start = starts[first + number], new_starts[new_first + number]
            end = starts[last if is_last else first + number + 1]
            new_end = new_starts[new_last if is_last else new_first + number + 1]
            while start < end and new_start < new_end and old[start] == new[new_start] and not _parts(old, start + 1):
                start, new_start = start + 1, new_start + 1
            while end > start and new_end > new_start and old[end - 1] == new[new_end - 1] and not _parts(old, end - 1):
                end, new_end = end - 1, new_end - 1
            if start < end or new_start < new_end:
                yield start, end, new_start, new_end


def _joined(differences: Iterable[_Difference]) -> Iterator[_Difference]:
    """Differences of which none begins where another one ends: editors do not agree on what comes first then."""
    before: _Difference | None = None
    for each in differences:
        if before is not None and before[1] == each[0] and before[3] == each[2]:
            before = before[0], each[1], before[2], each[3]
            continue
        if before is not None:
            yield before
        before = each
    if before is not None:
        yield before


def _parts(text: str, offset: int) -> bool:
    """Whether an offset lies within a line ending, where the editor has no position."""
    return text[offset - 1 : offset + 1] == "\r\n"


def _split(text: str) -> list[str]:
    ends = [0, *(match.end() for match in _LINE_END.finditer(text)), len(text)]
    return [text[start:end] for start, end in pairwise(ends) if start < end]


def _offsets(lines: list[str]) -> list[int]:
    """Where each line starts, and behind them the length of the text."""
    found = [0]
    for line in lines:
        found.append(found[-1] + len(line))
    return found
