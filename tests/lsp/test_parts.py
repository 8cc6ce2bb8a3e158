"""The parts of the language server that need no editor."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from editor import apply_edits
from hypothesis import example, given
from hypothesis import strategies as st
from lsprotocol.types import Position

from perfmod import disk
from perfmod.config import Options
from perfmod.errors import ExitCode
from perfmod.examine import examine
from perfmod.lsp.lines import Lines

TEXTS = st.text(st.sampled_from("ab(🔥é\f\u2028\r\n"), max_size=40)


@given(TEXTS, TEXTS)
@example("\r(", "\r\na")
def test_edits_make_the_new_text(old: str, new: str) -> None:
    lines = Lines(old, "utf-16")
    edits = lines.edits_to(new)
    assert apply_edits(old, edits) == new
    for edit in edits:  # the editor has no place between the two characters of a line ending
        for position in (edit.range.start, edit.range.end):
            offset = next(at for at in range(len(old) + 1) if lines.position(at) == position)
            assert old[max(0, offset - 1) : offset + 1] != "\r\n"


@pytest.mark.parametrize(("encoding", "units"), [("utf-8", 7), ("utf-16", 4), ("utf-32", 3)])
def test_units_of_an_encoding(encoding: str, units: int) -> None:
    text = "a\u2028\f\r\né🔥b"
    assert Lines(text, encoding).position(text.index("b") + 1) == Position(1, units)


def test_an_open_text_is_no_text_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in what is found, nor in what is remembered of it."""
    monkeypatch.setenv("PERFMOD_CACHE_DIR", str(tmp_path / "cache"))
    script = tmp_path.resolve() / "train.py"
    script.write_text("import torch\n\ntorch.autograd.set_detect_anomaly(True)\n")

    def found() -> list[int]:
        (examined,) = examine(["train.py"], Options(select=("detect-anomaly",)), cwd=script.parent)
        result = examined.result
        return [each.line for each in (*result.applied, *result.held_back, *result.refused)]

    longer = b"# one line more\n" + script.read_bytes()
    for _ in range(2):
        with disk.overlaid({script: longer}):
            assert found() == [4]
        assert found() == [3]
    script.write_bytes(longer)
    assert found() == [4]


def test_without_the_extra() -> None:
    program = "import sys; from perfmod.cli.main import run; sys.modules['pygls'] = None; sys.argv[1:] = ['lsp']; run()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (
        ExitCode.USAGE,
        "perfmod: pygls is missing: pip install 'perfmod[lsp]'\n",
    )
