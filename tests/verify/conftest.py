"""A workshop for tests that run small scripts."""

from __future__ import annotations

import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from verify_workshop import RECORDER, Workshop

from perfmod.verify import disguise

TORCH = """\
import colorsys
from torch import nn

class cuda:
    is_initialized = _is_in_bad_fork = staticmethod(bool)

class default_generator:
    seed = staticmethod(int)
"""


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workshop]:
    """A project; after every test its files are as the test wrote them, and nothing else is left of the run.

    Runs are forked from a process that has imported something small for torch, and nobody looks on.
    """
    scratch, harness = tmp_path / "scratch", tmp_path / "harness"
    package = harness / "perfmod_harness"
    for folder in (scratch, package, tmp_path / "project"):
        folder.mkdir(parents=True)
    for name in ("__init__.py", "process.py", "template.py"):
        shutil.copy(disguise.PLAIN / "perfmod_harness" / name, package)
    (package / "start.py").write_text("start = list")
    (harness / "torch").mkdir()
    (harness / "torch" / "__init__.py").write_text(TORCH)
    (harness / "torch" / "nn.py").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    (harness / "recorder.py").write_text(RECORDER)
    monkeypatch.setattr(disguise, "PLAIN", harness)
    place = Workshop(tmp_path / "project", sys.executable, uuid.uuid4().hex)
    (place.root / "setup.py").touch()
    yield place
    left = place.processes()
    for process in left:
        process.kill()
    assert left == []
    assert list(scratch.iterdir()) == []
