"""Applying edits to a text, and finding places again on the other side of them."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Sequence

from attrs import frozen

from perfmod.transforms.finding import Edit


def disjoint(text: str, edits: Iterable[Edit], others: Iterable[Edit]) -> bool:
    """Whether two sets of edits of one text can both be applied, in either order.

    No edit of the one may overlap an edit of the other; and where one changes the indentation of lines, the other may
    not write new ones, which would keep the indentation of before.
    """
    edits, others = tuple(edits), tuple(others)
    return not (
        any(edit.overlaps(other) for edit in edits for other in others)
        or (_any_indents(text, edits) and any(map(_writes_lines, others)))
        or (_any_indents(text, others) and any(map(_writes_lines, edits)))
    )


def _any_indents(text: str, edits: Iterable[Edit]) -> bool:
    """Whether one of some edits changes nothing but blanks: those that a line begins with."""
    changed = (text[edit.start : edit.end] + edit.replacement for edit in edits)
    return any(each != "" and not each.strip(" \t") for each in changed)


def _writes_lines(edit: Edit) -> bool:
    return "\n" in edit.replacement or "\r" in edit.replacement


def is_consistent(edits: Sequence[Edit], length: int) -> bool:
    """Whether edits lie inside a text of `length` characters and do not overlap each other."""
    ordered = sorted(edits)
    inside = all(0 <= edit.start <= edit.end <= length for edit in ordered)
    return inside and not any(edit.overlaps(following) for edit, following in itertools.pairwise(ordered))


@frozen
class Splice:
    """Edits made to one text at once, with the places that each occupies before and after.

    Attributes:
        edits: in order of position; insertions at the same place in the order in which they were given.
        starts: for every edit, where its replacement starts in the new text.
    """

    edits: tuple[Edit, ...]
    starts: tuple[int, ...]

    @classmethod
    def of(cls, edits: Iterable[Edit]) -> Splice:
        """Takes edits that do not overlap, other than insertions at the same place."""
        ordered = tuple(sorted(edits, key=lambda edit: (edit.start, edit.end)))
        starts, shift = [], 0
        for edit in ordered:
            starts.append(edit.start + shift)
            shift += len(edit.replacement) - (edit.end - edit.start)
        return cls(ordered, tuple(starts))

    def apply(self, text: str) -> str:
        """The new text: what lies between the edits is taken over as it is."""
        pieces, at = [], 0
        for edit in self.edits:
            pieces += [text[at : edit.start], edit.replacement]
            at = edit.end
        return "".join([*pieces, text[at:]])

    def new(self, offset: int) -> int:
        """Where a character of the old text is now; where its replacement starts, if it was replaced."""
        index = bisect.bisect_right(self.edits, offset, key=lambda edit: edit.start) - 1
        if index < 0:
            return offset
        edit, start = self.edits[index], self.starts[index]
        return start if offset < edit.end else offset - edit.end + start + len(edit.replacement)

    def old(self, offset: int) -> int:
        """Where a character of the new text was; where the replaced text started, if an edit wrote it."""
        edit, end = self._last_edit(offset)
        return edit.start if offset < end else offset - end + edit.end

    def wrote(self, offset: int) -> bool:
        """Whether a character of the new text was written by an edit."""
        return offset < self._last_edit(offset)[1]

    def touching(self, start: int, end: int) -> list[Edit]:
        """The edits that wrote into some characters of the new text, or took some from between them.

        Where `start` is `end`, those within whose writing that place lies.
        """
        places = zip(self.edits, self.starts, strict=True)
        return [edit for edit, at in places if at < end and start < at + len(edit.replacement)]

    def old_end(self, offset: int) -> int:
        """Where what ends at `offset` of the new text ended; behind the replaced text, if it was written."""
        if offset == 0:
            return 0
        edit, end = self._last_edit(offset - 1)
        return edit.end if offset <= end else offset - end + edit.end

    def _last_edit(self, offset: int) -> tuple[Edit, int]:
        """The last edit that starts at or before `offset` of the new text, and where it ends there."""
        index = bisect.bisect_right(self.starts, offset) - 1
        if index < 0:
            return Edit(0, 0, ""), 0
        return self.edits[index], self.starts[index] + len(self.edits[index].replacement)
