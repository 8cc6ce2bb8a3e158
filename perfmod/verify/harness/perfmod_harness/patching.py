"""Standing in for functions of others."""

from __future__ import annotations

import functools
from typing import Any, Callable


def around(owner: Any, name: str, call: Callable[..., Any]) -> None:
    """Have `call(original, *args, **kwargs)` called wherever `owner.name(*args, **kwargs)` is."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def instead(*args: Any, **kwargs: Any) -> Any:
        return call(original, *args, **kwargs)

    setattr(owner, name, instead)
