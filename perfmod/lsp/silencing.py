"""Where a comment has to be written so that a rule leaves a statement alone."""

from __future__ import annotations

import io
import re
import tokenize

_KNOWN = re.compile(r"#\s*perfmod:\s*ignore\s*\[[^\]#]*(?=\])")


def ignore_comment(text: str, line: int, code: str) -> tuple[int, str] | None:
    """The offset at which a text has to be inserted so that `code` is silenced in the statement on a line, from 1.

    A comment that silences other rules there names this one, too. None where the text cannot be read.
    """
    comment: tokenize.TokenInfo | None = None
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
            if token.type == tokenize.COMMENT:
                comment = token
            elif token.type == tokenize.NEWLINE and token.start[0] >= line:
                trailing = comment if comment is not None and comment.start[0] == token.start[0] else None
                return _inserted(_line_start(text, token.start[0]), token, trailing, code)
    except (tokenize.TokenError, SyntaxError):
        pass
    return None


def _inserted(
    line_start: int, end: tokenize.TokenInfo, comment: tokenize.TokenInfo | None, code: str
) -> tuple[int, str]:
    if comment is not None and (known := _KNOWN.search(comment.string)) is not None:
        return line_start + comment.start[1] + known.end(), f", {code}"
    return line_start + (comment.end if comment is not None else end.start)[1], f"  # perfmod: ignore[{code}]"


def _line_start(text: str, line: int) -> int:
    lines = io.StringIO(text, newline="")
    return sum(len(lines.readline()) for _ in range(line - 1))
