"""One file's text over several rounds of edits, and the way back from a place in it to the text that was given."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from attrs import asdict, evolve

from perfmod.codemods.edits import Splice
from perfmod.transforms.finding import Edit, Finding, PlacedEdit, Question
from perfmod.transforms.source import LINE_NUMBERS, Source


class Text:
    """The text of one file: as it was given, and as it is now."""

    def __init__(self, given: Source) -> None:
        self.given = given
        self.source = given
        self.splices: list[Splice] = []
        """How the given text became that of `source`."""

    def splice(self, edits: Iterable[Edit]) -> Splice:
        """Put edits into the text. Raises `SourceError` where it would be no Python then."""
        splice = Splice.of(edits)
        self.source = self.source.reparse(splice.apply(self.source.text))
        self.splices.append(splice)
        return splice

    def overwritten(self, edit: Edit) -> Iterator[tuple[int, Edit]]:
        """The edits that wrote what an edit of the current text changes, each with the number of its splice."""
        start, end = edit.start, edit.end
        for number, splice in reversed([*enumerate(self.splices)]):
            yield from ((number, earlier) for earlier in splice.touching(start, end))
            start, end = splice.old(start), splice.old_end(end) if end > start else splice.old(start)

    def placed(self, edit: Edit) -> PlacedEdit:
        """An edit of the given text, for somebody who has the file open."""
        first, last = self.given.place(edit.start), self.given.place(edit.end)
        return PlacedEdit(
            self.given.path, first.cell, first.line, first.column, last.line, last.column, edit.replacement
        )

    def asked(self, question: Question) -> Question:
        """A question about the current text, with its place in the given one."""
        offset = self.source.line_starts[question.line - 1] + question.column - 1
        return evolve(question, **asdict(self.given.place(self.start_in_given(offset))))

    def to_bytes(self, given: bytes) -> bytes:
        """The file as it is now; raises `SourceError` where it cannot be written."""
        return self.source.to_bytes() if self.splices else given

    def start_in_given(self, offset: int) -> int:
        """Where what starts at a character of the current text started in the given one."""
        for splice in reversed(self.splices):
            offset = splice.old(offset)
        return offset

    def end_in_given(self, offset: int) -> int:
        """Where what ends at a character of the current text ended in the given one."""
        for splice in reversed(self.splices):
            offset = splice.old_end(offset)
        return offset

    def is_new(self, start: int, end: int) -> bool:
        """Whether any of some characters of the current text came into it by an edit; blanks are indentation."""
        shown = (offset for offset in range(start, end) if not self.source.text[offset].isspace())
        return any(map(self._is_written, shown))

    def _is_written(self, offset: int) -> bool:
        for splice in reversed(self.splices):
            if splice.wrote(offset):
                return True
            offset = splice.old(offset)
        return False

    def lines_in_given(self, lines: str) -> str:
        """Words such as `lines 3 and 7` about the current text, as words about the given one."""
        starts = self.source.line_starts

        def moved(number: re.Match[str]) -> str:
            line = int(number.group())
            if not 0 < line <= len(starts):
                return number.group()
            return str(self.given.position(self.start_in_given(starts[line - 1]))[0])

        return re.sub(r"\d+", moved, lines) if self.splices else lines


class Words:
    """What findings say, where they may name lines of their own file and, as `line 3 of data.py`, of others."""

    def __init__(self, texts: Mapping[str, Text]) -> None:
        """`texts` by the labels under which messages name them."""
        self._texts = texts
        named = "|".join(re.escape(label) for label in sorted(texts, key=len, reverse=True))
        self._elsewhere = re.compile(rf"(?P<lines>{LINE_NUMBERS.pattern}) of (?P<label>{named})(?!\w)")

    def in_given(self, finding: Finding, text: Text) -> Finding:
        """A finding of the current texts, with its place, code and the lines that it names in the given ones."""
        start = text.start_in_given(finding.start)
        end = max(start, text.end_in_given(finding.end))
        line, column = text.given.position(start)

        def reworded(message: str) -> str:
            return self._reworded(
                message,
                lambda own: LINE_NUMBERS.sub(lambda match: text.lines_in_given(match.group()), own),
                lambda other, lines: other.lines_in_given(lines),
            )

        return evolve(
            finding,
            start=start,
            end=end,
            line=line,
            column=column,
            snippet=text.given.text[start:end],
            message=reworded(finding.message),
            reason=reworded(finding.reason),
        )

    def placed(self, finding: Finding, text: Text) -> Finding:
        """A finding of the given texts, for somebody who has the files open."""
        end = text.given.place(finding.end)
        return evolve(
            finding,
            **asdict(text.given.place(finding.start)),
            end_line=end.line,
            end_column=end.column,
            message=self._reworded(finding.message, text.given.in_words, lambda other, own: other.given.in_words(own)),
            reason=self._reworded(finding.reason, text.given.in_words, lambda other, own: other.given.in_words(own)),
        )

    def _reworded(self, message: str, own: Callable[[str], str], others: Callable[[Text, str], str]) -> str:
        """A message whose words about its own file and about others were put differently."""
        kept: list[str] = []

        def keep(match: re.Match[str]) -> str:
            kept.append(f"{others(self._texts[match['label']], match['lines'])} of {match['label']}")
            return f"\0{len(kept) - 1}\0"

        return re.sub(r"\0(\d+)\0", lambda match: kept[int(match[1])], own(self._elsewhere.sub(keep, message)))


def attributed(message: str, label: str) -> str:
    """A message about the lines of one file, for readers of another."""
    return LINE_NUMBERS.sub(lambda match: f"{match.group()} of {label}", message)
