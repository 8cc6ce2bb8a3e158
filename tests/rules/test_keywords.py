"""Adding a keyword argument to a call: it stands where its author would have put it."""

from __future__ import annotations

import libcst as cst
import pytest

from perfmod.transforms.keywords import add_keyword
from perfmod.transforms.source import Source

CALLS = {
    "no arguments": ("make()", "make(flag=True)"),
    "one line": ("make(a, b)", "make(a, b, flag=True)"),
    "before keywords of others": ("make(a, **more)", "make(a, flag=True, **more)"),
    "a line each": ("make(\n    a,\n    b,\n)", "make(\n    a,\n    b,\n    flag=True,\n)"),
    "a line each, no comma": ("make(\n    a,\n    b\n)", "make(\n    a,\n    b,\n    flag=True\n)"),
    "a line each, comment": (
        "make(\n    a,  # one\n    b  # two\n)",
        "make(\n    a,  # one\n    b,  # two\n    flag=True\n)",
    ),
    "aligned": (f"make({'a' * 40},\n     {'b' * 80})", f"make({'a' * 40},\n     {'b' * 80},\n     flag=True)"),
    "behind a long line": (f"make({'a' * 40}, {'b' * 40})", f"make({'a' * 40}, {'b' * 40},\n     flag=True)"),
    "several on a line of their own": ("make(\n    a, b\n)", "make(\n    a, b, flag=True\n)"),
    "several on a long line of their own": (
        f"make(\n    {'a' * 40}, {'b' * 40}\n)",
        f"make(\n    {'a' * 40}, {'b' * 40},\n    flag=True\n)",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_where_a_keyword_goes(name: str) -> None:
    before, after = CALLS[name]
    source = Source.parse(before.encode())
    (statement,) = source.module.body
    call = cst.ensure_type(
        cst.ensure_type(cst.ensure_type(statement, cst.SimpleStatementLine).body[0], cst.Expr).value, cst.Call
    )
    text = before
    for edit in sorted(add_keyword(source, call, "flag=True"), reverse=True):
        text = text[: edit.start] + edit.replacement + text[edit.end :]
    assert text == after
