"""Warnings of synchronisations: heard whatever the script does with warnings, and found on the stack."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from perfmod.verify.harness.perfmod_harness.heard_warnings import PythonWarnings
from perfmod.verify.harness.perfmod_harness.sync_warnings import PHRASE, PrintedWarnings
from perfmod.verify.harness.perfmod_harness.syncs import Place, Tree, rows

# As torch writes it; C code warns through the same function that is the built-in `warnings.warn`.
WARNING = f"{PHRASE} (Triggered internally at /pytorch/c10/cuda/CUDAFunctions.cpp:138.)"


def synchronize() -> None:
    """What an operation does that makes the host wait."""
    warnings.warn(WARNING, UserWarning, stacklevel=1)


@pytest.fixture
def heard() -> Iterator[list[int]]:
    """A list that grows with every warning heard; pytest's own recording is in place at the same time."""
    found: list[int] = []
    listening = PythonWarnings(PHRASE, lambda _text: found.append(1))
    listening.start()
    yield found
    listening.stop()


def test_every_warning_of_one_line_is_heard(heard: list[int]) -> None:
    for _ in range(5):
        synchronize()
    assert len(heard) == 5


def test_also_where_warnings_are_ignored(heard: list[int]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        synchronize()
        warnings.filterwarnings("ignore", message="called a")
        synchronize()
        warnings.resetwarnings()
        warnings.simplefilter("error")
        synchronize()
    synchronize()
    assert len(heard) == 4


def test_also_where_they_are_recorded_or_logged(heard: list[int]) -> None:
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        synchronize()
        warnings.warn("something else", UserWarning, stacklevel=1)
    logging.captureWarnings(capture=True)
    synchronize()
    logging.captureWarnings(capture=False)
    assert len(heard) == 2
    assert [str(each.message) for each in record] == ["something else"]


def test_others_are_left_to_the_script(heard: list[int]) -> None:
    with pytest.warns(UserWarning, match="something else"):
        warnings.warn("something else", UserWarning, stacklevel=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="something else"):
            warnings.warn("something else", UserWarning, stacklevel=1)
    assert heard == []


def test_warnings_are_as_before_when_it_is_over() -> None:
    found: list[int] = []
    filters = list(warnings.filters)
    listening = PythonWarnings(PHRASE, lambda _text: found.append(1))
    with warnings.catch_warnings():
        # Entered before, left meanwhile; and entered meanwhile, left after.
        listening.start()
    later = warnings.catch_warnings()
    later.__enter__()
    listening.stop()
    with pytest.warns(UserWarning, match=PHRASE):
        synchronize()
    later.__exit__(None, None, None)
    assert [each for each in warnings.filters if each in filters] == filters
    assert found == []


def test_printed_warnings_are_counted_and_the_rest_is_passed_on(capfd: pytest.CaptureFixture[str]) -> None:
    printed = PrintedWarnings()
    printed.start()
    os.write(2, f"one\n[W1120 CUDAFunctions.cpp:138] Warning: {PHRASE} (function f)\ntwo\n".encode())
    os.write(2, f"[W1120 CUDAFunctions.cpp:138] Warning: {PHRASE} (function f)\nthree".encode())
    assert printed.stop() == 2
    os.write(2, b" four\n")
    assert capfd.readouterr().err == "one\ntwo\nthree four\n"


def test_text_that_python_holds_back_keeps_its_place(capfd: pytest.CaptureFixture[str]) -> None:
    printed = PrintedWarnings()
    with os.fdopen(os.dup(2), "w", encoding="utf-8") as stream, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        stream.write("before ")
        printed.start()
        stream.write("meanwhile ")
        assert printed.stop() == 0
    assert capfd.readouterr().err == "before meanwhile "


def test_a_script_without_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    printed = PrintedWarnings()
    printed.start()
    assert printed.stop() == 0


def called(source: str, path: Path, **names: object) -> FrameType:
    """The innermost frame of code that lies at `path` and calls `frame()`."""
    frames: list[FrameType] = []
    exec(compile(source, str(path), "exec"), {"frame": lambda: frames.append(sys._getframe(1)), **names})
    return frames[0]


def test_the_user_s_line(tmp_path: Path) -> None:
    frame = called("def step():\n    frame()\n\nstep()\n", tmp_path / "a" / "train.py")
    assert Tree(str(tmp_path)).place(frame) == Place("a/train.py", 2, "step", "")


def test_the_user_s_line_that_called_a_library(tmp_path: Path) -> None:
    library = tmp_path / "venv" / "lib" / "site-packages" / "torch" / "nn" / "utils.py"
    frames: list[FrameType] = []

    def norm() -> None:
        frames.append(called("\n\ndef norm():\n    frame()\n\nnorm()\n", library))

    called("norm(); frame()\n", tmp_path / "train.py", norm=norm)
    # This file lies outside of the tree, like the installed one that lies within it.
    assert Tree(str(tmp_path)).place(frames[0]) == Place("train.py", 1, "<module>", "torch/nn/utils.py:4")


def test_no_line_of_the_user_s(tmp_path: Path) -> None:
    frame = called("frame()\n", Path("/usr/lib/python3/dist-packages/pinning.py"))
    assert Tree(str(tmp_path)).place(frame) == Place("", 0, "", "pinning.py:1")
    assert Tree(str(tmp_path)).place(None) == Place()


def test_names_that_are_no_files_and_relative_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tree = Tree(str(tmp_path))
    monkeypatch.chdir("/")
    assert [tree.relative(path) for path in ("train.py", "<string>", "<frozen runpy>", "../x.py", "/train.py")] == [
        "train.py",
        "",
        "",
        "",
        "",
    ]


def test_a_root_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for root, path in (("link", "real"), ("real", "link")):
        assert Tree(str(tmp_path / root)).relative(str(tmp_path / path / "train.py")) == "train.py"


def test_rows_add_up_what_happened_at_one_place() -> None:
    one, other = Place("a.py", 1, "f"), Place("a.py", 1, "f", "torch/x.py:3")
    assert rows([one, other, one, Place()], [0.5, 2.0, 0.25]) == [
        {"file": "a.py", "line": 1, "function": "f", "inside": "", "count": 2, "ms": 0.75},
        {"file": "a.py", "line": 1, "function": "f", "inside": "torch/x.py:3", "count": 1, "ms": 2.0},
        {"file": "", "line": 0, "function": "", "inside": "", "count": 1, "ms": 0.0},
    ]
