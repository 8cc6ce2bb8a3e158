"""One parsed file: its bytes, how they are encoded, its tree, and where every node stands in the text."""

from __future__ import annotations

import ast
import bisect
import io
import itertools
import re
import tokenize
import warnings
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import libcst as cst
from attrs import define, evolve, field, frozen

from perfmod.transforms.decoding import SourceError, decode, is_notebook
from perfmod.transforms.light import Unsupported, light_module
from perfmod.transforms.spans import Spans, spans_in

if TYPE_CHECKING:
    from perfmod.transforms.finding import Edit

_LINE_END = re.compile(r"\r\n|\r|\n")
_BRACKET = re.compile(r"[()\[\]{}]")
_MAX_DEPTH = 500
"""More open brackets than Python reads (200), and fewer than overflow the stack of LibCST's parser."""


LINE_NUMBERS = re.compile(r"\blines? \d+(?:(?:, | and | or | to |-|\u2013)\d+)*")
"""The lines that a message names."""


@frozen
class Place:
    """A line and a column, both from 1; of a notebook those in a cell, and its place among all cells, from 1."""

    line: int
    column: int
    cell: int | None = None


@frozen
class Parsed:
    """A tree, where its nodes stand in the text, and whether it holds white space and punctuation."""

    module: cst.Module
    spans: Spans
    is_full: bool


def parsed(text: str, *, in_full: bool = False) -> Parsed:
    """The tree of a file's text, a light one if possible. Raises `SourceError`."""
    if not in_full:
        with suppress(Unsupported):
            return Parsed(*light_module(text), is_full=False)
    module = parse_module(text)
    return Parsed(module, spans_in(module, text), is_full=True)


@define(eq=False)
class Source:
    """A Python file as text and tree; offsets are characters of `text`.

    The tree is a light one, without white space, wherever that can be had; `in_full` gives the other.

    Attributes:
        path: the path as the user would write it; used in messages only.
        text: the decoded file without its byte order mark, line endings as they are.
        encoding: the encoding that the file declares, UTF-8 by default.
        bom: the byte order mark, or empty.
        tree: the LibCST tree of `text`, and where its nodes stand.
        is_in_full: whether it was asked for in full, and has to be when the text changes.
    """

    path: str
    text: str
    encoding: str
    bom: bytes
    tree: Parsed
    is_in_full: bool = field(default=False, kw_only=True)
    _line_starts: list[int] | None = field(default=None, init=False)
    _comments: list[tuple[int, str]] | None = field(default=None, init=False)

    @classmethod
    def parse(cls, data: bytes, path: str = "<stdin>") -> Source:
        """Decode and parse a file.

        Raises:
            ForeignSource: a notebook whose code is no Python, or of an old format.
            SourceError: undecodable bytes, null bytes, Python 2, or a syntax error, with the line.
        """
        if is_notebook(path):
            from perfmod.transforms.notebook.source import Notebook

            return Notebook.read(data, path)
        text, encoding, bom = decode(data)
        return cls(path, text, encoding, bom, parsed(text))

    def reparse(self, text: str) -> Source:
        """The same file with another text. Raises `SourceError` where that text is no Python."""
        return evolve(self, text=text, tree=parsed(text, in_full=self.is_in_full))

    def in_full(self) -> Source:
        """The same file with a tree that holds all white space and punctuation."""
        return evolve(self, tree=parsed(self.text, in_full=True), is_in_full=True)

    @property
    def module(self) -> cst.Module:
        """The LibCST tree of `text`."""
        return self.tree.module

    def to_bytes(self) -> bytes:
        """The file as it is written to disk. Raises `SourceError` where the encoding cannot hold the text."""
        try:
            return self.bom + self.text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise SourceError(f"cannot write the result in the file's encoding {self.encoding}: {error}") from error

    @property
    def has_cells(self) -> bool:
        """Whether it is a notebook, whose cells somebody runs one by one, and which no process can import."""
        return False

    @property
    def newline(self) -> str:
        """The line ending of the file: that of its first line."""
        match = _LINE_END.search(self.text)
        return match.group() if match else "\n"

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        """First character of `node` and the one behind its last, without white space and comments around it.

        Raises `LookupError` for a node of another file.
        """
        span = self.tree.spans.get(id(node))
        if span is None:
            raise LookupError(f"{type(node).__name__} does not stand in {self.path}")
        return span

    def code(self, node: cst.CSTNode) -> str:
        """The characters of `node`, exactly as they stand in the file, without parentheses around it."""
        start, end = self.span(node)
        return self.text[start:end]

    def whole_span(self, node: cst.BaseExpression) -> tuple[int, int]:
        """The span of an expression with the parentheses around it; a tuple's own are not part of its span either."""
        start = self.span(node.lpar[0])[0] if node.lpar else self.span(node)[0]
        end = self.span(node.rpar[-1])[1] if node.rpar else self.span(node)[1]
        return start, end

    def whole_code(self, node: cst.BaseExpression) -> str:
        """The characters of an expression with the parentheses around it."""
        start, end = self.whole_span(node)
        return self.text[start:end]

    @property
    def comments(self) -> list[tuple[int, str]]:
        """Where every comment starts, and its text, in order."""
        if self._comments is None:
            tokens = tokenize.generate_tokens(io.StringIO(self.text, newline=None).readline)
            starts = self.line_starts
            self._comments = [
                (starts[token.start[0] - 1] + token.start[1], token.string)
                for token in tokens
                if token.type == tokenize.COMMENT
            ]
        return self._comments

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a character, both from 1."""
        starts = self.line_starts
        line = bisect.bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    def place(self, offset: int) -> Place:
        """Where a character stands for somebody who has the file open."""
        return Place(*self.position(offset))

    def in_words(self, text: str) -> str:
        """A message that names lines of `text`, for somebody who has the file open."""
        return text

    def obstacle(self, edits: Iterable[Edit]) -> str:
        """Why the file cannot hold one of these edits, in one line that names lines of `text`; empty where it can."""
        return ""

    def doubt(self, edits: Iterable[Edit]) -> str:
        """Why edits that are right when the file runs from top to bottom may not be; empty where they always are."""
        return ""

    def part_end(self, offset: int) -> int:
        """Where the part that holds a character and can be edited on its own ends: the file, or a cell."""
        return len(self.text)

    def line(self, node: cst.CSTNode) -> int:
        """The line on which `node` starts, from 1."""
        return self.position(self.span(node)[0])[0]

    @property
    def line_starts(self) -> list[int]:
        """Offset of the first character of every line."""
        if self._line_starts is None:
            self._line_starts = [0, *(match.end() for match in _LINE_END.finditer(self.text))]
        return self._line_starts

    def line_start(self, offset: int) -> int:
        """Offset of the first character of the line that holds `offset`."""
        return self.line_starts[bisect.bisect_right(self.line_starts, offset) - 1]

    def line_end(self, offset: int) -> int:
        """Offset behind the line ending of the line that holds `offset`."""
        index = bisect.bisect_right(self.line_starts, offset)
        return self.line_starts[index] if index < len(self.line_starts) else len(self.text)

    def indentation(self, offset: int) -> str:
        """The white space at the start of the line that holds `offset`."""
        start = self.line_start(offset)
        match = re.compile(r"[ \t\f]*").match(self.text, start)
        return match.group() if match else ""


def parse_module(text: str) -> cst.Module:
    """The LibCST tree of `text`. Raises `SourceError` with the place of a syntax error."""
    depths = itertools.accumulate(1 if bracket in "([{" else -1 for bracket in _BRACKET.findall(text))
    if max(depths, default=0) > _MAX_DEPTH:
        raise SourceError("is nested too deeply to be parsed")
    try:
        return cst.parse_module(text)
    except (cst.ParserSyntaxError, cst.CSTValidationError) as error:
        said = (error.raw_line, error.raw_column + 1) if isinstance(error, cst.ParserSyntaxError) else (1, 1)
        line, column = _place(text) or said
        place = f"line {line}, column {column}"
        raise SourceError(f"{place}: {_explain_syntax_error(text, line)}") from error
    except RecursionError as error:
        raise SourceError("is nested too deeply to be parsed") from error


def _place(text: str) -> tuple[int, int] | None:
    """Where Python's own parser stops; LibCST says line 1 for whatever its tokenizer stumbles over."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        return (error.lineno, error.offset) if error.lineno and error.offset else None
    except (RecursionError, MemoryError):
        pass  # too deep for it
    return None


def _explain_syntax_error(text: str, line: int) -> str:
    lines = text.splitlines()
    shown = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    if re.match(r"(print|exec)\s+[^\s(=]|print$|except\s+\w+\s*,|raise\s+\w+\s*,", shown):
        return f"Python 2 code (perfmod reads Python 3): {shown}"
    if re.search(r"\basync\s*=", shown):
        return f"`async` is a keyword since Python 3.7: write non_blocking ({shown})"
    return f"syntax error: {shown}"
