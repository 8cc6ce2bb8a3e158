"""Keeps torch.compile away from the harness's own functions.

It compiles whatever Python function a compiled one calls after a break in its graph, and there our functions would
see that they are being compiled, and do nothing. Told to skip their files, it leaves them as they are, but then it
refuses to see through those that stand in for functions which belong into a graph.
"""

from __future__ import annotations

import functools
import sys
from contextlib import contextmanager
from typing import Any, Callable, Iterator

from . import after_import

_SEEN_THROUGH = frozenset(["alike", "calls", "compiling", "dropout", "fills", "patching"])

# The module that knows the files to be skipped; its name was another before torch 2.3.
_RULES = ("torch._dynamo.trace_rules", "torch._dynamo.skipfiles")
_FRAMES = "torch._dynamo.eval_frame"


def begin() -> None:
    """Have the files skipped, as soon as the compiler is there."""
    for name in _RULES:
        after_import.call(name, functools.partial(_skip_files, name))


def run_as_it_is(function: Callable[..., Any]) -> None:
    """Have a function run as it is where it is called, but seen through where a graph goes through it."""
    code = function.__code__
    after_import.call(_FRAMES, lambda: sys.modules[_FRAMES].skip_code(code))  # type: ignore[attr-defined]


@contextmanager
def uncompiled() -> Iterator[None]:
    """Have nothing compiled in here, where torch's own functions are called."""
    set_eval_frame = getattr(sys.modules.get(_FRAMES), "set_eval_frame", None)
    if set_eval_frame is None:
        yield
        return
    callback = set_eval_frame(None)
    try:
        yield
    finally:
        set_eval_frame(callback)


def _skip_files(rules: str) -> None:
    module: Any = sys.modules[rules]
    package = f"{__package__}."
    own = [name for name in list(sys.modules) if name.startswith(package)]
    with _compiled_once(module):
        for name in own:
            if name[len(package) :] not in _SEEN_THROUGH:
                module.add(name)


@contextmanager
def _compiled_once(rules: Any) -> Iterator[None]:
    """Have torch compile its pattern of all skipped files once, in the end, and not for each file that is added."""
    compile_pattern = getattr(rules, "_recompile_re", None)
    if compile_pattern is None:
        yield
        return
    rules._recompile_re = lambda: None
    try:
        yield
    finally:
        rules._recompile_re = compile_pattern
        compile_pattern()
