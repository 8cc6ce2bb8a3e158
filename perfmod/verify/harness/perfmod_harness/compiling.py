"""Is torch.compile at work? Then nothing of ours may end up in the graph."""

from __future__ import annotations

import sys
from typing import Any

import torch

from . import after_import

# torch 2.1 has no public name for it.
is_compiling = getattr(torch.compiler, "is_compiling", None) or torch._utils.is_compiling


def draw_as_eager_code_does() -> None:
    """From now, compiled code takes its random numbers from torch's own functions: others would hide a difference."""

    def choose() -> None:
        config: Any = sys.modules["torch._inductor.config"]
        config.fallback_random = True

    after_import.call("torch._inductor.config", choose)
