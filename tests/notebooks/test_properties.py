"""Any notebook in: no crash, nothing but sources changes, and nothing is left to do."""

from __future__ import annotations

import ast
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import nbformat.reader
import notebooks
import pytest
import toy_rules as toys
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite
from perfmod.codemods.patch import unified_diff
from perfmod.codemods.results import Choice, Outcome
from perfmod.transforms.decoding import SourceError
from perfmod.transforms.notebook import ipython
from perfmod.transforms.notebook.document import Document
from perfmod.transforms.source import Source

LINES = st.sampled_from([
    "x = slow", "slow(1)", "if x:\n    slow", "for i in y:\n    !ls {i}\n    slow(i)", "slow;", "slow  # why", "y", "",
    "# slow", "%time slow", "%matplotlib inline", "!slow", "z = !ls", "slow?", "'''\n%slow\n'''", "\t",
    "s = 'é\u2028\x0c'", "import torch", "def f():\n\n    return slow", "total += loss.item()", "x = f'{slow}'",
    "x = [\n    1,\n    slow,\n]",
])  # fmt: skip
HEADS = st.sampled_from(
    ["", "", "", "%%time\n", "%%capture out\n", "%%bash\n", "%%timeit\n", "\n\n", "%%capture\n%%time\n"]
)
SPELLINGS = st.sampled_from(["lines", "string", "crlf", "bits"])
ENDS = st.sampled_from(["", "\n", "\n\n"])
RULES = [toys.renaming(r"(?<![\w!%'])slow\b", "fast", imports=("os",), definitions=("N = os.n",))]


@st.composite
def cells(draw: st.DrawFn) -> dict[str, object]:
    kind = draw(st.sampled_from(["code", "code", "code", "code", "markdown", "raw"]))
    source = draw(HEADS) + "\n".join(draw(st.lists(LINES, max_size=5))) + draw(ENDS)
    spelling = draw(SPELLINGS)
    if spelling == "crlf":
        source = source.replace("\n", "\r\n")
    written: str | list[str] = source.splitlines(keepends=True)
    if spelling == "string":
        written = source
    elif spelling == "bits":
        at = draw(st.integers(0, len(source)))
        written = [source[:at], source[at:], ""]
    if kind != "code":
        return {"cell_type": kind, "metadata": {"tags": ["slow"]}, "source": written}
    outputs = [{"output_type": "stream", "name": "stdout", "text": ["slow\n", "é"]}] if draw(st.booleans()) else []
    return {
        "cell_type": "code",
        "source": written,
        "id": "a1",
        "metadata": draw(st.sampled_from([{}, {"scrolled": True}, {"editable": False}])),
        "execution_count": draw(st.sampled_from([None, 3])),
        "outputs": outputs,
    }


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    whole = notebooks.document(
        *draw(st.lists(cells(), max_size=6)),
        indent=draw(st.sampled_from([None, 0, 1, 2, "\t"])),
        ensure_ascii=draw(st.booleans()),
        end=draw(ENDS),
    )
    return draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + whole


def differing(before: bytes, after: bytes) -> list[int]:
    """The numbers of the cells whose sources differ."""
    pairs = zip(notebooks.sources(before), notebooks.sources(after), strict=True)
    return [number for number, (old, new) in enumerate(pairs, start=1) if old != new]


def without_sources(data: bytes, numbers: Sequence[int]) -> str:
    """The text of a notebook with the sources of some cells cut out."""
    document = Document.read(data)
    text = document.text
    for cell in reversed(document.cells):
        if cell.number in numbers:
            text = text[: cell.start] + text[cell.end :]
    return text


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(documents())
@example(notebooks.document("# slow", "", "import torch"))  # a use above all statements
@example(notebooks.document("# slow"))  # no statement at all
def test_only_sources_change(data: bytes) -> None:
    try:
        source: Source | None = Source.parse(data, "a.ipynb")
    except SourceError:
        source = None
    if source is None:
        assert rewrite(data, "a.ipynb", RULES).after == data
        return
    assert source.to_bytes() == data
    result = rewrite(data, "a.ipynb", RULES)
    assert result.outcome in (Outcome.CHANGED, Outcome.UNCHANGED), result.reason
    changed = differing(data, result.after)
    assert bool(changed) == (result.outcome is Outcome.CHANGED)
    assert without_sources(result.after, changed) == without_sources(data, changed)
    nbformat.reader.reads(result.after.decode("utf-8-sig"))  # type: ignore[no-untyped-call]
    for old, new in zip(notebooks.sources(data), notebooks.sources(result.after), strict=True):
        kept = [line for line in old.splitlines() if line.strip() and "slow" not in line]
        assert [line for line in new.splitlines() if line in kept] == kept
        assert old.endswith("\n") == new.endswith("\n")
    again = rewrite(result.after, "a.ipynb", RULES)
    assert again.outcome is Outcome.UNCHANGED, again.reason


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(documents())
def test_the_catalogue_over_any_notebook(data: bytes) -> None:
    rules = catalog.rules()
    everything = Choice(unsafe=True, opted_in=frozenset(rule.code for rule in rules))
    result = rewrite(data, "a.ipynb", rules, everything)
    assert "internal error" not in result.reason
    for finding in (*result.applied, *result.held_back, *result.refused):
        assert finding.cell is not None
        assert not any("\ue000" <= character <= "\uf8ff" for character in finding.message + finding.reason)


@settings(deadline=None, max_examples=200)
@given(st.text(alphabet=st.sampled_from("ab =%!?;/,\\\n\t '\"#([{}])x0\r")))
def test_any_cell_can_be_taken_apart(cell: str) -> None:
    at = 0
    for each in ipython.stand_ins(cell):
        assert at <= each.start <= each.end <= len(cell)
        ast.parse(each.python if each.python != "if True:" else "pass")
        at = each.end


@settings(deadline=None, max_examples=100)
@given(st.text(), st.text(), st.booleans(), st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_any_source_can_be_written(
    old: str, new: str, as_string: bool, ensure_ascii: bool, indent: int | str | None
) -> None:
    source: str | list[str] = old if as_string else old.splitlines(keepends=True)
    data = notebooks.document(
        notebooks.code([]) | {"source": source}, "b = 1\n", indent=indent, ensure_ascii=ensure_ascii
    )
    written = Document.read(data).with_sources({0: new}).to_bytes()
    assert notebooks.sources(written) == [new, "b = 1\n"]
    assert notebooks.others(written) == notebooks.others(data)


@pytest.mark.parametrize("indent", [None, 1, 2])
def test_git_takes_the_diff(tmp_path: Path, indent: int | None) -> None:
    data = notebooks.document("import torch", "a = slow\nb = 'é'", "slow;\n", indent=indent, end="")
    path = tmp_path / "my notes.ipynb"
    path.write_bytes(data)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    result = rewrite(data, path.name, RULES)
    diff = unified_diff(path.name, data, result.after)
    subprocess.run(["git", "apply", "-"], input=diff, cwd=tmp_path, check=True)
    assert path.read_bytes() == result.after
    assert json.loads(result.after)
    subprocess.run(["git", "apply", "-R", "-"], input=diff, cwd=tmp_path, check=True)
    assert path.read_bytes() == data
