"""Computing in bfloat16 as autocast does, whether or not the script asks for it."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import Any, Callable, ContextManager, Iterator

import torch

from . import patching

_AUTOCAST = torch.autocast


@contextmanager
def autocast(*, enabled: bool = True) -> Iterator[None]:
    """On all devices. Nothing that is cast is kept."""
    with ExitStack() as stack:
        for device in ("cuda", "cpu") if torch.cuda.is_available() else ("cpu",):
            stack.enter_context(_AUTOCAST(device, dtype=torch.bfloat16, enabled=enabled, cache_enabled=False))
        yield


def begin() -> ContextManager[None]:
    """From now, but for backward passes, for as long as what is returned is kept."""
    for name in ("backward", "grad"):
        patching.around(torch.autograd, name, _as_recorded)
    lasting = autocast()
    lasting.__enter__()
    return lasting


def _as_recorded(differentiate: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A backward pass computes in the types in which the forward pass has kept its values."""
    with autocast(enabled=False):
        return differentiate(*args, **kwargs)
