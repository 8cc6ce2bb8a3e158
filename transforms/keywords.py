"""Adding a keyword argument to a call in the way its author writes arguments."""

from __future__ import annotations

import re

import libcst as cst

from perfmod.transforms.rule import Edit
from perfmod.transforms.source import Source

_LINE_LENGTH = 88
_BEHIND = re.compile(r"[ \t]*(?P<comma>,)?(?P<rest>[ \t]*(?:#[^\r\n]*)?)(?=\r\n|\r|\n)")


def add_keyword(source: Source, call: cst.Call, text: str, *, wrap: bool = True) -> tuple[Edit, ...]:
    """Adds `text`, such as `pin_memory=True`, behind the last argument that is no `**keywords`.

    Where every argument has a line of its own the new one gets one too, with the trailing comma and before
    the comments of others; elsewhere it joins the last line. With `wrap`, it starts a line of its own, aligned with
    the others, where that one would be too long.
    """
    if not call.args:
        at = source.span(call)[1] - 1
        return (Edit(at, at, text, source.path),)
    named = [arg for arg in call.args if arg.star != "**"]
    anchor = (named or call.args)[-1]
    start, end = source.span(anchor)
    indentation = source.indentation(start)
    first_of_line = source.line_start(start) + len(indentation) == start
    opening = _opening(source, call)
    is_hanging = not source.text[opening + 1 : source.line_end(opening)].strip()
    behind = _BEHIND.match(source.text, end)
    if first_of_line and is_hanging:
        line = source.newline + indentation + text
        if behind is None:
            return (Edit(end, end, "," + line, source.path),)
        if behind["comma"]:
            return (Edit(behind.end(), behind.end(), line + ",", source.path),)
        if behind["rest"].strip():
            return Edit(end, end, ",", source.path), Edit(behind.end(), behind.end(), line, source.path)
        return (Edit(end, end, "," + line, source.path),)
    lines = source.text[source.line_start(opening) : source.line_end(source.span(call)[1])].splitlines()
    longest = max((len(line) for line in lines[:-1]), default=0)
    longest = max(_LINE_LENGTH, longest)
    length = len(source.text[source.line_start(end) : source.line_end(end)].rstrip("\r\n"))
    if wrap and length + len(", ") + len(text) > longest and "\t" not in indentation:
        column = source.position(start if first_of_line else opening + 1)[1] - 1
        aligned = indentation if is_hanging else " " * column
        return (Edit(end, end, "," + source.newline + aligned + text, source.path),)
    return (Edit(end, end, ", " + text, source.path),)


def _opening(source: Source, call: cst.Call) -> int:
    """Offset of the parenthesis that opens the arguments."""
    return source.text.index("(", source.span(call.func)[1])
