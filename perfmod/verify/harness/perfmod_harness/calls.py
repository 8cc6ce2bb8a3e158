"""The script's own calls of modules: those that are not made from within another module."""

from __future__ import annotations

import threading
from typing import Any, Callable

import torch
from torch import nn

from . import unseen
from .compiling import is_compiling

Call = Callable[..., Any]


class OutermostCalls:
    """Hands the outermost calls of modules in this thread to `handle(module, args, kwargs, call)`.

    Hooks would do, were it not that they get no keyword arguments, and that torch.compile warns of them, guards them
    and traces them.

    Args:
        handle: called as `handle(call, module, args, kwargs)` in the place of an outermost call, which it makes with
            `call(module, *args, **kwargs)`. A module without parameters is seen through: what it calls is outermost,
            too.
        inner: called before each of the others.
    """

    def __init__(self, handle: Callable[[Call, nn.Module, Any, Any], Any], inner: Callable[[], None]) -> None:
        self._handle = handle
        self._inner = inner
        self._inside = False
        self._thread = threading.get_ident()

    def begin(self) -> None:
        """From now, in the thread that calls this."""
        call = nn.Module.__call__

        def call_module(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            # torch.compile may inline this, and must see that nothing of ours follows.
            if is_compiling():
                return call(module, *args, **kwargs)
            return self._call(call, module, args, kwargs)

        call_module.__module__, call_module.__qualname__ = call.__module__, call.__qualname__
        unseen.run_as_it_is(call_module)
        unseen.run_as_it_is(self._call)
        unseen.run_as_it_is(has_parameters)
        nn.Module.__call__ = call_module  # type: ignore[method-assign]

    def _call(self, call: Call, module: nn.Module, args: Any, kwargs: Any) -> Any:
        if self._inside or threading.get_ident() != self._thread or torch._C._get_tracing_state() is not None:
            self._inner()
            return call(module, *args, **kwargs)
        self._inside = has_parameters(module)
        try:
            return self._handle(call, module, args, kwargs)
        finally:
            self._inside = False


def has_parameters(module: nn.Module) -> bool:
    """Whether it, or a module in it, has any."""
    return next(module.parameters(), None) is not None
