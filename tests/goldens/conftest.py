"""What the golden tests share: a folder to import from, and steady arithmetic."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torchvision_cpu
from torch import nn


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder on `sys.path`, where both sides of a golden are imported from."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    # Worker processes that are not forked import what their data set needs anew.
    monkeypatch.setenv("PYTHONPATH", torchvision_cpu.environment()["PYTHONPATH"])
    return tmp_path


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Tiny tensors gain nothing from more threads, and sums over threads are taken in another order."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _compiled_to_eager_kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """`model.compile()` traces and differentiates, and runs the kernels of eager mode: no code has to be compiled."""
    if request.node.get_closest_marker("cuda") is None:
        compiled = nn.Module.compile
        monkeypatch.setattr(nn.Module, "compile", lambda model, **_: compiled(model, backend="aot_eager"))
