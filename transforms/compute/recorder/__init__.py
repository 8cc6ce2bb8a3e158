"""What a script gets from `launch-bound-step`: a file that stands alone, `graphed_step.py`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

MODULE = "graphed_step"
"""How the file is called beside a script, unless another file has that name."""


@cache
def recorder() -> str:
    """The text of the file."""
    return (Path(__file__).parent / f"{MODULE}.py").read_text(encoding="utf-8")
