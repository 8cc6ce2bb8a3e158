"""Hunks as they are shown: syntax, changed words, and characters that would deceive, all found out beforehand.

What a browser is given are the texts of the lines and numbers that say where what begins: nothing in it is markup.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

from attrs import frozen
from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String, Text, _TokenType

from perfmod.review.items import Hunk, Line

KINDS: Final = ("", "keyword", "string", "number", "comment", "builtin", "definition", "decorator", "odd")
"""What a piece of code can be, by number; the style sheet has a colour for each but the first."""

_KINDS: Final = (
    (Comment, 4),
    (Keyword, 1),
    (Operator.Word, 1),
    (String, 2),
    (Number, 3),
    (Name.Builtin, 5),
    (Name.Exception, 5),
    (Name.Function, 6),
    (Name.Class, 6),
    (Name.Decorator, 7),
)
_ODD: Final = KINDS.index("odd")
_STRING: Final = KINDS.index("string")
_WORDS: Final = re.compile(r"\w+|\s+|.", re.DOTALL)
_TRIPLE: Final = ('"""', "'''")
_ALIKE: Final = 0.5
"""How much of two lines has to be equal for one to be the other, changed."""
_MOST_PAIRS: Final = 400
"""Of lines that are compared with each other; in a larger block the first goes with the first."""
_LONGEST: Final = 2000
"""Characters of a line in which changed words are looked for."""


@frozen
class ShownLine:
    """One line as the page shows it.

    Attributes:
        sign: as in `Line`.
        text: with escapes in place of characters that cannot be seen.
        kinds: a length and an index of `KINDS`, in turns, until the text is used up.
        changed: start and end of each changed word, in turns. As for browsers, lengths are those of UTF-16.
        partner: index in its hunk of the added line that this removed line became, if any.
    """

    sign: str
    text: str
    kinds: tuple[int, ...]
    changed: tuple[int, ...] = ()
    partner: int | None = None


@lru_cache(maxsize=4096)
def shown_lines(hunk: Hunk) -> tuple[ShownLine, ...]:
    """The lines of a hunk, in its order."""
    sides = {sign: iter(_coloured([each.text for each in hunk.lines if each.sign in (" ", sign)])) for sign in "-+"}
    lines = []
    for line in hunk.lines:
        found = {sign: next(side) for sign, side in sides.items() if line.sign in (" ", sign)}
        text, kinds = found.get("+") or found["-"]
        lines.append(ShownLine(line.sign, text, kinds))
    partners = dict(_partners(hunk.lines))
    changed = {}
    for old, new in partners.items():
        changed[old], changed[new] = _changed_words(lines[old].text, lines[new].text)
    return tuple(
        ShownLine(line.sign, line.text, line.kinds, changed.get(index, ()), partners.get(index))
        for index, line in enumerate(lines)
    )


def visible(text: str) -> Iterator[tuple[str, bool]]:
    """The text in pieces, with whether each stands for a character that has no picture or turns the text around."""
    plain = ""
    for char in text:
        if char.isprintable() or char == "\t":
            plain += char
            continue
        if plain:
            yield plain, False
            plain = ""
        yield char.encode("unicode_escape").decode(), True
    if plain:
        yield plain, False


def _coloured(lines: Sequence[str]) -> list[tuple[str, tuple[int, ...]]]:
    """Every line with its kinds; all of them are read as one text."""
    # What splits lines for a lexer or for Python is not what splits them in a hunk.
    opening = _opening("\n".join(lines))
    out: list[list[tuple[str, int]]] = [[]]
    for piece, kind in _tokens(opening + "\n".join(lines)):
        first, *more = piece.split("\n")
        out[-1].append((first, kind))
        out += [[(each, kind)] for each in more]
    return [_joined(pieces) for pieces in out[1 if opening else 0 :][: len(lines)]]


def _joined(pieces: Sequence[tuple[str, int]]) -> tuple[str, tuple[int, ...]]:
    runs: list[tuple[str, int]] = []
    for piece, kind in pieces:
        for text, is_odd in visible(piece):
            own = _ODD if is_odd else kind
            if runs and runs[-1][1] == own:
                runs[-1] = (runs[-1][0] + text, own)
            else:
                runs.append((text, own))
    kinds = tuple(number for text, kind in runs for number in (_length(text), kind))
    return "".join(text for text, _ in runs), kinds


def _length(text: str) -> int:
    return len(text) + sum(char > "\uffff" for char in text)


@lru_cache(maxsize=4096)
def _tokens(code: str) -> tuple[tuple[str, int], ...]:
    lexer = PythonLexer(stripnl=False, ensurenl=False)
    return tuple((text, _kind(token)) for _, token, text in lexer.get_tokens_unprocessed(code))


def _kind(token: _TokenType) -> int:
    return next((kind for parent, kind in _KINDS if _is(token, parent)), 0)


def _is(token: _TokenType, kind: _TokenType) -> bool:
    """Whether a token is of a kind or of one below it; token types are paths, as tuples."""
    return token[: len(kind)] == kind


def _opening(code: str) -> str:
    """The quotes that stand somewhere above the code, where it seems to begin inside of a string; else nothing.

    Prose read as code is full of names in a row; whichever reading has fewer of them is taken.
    """
    if not any(quotes in code for quotes in _TRIPLE):
        return ""
    openings = ("", *(f"{quotes}\n" for quotes in _TRIPLE if quotes in code))
    return min(openings, key=lambda opening: _prose(opening + code))


def _prose(code: str) -> int:
    lexer = PythonLexer(stripnl=False, ensurenl=False)
    words = [token for _, token, text in lexer.get_tokens_unprocessed(code) if not _is(token, Text) or text.strip()]
    return sum(_is(one, Name) and _is(other, Name) for one, other in pairwise(words))


def _partners(lines: Sequence[Line]) -> Iterator[tuple[int, int]]:
    """Which removed line became which added one: the most alike of a block, without crossings."""
    index = 0
    while index < len(lines):
        start = index
        while index < len(lines) and lines[index].sign == "-":
            index += 1
        middle = index
        while index < len(lines) and lines[index].sign == "+":
            index += 1
        yield from _matched(lines, range(start, middle), range(middle, index))
        index = max(index, start + 1)


def _matched(lines: Sequence[Line], old: range, new: range) -> Iterator[tuple[int, int]]:
    if len(old) * len(new) > _MOST_PAIRS:
        yield from zip(old, new, strict=False)
        return
    # Longest common subsequence, with likeness in place of equality.
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    alike = [[_likeness(lines[one].text, lines[other].text) for other in new] for one in old]
    for i in reversed(range(len(old))):
        for j in reversed(range(len(new))):
            best[i][j] = max(best[i + 1][j], best[i][j + 1], alike[i][j] + best[i + 1][j + 1])
    i = j = 0
    while i < len(old) and j < len(new):
        if alike[i][j] and best[i][j] == alike[i][j] + best[i + 1][j + 1]:
            yield old[i], new[j]
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1


def _likeness(one: str, other: str) -> float:
    matcher = difflib.SequenceMatcher(None, one.strip()[:_LONGEST], other.strip()[:_LONGEST], autojunk=False)
    ratio = matcher.ratio() if matcher.quick_ratio() >= _ALIKE else 0.0
    return ratio if ratio >= _ALIKE else 0.0


def _changed_words(one: str, other: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Where the words stand that only one of the lines has."""
    if max(len(one), len(other)) > _LONGEST:
        return (), ()
    words = _WORDS.findall(one), _WORDS.findall(other)
    blocks = [
        block
        for block in difflib.SequenceMatcher(None, *words, False).get_matching_blocks()
        # Punctuation between changed words is easier to read as changed, too.
        if (block.a, block.b) == (0, 0)
        or (block.a + block.size, block.b + block.size) == (len(words[0]), len(words[1]))
        or any(word[0].isalnum() or word[0] == "_" for word in words[0][block.a : block.a + block.size])
    ]
    return (
        _between(words[0], [(block.a, block.size) for block in blocks]),
        _between(words[1], [(block.b, block.size) for block in blocks]),
    )


def _between(words: Sequence[str], equal: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Start and end of what lies between blocks of equal words, in turns, with less white space around."""
    bounds: list[int] = []
    done = 0
    for start, size in equal:
        before, text = "".join(words[:done]), "".join(words[done:start])
        if text.strip():
            first = before + text[: len(text) - len(text.lstrip())]
            bounds += [_length(first), _length(before + text.rstrip())]
        done = start + size
    return tuple(bounds)
