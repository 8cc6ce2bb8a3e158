"""What a script leaves behind for people and for later runs: what it saves with torch, and what it prints."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Callable

import torch

from . import patching

if TYPE_CHECKING:
    from .events import Events
    from .watch import Watch

_MOST = 1 << 20
"""Characters that are kept of what is printed."""


class Outputs:
    """Looks on when the training process saves or prints something.

    Attributes:
        printed: to the standard output so far.
    """

    def __init__(self, watch: Watch, events: Events) -> None:
        self._watch = watch
        self._events = events
        self._texts: list[str] = []
        self._length = 0

    @property
    def printed(self) -> str:
        """To the standard output so far."""
        return "".join(self._texts)[:_MOST]

    def begin(self) -> None:
        """From now."""
        patching.around(torch, "save", self._save)
        if sys.stdout is not None:
            patching.around(sys.stdout, "write", self._write)

    def _save(self, save: Callable[..., Any], obj: Any, *args: Any, **kwargs: Any) -> Any:
        if not self._watch.over:
            self._events.saved(self._watch.total, obj)
        return save(obj, *args, **kwargs)

    def _write(self, write: Callable[[str], int], text: str) -> int:
        if not self._watch.over and self._length < _MOST:
            self._texts.append(text)
            self._length += len(text)
        return write(text)
