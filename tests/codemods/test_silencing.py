from __future__ import annotations

import ast

import pytest
import toy_rules as toys

from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import FileResult
from perfmod.codemods.silencing import silence, without_unused
from perfmod.transforms.decoding import SourceError

RULES = [
    toys.renaming(r"\bslow\b", "fast"),
    toys.renaming(r"\blazy\b", "eager", code="PM902", name="second", triggers=("lazy",)),
]
LONG = "x = f(slow, " + ", ".join(["1234567890"] * 5) + ", 12)"


@pytest.fixture(autouse=True)
def catalog_of_these_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "rules", lambda: RULES)


def run(data: bytes) -> FileResult:
    return rewrite(data, "a.py", RULES)


@pytest.mark.parametrize(("code", "silenced"), [
    ("x = slow\n", "x = slow  # perfmod: ignore[PM901]\n"),
    ("x = slow", "x = slow  # perfmod: ignore[PM901]"),
    ("x = slow  \n", "x = slow  # perfmod: ignore[PM901]  \n"),
    ("x = slow + lazy\n", "x = slow + lazy  # perfmod: ignore[PM901, PM902]\n"),
    ("x = slow; y = lazy; slow\n", "x = slow; y = lazy; slow  # perfmod: ignore[PM901, PM902]\n"),
    ("x = slow # noqa: E501\n", "x = slow # noqa: E501  # perfmod: ignore[PM901]\n"),
    # One that silences another rule there already is joined, wherever it stands.
    ("x = slow + lazy  # perfmod: ignore[PM902] why\n", "x = slow + lazy  # perfmod: ignore[PM902, PM901] why\n"),
    ("# perfmod: ignore[second]\nx = slow + lazy\n", "# perfmod: ignore[second, PM901]\nx = slow + lazy\n"),
    ("x = f(\n  slow,\n  lazy,  # perfmod: ignore[ PM902 ]\n)\n",
     "x = f(\n  slow,\n  lazy,  # perfmod: ignore[ PM902, PM901 ]\n)\n"),
    # One above a compound statement speaks of its body, too.
    ("# perfmod: ignore[PM902]\nif slow:\n    lazy\n",
     "# perfmod: ignore[PM902]\nif slow:  # perfmod: ignore[PM901]\n    lazy\n"),
    ("def f():\n\tif x:\n\t\treturn slow\n", "def f():\n\tif x:\n\t\treturn slow  # perfmod: ignore[PM901]\n"),
    ("x = f(\n    slow,\n)\n", "x = f(\n    slow,  # perfmod: ignore[PM901]\n)\n"),
    ("x = slow + \\\n    1\n", "x = slow + \\\n    1  # perfmod: ignore[PM901]\n"),
    ('x = slow + """\na\n"""\n', 'x = slow + """\na\n"""  # perfmod: ignore[PM901]\n'),
    ('x = f"""\n{slow(\n1)}\n"""\n', 'x = f"""\n{slow(\n1)}\n"""  # perfmod: ignore[PM901]\n'),
    ("@d(slow)\n@e\ndef f(): ...\n", "@d(slow)  # perfmod: ignore[PM901]\n@e\ndef f(): ...\n"),
    ("try:\n    x\nexcept slow:\n    lazy\n",
     "try:\n    x\nexcept slow:  # perfmod: ignore[PM901]\n    lazy  # perfmod: ignore[PM902]\n"),
    ("match x:\n    case slow.a:\n        pass\n",
     "match x:\n    case slow.a:  # perfmod: ignore[PM901]\n        pass\n"),
    ("if x:\n    y\nelif slow:\n    y\n", "if x:\n    y\nelif slow:  # perfmod: ignore[PM901]\n    y\n"),
    (f"{LONG}\n", f"# perfmod: ignore[PM901]\n{LONG}\n"),
    (f"if x:\n    # why\n    {LONG}\n", f"if x:\n    # why\n    # perfmod: ignore[PM901]\n    {LONG}\n"),
    (f"if {LONG[4:]}:\n    slow\n",
     f"if {LONG[4:]}:  # perfmod: ignore[PM901]\n    slow  # perfmod: ignore[PM901]\n"),
])  # fmt: skip
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_comments_come_and_go(code: str, silenced: str, end: str) -> None:
    """Nothing is left to rewrite then, no comment is unused, and the code is the same."""
    before, after = (f"\ufeffimport torch\n{text}".replace("\n", end).encode() for text in (code, silenced))
    assert silence(before, "a.py", run(before).applied).decode() == after.decode()
    again = run(after)
    assert (again.applied, again.warnings) == ((), ())
    assert ast.dump(ast.parse(before)) == ast.dump(ast.parse(after))


def test_a_reason_stands_behind_new_comments() -> None:
    data = b"import torch\nslow\n"
    assert (
        silence(data, "a.py", run(data).applied, "it is tiny") == data[:-1] + b"  # perfmod: ignore[PM901] it is tiny\n"
    )


def test_one_finding_of_several() -> None:
    data = b"import torch\nslow + lazy\nslow\n"
    assert silence(data, "a.py", run(data).applied[:1]) == data.replace(b"y\n", b"y  # perfmod: ignore[PM901]\n")


def test_a_reason_that_the_encoding_cannot_hold() -> None:
    data = b"# coding: latin-1\nimport torch\nslow\n"
    with pytest.raises(SourceError, match="latin-1"):
        silence(data, "a.py", run(data).applied, "\u4e2d")


@pytest.mark.parametrize(("code", "left"), [
    ("x = 1  # perfmod: ignore[PM901]\n", "x = 1\n"),
    ("x = 1  # perfmod: ignore[PM901] as of #12  \n", "x = 1\n"),
    ("x = 1  # perfmod: ignore\n", "x = 1\n"),
    ("x = 1  # perfmod: ignore[PM901]", "x = 1"),
    ("# perfmod: ignore[PM901]\nx = 1\n", "x = 1\n"),
    ("if x:\n    # perfmod: ignore[PM901]\n    x = 1\n", "if x:\n    x = 1\n"),
    ("x = 1  # perfmod: ignore[PM901] why  # noqa\n", "x = 1  # noqa\n"),
    ("x = 1  # noqa  # perfmod: ignore[PM901]\n", "x = 1  # noqa\n"),
    ("x = 1  # perfmod: ignore[PM901] # perfmod: ignore[PM902]\n", "x = 1\n"),
    ("slow  # perfmod: ignore[PM902, toy, PM9] why\n", "slow  # perfmod: ignore[toy, PM9] why\n"),
    ("slow  # perfmod: ignore[PM901, PM902]\n", "slow  # perfmod: ignore[PM901]\n"),
    ("x = 1  # perfmod: ignore[PM901, W605]\n", "x = 1  # perfmod: ignore[W605]\n"),
    ("# perfmod: off[PM902]\nslow\n# perfmod: on[PM902]\n", "slow\n"),
    ("# perfmod: off\nslow\n# perfmod: on[PM902]\nlazy\n# perfmod: on\nx = 1\n# perfmod: on\n",
     "# perfmod: off\nslow\n# perfmod: on[PM902]\nlazy\n# perfmod: on\nx = 1\n# perfmod: on\n"),
    ("# perfmod: on[PM901]\nslow\n", "slow\n"),
    ("slow  # perfmod: ignore[PM901]\n", "slow  # perfmod: ignore[PM901]\n"),
    ("x = 1  # perfmod: ignore[ALL, PM701]\n", "x = 1  # perfmod: ignore[PM701]\n"),
])  # fmt: skip
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_silences_nothing_goes(code: str, left: str, end: str) -> None:
    before, after = (f"import torch\n{text}".replace("\n", end).encode() for text in (code, left))
    assert without_unused(before, "a.py", run(before).unused).decode() == after.decode()
    assert not run(after).unused


def test_another_file_than_that_in_which_they_were_found() -> None:
    unused = run(b"import torch\nx = 1  # perfmod: ignore[PM901]\n").unused
    with pytest.raises(SourceError, match="was edited while perfmod ran"):
        without_unused(b"import torch\nxy = 1  # perfmod: ignore[PM901]\n", "a.py", unused)
