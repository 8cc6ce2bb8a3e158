"""Hunks as they are shown."""

from __future__ import annotations

import pytest

from perfmod.review.highlight import KINDS, ShownLine, shown_lines
from perfmod.review.items import Hunk, Line


def shown(*lines: str) -> tuple[ShownLine, ...]:
    return shown_lines(Hunk(1, 1, tuple(Line(line[0], line[1:]) for line in lines)))


def coloured(line: ShownLine) -> list[tuple[str, str]]:
    """The pieces that have a colour."""
    pieces, start = [], 0
    for length, kind in zip(line.kinds[::2], line.kinds[1::2], strict=True):
        pieces.append((line.text[start : start + length], KINDS[kind]))
        start += length
    assert start == len(line.text)
    return [(text, kind) for text, kind in pieces if kind]


def changed(line: ShownLine) -> list[str]:
    return [line.text[start:end] for start, end in zip(line.changed[::2], line.changed[1::2], strict=True)]


@pytest.mark.parametrize(("lines", "expected"), [
    ([" def f(x):"], [("def", "keyword"), ("f", "definition")]),
    ([" x = 1.5  # so"], [("1.5", "number"), ("# so", "comment")]),
    ([" a = '''one", " for x in y'''"], [("for x in y'''", "string")]),
    ([" the quick brown fox is for all", ' """', " return x"], [("return", "keyword")]),
    ([' x = "\x85\u2028"'], [('"', "string"), (r"\x85\u2028", "odd"), ('"', "string")]),
    ([" %timeit f()"], []),
    ([" "], []),
])  # fmt: skip
def test_colours_of_the_last_line(lines: list[str], expected: list[tuple[str, str]]) -> None:
    assert coloured(shown(*lines)[-1]) == expected


def test_each_side_is_read_by_itself() -> None:
    lines = shown("-x = '''", "+x = 1", " for")
    assert coloured(lines[1]) == [("1", "number")]
    assert coloured(lines[2]) == [("for", "keyword")]


def test_what_begins_inside_of_a_string() -> None:
    first = shown(" the quick brown fox is for all", ' """', " return x")[0]
    assert coloured(first) == [("the quick brown fox is for all", "string")]


@pytest.mark.parametrize(("lines", "partners", "words"), [
    (["-a = x.item()", "+a = x.detach()"], {0: 1}, [["item"], ["detach"]]),
    (["-    total += loss", "+    import torch", "+    total += loss.detach()"], {0: 2}, [[], [], [".detach()"]]),
    (["-a = 1", "+completely(different, thing)"], {}, [[], []]),
    (["-keep one", "-keep two", "+keep two!"], {1: 2}, [[], [], ["!"]]),
    (["-x", " same", "+x"], {}, [[], [], []]),
])  # fmt: skip
def test_what_became_what(lines: list[str], partners: dict[int, int], words: list[list[str]]) -> None:
    found = shown(*lines)
    assert {index: line.partner for index, line in enumerate(found) if line.partner is not None} == partners
    assert [changed(line) for line in found] == words


def test_lengths_are_those_of_browsers() -> None:
    (line,) = shown(" '\U0001f600' + 1")
    assert sum(line.kinds[::2]) == len(line.text) + 1


def test_a_large_block_takes_no_time() -> None:
    lines = [f"-line {number} of many" for number in range(300)] + [f"+line {number} of many" for number in range(300)]
    assert [line.partner for line in shown(*lines)][:3] == [300, 301, 302]
