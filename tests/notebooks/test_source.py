"""All cells as one source: where things are, what may be edited, and what comes back."""

from __future__ import annotations

from collections.abc import Sequence

import notebooks
import pytest

from perfmod.transforms.decoding import SourceError
from perfmod.transforms.finding import Edit
from perfmod.transforms.notebook.source import Notebook
from perfmod.transforms.source import Place, Source

CELLS = (
    "%matplotlib inline\nimport torch\n",
    notebooks.text("# loop"),
    "%%time\ntotal = 0\nfor x in loader:\n    !free -m\n    total += x\n\n",
    "",
    "    indented = 1\n    again = 2",
    "%%bash\nls -l\n",
    "%time train(model)\ntotal / 3  # shown\n",
)


def parsed(*cells: str | dict[str, object]) -> Notebook:
    source = Source.parse(notebooks.document(*cells), "a.ipynb")
    assert isinstance(source, Notebook)
    return source


def edits(source: Source, old: str, new: str) -> list[Edit]:
    start = source.text.index(old)
    return [Edit(start, start + len(old), new)]


def edited(source: Source, made: Sequence[Edit]) -> list[str]:
    """The sources of all cells after edits."""
    text = source.text
    for edit in sorted(made, reverse=True):
        text = text[: edit.start] + edit.replacement + text[edit.end :]
    return notebooks.sources(source.reparse(text).to_bytes())


def test_nothing_changes_by_being_read() -> None:
    data = notebooks.document(*CELLS)
    source = Source.parse(data, "a.ipynb")
    assert source.has_cells
    assert source.to_bytes() == data
    assert source.reparse(source.text).to_bytes() == data


@pytest.mark.parametrize(("what", "place"), [
    ("import torch", Place(2, 1, 1)),
    ("total = 0", Place(2, 1, 3)),
    ("total += x", Place(5, 5, 3)),
    ("indented", Place(1, 5, 5)),
    ("again = 2", Place(2, 5, 5)),
    ("train(model)", Place(1, 1, 7)),
    ("total / 3", Place(2, 1, 7)),
])  # fmt: skip
def test_places_are_those_of_the_cell(what: str, place: Place) -> None:
    source = parsed(*CELLS)
    assert source.place(source.text.index(what)) == place


def test_every_character_has_its_place() -> None:
    source = parsed(*CELLS)
    written = notebooks.sources(source.to_bytes())
    cells = source.cells
    put_in = {
        offset
        for index, _ in enumerate(cells.regions)
        for hidden in cells.hidden(index)
        for offset in range(hidden.start, hidden.end + 1)
    }
    seen = 0
    for start, end in cells.regions:
        for offset in {*range(start, end)} - put_in:
            place = source.place(offset)
            assert place.cell is not None
            lines = [*written[place.cell - 1].splitlines(keepends=True), "\n"]
            assert lines[place.line - 1][place.column - 1 :][:1] in (source.text[offset], "")
            seen += not source.text[offset].isspace()
    assert seen > 50


def test_messages_name_cells() -> None:
    source = parsed("a = 1\nb = 2", "c = 3")
    assert source.in_words("see line 2") == "see line 2 of cell 1"
    assert source.in_words("lines 1 and 2 differ") == "lines 1 and 2 of cell 1 differ"
    assert source.in_words("lines 2, 4 differ") == "line 2 of cell 1, line 1 of cell 2 differ"
    assert source.in_words("line 99 is none") == "line 99 is none"


def test_edits_come_back_into_their_cells() -> None:
    source = parsed(*CELLS)
    before = notebooks.sources(source.to_bytes())
    after = edited(
        source, [*edits(source, "total += x", "total += y"), *edits(source, "again = 2", "again = 3\n    z = 1")]
    )
    before[2] = before[2].replace("total += x", "total += y")
    before[4] = before[4].replace("again = 2", "again = 3\n    z = 1")
    assert after == before


def test_a_cell_without_a_last_newline_gets_none() -> None:
    source = parsed("a = 1", "b = 2\n", "c = 3")
    after = edited(source, [Edit(6, 6, "more = 1\n\n"), *edits(source, "c = 3\n", "d = 4\n\n")])
    assert after == ["a = 1\nmore = 1", "b = 2\n", "d = 4"]


def test_line_endings_of_windows() -> None:
    source = parsed("a = 1", "b = 2\r\nc = 3")
    assert source.newline == "\r\n"
    assert edited(source, edits(source, "c = 3", "c = 3\r\nd = 4")) == ["a = 1", "b = 2\r\nc = 3\r\nd = 4"]


@pytest.mark.parametrize(("old", "new", "reason"), [
    ("pass", "x = 1", "is not plain Python or displays a value"),
    ("get_ipython().run", "f", ""),
    ("train(model)", "train(net)", "is not plain Python or displays a value"),
    ("total / 3", "float(total) / 3", ""),
    ("total / 3, ", "float(total) / 3, ", "is not plain Python or displays a value"),
    ("# shown\n", "# shown\nx = 1\n", "cell 7 would no longer show the value of its last line"),
    ("# shown\n", "# more\n", ""),
    ("if True:", "if x:", "is not plain Python or displays a value"),
    ("again = 2\n", "again = 2", "the change would reach beyond the end of cell 5"),
    ("again = 2\n", "again = 3\n", ""),
    ("    again = 2\n", "", ""),
    ("import torch\n", "import torch\nimport os\n", ""),
])  # fmt: skip
def test_what_may_be_edited(old: str, new: str, reason: str) -> None:
    source = parsed(*CELLS)
    if old not in source.text:
        return
    obstacle = source.obstacle(edits(source, old, new))
    assert (reason in obstacle) if reason else not obstacle


def test_insertions_beside_commands() -> None:
    source = parsed(*CELLS)
    first, timed = source.text.index("pass"), source.text.index("pass", source.text.index("|"))
    shell = source.line_start(source.text.index("pass", source.text.index("loader")))
    assert not source.obstacle([Edit(first, first, "import os\n")])
    assert source.obstacle([Edit(first, first, "import os; ")])
    assert source.obstacle([Edit(timed, timed, "import os\n")])
    assert not source.obstacle([Edit(shell, shell, "    x = 1\n")])
    assert source.obstacle([Edit(shell, shell, "    ")])
    end = source.line_end(shell) - 1
    assert source.obstacle([Edit(end, end, "; x = 1")])
    assert not source.obstacle([Edit(end + 1, end + 1, "    x = 1\n")])


def test_edits_across_cells_have_an_obstacle() -> None:
    source = parsed("a = 1", "b = 2")
    whole = Edit(0, len(source.text), "c = 3\n")
    assert source.obstacle([whole]) == "the change would reach beyond the end of cell 1"
    with pytest.raises(SourceError):
        source.reparse("c = 3\n")


def test_cells_of_other_languages_and_locked_cells_stay() -> None:
    locked = notebooks.code("a = 1\n", metadata={"editable": False})
    source = parsed(locked, "%%bash\nls\n")
    assert source.obstacle(edits(source, "1", "2")) == "the metadata of cell 1 mark it as not editable"
    end = len(source.text)
    assert source.obstacle([Edit(end, end, "x = 1\n")]) == "cell 2 belongs to a cell magic"


@pytest.mark.parametrize(("cells", "reason"), [
    (["a = 1", "b = (\n"], "line 1 of cell 2, column 5: syntax error: b = ("),
    (["x = '''", "'''"], "line 1 of cell 1"),
    (["x = (", ")"], "of cell 1"),
    (["if x:", "    y = 1"], "of cell 1"),
    (["if x:\n    y = 1", "else:\n    y = 2"], "line 1 of cell 2"),
    (["a = 1", "@dec", "def f(): ..."], "of cell 2"),
    (["a = 1", "print 'x'"], "line 1 of cell 2, column 1: Python 2 code (perfmod reads Python 3): print 'x'"),
    (["a = '\x00'"], "cell 1 contains null bytes, so it is not Python source"),
    (["a = 1\\", "b = 2"], "of cell 1"),
])  # fmt: skip
def test_cells_stand_by_themselves(cells: list[str], reason: str) -> None:
    with pytest.raises(SourceError) as error:
        parsed(*cells)
    assert reason in error.value.reason
    assert "\n" not in error.value.reason
    assert not any("\ue000" <= character <= "\uf8ff" for character in error.value.reason)


def test_half_a_character() -> None:
    data = notebooks.document("a = 'x'").replace(b"x", rb"\ud800")
    with pytest.raises(SourceError, match="cell 1 contains half a character"):
        Source.parse(data, "a.ipynb")


def test_marks_are_not_taken_from_the_notebook() -> None:
    data = notebooks.document("a = '\ue000'  # \ue001|\n", "!ls", "a")
    source = Source.parse(data, "a.ipynb")
    assert source.to_bytes() == data
    assert source.text.count("\ue002") >= 3


@pytest.mark.parametrize(
    "cells", [[], [""], ["", ""], ["# only a comment"], ["!ls"], ["%%bash\nls"], [notebooks.text("x")]]
)
def test_notebooks_without_python(cells: list[str]) -> None:
    data = notebooks.document(*cells)
    assert Source.parse(data, "a.ipynb").to_bytes() == data
