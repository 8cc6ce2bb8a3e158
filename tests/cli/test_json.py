"""The JSON document: its rows, and the edits in them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import notebooks
import pytest
from cli_fakes.running import Run, Write

from perfmod.errors import ExitCode

ALL = "torch_slow()\ntorch_risky()\ntorch_optional()\ntorch_kept()\n"
Row = Mapping[str, Any]


def findings(perfmod: Run, *arguments: str) -> list[Row]:
    """The rows of what `check` finds."""
    rows: list[Row] = json.loads(perfmod("check", *arguments, "--output-format", "json").out)["findings"]
    return rows


def edited(text: str, edits: Iterable[Row]) -> str:
    """A text with edits made by their lines and columns, the last one first."""
    lines = text.split("\n")
    starts = [sum(len(line) + 1 for line in lines[:number]) for number in range(len(lines))]
    for edit in sorted(edits, key=lambda edit: (edit["line"], edit["column"]), reverse=True):
        start = starts[edit["line"] - 1] + edit["column"] - 1
        end = starts[edit["end_line"] - 1] + edit["end_column"] - 1
        text = text[:start] + edit["replacement"] + text[end:]
    return text


def test_json(write: Write, perfmod: Run) -> None:
    write("train.py", ALL)
    write("bad.py", "torch_slow(\n")
    dry = perfmod("apply", "--dry-run", ".")
    ran = perfmod("apply", "--dry-run", "--output-format", "json", ".")
    document = json.loads(ran.out)
    assert ran.code == ExitCode.FAILED
    assert ran.err == ""
    assert document["schema_version"] == 2
    assert (document["command"], document["wrote"]) == ("apply", False)
    bad, good = document["files"]
    assert (bad["path"], bad["outcome"], bad["patch"]) == ("bad.py", "failed", None)
    assert "line 1" in bad["reason"]
    assert good == {
        "path": "train.py",
        "outcome": "changed",
        "would_change": True,
        "reason": "",
        "warnings": [],
        "in_part": False,
        "patch": dry.out.decode(),
    }
    assert [(row["code"], row["state"], row["flag"]) for row in document["findings"]] == [
        ("PM901", "rewritten", ""),
        ("PM902", "open-question", "--unsafe"),
        ("PM903", "on-request", "--extend-select PM903"),
        ("PM904", "left-as-it-is", ""),
    ]
    summary = document["summary"]
    assert sum(summary["files"].values()) == len(document["files"])
    assert sum(summary["findings"].values()) == len(document["findings"])
    assert (summary["would_change"], summary["fixable"]) == (1, 3)


def test_json_of_a_patch_that_is_not_utf_8(write: Write, perfmod: Run) -> None:
    write("train.py", b"# coding: latin-1\ntorch_slow('\xe4')\n")
    (row,) = json.loads(perfmod("check", "--output-format", "json", ".").out)["files"]
    assert row["patch"] is None
    (row,) = json.loads(perfmod("apply", "--output-format", "json", ".").out)["files"]
    assert (row["outcome"], row["patch"]) == ("changed", None)


def test_places_and_pages(write: Write, perfmod: Run) -> None:
    """Lines and columns count from 1, and the end lies behind the last character; characters count, not bytes."""
    write("train.py", "x = 'é'; torch_slow(\n    1,\n)\ntorch_kept()\n")
    slow, kept = findings(perfmod, ".")
    assert [slow[key] for key in ("line", "column", "end_line", "end_column")] == [1, 10, 3, 2]
    assert [kept[key] for key in ("line", "column", "end_line", "end_column")] == [4, 1, 4, 13]
    assert (slow["page"], kept["page"]) == ("docs/rules/PM901-slow-call.md", "docs/rules/PM904-kept-call.md")
    assert (slow["fixable"], kept["fixable"]) == (True, False)
    assert slow["edits"] == [
        {"path": "train.py", "cell": None, "line": 1, "column": 10, "end_line": 1, "end_column": 20}
        | {"replacement": "torch_fast"}
    ]
    assert kept["edits"] is None
    assert (slow["imports"], kept["imports"]) == ([], [])


def test_edits_made_by_hand_give_the_new_text(write: Write, perfmod: Run) -> None:
    """Those of one finding, and those of all; open questions have theirs, too."""
    code = "x = 'é'; torch_slow(torch_slow(2))\nif x:\n\ttorch_slow(\n\t\ttorch_risky())\n"
    path = write("train.py", code)
    rows = findings(perfmod, ".")
    assert [row["state"] for row in rows] == ["rewritten", "rewritten", "rewritten", "open-question"]
    (last,) = rows[3]["edits"]
    assert edited(code, [last]) == code.replace("risky", "brave")
    assert edited(code, rows[1]["edits"]) == code.replace("torch_slow(2)", "torch_fast(2)")
    perfmod("apply", ".")
    assert edited(code, [edit for row in rows[:3] for edit in row["edits"]]) == path.read_text()
    assert path.read_text() == code.replace("slow", "fast")


def test_questions(write: Write, perfmod: Run) -> None:
    """What is asked of which expression, where it stands in the file as it was; of a notebook, in its cell."""
    write("train.py", "torch_twice(1)\nx = [torch_slow(),\n  torch_risky(y)]\n")
    write("train.ipynb", notebooks.document("torch_slow()", "x = 1; torch_risky(y)"))
    told = [row["questions"] for row in findings(perfmod, ".") if row["state"] == "open-question"]
    asked = {"predicate": "is-scalar", "expression": "y", "watchable": True}
    assert told == [
        [asked | {"path": "train.ipynb", "cell": 2, "line": 1, "column": 20}],
        [asked | {"path": "train.py", "cell": None, "line": 3, "column": 15}],
    ]


def test_edits_of_several_files(write: Write, perfmod: Run) -> None:
    """In each file those that bear its path."""
    codes = {
        "engine.py": "def torch_far(): pass\n",
        "train.py": "from engine import torch_far\n\ntorch_far()\n",
    }
    paths = {name: write(name, code) for name, code in codes.items()}
    (row,) = findings(perfmod, ".")
    assert {edit["path"] for edit in row["edits"]} == set(codes)
    assert perfmod("apply", ".").code == ExitCode.OK
    for name, code in codes.items():
        own = [edit for edit in row["edits"] if edit["path"] == name]
        assert edited(code, own) == paths[name].read_text() == code.replace("far", "near")


def test_edits_in_notebooks_count_in_their_cells(write: Write, perfmod: Run) -> None:
    cells = ["%%time\nx = 1\ntorch_slow()", "!ls\nif x:\n    torch_slow(  # é\n    )\ntorch_slow()"]
    path = write("train.ipynb", notebooks.document(notebooks.text("# Title"), *cells))
    rows = findings(perfmod, ".")
    places = [tuple(row[key] for key in ("cell", "line", "column", "end_line", "end_column")) for row in rows]
    assert places == [(2, 3, 1, 3, 13), (3, 3, 5, 4, 6), (3, 5, 1, 5, 13)]
    edits = [edit for row in rows for edit in row["edits"]]
    assert perfmod("apply", ".").code == ExitCode.OK
    for number, cell in enumerate(cells, start=2):
        own = [edit for edit in edits if edit["cell"] == number]
        assert edited(cell, own) == notebooks.sources(path.read_bytes())[number - 1] == cell.replace("slow", "fast")


def test_edits_of_what_another_finding_wrote_are_not_told(write: Write, perfmod: Run) -> None:
    path = write("train.py", "torch_slow(1); torch_twice(2)\n")
    first, second, third = findings(perfmod, ".")
    assert [(row["code"], row["column"], row["end_column"]) for row in (second, third)] == [
        ("PM901", 16, 30),
        ("PM908", 16, 30),
    ]
    assert (len(first["edits"]), second["edits"], len(third["edits"])) == (1, None, 1)
    assert second["fixable"]
    perfmod("apply", ".")
    assert path.read_text() == "torch_fast(1); torch_fast(2)\n"


def test_imports_of_a_rewrite(write: Write, perfmod: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not imported yet is among the edits, as it is in the diff."""
    import cli_fakes

    monkeypatch.setattr(cli_fakes.SlowCall, "needed", ("math", "os"))
    write("train.py", "import os\nimport torch\n\ntorch_slow()\n")
    (row,) = findings(perfmod, ".")
    assert row["imports"] == ["math", "os"]
    assert [(edit["line"], edit["replacement"]) for edit in row["edits"]][1:] == [(1, "import math\n")]
    assert b"+import math\n" in perfmod("apply", ".", "--dry-run").out
