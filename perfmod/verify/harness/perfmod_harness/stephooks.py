"""Keeps the global hooks of optimizers working where torch.compile is used.

Early versions of torch 2 take torch's own optimizers out of the wrapper that calls the hooks, when they first compile
something, and mark them so that they are not wrapped again.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any, Callable

import torch
from torch.optim import Optimizer

from . import after_import, patching

_COMPILER = "torch._dynamo.eval_frame"


def keep() -> None:
    """Give optimizers their wrapper back, whenever the compiler has changed them."""
    after_import.call(_COMPILER, _watch_patcher)


def _watch_patcher() -> None:
    patcher = getattr(sys.modules[_COMPILER], "TorchPatcher", None)
    if patcher is not None:
        patching.around(patcher, "patch", _patch)


def _patch(patch: Callable[[], None]) -> None:
    patch()
    wrap: Any = Optimizer.profile_hook_step
    calls_hooks = wrap(_patch).__code__
    for kind in list(vars(torch.optim).values()):
        if not (inspect.isclass(kind) and issubclass(kind, Optimizer)) or kind is Optimizer:
            continue
        optimizer: Any = kind
        step = optimizer.step
        if getattr(step, "hooked", False) and not _goes_through(step, calls_hooks):
            step = optimizer.step = wrap(step)
            step.hooked = True


def _goes_through(function: Any, code: Any) -> bool:
    """Whether the code is that of the function, or of one that it wraps."""
    while function is not None:
        if getattr(function, "__code__", None) is code:
            return True
        function = getattr(function, "__wrapped__", None)
    return False
