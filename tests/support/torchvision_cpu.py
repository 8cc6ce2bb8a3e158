"""torchvision beside a CPU build of torch.

The torchvision that PyPI hands out is built for CUDA. Its compiled operators cannot be loaded beside a CPU
build of torch, and then its import fails where it describes two of them to `torch.library`. Their schemas are
all that is missing: with them, transforms and models are the real ones; only the operators cannot be
called.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

_OPERATORS = ("nms", "qnms")
_SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def load() -> ModuleType:
    """Import torchvision, whichever build it is. Raises `ImportError` where it is not installed."""
    try:
        return import_module("torchvision")
    except RuntimeError as error:
        if "operator torchvision::" not in str(error):
            raise
    import torch

    for operator in _OPERATORS:
        torch.library.define(f"torchvision::{operator}", _SCHEMA)
    return import_module("torchvision")


def load_or_skip() -> ModuleType:
    """Import torchvision, or skip the test."""
    import pytest

    if find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    return load()


def environment() -> dict[str, str]:
    """The environment of a Python process whose scripts import torchvision."""
    here = Path(__file__).parent
    paths = [str(here / "torchvision_on_cpu"), str(here), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}
