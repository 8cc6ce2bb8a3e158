from __future__ import annotations

from pathlib import Path

import pytest
import verify_evidence
from attrs import evolve

from perfmod.verify.evidence import Environment
from perfmod.verify.sides import ORIGINAL, Side
from perfmod.verify.staleness import files_run, stale
from perfmod.verify.tree import Tree


def test_what_has_changed_since(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "model.py", "other.py"):
        (tmp_path / name).write_text("import torch\n")
    side = Side(ORIGINAL, Tree.of(tmp_path / "train.py"), Path("train.py"))
    ran = files_run(side, {"modules": ["train.py", "model.py"]})
    then = Environment(torch="2.6.0", gpu="NVIDIA H100", driver="550.1")
    evidence = evolve(verify_evidence.cpu(), files=ran, environment=then)
    assert stale(evidence, tmp_path, then) == ()
    (tmp_path / "other.py").write_text("import os\n")
    assert stale(evidence, tmp_path, then) == ()
    (tmp_path / "train.py").write_text("import os\n")
    (tmp_path / "model.py").unlink()
    assert stale(evidence, tmp_path, evolve(then, torch="2.7.0", gpu="")) == (
        "train.py has changed since",
        "model.py is gone",
        "torch was 2.6.0, and is 2.7.0",
        "GPU was NVIDIA H100, and is not there",
    )
