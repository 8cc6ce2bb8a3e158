"""Light trees say what full ones say; where a rule asks for white space, files are parsed in full."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import libcst as cst
import pytest
from libcst import matchers
from toy_rules import at, rule

from perfmod.codemods.engine import rewrite
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import children, walk
from perfmod.transforms.finding import Edit, Finding
from perfmod.transforms.source import Parsed, SourceError, parsed

ROOT = Path(__file__).parents[2]
FILES = sorted(
    {*ROOT.glob("golden/*/*.in.py"), *ROOT.glob("transforms/*/*.py"), *ROOT.glob("benchmarks/reference/*/*.py")}
)
HARD = r"""
# --- parentheses
x = ((a) + (b)) * (c)
y = (f)((a), *(b), **(c))
z = (yield_ := (1,))[(0)]
if ((a)
    ):  # )
    pass
# --- tuples
a, b = c, = (1,), ()
for i, (j, k) in x: pass
del a, b
del (c)
return_ = lambda: (1, 2)
x[1:2, ::3, (4, 5)]
# --- strings
x = 'a' "b" r'''c
''' f'{y!r:>{w}} {{}}'
y = ('é' # '
  'ü')
# --- comprehensions
x = [i for i in (y) if (i) if j for k in l]
y = f(i for i in x)
z = {**a, 'b': (c), **(d)}
w = {k: v for k, v in x}
# --- functions
@a
@(b)
# c
def f(a, /, b: (int) = (1), *, c=2, **d: e) -> (g):
    async def h(*args): await x
    return
class A(B, *C, metaclass=D): x: int
class E:
    'doc'
    y = lambda *a, b=1: (yield)
# --- blocks
if a: b; c
elif d:
	x
else: y
try:
    pass
except (A, B) as e:
    raise X from (e)
else:
    pass
finally:
    pass
with (a) as b, c as (d): pass
with (a as b, c): pass
for x in y: pass
else: pass
while a:
  break
else:
  x
# --- lines
x = 1 + \
    2
from . import (a as b,
  c)
from ..x.y import *
import a.b as c, d.e
assert (a), b
global_ = 1; x = not a
# --- operators
x = a if b else c
y = a < b <= c is not d not in e
z = -a ** ~b @ c // d % e << f >> g & h | i ^ j
x += 1; y **= 2
z = a and b or not c
# --- unicode
é = {'ß': [ü]}
f(é, 'ß')[ü] = é.ü  # ö
x = f'{é}' + ü
"""
CODE = dict(part.split("\n", 1) for part in HARD.split("# --- ")[1:])
CODE["windows"] = CODE["functions"].replace("\n", "\r\n")


PLAIN = (cst.BaseExpression, cst.BaseSmallStatement, cst.Param, cst.Arg, cst.ClassDef, cst.FunctionDef)
"""Nodes whose places no white space takes part in."""


def described(tree: Parsed, node: cst.CSTNode) -> Iterator[object]:
    """All nodes of code below one, by type and text."""
    for each in walk(node):
        value = getattr(each, "value", None)
        start, end = tree.spans.get(id(each), (0, 0))
        is_plain = isinstance(
            each, (cst.BaseExpression, cst.BaseSmallStatement, cst.Param, cst.Arg, cst.ClassDef, cst.FunctionDef)
        )
        yield type(each).__name__, value if isinstance(value, str) else None, (start, end) if is_plain else None
        if isinstance(each, cst.BaseExpression):
            yield [tree.spans[id(paren)] for paren in (*each.lpar, *each.rpar)]
        yield len(children(each))


def differences(text: str) -> list[object]:
    light, full = parsed(text), parsed(text, in_full=True)
    assert not light.is_full
    pairs = zip(described(light, light.module), described(full, full.module), strict=True)
    return [pair for pair in pairs if pair[0] != pair[1]]


@pytest.mark.parametrize("text", CODE.values(), ids=CODE)
def test_light_trees_are_those_of_the_parser(text: str) -> None:
    assert not differences(text)


@pytest.mark.parametrize("number", range(8))
def test_light_trees_of_files(number: int) -> None:
    for path in FILES[number::8][:20]:
        assert (path, differences(path.read_text())) == (path, [])


@pytest.mark.parametrize("text", ["match x:\n    case 1: pass\n", "\fx = 1\n", "x = 1\ry = 2\n"])
def test_what_is_not_understood_is_parsed_in_full(text: str) -> None:
    assert parsed(text).is_full


@pytest.mark.parametrize("text", ["x = 'a' b'c'\n", "x = (\n", "print 1\n"])
def test_what_is_no_python_is_told_apart(text: str) -> None:
    with pytest.raises(SourceError, match="line 1"):
        parsed(text)


def test_a_rule_that_asks_for_white_space_gets_it() -> None:
    """Also in the rounds behind the first."""

    def check(file: FileFacts) -> Iterator[Finding]:
        for call in matchers.findall(file.source.module, matchers.Call(matchers.Name("slow"))):
            start, end = file.source.span(call)
            yield at(file, start, end, Edit(start, end, "fast()"))
            return

    result = rewrite(b"import torch\nslow()\nslow()\n", "train.py", [rule(check)])
    assert result.after == b"import torch\nfast()\nfast()\n"


@pytest.mark.parametrize("text", [
    "x = (f'a {b} '\r\n  f'c {d}')\r\n",
    "a; \\\n  b\n",
    "if x:\n    @(# @\n    a)\n    def f(): pass\n",
    "del (a),\n",
])  # fmt: skip
def test_spans_of_rare_writing(text: str) -> None:
    assert parsed(text).is_full or not differences(text)
