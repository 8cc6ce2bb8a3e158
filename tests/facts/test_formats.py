"""Texts that show values."""

from __future__ import annotations

import libcst as cst
import pytest
from snippets import facts

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.formats import shows_number, shows_type
from perfmod.transforms.facts.tree import find_all

NUMBERS = [
    "f'{x}'", "f'{x:.3f}'", "'{} {:.3f}'.format(1, x)", "'{a}'.format(a=x)", "'%.3f' % x",
    "'%d %%' % x", "'%s %f' % (name, x)", "'%6.2e %d' % (x, n)",
]  # fmt: skip
OTHERS = [
    "x", "f(x)", "f'{x!r}'", "f'{x + 1}'", "'{!s}'.format(x)", "'{'.format(x)",
    "text.format(x)", "'{} {}'.format(*x)", "'%s' % x", "'%f %s' % (n, x)", "'%*d' % (n, x)",
    "text % x", "'%f %f' % (*names, x)", "'%(a)f' % {'a': x}", "7 % x",
]  # fmt: skip


def figure(file: FileFacts) -> cst.Name:
    return next(name for name in find_all(file.source.module, cst.Name) if name.value == "x")


@pytest.mark.parametrize("code", NUMBERS)
def test_shows_a_tensor_as_its_number(code: str) -> None:
    file = facts(code)
    assert shows_number(file, figure(file))


@pytest.mark.parametrize("code", OTHERS)
def test_does_not(code: str) -> None:
    file = facts(code)
    assert not shows_number(file, figure(file))


@pytest.mark.parametrize(("code", "expected"), [
    ("print(x)", True),
    ("y = x", True),
    ("y = x + 1", True),
    ("f'{x}'", True),
    ("f'{x:5d}'", True),
    ("f'{x:.2f}'", False),
    ("f'{2 * x:.1%}'", False),
    ("y = x / 2", False),
    ("y = (x + 1) / n", False),
    ("y = x < best", False),
    ("y = best < x", False),
])  # fmt: skip
def test_whether_a_float_is_told_from_an_integer(code: str, expected: bool) -> None:
    file = facts(code)
    assert shows_type(file, figure(file)) is expected
