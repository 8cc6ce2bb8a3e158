"""Trains with another batch size than the script's own."""

from __future__ import annotations

import inspect
from typing import Any, Callable

from torch.utils.data import DataLoader

from . import patching


def begin(own: int, wanted: int) -> None:
    """Have loaders that would hand out batches of `own` samples hand out batches of `wanted`."""
    signature = inspect.signature(DataLoader.__init__)

    def init(original: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        given = signature.bind(*args, **kwargs)
        if given.arguments.get("batch_size") == own:
            given.arguments["batch_size"] = wanted
        original(*given.args, **given.kwargs)

    patching.around(DataLoader, "__init__", init)
