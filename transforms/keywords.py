"""Adding a keyword argument to a call in the way its author writes arguments."""

from __future__ import annotations

import itertools
import re

import libcst as cst

from perfmod.transforms.finding import Edit
from perfmod.transforms.source import Source
from perfmod.transforms.style import width

_BEHIND = re.compile(
    r"(?:[ \t]*(?P<comma>,))?(?P<close>[ \t]*[)\]}:,]+|)(?P<comment>[ \t]*(?:#[^\r\n]*)?)(?=\r\n|\r|\n|\Z)"
)


def add_keyword(source: Source, call: cst.Call, *texts: str, wrap: bool = True) -> tuple[Edit, ...]:
    """Adds each of `texts`, such as `pin_memory=True`, behind the last argument that is no `**keywords`.

    Where every argument has a line of its own the new one gets one too, with the trailing comma; elsewhere it joins the
    last line, as it does where the only one has a line that is long enough for both. Where all of them have one line to
    themselves, and that would get too long, each gets its own, as formatters write it. Comments stay with the arguments
    that they stand behind. With `wrap`, the new one starts a line of its own, aligned with the others, where theirs
    would get too long for the file, or is already; not in front of other calls, or of a comment, on the same line.
    Where the others have spaces around `=`, so does it; where their commas have none behind them, neither has its own.
    """
    equals = [source.text[source.span(arg.keyword)[1]] for arg in call.args if arg.keyword is not None]
    if equals and "=" not in equals:
        texts = tuple(text.replace("=", " = ", 1) for text in texts)
    if not call.args:
        at = source.span(call)[1] - 1
        return (Edit(at, at, ", ".join(texts), source.path),)
    named = [arg for arg in call.args if arg.star != "**"]
    start, end = source.span((named or call.args)[-1])
    opening = source.text.index("(", source.span(call.func)[1])
    is_hanging = not source.text[opening + 1 : source.line_end(opening)].partition("#")[0].strip()
    starts_line = [_starts_line(source, source.span(arg)[0]) for arg in call.args]
    column = source.position(opening + 1)[1] - 1
    is_aligned = not is_hanging and not any(starts_line)
    line = ",".join(
        source.newline + (" " * column if is_aligned else source.indentation(start)) + text for text in texts
    )
    behind = _BEHIND.match(source.text, end)
    comment = behind["comment"] if behind is not None else ""
    is_open = behind is not None and not behind["close"].strip()
    is_inside = is_open or source.line_start(opening) < source.line_start(end)
    gaps = [source.text[source.span(a)[1] : source.span(b)[0]] for a, b in itertools.pairwise(call.args)]
    comma = ", " if not gaps or any(not gap.endswith(",") for gap in gaps) else ","
    text = comma.join(texts)
    length = len(source.text[source.line_start(end) : source.line_end(end)].rstrip())
    limit = width(source)
    fits = length + len(comma + text) <= limit or (length > limit and not wrap)
    has_comma = source.text[end : source.span(call)[1] - 1].lstrip().startswith(",")
    joins = len(call.args) == 1 and not has_comma and fits and not comment.strip()
    if (starts_line[-1] and all(starts_line[not is_hanging :]) and not joins) or (is_inside and comment.strip()):
        if behind is None or not (comment.strip() or (is_open and behind["comma"])):
            return (Edit(end, end, "," + line, source.path),)
        trailing = behind["comma"] or ""
        return (Edit(end, behind.end(), "," + comment + line + trailing + behind["close"], source.path),)
    if is_hanging and not fits and length <= limit and len(named) == len(call.args):
        alone = _line_each(source, call, texts)
        if alone:
            return alone
    follows = source.text[source.span(call)[1] : source.line_end(source.span(call)[1])]
    is_last_call = not any(mark in follows for mark in "(#\\")
    if wrap and is_last_call and not fits and "\t" not in source.indentation(start):
        return (Edit(end, end, "," + line, source.path),)
    closing = source.span(call)[1] - 1
    is_behind_comma = source.text[end:closing].rstrip(" ") == ","  # `zeros(1,)`: the comma goes
    return (Edit(end, closing if is_behind_comma else end, comma + text, source.path),)


def _line_each(source: Source, call: cst.Call, texts: tuple[str, ...]) -> tuple[Edit, ...]:
    """The edits that give each argument a line of its own, and the new ones; empty where they do not stand in one."""
    spans = [source.span(arg) for arg in call.args]
    start, end = spans[0][0], spans[-1][1]
    behind, closing = source.line_end(end), source.span(call)[1] - 1
    is_line = source.line_start(start) == source.line_start(end) and not source.text[end:behind].strip()
    if not is_line or source.line_start(closing) != behind or not _starts_line(source, closing):
        return ()
    line = source.newline + source.indentation(start)
    gaps = [(before[1], after[0]) for before, after in itertools.pairwise(spans)]
    added = "".join(f",{line}{text}" for text in texts) + ","
    return (*(Edit(*gap, "," + line, source.path) for gap in gaps), Edit(end, end, added, source.path))


def _starts_line(source: Source, at: int) -> bool:
    return not source.text[source.line_start(at) : at].strip()
