"""Dropout with a probability of zero."""

from __future__ import annotations

from collections import Counter
from typing import Any, Callable

import torch.nn.functional as F
from torch import nn

from . import patching
from .compilations import so_far
from .compiling import is_compiling

# Whether they drop where the argument `training` is not given.
_DROPOUTS = {
    "dropout": True,
    "dropout1d": True,
    "dropout2d": True,
    "dropout3d": True,
    "alpha_dropout": False,
    "feature_alpha_dropout": False,
}


class LeftOut:
    """Keeps everything that would be dropped, from the moment this is made.

    The functions that drop go into graphs of torch.compile, where nothing is counted.
    """

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()
        for name, training in _DROPOUTS.items():
            patching.around(F, name, self._with_zero(1, "p", 0.5, 2, training))
        patching.around(F, "scaled_dot_product_attention", self._with_zero(4, "dropout_p", 0.0, None, True))
        patching.around(nn.RNNBase, "__init__", make_without_dropout)

    def begun(self) -> Counter[str]:
        """What was counted so far, for `taken_back`."""
        return self._calls.copy()

    def taken_back(self, before: Counter[str]) -> Counter[str]:
        """Forget what was counted since `begun`. Returns it."""
        since = self._calls - before
        self._calls = before
        return since

    def count(self, calls: Counter[str]) -> None:
        """They were made in another way."""
        self._calls += calls

    @property
    def calls(self) -> dict[str, int] | None:
        """How often something would have been dropped, by probability; None where that is not all of it."""
        return None if so_far().frames else dict(self._calls)

    def _with_zero(
        self, place: int, name: str, usual: float, training_place: int | None, usually_training: bool
    ) -> Callable[..., Any]:
        """Calls a function with zero for its argument `name`, at `place` where it comes without its name."""

        def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            if not is_compiling():
                probability = args[place] if len(args) > place else kwargs.get(name, usual)
                training = kwargs.get("training", usually_training)
                if training_place is not None and len(args) > training_place:
                    training = args[training_place]
                if probability and training:
                    self._calls[str(float(probability))] += 1
            if len(args) > place:
                return function(*args[:place], 0.0, *args[place + 1 :], **kwargs)
            return function(*args, **{**kwargs, name: 0.0})

        return call


def make_without_dropout(init: Callable[..., None], module: nn.RNNBase, *args: Any, **kwargs: Any) -> None:
    """In place of the constructor: its dropout is within a kernel."""
    init(module, *args, **kwargs)
    module.dropout = 0.0
