"""Dropout with a probability of zero."""

from __future__ import annotations

from typing import Any, Callable

import torch.nn.functional as F
from torch import nn

from . import patching

_DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")


def leave_out() -> None:
    """From now, keep everything that would be dropped. The functions that do it go into graphs of torch.compile."""
    for name in _DROPOUTS:
        patching.around(F, name, _with_zero(1, "p"))
    patching.around(F, "scaled_dot_product_attention", _with_zero(4, "dropout_p"))
    patching.around(nn.RNNBase, "__init__", _make_without_dropout)


def _with_zero(place: int, name: str) -> Callable[..., Any]:
    """Calls a function with zero for its argument `name`, at `place` where it comes without its name."""

    def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if len(args) > place:
            return function(*args[:place], 0.0, *args[place + 1 :], **kwargs)
        return function(*args, **{**kwargs, name: 0.0})

    return call


def _make_without_dropout(init: Callable[..., None], module: nn.RNNBase, *args: Any, **kwargs: Any) -> None:
    init(module, *args, **kwargs)
    module.dropout = 0.0
