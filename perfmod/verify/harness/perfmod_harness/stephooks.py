"""Calls before and after the steps of all optimizers, and keeps them working where torch.compile is used.

They stand beside the global hooks of torch and not among these, where a script would find them.

Early versions of torch 2 take torch's own optimizers out of the wrapper that calls the hooks, when they first compile
something, and mark them so that they are not wrapped again.
"""

from __future__ import annotations

import inspect
import sys
from collections import OrderedDict
from contextlib import contextmanager
from typing import Any, Callable, Iterator

import torch
from torch.optim import Optimizer, optimizer

from . import after_import, patching

_COMPILER = "torch._dynamo.eval_frame"
_BEFORE = "_global_optimizer_pre_hooks"
_AFTER = "_global_optimizer_post_hooks"

Hook = Callable[[Optimizer, Any, Any], None]
"""Gets the optimizer and the arguments of its step."""


def before_steps(hook: Hook) -> None:
    """Call it from now before each step."""
    _add(_BEFORE, hook)


def after_steps(hook: Hook) -> None:
    """Call it from now after each step."""
    _add(_AFTER, hook)


@contextmanager
def standing_in(before: Hook | None, after: Hook) -> Iterator[None]:
    """Call these in here, instead of the hooks that were added before; None: none were."""
    changed = []
    for name, hook in ((_BEFORE, before), (_AFTER, after)):
        hooks = vars(optimizer)[name]
        if hook is not None and isinstance(hooks, _Hooks):
            changed.append((hooks, hooks.unlisted))
            hooks.unlisted = hook
    try:
        yield
    finally:
        for hooks, former in changed:
            hooks.unlisted = former


class _Hooks(OrderedDict):  # type: ignore[type-arg]
    """The script's own hooks; when they are called, so is one that is not counted among them."""

    unlisted: Hook

    def values(self) -> Any:
        return (self.unlisted, *super().values())


def _add(name: str, hook: Hook) -> None:
    hooks = _Hooks(vars(optimizer)[name])
    hooks.unlisted = hook
    setattr(optimizer, name, hooks)


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
        known: Any = kind
        step = known.step
        if getattr(step, "hooked", False) and not _goes_through(step, calls_hooks):
            step = known.step = wrap(step)
            step.hooked = True


def _goes_through(function: Any, code: Any) -> bool:
    """Whether the code is that of the function, or of one that it wraps."""
    while function is not None:
        if getattr(function, "__code__", None) is code:
            return True
        function = getattr(function, "__wrapped__", None)
    return False
