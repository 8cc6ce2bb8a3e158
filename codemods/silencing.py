"""Writes the comments that silence findings, and takes away those that silence nothing. Only comments change.

A comment goes behind the first line of the statement that can hold it without getting too long, else on a line above
the statement; it joins a comment that already silences that statement.
"""

from __future__ import annotations

import bisect
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from perfmod.codemods.edits import Splice
from perfmod.codemods.results import Unused
from perfmod.codemods.suppress import Directive, Kind, Lines, Suppressions, statement_lines
from perfmod.transforms.decoding import SourceError
from perfmod.transforms.finding import Edit, Finding
from perfmod.transforms.source import Source
from perfmod.transforms.writing import line_length

_NEXT_COMMENT = re.compile(r"\s+#(?!\d)")
"""Where words behind one of our comments end, as in `# perfmod: ignore[PM101] see #12  # noqa`."""
_LINE = re.compile(r"(?P<comment>[^\r\n]*)(?:\r\n|\r|\n)?")
_BLANKS = " \t\f"


def silence(data: bytes, path: str, findings: Sequence[Finding], reason: str = "") -> bytes:
    """A file with comments that silence some findings in it; `reason`, one line, stands behind a new comment.

    Raises:
        SourceError: the file cannot be read or written, or a finding has no place for a comment.
    """
    source = Source.parse(data, path)
    splice = Splice.of(_Silencing(source, reason).edits(findings))
    if obstacle := source.obstacle(splice.edits):
        raise SourceError(source.in_words(obstacle))
    silenced = _with(source, splice.apply(source.text))
    comments = Suppressions.read(silenced).directives
    for finding in findings:
        first = silenced.position(splice.new(finding.start))[0]
        last = silenced.position(splice.new(max(finding.start, finding.end - 1)))[0]
        if not any(finding.code in each.selectors and each.first <= last and first <= each.last for each in comments):
            raise SourceError(source.in_words(f"line {finding.line}: no comment can silence {finding.code} here"))
    return silenced.to_bytes()


def without_unused(data: bytes, path: str, unused: Iterable[Unused]) -> bytes:
    """A file without some of the names in its comments; a comment without names goes, and its line if it was alone.

    Raises:
        SourceError: the file cannot be read or written, or is not the one in which they were found.
    """
    source = Source.parse(data, path)
    names: dict[int, set[str]] = defaultdict(set)
    for each in unused:
        names[each.offset].add(each.selector)
    comments = {each.offset: each for each in Suppressions.read(source).directives}
    text = source.text
    # From the last to the first, so that the offsets of those that remain stay right.
    for offset, gone in sorted(names.items(), reverse=True):
        comment = comments.get(offset)
        if comment is None or not gone <= {*comment.selectors}:
            raise SourceError("was edited while perfmod ran, so it was left alone; run perfmod again")
        kept = [name for name in comment.selectors if name not in gone]
        if kept and comment.names_start is not None and comment.names_end is not None:
            text = text[: comment.names_start] + ", ".join(kept) + text[comment.names_end :]
        else:
            text = _without_comment(text, offset)
    return _with(source, text).to_bytes()


def newly_unused(
    path: str, before: bytes, known: Iterable[Unused], after: bytes, found: Iterable[Unused]
) -> list[Unused]:
    """Which of the unused names found in a file are not among those known of an earlier version of it.

    The versions differ in comments only. Raises `SourceError` where one cannot be read.
    """
    old, new = _CodeBefore(before, path), _CodeBefore(after, path)
    kept = {(old.number(each.offset), each.selector) for each in known}
    return [each for each in found if (new.number(each.offset), each.selector) not in kept]


class _CodeBefore:
    """Names places of comments by the code above them, which stays the same when comments come and go."""

    def __init__(self, data: bytes, path: str) -> None:
        source = Source.parse(data, path)
        tokens = (token for token in _tokens(source.text) if token.type not in (tokenize.COMMENT, tokenize.NL))
        self._starts = [source.line_starts[token.start[0] - 1] + token.start[1] for token in tokens if token.string]

    def number(self, offset: int) -> int:
        """How many tokens of code stand before a place."""
        return bisect.bisect_left(self._starts, offset)


def _with(source: Source, text: str) -> Source:
    """A file with another text that differs in its comments only. Raises `SourceError`."""
    edited = source.reparse(text)
    if list(_code(edited.text)) != list(_code(source.text)):
        raise SourceError("internal error: writing comments would change the code, so it was left alone")
    return edited


def _code(text: str) -> Iterator[tuple[int, str]]:
    """All of a text but comments, blank lines and white space in lines; where it is the same, so is the syntax tree."""
    for token in _tokens(text):
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            yield token.type, token.string


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    return tokenize.generate_tokens(io.StringIO(text, newline=None).readline)


class _Silencing:
    """The edits that silence findings in one file."""

    def __init__(self, source: Source, reason: str) -> None:
        self._source = source
        self._reason = f" {reason}" if reason else ""
        self._statements = statement_lines(source)
        self._comments = Suppressions.read(source).directives
        self._length = line_length(source)
        self._ends = _line_ends(source)

    def edits(self, findings: Iterable[Finding]) -> Iterator[Edit]:
        """One edit for each statement. Raises `SourceError` where a finding is in none."""
        found: dict[Lines, list[Finding]] = defaultdict(list)
        for finding in findings:
            found[self._statement(finding)].append(finding)
        for lines, inside in found.items():
            codes = sorted({finding.code for finding in inside})
            joined = self._joined(lines)
            if joined is not None and joined.names_end is not None:
                missing = [code for code in codes if code not in joined.selectors]
                yield Edit(joined.names_end, joined.names_end, "".join(f", {code}" for code in missing))
            else:
                line = min(self._line(finding) for finding in inside)
                yield self._comment(lines, line, f"# perfmod: ignore[{', '.join(codes)}]{self._reason}")

    def _statement(self, finding: Finding) -> Lines:
        line = self._line(finding)
        lines = Lines.holding(self._statements, line)
        if lines is None:
            raise SourceError(self._source.in_words(f"line {line}: no comment can silence {finding.code} here"))
        return lines

    def _joined(self, lines: Lines) -> Directive | None:
        """The comment that silences other rules for a statement, and for nothing else, if there is one."""
        found = (
            each
            for each in self._comments
            if each.kind is Kind.IGNORE
            and each.names_end is not None
            and each.selectors
            and lines.first <= each.first <= each.last <= lines.header
        )
        return next(found, None)

    def _comment(self, lines: Lines, line: int, comment: str) -> Edit:
        """The edit that writes a comment for a statement with findings, of which the first is on `line`."""
        places = [self._ends[number] for number in range(line, lines.header + 1) if number in self._ends]
        behind = [Edit(end, end, f"  {comment}") for end in places]
        fitting = [edit for edit in behind if self._column(edit.start) + len(edit.replacement) <= self._length]
        # A comment above a compound statement would silence its body, too.
        above = [self._above(lines, comment)] if lines.last <= lines.header else []
        candidates = [*fitting, *above, *behind]
        possible = (edit for edit in candidates if not self._source.obstacle([edit]))
        return next(possible, candidates[0])

    def _above(self, lines: Lines, comment: str) -> Edit:
        start = self._source.line_starts[lines.first - 1]
        first_line = self._source.text[start : self._source.line_end(start)]
        newline = first_line[len(first_line.rstrip("\r\n")) :] or self._source.newline
        return Edit(start, start, f"{self._source.indentation(start)}{comment}{newline}")

    def _column(self, offset: int) -> int:
        return offset - self._source.line_start(offset)

    def _line(self, finding: Finding) -> int:
        return self._source.position(finding.start)[0]


def _line_ends(source: Source) -> dict[int, int]:
    r"""Behind which character a comment can follow, by line: none where a string or a `\` goes on, or without code."""
    ends: dict[int, int] = {}
    open_strings, line_of_code = 0, 0
    for token in _tokens(source.text):
        name = tokenize.tok_name[token.type]
        # Before Python 3.12 no comment may stand in a formatted string.
        open_strings += name.endswith("STRING_START") - name.endswith("STRING_END")
        line, column = token.start
        if token.type not in (tokenize.NEWLINE, tokenize.NL, tokenize.COMMENT):
            line_of_code = token.end[0]
        elif token.type != tokenize.COMMENT and line == line_of_code and not open_strings:
            start = source.line_starts[line - 1]
            ends[line] = start + len(source.text[start : start + column].rstrip(_BLANKS))
    return ends


def _without_comment(text: str, offset: int) -> str:
    """A text without the comment at `offset` and its words, and without the line if nothing else is on it."""
    line_start = max(text.rfind(end, 0, offset) for end in "\r\n") + 1
    line = _LINE.match(text, offset)
    assert line is not None
    further = _NEXT_COMMENT.search(text, offset + 1, line.end("comment"))
    if further is not None:
        return text[:offset] + text[further.end() - 1 :]
    before = text[line_start:offset].rstrip(_BLANKS)
    kept_end = line.end("comment") if before else line.end()
    return text[:line_start] + before + text[kept_end:]
