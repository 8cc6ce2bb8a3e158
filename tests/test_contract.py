"""Every rule says all that its page needs, stands in a file of its own, and has enough goldens."""

from __future__ import annotations

import ast
import inspect
import io
import re
import sys
import tokenize
from collections import Counter
from pathlib import Path

import pytest
from golden_harness.golden import ROOT, Golden, goldens

from perfmod.codemods import catalog
from perfmod.transforms.finding import Family, Numerics, Safety, Status
from perfmod.transforms.rule import Rule

RULES = catalog.rules()
HUNDREDS = {Family.SYNCS: "1", Family.FEEDING: "2", Family.COMPUTE: "3", Family.LEFTOVERS: "4"}
LONGEST_FILE = 150
"""Lines of code; a longer file says why in its module docstring, after the words `Long because`."""
LEAST = 6

each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


def _file(rule: Rule) -> Path:
    return Path(inspect.getfile(type(rule)))


def _docstring(rule: Rule) -> str:
    return inspect.getdoc(sys.modules[type(rule).__module__]) or ""


def test_there_are_rules() -> None:
    assert RULES


def test_codes_and_names_are_unique() -> None:
    for values in (Counter(rule.code for rule in RULES), Counter(rule.name for rule in RULES)):
        assert set(values.values()) == {1}, values


@each_rule
def test_code_belongs_to_the_family(rule: Rule) -> None:
    assert re.fullmatch(rf"PM{HUNDREDS[rule.family]}\d\d", rule.code)
    assert type(rule).__module__.split(".")[-2] == rule.family.value


@each_rule
def test_stands_alone_in_a_file_of_its_name(rule: Rule) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)+", rule.name)
    assert _file(rule).stem == rule.name.replace("-", "_")
    assert [other.name for other in RULES if _file(other) == _file(rule)] == [rule.name]


@each_rule
def test_metadata_is_complete(rule: Rule) -> None:
    kinds = {"family": Family, "numerics": Numerics, "safety": Safety, "status": Status}
    for name, kind in kinds.items():
        assert isinstance(getattr(rule, name), kind), name
    assert re.fullmatch(r"\d+\.\d+(\.\d+)?", rule.min_torch)
    assert rule.triggers
    assert all(re.fullmatch(r"\w+", word) for word in rule.triggers)
    assert rule.references
    assert all(reference.startswith("https://") for reference in rule.references)


@each_rule
def test_texts_are_sentences_of_one_line(rule: Rule) -> None:
    for text in (rule.summary, rule.fix_title):
        assert text == text.strip()
        assert "\n" not in text
        assert 10 <= len(text) <= 110
        assert not text.endswith(".")
    assert rule.fix_title[0].isupper()
    assert len(rule.changes_results.split()) >= 10


@each_rule
def test_module_explains_the_pattern(rule: Rule) -> None:
    assert len(_docstring(rule).split()) >= 30


@each_rule
def test_file_is_short_or_says_why(rule: Rule) -> None:
    lines = _lines_of_code(_file(rule).read_text(encoding="utf-8"))
    assert lines <= LONGEST_FILE or "Long because" in _docstring(rule), f"{lines} lines of code"


@each_rule
def test_goldens_show_changes_and_at_least_as_many_traps(rule: Rule) -> None:
    heads = [golden.head for golden in goldens() if golden.rule == rule.name]
    # Advice changes nothing: what it shows is that it is given, and where it is not.
    is_advice = rule.safety is Safety.ADVICE
    shown = [head.advised is not None if is_advice else head.change and not head.opt_in for head in heads]
    assert shown.count(True) >= LEAST
    assert shown.count(False) >= max(LEAST, shown.count(True))


def test_every_folder_of_goldens_belongs_to_a_rule() -> None:
    assert {path.name for path in ROOT.iterdir() if path.is_dir()} == {rule.name for rule in RULES}


@pytest.mark.parametrize("golden", list(goldens()), ids=lambda golden: golden.name)
def test_golden_says_what_it_shows(golden: Golden) -> None:
    module = ast.parse(golden.before)
    docstring = ast.get_docstring(module)
    assert docstring
    assert "\n" not in docstring
    functions = {node.name for node in module.body if isinstance(node, ast.FunctionDef)}
    assert golden.head.script or "probe" in functions


def _lines_of_code(text: str) -> int:
    """Lines that hold code: no blank lines, no comments, no docstrings."""
    layout = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    noise = {*layout, tokenize.COMMENT}
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                docstrings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in noise:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)
