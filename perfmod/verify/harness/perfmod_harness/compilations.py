"""What torch.compile has done so far."""

from __future__ import annotations

import sys
from typing import NamedTuple


class Compilations(NamedTuple):
    """Of this process.

    Attributes:
        frames: compiled, again or for the first time.
        seconds: spent with them, and with backward passes that were compiled later.
    """

    frames: int = 0
    seconds: float = 0.0


def so_far() -> Compilations:
    """Read torch's own account; nothing where torch.compile has not been used or keeps none.

    Its keys are names of functions, which have been `_compile.<locals>.compile_inner` and `_compile.compile_inner`.
    """
    times = getattr(sys.modules.get("torch._dynamo.utils"), "compilation_time_metrics", {})
    frames = [seconds for name, each in times.items() if name.endswith("compile_inner") for seconds in each]
    return Compilations(len(frames), sum(frames) + sum(times.get("backward._backward_impl", ())))
