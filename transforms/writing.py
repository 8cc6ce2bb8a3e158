"""Edits from nodes: replace, insert, delete, indent and dedent without touching anything else.

Everything a rule writes goes through here, because the awkward cases are the same for all rules: statements
joined by semicolons, one-line suites, comments, CRLF, tabs, form feeds, a missing final newline, and lines
inside multi-line strings, which no change of indentation may touch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import libcst as cst

from perfmod.transforms.facts.tree import children, find_all
from perfmod.transforms.finding import Edit
from perfmod.transforms.source import Source

Statement = cst.BaseStatement | cst.BaseSmallStatement

MOST_MOVED = 12
"""How many lines a rewrite may move in or out by a level before a reader of the diff needs `git diff -w`."""

_BARE_NEWLINE = re.compile(r"(?<!\r)\n")
_COMMENT_LINE = re.compile(r"([ \t\f]*)#")
_BLANK_OR_COMMENT = re.compile(r"[ \t\f]*(?:#[^\r\n]*)?(?:\r\n|\r|\n)")
_BLANK_LINE = re.compile(r"[ \t\f]*(?:\r\n|\r|\n)")
_TOOL_COMMENT = re.compile(r"#\s*(?:noqa|nosec|pragma|type:|fmt:|isort:|mypy:|pylint:|pyright:|ruff:)")


def replace(source: Source, node: cst.CSTNode, text: str) -> Edit:
    """Writes `text` instead of `node`. Parentheses around an expression are not part of it and stay."""
    start, end = source.span(node)
    return Edit(start, end, _with_newlines(source, text), source.path)


def insert_before_statement(source: Source, statement: Statement, text: str, *, below_comments: bool = False) -> Edit:
    """Puts the statements of `text` before `statement`, and above the comments that stand directly above it.

    With `below_comments` they come between the comments and `statement`, as a part of what the comments are about.

    `text` starts at column 0 and is indented here. Where `statement` is not the first of its line (`a; b`,
    `if x: b`) the new ones join the line.

    Raises:
        ValueError: compound statements were to join a line.
    """
    line = _line_of(source, statement)
    if isinstance(line, cst.SimpleStatementSuite) or not _is_first(line, statement):
        start = source.span(statement)[0]
        return Edit(start, start, _joined(text) + "; ", source.path)
    start = statement_start(source, line)
    at = source.line_start(start)
    at = at if below_comments else _above_comments(source, at)
    return Edit(at, at, _lines(source, text, _indentation(source, start)), source.path)


def insert_after_statement(source: Source, statement: Statement, text: str) -> Edit:
    """Puts the statements of `text` behind `statement` and the comments that belong to its body; see above.

    Raises:
        ValueError: compound statements were to join a line.
    """
    line = _line_of(source, statement)
    if isinstance(line, cst.SimpleStatementSuite) or not _is_last(line, statement):
        end = source.span(statement)[1]
        return Edit(end, end, "; " + _joined(text), source.path)
    at = _tail(source, line)
    lines = _lines(source, text, _indentation(source, statement_start(source, line)))
    if source.text[:at].endswith(("\n", "\r")):
        return Edit(at, at, lines, source.path)
    return Edit(at, at, source.newline + lines.removesuffix(source.newline), source.path)


def delete_statement(source: Source, statement: Statement) -> tuple[Edit, ...]:
    """Removes one statement; see `delete_statements`."""
    return delete_statements(source, (statement,))


def delete_statements(
    source: Source, statements: Sequence[Statement], *, keeps_comments: bool = True
) -> tuple[Edit, ...]:
    """Removes statements with their lines; a block that would be empty keeps a `pass`.

    Comments on and inside them stay as lines of their own; those meant for tools (`# noqa`) go.
    """
    gone = set(statements)
    edits: list[Edit] = []
    whole: dict[cst.BaseStatement, None] = {}
    for statement in statements:
        line = _line_of(source, statement)
        if isinstance(line, cst.BaseStatement) and (line is statement or gone.issuperset(getattr(line, "body", ()))):
            whole[line] = None
        else:
            edits += _cut_from_line(source, line, gone)
    for line in whole:
        block = _path(source, line)[-1]
        body: Sequence[cst.CSTNode] = getattr(block, "body", ())
        empties = isinstance(block, cst.IndentedBlock) and all(item in whole for item in body)
        keep = "pass" if empties and line is body[0] else ""
        edits.append(_delete_lines(source, line, keep, edits, keeps_comments=keeps_comments))
    return tuple(sorted(set(edits)))


def delete_with_comment(source: Source, statements: Sequence[Statement]) -> tuple[Edit, ...]:
    """The same for statements next to each other, with their comments: those on them, and the one above that is about
    nothing else, because a blank line or the end of the block follows.
    """
    first, *others = delete_statements(source, statements, keeps_comments=False)
    last = others[-1] if others else first
    text, start = source.text, first.start
    below = text[last.end : source.line_end(last.end)]
    is_last = len(_indentation(source, last.end)) < len(_indentation(source, start)) if below.strip() else True
    if start > source.line_start(start) or first.replacement or not is_last:
        return (first, *others)
    while start > 0 and text[source.line_start(start - 1) : start].lstrip().startswith("#"):
        start = source.line_start(start - 1)
    is_blank_above = start == 0 or not text[source.line_start(start - 1) : start].strip()
    if start < first.start and is_blank_above and not below.strip():
        last = Edit(last.start, source.line_end(last.end), last.replacement, source.path)
        others = [*others[:-1], last] if others else []
        first = first if others else last
    return (Edit(start, first.end, first.replacement, source.path), *others)


def dedent_block(source: Source, statement: cst.If | cst.With) -> tuple[Edit, ...]:
    """Removes the header of an `if` or `with`, but not its comments, and moves the body to its place.

    Raises:
        ValueError: an `if` that has an `else`, or an `elif`.
    """
    start, _ = source.span(statement)
    if isinstance(statement, cst.If) and (statement.orelse or source.text.startswith("elif", start)):
        raise ValueError("only an `if` without other branches can lose its header")
    body = statement.body
    if not isinstance(body, cst.IndentedBlock):
        return (Edit(start, source.span(body)[0], "", source.path),)
    header_start, header_end = source.line_start(start), header_end_of(source, body)
    outer = _indentation(source, start)
    kept = [c for c in comments(source, statement) if c[0] < header_end]
    comment_lines = "".join(outer + text + source.newline for _, text in kept)
    edits = [Edit(header_start, header_end, comment_lines, source.path)]
    inner = _indentation(source, statement_start(source, body.body[0]))
    common = outer if inner.startswith(outer) else ""
    edits += [
        Edit(at + len(common), at + len(inner), outer[len(common) :], source.path)
        for at in free_lines(source, header_end, _tail(source, statement))
        if source.text.startswith(inner, at)
    ]
    return tuple(edits)


def indent_range(source: Source, start: int, end: int) -> tuple[Edit, ...]:
    """Indents by one level the lines that begin in `start` to `end`; not blank ones, nor those in strings."""
    level = source.module.default_indent
    return tuple(
        Edit(at, at, level, source.path)
        for at in free_lines(source, start, end)
        if not _BLANK_LINE.match(source.text, at) and at < len(source.text)
    )


def nest_statements(
    source: Source, first: cst.BaseStatement, last: cst.BaseStatement, header: str, *, with_comments: bool = False
) -> tuple[Edit, ...]:
    """Puts the statements `first` to `last` of a block under `header`, such as `with torch.no_grad():`; the comments
    above `first` too, `with_comments`.
    """
    start = statement_start(source, first)
    above = source.line_start(start)
    above = _above_comments(source, above) if with_comments else above
    opening, *others = indent_range(source, above, _tail(source, last))
    header_line = _indentation(source, start) + header + source.newline
    return (Edit(opening.start, opening.start, header_line + opening.replacement, source.path), *others)


def header_end_of(source: Source, block: cst.IndentedBlock) -> int:
    """Where the first line of an indented block starts, or that of the comments above it: behind the header's line."""
    at = source.line_start(statement_start(source, block.body[0]))
    while _BLANK_OR_COMMENT.fullmatch(source.text, source.line_start(at - 1), at):
        at = source.line_start(at - 1)
    return at


def statement_start(source: Source, statement: Statement) -> int:
    """Offset of a statement's first character, its decorators included."""
    if isinstance(statement, (cst.FunctionDef, cst.ClassDef)) and statement.decorators:
        return source.span(statement.decorators[0])[0]
    return source.span(statement)[0]


def quoted(source: Source, text: str) -> str:
    """`text` as a string in the quotes that the file prefers."""
    quote = "'" if source.text.count("'") > source.text.count('"') else '"'
    return f"{quote}{text}{quote}"


def line_length(source: Source) -> int:
    """How long the file's lines of code are at most, from 88 to 120 characters."""
    lines = (line for line in source.text.splitlines() if not _COMMENT_LINE.match(line))
    return max((88, *(len(line) for line in lines if len(line) <= 120)))


def call_text(source: Source, at: int, function: str, arguments: Sequence[str], behind: str = "") -> str:
    """A call that begins where `at` is, on one line where it fits; else its arguments on lines of their own."""
    length, column = line_length(source), at - source.line_start(at)
    one_line = f"{function}({', '.join(arguments)}){behind}"
    if column + len(one_line) <= length or not arguments:
        return one_line
    outer = source.indentation(at)
    inner = outer + source.module.default_indent
    together = ", ".join(arguments)
    if len(inner) + len(together) <= length and "\n" not in together:
        return f"{function}(\n{inner}{together}\n{outer}){behind}"
    return f"{function}(\n" + "".join(f"{inner}{argument},\n" for argument in arguments) + f"{outer}){behind}"


def comments(source: Source, statement: Statement) -> list[tuple[int, str]]:
    """Offset and text of every comment inside a statement or behind it on its last line, none above it."""
    line = _line_of(source, statement)
    start = source.span(line)[0] if isinstance(line, cst.BaseSuite) else statement_start(source, line)
    end = _tail(source, line)
    return [comment for comment in source.comments if start <= comment[0] < end]


def _with_newlines(source: Source, text: str) -> str:
    return text if source.newline == "\n" else _BARE_NEWLINE.sub(source.newline, text)


def _indentation(source: Source, offset: int) -> str:
    # Python starts counting columns again behind a form feed.
    return source.indentation(offset).rpartition("\f")[2]


def _path(source: Source, node: cst.CSTNode) -> list[cst.CSTNode]:
    """The nodes around a statement, from the module to its parent."""
    start, end = source.span(node)
    path: list[cst.CSTNode] = []
    current: cst.CSTNode = source.module
    while current is not node:
        path.append(current)
        current = next(
            child
            for child in children(current)
            if child is node or (source.span(child)[0] <= start and end <= source.span(child)[1])
        )
    return path


def _line_of(source: Source, statement: Statement) -> cst.BaseStatement | cst.SimpleStatementSuite:
    """The line or one-line suite that a small statement shares with others; a compound statement itself."""
    if isinstance(statement, cst.BaseStatement):
        return statement
    parent = _path(source, statement)[-1]
    assert isinstance(parent, (cst.SimpleStatementLine, cst.SimpleStatementSuite))
    return parent


def _is_first(line: cst.BaseStatement, statement: Statement) -> bool:
    return line is statement or (isinstance(line, cst.SimpleStatementLine) and line.body[0] is statement)


def _is_last(line: cst.BaseStatement, statement: Statement) -> bool:
    return line is statement or (isinstance(line, cst.SimpleStatementLine) and line.body[-1] is statement)


def _joined(text: str) -> str:
    """Simple statements on one line."""
    written = Source.parse(text.encode())
    module = written.module
    small = [item for line in module.body if isinstance(line, cst.SimpleStatementLine) for item in line.body]
    if not all(isinstance(line, cst.SimpleStatementLine) for line in module.body):
        raise ValueError("a compound statement cannot join a line")
    return "; ".join(map(written.code, small))


def _lines(source: Source, text: str, indentation: str) -> str:
    """`text` as indented lines in the file's line endings, the last one ended too."""
    text = text if text.endswith("\n") else text + "\n"
    if indentation:
        written = Source.parse(text.encode())
        starts = [at for at in free_lines(written, 0, len(text)) if not _BLANK_LINE.match(text, at)]
        for at in reversed(starts):
            text = text[:at] + indentation + text[at:]
    return _with_newlines(source, text)


def free_lines(source: Source, start: int, end: int) -> list[int]:
    """Starts of the lines that begin in `start` to `end` outside every string."""
    inside = [
        source.span(string)
        for kind in (cst.SimpleString, cst.FormattedString)
        for string in find_all(source.module, kind)
    ]
    spans = [(first, last) for first, last in inside if first < end and start < last]
    return [
        at for at in source.line_starts if start <= at < end and not any(first < at < last for first, last in spans)
    ]


def _above_comments(source: Source, at: int) -> int:
    """Start of the comment lines that end at the line start `at`; `at` itself where they open the file and so are about
    all of it, which they are not in a notebook. What Colab reads, `#@title`, stays at the top.
    """
    top = at
    while top > 0:
        above = source.line_start(top - 1)
        if not _COMMENT_LINE.match(source.text, above) or source.text.startswith("#@", above):
            return top
        top = above
    return top if source.has_cells else at


def _tail(source: Source, statement: cst.BaseStatement | cst.SimpleStatementSuite) -> int:
    """End of a statement's last line, behind the comments that are indented like its body."""
    text = source.text
    end = source.line_end(source.span(statement)[1])
    if isinstance(statement, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
        return end
    width = len(_indentation(source, source.span(statement)[0]).expandtabs())
    at = end
    while at < len(text):
        comment = _COMMENT_LINE.match(text, at)
        if comment:
            if len(comment[1].expandtabs()) <= width:
                break
            end = source.line_end(at)
        elif not _BLANK_LINE.match(text, at):
            break
        at = source.line_end(at)
    return end


def _cut_from_line(
    source: Source, line: cst.BaseStatement | cst.SimpleStatementSuite, gone: set[Statement]
) -> Iterable[Edit]:
    """Removes some statements of a line, each with one semicolon."""
    assert isinstance(line, (cst.SimpleStatementLine, cst.SimpleStatementSuite))
    spans = [(source.span(item), item in gone) for item in line.body]
    if all(is_gone for _, is_gone in spans):
        return (Edit(spans[0][0][0], spans[-1][0][1], "pass", source.path),)
    edits: list[Edit] = []
    cut_from: int | None = None
    kept_end: int | None = None
    for (start, end), is_gone in spans:
        if not is_gone:
            if cut_from is not None:
                edits.append(Edit(cut_from, start, "", source.path))
            cut_from, kept_end = None, end
        elif cut_from is None:
            cut_from = start
    if cut_from is not None and kept_end is not None:
        edits.append(Edit(kept_end, spans[-1][0][1], "", source.path))
    return edits


def _delete_lines(
    source: Source, line: cst.BaseStatement, keep: str, above: Iterable[Edit], *, keeps_comments: bool
) -> Edit:
    """Removes all lines of a statement; what stays are its comments and `keep`. `above` are removed already."""
    first = statement_start(source, line)
    start, end = source.line_start(first), source.line_end(source.span(line)[1])
    kept = [text for _, text in comments(source, line) if keeps_comments and not _TOOL_COMMENT.match(text)]
    kept += [keep] if keep else []
    if not kept and _BLANK_LINE.match(source.text, end):
        top = start
        while (gone := next((edit for edit in above if edit.end == top and not edit.replacement), None)) is not None:
            top = gone.start
        before = source.line_start(top - 1) if top else top
        if _BLANK_LINE.match(source.text, before):
            end = source.line_end(end)
    indentation = _indentation(source, first)
    return Edit(start, end, "".join(indentation + text + source.newline for text in kept), source.path)
