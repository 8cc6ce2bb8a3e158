"""Edits that are placed by line and column, put into the code of a file: no tree is needed for that."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from attrs import frozen

from perfmod.codemods.edits import Splice, is_consistent
from perfmod.transforms.decoding import SourceError, decode, is_notebook
from perfmod.transforms.finding import Edit, PlacedEdit
from perfmod.transforms.notebook.document import Document

_LINE_END = re.compile(r"\r\n|\r|\n")


class Overlap(Exception):
    """Edits of which only one or the other can be made."""


@frozen
class Code:
    """The code of a file: one part for a script; for a notebook one for each code cell, by its number.

    Attributes:
        parts: the text of each part; the key of a script's only part is None.
    """

    data: bytes
    path: str
    parts: Mapping[int | None, str]

    @classmethod
    def read(cls, data: bytes, path: str) -> Code:
        """Raises `SourceError` where the file cannot be decoded."""
        if is_notebook(path):
            return cls(data, path, {cell.number: cell.source for cell in Document.read(data).cells})
        return cls(data, path, {None: decode(data)[0]})

    @property
    def script(self) -> str:
        """The text of a script, without its byte order mark."""
        return self.parts[None]

    def edited(self, edits: Iterable[PlacedEdit]) -> Code:
        """The code with edits made at once; the same edit given twice counts once.

        Raises `Overlap` where they get in each other's way.
        """
        by_part: dict[int | None, dict[PlacedEdit, None]] = defaultdict(dict)
        for edit in edits:
            by_part[edit.cell][edit] = None
        changed = {part: _edited(self.parts[part], own) for part, own in by_part.items()}
        return Code(self.data, self.path, {**self.parts, **changed})

    def to_bytes(self) -> bytes:
        """The file with this code. Raises `SourceError` where it cannot hold it."""
        if is_notebook(self.path):
            document = Document.read(self.data)
            sources = {
                index: self.parts[cell.number]
                for index, cell in enumerate(document.cells)
                if self.parts[cell.number] != cell.source
            }
            return document.with_sources(sources).to_bytes()
        _, encoding, bom = decode(self.data)
        try:
            return bom + self.script.encode(encoding)
        except UnicodeEncodeError as error:
            raise SourceError(f"cannot write the result in the file's encoding {encoding}: {error}") from error


def _edited(text: str, edits: Iterable[PlacedEdit]) -> str:
    # The last line of a cell mostly has no ending; the analysis gives it one, and takes it away again.
    is_open = bool(text) and not text.endswith(("\n", "\r"))
    whole = f"{text}\n" if is_open else text
    starts = [0, *(match.end() for match in _LINE_END.finditer(whole))]
    plain = [
        Edit(starts[edit.line - 1] + edit.column - 1, starts[edit.end_line - 1] + edit.end_column - 1, edit.replacement)
        for edit in edits
    ]
    if not is_consistent([edit for edit in plain if edit.start < edit.end or edit.replacement], len(whole)):
        raise Overlap
    result = Splice.of(plain).apply(whole)
    return result.rstrip("\r\n") if is_open else result
