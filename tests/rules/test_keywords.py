"""Adding a keyword argument to a call: it stands where its author would have put it."""

from __future__ import annotations

import libcst as cst
import pytest

from perfmod.transforms import style
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.keywords import add_keyword
from perfmod.transforms.source import Source

CALLS = {
    "no arguments": ("make()", "make(flag=True)"),
    "one line": ("make(a, b)", "make(a, b, flag=True)"),
    "before keywords of others": ("make(a, **more)", "make(a, flag=True, **more)"),
    "a line each": ("make(\n    a,\n    b,\n)", "make(\n    a,\n    b,\n    flag=True,\n)"),
    "a line each, no comma": ("make(\n    a,\n    b\n)", "make(\n    a,\n    b,\n    flag=True\n)"),
    "a line each, comment": ("make(\n    a,  # one\n    b  # two\n)",
        "make(\n    a,  # one\n    b,  # two\n    flag=True\n)"),
    "a line each, aligned": ("make(a,\n     b)", "make(a,\n     b,\n     flag=True)"),
    "a line each, aligned, comma": ("make(a,\n     b,\n     )", "make(a,\n     b,\n     flag=True,\n     )"),
    "a line each, comment behind the last": ("make(a,  # one\n     b)  # two",
        "make(a,  # one\n     b,  # two\n     flag=True)"),
    "a line each, bracket on the next line": ("make(a,  # one\n     b  # two\n     )",
        "make(a,  # one\n     b,  # two\n     flag=True\n     )"),
    "a comment behind several": ("make(a, b  # two\n     )", "make(a, b,  # two\n     flag=True\n     )"),
    "a comment behind the last line": ("make(\n    a, b,\n    c)  # three",
        "make(\n    a, b,\n    c,  # three\n    flag=True)"),
    "a comment behind all": ("make(a, b)  # both", "make(a, b, flag=True)  # both"),
    "on a line that is too long already": (f"make({'a' * 80}, {'b' * 80})",
        f"make({'a' * 80}, {'b' * 80},\n     flag=True)"),
    "before other code": (f"make({'a' * 70}), 1", f"make({'a' * 70},\n     flag=True), 1"),
    "before another call": (f"make({'a' * 70}), f()", f"make({'a' * 70}, flag=True), f()"),
    "before a comment": (f"make({'a' * 70})  # {'b' * 40}", f"make({'a' * 70}, flag=True)  # {'b' * 40}"),
    "in a list": (f"[make({'a' * 70}), 1]", f"[make({'a' * 70},\n      flag=True), 1]"),
    "in the head of a loop": (f"for x in zip(make({'a' * 70}), y): pass",
        f"for x in zip(make({'a' * 70},\n                  flag=True), y): pass"),
    "spaces around =": ("make(a, b = 1)", "make(a, b = 1, flag = True)"),
    "spaces around one =": ("make(a = 1, b=1)", "make(a = 1, b=1, flag=True)"),
    "several lines": ("make(a, b,\n     c, d)", "make(a, b,\n     c, d, flag=True)"),
    "one of several on its line": ("make(a, b,\n     c)", "make(a, b,\n     c, flag=True)"),
    "behind a long line": (f"make({'a' * 40}, {'b' * 30})", f"make({'a' * 40}, {'b' * 30},\n     flag=True)"),
    "the only one on a line of its own": ("make(\n    a)", "make(\n    a, flag=True)"),
    "the only one, bracket on the next line": ("make(\n    a\n)", "make(\n    a, flag=True\n)"),
    "the only one, with a comma": ("make(\n    a,\n)", "make(\n    a,\n    flag=True,\n)"),
    "a comma before the bracket": ("make(a,)", "make(a, flag=True)"),
    "a comma without spaces before the bracket": ("make(a,b,)", "make(a,b,flag=True)"),
    "the only one, a call with a comma": ("make(\n    len(a,))", "make(\n    len(a,), flag=True)"),
    "the only one on a long line": (f"make(\n    {'a' * 80})", f"make(\n    {'a' * 80},\n    flag=True)"),
    "several on a line of their own": ("make(\n    a, b\n)", "make(\n    a, b, flag=True\n)"),
    "several on a line that is too long already": (f"make(\n    {'a' * 80}, {'b' * 60}\n)",
        f"make(\n    {'a' * 80}, {'b' * 60},\n    flag=True\n)"),
    "several on a long line with the bracket": (f"make(\n    {'a' * 40}, {'b' * 30})",
        f"make(\n    {'a' * 40}, {'b' * 30},\n    flag=True)"),
    "several on a long line of their own": (f"make(\n    {'a' * 40}, {'b' * 30}\n)",
        f"make(\n    {'a' * 40},\n    {'b' * 30},\n    flag=True,\n)"),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_where_a_keyword_goes(name: str) -> None:
    before, after = CALLS[name]
    assert _added(before) == after


def test_a_line_each_where_a_keyword_may_not_start_one() -> None:
    before, after = CALLS["several on a long line of their own"]
    assert _added(before, wrap=False) == after


def _added(before: str, *, wrap: bool = True) -> str:
    source = Source.parse(before.encode())
    call = next(call for call in find_all(source.module.body[-1], cst.Call) if source.code(call.func) == "make")
    text = before
    for edit in sorted(add_keyword(source, call, "flag=True", wrap=wrap), reverse=True):
        text = text[: edit.start] + edit.replacement + text[edit.end :]
    return text


def test_the_lines_of_the_file_say_how_long_one_may_be() -> None:
    long = f"x = {'1' * 90}\n"
    assert _added(long * 9 + f"make({'a' * 40}, {'b' * 40})") == long * 9 + f"make({'a' * 40}, {'b' * 40}, flag=True)"


@pytest.mark.parametrize(("code", "quoted"), [("a = 'x'", "'cuda'"), ('a = "x"', '"cuda"'), ("a = 1", '"cuda"')])
def test_the_quotes_of_the_file(code: str, quoted: str) -> None:
    assert style.quoted(Source.parse(code.encode()), "cuda") == quoted
