"""Keeps torch.compile away from the harness's own functions.

It compiles whatever Python function a compiled one calls after a break in its graph, and there our functions would
see that they are being compiled, and do nothing. Told to skip their files, it leaves them as they are. It still has
to see through those that stand in for functions that belong into a graph.
"""

from __future__ import annotations

import functools
import sys

from . import after_import

_SEEN_THROUGH = frozenset(["calls", "compiling", "controls", "patching"])

# The module that knows the files to be skipped; its name was another before torch 2.3.
_RULES = ("torch._dynamo.trace_rules", "torch._dynamo.skipfiles")


def begin() -> None:
    """As soon as the compiler is there."""
    for name in _RULES:
        after_import.call(name, functools.partial(_hide, name))


def _hide(rules: str) -> None:
    package = f"{__package__}."
    for name in list(sys.modules):
        if name.startswith(package) and name[len(package) :] not in _SEEN_THROUGH:
            sys.modules[rules].add(name)  # type: ignore[attr-defined]
