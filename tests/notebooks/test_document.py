"""Sources are replaced where they stand in the JSON, and nothing else moves by a byte."""

from __future__ import annotations

import codecs
import json

import notebooks
import pytest

from perfmod.transforms.decoding import ForeignSource, SourceError
from perfmod.transforms.notebook.document import Document


def replaced(data: bytes, *pairs: tuple[int, str, str]) -> bytes:
    """The notebook with text replaced in code cells, given by their index."""
    document = Document.read(data)
    changes = {index: document.cells[index].source.replace(old, new) for index, old, new in pairs}
    return document.with_sources(changes).to_bytes()


CELLS = (notebooks.text("# Title é"), "a = 1\nb = 2\nc = 3", "", "x = 'é'\ny = 1\n")


@pytest.mark.parametrize("indent", [None, 0, 1, 2, 4, "\t"])
@pytest.mark.parametrize("ensure_ascii", [False, True])
@pytest.mark.parametrize("end", ["", "\n", "\n\n", " \r\n"])
def test_style_of_the_file_stays(indent: int | str | None, ensure_ascii: bool, end: str) -> None:
    def written(*cells: str) -> bytes:
        return notebooks.document(CELLS[0], *cells, indent=indent, ensure_ascii=ensure_ascii, end=end)

    before = written("a = 1\nb = 2\nc = 3", "", "x = 'é'\ny = 1\n")
    after = written("a = 1\nb = 20\nmore = 'é'\nc = 3", "", "x = 'éé'\ny = 1\n")
    assert Document.read(before).to_bytes() == before
    assert replaced(before, (0, "b = 2", "b = 20\nmore = 'é'"), (2, "'é'", "'éé'")) == after


@pytest.mark.parametrize(("old", "new", "expected"), [
    ("a = 1\n", "", ["b = 2\n", "c = 3"]),
    ("\nc = 3", "", ["a = 1\n", "b = 2"]),
    ("c = 3", "c = 3\nd = 4\n", ["a = 1\n", "b = 2\n", "c = 3\n", "d = 4\n"]),
    ("a = 1", "z = 0\na = 1", ["z = 0\n", "a = 1\n", "b = 2\n", "c = 3"]),
    ("a = 1\nb = 2\nc = 3", "", []),
    ("a = 1\nb = 2\nc = 3", "one", ["one"]),
])  # fmt: skip
def test_lists_of_lines(old: str, new: str, expected: list[str]) -> None:
    before, after = (
        notebooks.document("q = 1", notebooks.code(lines), "r = 2\ns = 3")
        for lines in (["a = 1\n", "b = 2\n", "c = 3"], expected)
    )
    assert replaced(before, (1, old, new)) == after


def test_a_single_line_learns_its_layout_from_other_cells() -> None:
    for indent in (None, 1, 4, "\t"):
        before = notebooks.document("a = 1", "b = 2\nc = 3", indent=indent)
        assert replaced(before, (0, "a = 1", "a = 1\nz = 0")) == notebooks.document(
            "a = 1\nz = 0", "b = 2\nc = 3", indent=indent
        )
    minified = b'{"cells":[{"cell_type":"code","metadata":{},"outputs":[],"source":["a"]}],"metadata":{},"nbformat":4}'
    assert json.loads(replaced(minified, (0, "a", "a\nb")))["cells"][0]["source"] == ["a\n", "b"]


def test_sources_that_are_one_string() -> None:
    before = notebooks.document(notebooks.code([]) | {"source": "a = 1\nb = '\\n'\nc = \"é\"\n"})
    before = before.replace("é".encode(), rb"\u00E9").replace(b"a = 1", b"\\u0061 = 1")
    after = replaced(before, (0, "b = '\\n'", "b = '\\t'\nd = 4"))
    assert after == before.replace(rb"b = '\\n'\n", rb"b = '\\t'\nd = 4\n")


@pytest.mark.parametrize("indent", [None, 1, "\t"])
def test_lists_of_one_string_stay_that(indent: int | str | None) -> None:
    """As some editors write a cell of several lines; a line of its own is what nbformat makes of it in any case."""

    def written(source: str) -> bytes:
        return notebooks.document("q = 1\nr = 2", notebooks.code([source]), notebooks.code(["s = 3"]), indent=indent)

    before = written("a = 1\nb = 'é\\n'\nc = 3\n")
    assert replaced(before, (1, "b = 'é", "b = 'ü\\t")) == written("a = 1\nb = 'ü\\t\\n'\nc = 3\n")
    assert replaced(before, (1, "a = 1", "z = 0\na = 1")) == written("z = 0\na = 1\nb = 'é\\n'\nc = 3\n")
    assert replaced(before, (1, "c = 3\n", "")) == written("a = 1\nb = 'é\\n'\n")
    assert replaced(before, (1, "\nb = 'é\\n'\nc = 3\n", "")) == written("a = 1")
    escaped = before.replace(b"a = 1", rb"\u0061 = 1")
    assert replaced(escaped, (1, "c = 3", "c = 4")) == escaped.replace(b"c = 3", b"c = 4")


def test_a_list_of_one_line_becomes_a_list_of_lines() -> None:
    """One string tells nothing about the style where it is one line."""
    for line in ("a = 1", "a = 1\n"):
        before = notebooks.document("q = 1\nr = 2", notebooks.code([line]))
        after = replaced(before, (1, "a = 1", "a = 1\nb = 2"))
        assert json.loads(after)["cells"][1]["source"] == ["a = 1\n", line.replace("a = 1", "b = 2")]


def test_odd_spelling_of_what_stays() -> None:
    """Escapes that nobody needs, white space that nobody writes, keys that come twice."""
    lines = [
        r'{ "nbformat" :4,"cells":[ ] ,"metadata": {"x": NaN, "y": 1e5, "z": "\/"},',
        r'"cells" : [{"source": ["no"], "source":["\u0061 = 1\n" , "b = \"\/\"\n",',
        r'      "c = 3"],"outputs":[{"text":"\u00e9"}],"metadata": {},"cell_type":"code"}]}',
    ]
    before = "\r\n".join(lines).encode()
    after = replaced(before, (0, "c = 3", "c = 30"))
    assert after == before.replace(b"c = 3", b"c = 30")
    assert replaced(before, (0, "a = 1", "a = 10")) == before.replace(rb"\u0061 = 1", b"a = 10")


def test_characters_beyond_ascii_are_written_as_the_cell_has_them() -> None:
    plain = notebooks.document("a = 1", notebooks.text("é"))
    escaped = notebooks.document("a = 1", notebooks.text("é"), ensure_ascii=True)
    neither = notebooks.document("a = '\\u1234'")
    assert "'é'".encode() in replaced(plain, (0, "1", "'é'"))
    assert rb"'\u00e9'" in replaced(escaped, (0, "1", "'é'"))
    assert "é".encode() in replaced(neither, (0, "'", "é'"))
    astral = replaced(escaped, (0, "1", "'\U0001f600'"))
    assert rb"\ud83d\ude00" in astral
    assert notebooks.sources(astral)[0] == "a = '\U0001f600'"


def test_byte_order_mark_and_windows() -> None:
    before = codecs.BOM_UTF8 + notebooks.document("a = 1\r\nb = 2\r\n").replace(b"\n", b"\r\n")
    after = replaced(before, (0, "b = 2", "b = 3\r\nc = 4"))
    assert after == codecs.BOM_UTF8 + notebooks.document("a = 1\r\nb = 3\r\nc = 4\r\n").replace(b"\n", b"\r\n")


def test_outputs_attachments_ids_and_metadata_stay() -> None:
    rich = notebooks.code(
        "a = 1\n",
        id="0f-x",
        execution_count=7,
        outputs=[{"output_type": "stream", "name": "stdout", "text": ["a = 1\n"]}, {"data": {"image/png": "aGk="}}],
        metadata={"tags": ["a = 1"], "source": "a = 1"},
    )
    attached = notebooks.text("![x](attachment:x)") | {"attachments": {"x": {"image/png": "aGk="}}}
    before = notebooks.document(attached, rich, {"cell_type": "raw", "metadata": {}, "source": "a = 1"})
    after = replaced(before, (0, "a = 1", "a = 2"))
    assert notebooks.others(after) == notebooks.others(before)
    assert notebooks.sources(after) == ["![x](attachment:x)", "a = 2\n", "a = 1"]
    assert len([1 for old, new in zip(before.split(b"\n"), after.split(b"\n"), strict=True) if old != new]) == 1


@pytest.mark.parametrize(("data", "reason"), [
    (b"", "is not a notebook: it is empty"),
    (b" \n", "is not a notebook: it is empty"),
    (b"{broken",
     "is not a notebook: broken JSON: expecting property name enclosed in double quotes in line 1, column 2"),
    (b'{"cells": [{]}', "is not a notebook: broken JSON: expecting property name"),
    (b'{"cells": [1 2]}', "is not a notebook: broken JSON: expecting ',' delimiter in line 1, column 14"),
    (b'{"cells": []} x', "is not a notebook: broken JSON: extra data in line 1, column 15"),
    (b'{"cells": ["\n"]}', "is not a notebook: broken JSON: invalid control character"),
    (b"[" * 100_000, "is not a notebook: its JSON is nested too deeply"),
    (b"\xff\xfe{\x00}\x00", "is not a notebook: cannot be decoded"),
    (b"[]", "is not a notebook: it is JSON without a format number"),
    (b'{"cells": []}', "is not a notebook: it is JSON without a format number"),
    (b'{"nbformat": 4}', "is not a notebook: it has no list of cells"),
    (b'{"nbformat": 4, "cells": 3}', "is not a notebook: it has no list of cells"),
    (b'{"nbformat": 4, "cells": [{"cell_type": "code"}]}', "is not a notebook: cell 1 has no source"),
    (b'{"nbformat": 4, "cells": [{}, {"cell_type": "code", "source": [1]}]}',
     "is not a notebook: cell 2 has no source"),
])  # fmt: skip
def test_broken_notebooks(data: bytes, reason: str) -> None:
    with pytest.raises(SourceError) as error:
        Document.read(data)
    assert error.value.reason.startswith(reason)
    assert "\n" not in error.value.reason
    assert not isinstance(error.value, ForeignSource)


def test_what_nbformat_cannot_read_is_not_written() -> None:
    data = notebooks.document({"cell_type": "code", "source": ["a = 1"]})
    with pytest.raises(SourceError, match=r"is a notebook that nbformat cannot read: .*metadata"):
        replaced(data, (0, "a = 1", "a = 2"))


@pytest.mark.parametrize(("metadata", "nbformat", "reason"), [
    ({"kernelspec": {"language": "R"}}, 4, "is a notebook in R, not in Python"),
    ({"language_info": {"name": "julia"}, "kernelspec": {"language": "python"}}, 4, "is a notebook in julia"),
    ({}, 3, "is a notebook of format 3: save it with a current Jupyter to convert it"),
    ({}, 5, "is a notebook of format 5, and perfmod reads format 4"),
])  # fmt: skip
def test_foreign_notebooks(metadata: dict[str, object], nbformat: int, reason: str) -> None:
    with pytest.raises(ForeignSource) as error:
        Document.read(notebooks.document("a = 1", metadata=metadata, nbformat=nbformat))
    assert error.value.reason.startswith(reason)


@pytest.mark.parametrize("metadata", [
    {},
    {"kernelspec": {"name": "python3"}},
    {"language_info": {"name": "Python"}},
    {"kernelspec": None},
    notebooks.PYTHON,
])  # fmt: skip
def test_python_is_what_names_no_other_language(metadata: dict[str, object]) -> None:
    assert len(Document.read(notebooks.document("a = 1", metadata=metadata)).cells) == 1
