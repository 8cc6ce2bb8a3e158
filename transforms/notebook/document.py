"""The JSON text of a notebook: where the sources of its code cells stand, and other sources put in their places.

The text is never printed anew. Strings of sources that changed are replaced where they stand, in the style of their
neighbours, so that outputs, metadata, the order of keys, indentation and escapes stay as they are byte by byte.
"""

from __future__ import annotations

import codecs
import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence

from attrs import frozen

from perfmod.transforms.decoding import ForeignSource, SourceError

_SPACE = re.compile(r"[ \t\r\n]*")
_SEGMENT = re.compile(r"(?:\\[^n]|[^\\])*\\n|(?:\\[^n]|[^\\])+")
"""A line of a JSON string as it is written: up to the escape of a line feed, or the rest."""
_ESCAPED = re.compile(r"(?<!\\)(?:\\\\)*\\u(?!00[0-7])[0-9a-fA-F]{4}")
"""The escape of a character beyond ASCII."""
_READ_FORMAT = 4
_PYTHON = frozenset({"python", "ipython", "python3"})


@frozen
class Token:
    """A string in the JSON text: its characters from `start` to `end`, quotes included, and what it says."""

    start: int
    end: int
    value: str


@frozen
class CodeCell:
    """A code cell of a notebook.

    Attributes:
        number: its place among all cells of the notebook, from 1.
        start, end: the characters of the JSON text that are its source: a list of strings, or a string.
        tokens: these strings.
        is_list: whether it is a list.
        editable: whether its author lets it be edited.
    """

    number: int
    start: int
    end: int
    tokens: tuple[Token, ...]
    is_list: bool
    editable: bool

    @property
    def source(self) -> str:
        """Its code."""
        return "".join(token.value for token in self.tokens)


@frozen
class Document:
    """A notebook of format 4 as text.

    Attributes:
        text: the file without its byte order mark.
        bom: the byte order mark, or empty.
        cells: the code cells, in their order.
    """

    text: str
    bom: bytes
    cells: tuple[CodeCell, ...]

    @classmethod
    def read(cls, data: bytes) -> Document:
        """The document in the bytes of a file.

        Raises:
            ForeignSource: a notebook of another format or language.
            SourceError: no notebook.
        """
        bom = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
        try:
            text = data[len(bom) :].decode()
        except UnicodeDecodeError as error:
            raise SourceError(f"is not a notebook: cannot be decoded: {error}") from error
        if not text.strip():
            raise SourceError("is not a notebook: it is empty")
        try:
            top, cells = _Reader(text).document()
        except json.JSONDecodeError as error:
            place = f"{error.msg} in line {error.lineno}, column {error.colno} of the file"
            raise SourceError(f"is not a notebook: broken JSON: {place[0].lower()}{place[1:]}") from error
        except ValueError as error:
            raise SourceError(f"is not a notebook: broken JSON: {error}") from error
        except RecursionError as error:
            raise SourceError("is not a notebook: its JSON is nested too deeply") from error
        _require_python(top)
        if cells is None:
            raise SourceError("is not a notebook: it has no list of cells")
        return cls(text, bom, cells)

    def with_sources(self, sources: Mapping[int, str]) -> Document:
        """The document with other sources in the cells of these indices in `cells`. Raises `SourceError`."""
        pieces, at = [], 0
        for index, cell in enumerate(self.cells):
            if index in sources and sources[index] != cell.source:
                pieces += [self.text[at : cell.start], _Writer(self, cell).source(sources[index])]
                at = cell.end
        text = "".join([*pieces, self.text[at:]])
        self._require_same(text, sources)
        return Document(text, self.bom, _Reader(text).document()[1] or ())

    def to_bytes(self) -> bytes:
        """The file."""
        return self.bom + self.text.encode()

    def _require_same(self, text: str, sources: Mapping[int, str]) -> None:
        """Read both texts as Jupyter does: nothing but these sources may differ. Raises `SourceError`."""
        from nbformat import reader

        try:
            expected, written = reader.reads(self.text), reader.reads(text)  # type: ignore[no-untyped-call]
        except Exception as error:  # it has one for missing keys, one for formats, and lets others through
            raise SourceError(f"is a notebook that nbformat cannot read: {' '.join(str(error).split())}") from error
        for index, source in sources.items():
            expected["cells"][self.cells[index].number - 1]["source"] = source
        if repr(expected) != repr(written):
            raise SourceError("cannot be written: something other than the source of its cells would change")


def _require_python(top: object) -> None:
    """Raise `SourceError` unless `top`, without its cells, belongs to a notebook of format 4 whose code is Python."""
    if not isinstance(top, dict) or not isinstance(top.get("nbformat"), int):
        raise SourceError("is not a notebook: it is JSON without a format number")
    if top["nbformat"] < _READ_FORMAT:
        raise ForeignSource(f"is a notebook of format {top['nbformat']}: save it with a current Jupyter to convert it")
    if top["nbformat"] > _READ_FORMAT:
        raise ForeignSource(f"is a notebook of format {top['nbformat']}, and perfmod reads format {_READ_FORMAT}")
    language = _language(top.get("metadata"))
    if language and language.lower() not in _PYTHON:
        raise ForeignSource(f"is a notebook in {language}, not in Python")


def _language(metadata: object) -> str:
    """The language that a notebook's metadata name; empty where they name none, which Jupyter takes for Python."""
    for section, key in (("language_info", "name"), ("kernelspec", "language")):
        found = metadata.get(section) if isinstance(metadata, dict) else None
        name = found.get(key) if isinstance(found, dict) else None
        if isinstance(name, str) and name:
            return name
    return ""


class _Reader:
    """Walks through the JSON text of a notebook, `at` the next character. Raises `json.JSONDecodeError`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._decoder = json.JSONDecoder()
        self._at = 0

    def document(self) -> tuple[object, tuple[CodeCell, ...] | None]:
        """The value of the text, without its cells where it is an object; and its code cells, if it has a list."""
        self._skip_space()
        found = self._top() if self._sees("{") else (self._value(), None)
        self._skip_space()
        if self._at != len(self._text):
            raise json.JSONDecodeError("Extra data", self._text, self._at)
        return found

    def _top(self) -> tuple[dict[str, object], tuple[CodeCell, ...] | None]:
        cells: tuple[CodeCell, ...] | None = None
        others: dict[str, object] = {}
        for key in self._members():
            if key == "cells" and self._sees("["):
                found = [self._cell(number) for number, _ in enumerate(self._items(), start=1)]
                cells = tuple(cell for cell in found if cell is not None)
            else:
                others[key] = self._value()
        return others, cells

    def _cell(self, number: int) -> CodeCell | None:
        if not self._sees("{"):
            self._value()
            return None
        kind: object = None
        metadata: object = None
        source: tuple[int, int, tuple[Token, ...], bool] | None = None
        for key in self._members():
            if key == "source":
                source = self._source()
            elif key == "cell_type":
                kind = self._value()
            elif key == "metadata":
                metadata = self._value()
            else:
                self._value()
        if kind != "code":
            return None
        if source is None:
            raise SourceError(f"is not a notebook: cell {number} has no source")
        editable = not (isinstance(metadata, dict) and metadata.get("editable") is False)
        return CodeCell(number, *source, editable=editable)

    def _source(self) -> tuple[int, int, tuple[Token, ...], bool] | None:
        """Where a source stands, its strings, and whether it is a list; `None` for what is no source."""
        start = self._at
        if self._sees('"'):
            token = self._token()
            return start, self._at, (token,), False
        if not self._sees("["):
            self._value()
            return None
        tokens = [self._token() if self._sees('"') else self._value() for _ in self._items()]
        strings = tuple(token for token in tokens if isinstance(token, Token))
        return (start, self._at, strings, True) if len(strings) == len(tokens) else None

    def _token(self) -> Token:
        start = self._at
        value = self._value()
        return Token(start, self._at, str(value))

    def _value(self) -> object:
        value, self._at = self._decoder.raw_decode(self._text, self._at)
        return value

    def _members(self) -> Iterator[str]:
        """The keys of the object that begins here; whoever asks has to read the value before the next."""
        for _ in self._enclosed("}"):
            if not self._sees('"'):
                raise json.JSONDecodeError("Expecting property name enclosed in double quotes", self._text, self._at)
            key = self._token().value
            self._skip_space()
            self._expect(":")
            self._skip_space()
            yield key

    def _items(self) -> Iterator[None]:
        """The items of the array that begins here, likewise."""
        return self._enclosed("]")

    def _enclosed(self, closing: str) -> Iterator[None]:
        self._at += 1
        self._skip_space()
        if self._sees(closing):
            self._at += 1
            return
        while True:
            yield
            self._skip_space()
            if self._sees(closing):
                self._at += 1
                return
            self._expect(",")
            self._skip_space()

    def _expect(self, character: str) -> None:
        if not self._sees(character):
            raise json.JSONDecodeError(f"Expecting '{character}' delimiter", self._text, self._at)
        self._at += 1

    def _sees(self, character: str) -> bool:
        return self._text.startswith(character, self._at)

    def _skip_space(self) -> None:
        match = _SPACE.match(self._text, self._at)
        assert match is not None
        self._at = match.end()


@frozen
class _Layout:
    """What stands in a list of strings before the first, between two, and behind the last."""

    before: str
    between: str
    behind: str


@frozen
class _Writer:
    """Writes another source for a cell, in the style of the one that it has."""

    document: Document
    cell: CodeCell

    def source(self, new: str) -> str:
        """The JSON text of a source; strings that stay are taken over as they are written."""
        text = self.document.text
        if len(self.cell.tokens) == 1 and (not self.cell.is_list or "\n" in self.cell.source[:-1]):
            (token,) = self.cell.tokens
            return f"{text[self.cell.start : token.start]}{self._string(token, new)}{text[token.end : self.cell.end]}"
        # As nbformat splits, so that saving the notebook in Jupyter changes nothing more.
        lines = new.splitlines(keepends=True)
        tokens = self.cell.tokens
        layout = self._layout()
        pieces: list[str] = []
        for line, (was, stays) in zip(lines, _aligned([token.value for token in tokens], lines), strict=True):
            between = text[tokens[was - 1].end : tokens[was].start] if was else layout.between
            pieces.append(between if pieces else layout.before)
            pieces.append(
                text[tokens[was].start : tokens[was].end] if was is not None and stays else self._quoted(line)
            )
        return f"[{''.join(pieces)}{layout.behind}]" if lines else "[]"

    def _string(self, token: Token, new: str) -> str:
        """All lines of a source as one string; those that stay are taken over as they are written."""
        segments = _SEGMENT.findall(self.document.text, token.start + 1, token.end - 1)
        lines = _lines(new)
        old = _aligned([json.loads(f'"{segment}"') for segment in segments], lines)
        written = (
            segments[was] if was is not None and stays else self._quoted(line)[1:-1]
            for line, (was, stays) in zip(lines, old, strict=True)
        )
        return f'"{"".join(written)}"'

    def _layout(self) -> _Layout:
        """The layout of the cell's list; where it has too few strings to tell, that of the other cells."""
        lists = [cell for cell in (self.cell, *self.document.cells) if cell.is_list and cell.tokens]
        if not lists:
            return _Layout("", ", ", "")
        text, first = self.document.text, lists[0]
        before = text[first.start + 1 : first.tokens[0].start]
        behind = text[first.tokens[-1].end : first.end - 1]
        several = next((cell.tokens for cell in lists if len(cell.tokens) > 1), ())
        between = text[several[0].end : several[1].start] if several else f",{before}" if before else ", "
        return _Layout(before, between, behind)

    def _quoted(self, line: str) -> str:
        return json.dumps(line, ensure_ascii=line.isascii() or self._escapes())

    def _escapes(self) -> bool:
        """Whether characters beyond ASCII are written as escapes, here or else in the whole notebook."""
        for text in (self.document.text[self.cell.start : self.cell.end], self.document.text):
            if not text.isascii():
                return False
            if _ESCAPED.search(text):
                return True
        return False


def _lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _aligned(old: Sequence[str], new: Sequence[str]) -> list[tuple[int | None, bool]]:
    """For every new line the index of the old one in its place, if there is one, and whether it is the same."""
    found: list[tuple[int | None, bool]] = [(None, False)] * len(new)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        for was, index in zip(range(start, end), range(new_start, new_end), strict=False):
            found[index] = (was, tag == "equal")
    return found
