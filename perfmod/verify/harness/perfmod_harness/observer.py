"""What the kinds of run have in common: they look on while somebody else's script trains."""

from __future__ import annotations

from array import array
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ContextManager

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor
    from torch.optim import Optimizer

    from .by_hand import ByHand

CLOCK = 0
"""The number of the optimizer that counts: its steps are the steps of the run."""


class Observer:
    """Called at the events of a training; a kind of run overrides what it wants to see.

    Attributes:
        half: whether a half type has been seen in the training.
        idle: how many of the next steps need not be shown to it, where a run's own time is looked at.
        loaders: what is known of the loaders, one mapping each.
    """

    half = False
    idle = 0
    loaders: Sequence[Mapping[str, Any]] = ()

    def before_step(self, optimizer: Optimizer | ByHand, number: int, closure: bool, lost: bool = False) -> None:
        """An optimizer is about to step.

        Args:
            optimizer: the one.
            number: of it, by first step; `CLOCK` is the one that counts.
            closure: it was handed one, so that the gradients are yet to come.
            lost: the step was replayed, and has overwritten the gradients that it went along.
        """

    def after_step(self, optimizer: Optimizer | ByHand, number: int, closure: bool) -> bool:
        """An optimizer has stepped, and has been counted. Returns whether all has been seen, which ends the run."""
        return False

    def before_backward(self, roots: Sequence[Tensor]) -> None:
        """A backward pass is about to begin from `roots`."""

    def recording(self) -> ContextManager[None]:
        """In here, a step is recorded as a CUDA graph, in which nothing is computed yet."""
        return nullcontext()

    def step_recorded(self, optimizer: Optimizer) -> None:
        """An optimizer has stepped while that was recorded."""

    def not_replayed(self) -> None:
        """A step is not replayed that might have been: it has not been recorded yet, or cannot be."""

    def before_replay(self) -> None:
        """A recorded step is about to be replayed; what it does is told when it is over."""

    def record(self, ended: str) -> tuple[Mapping[str, Any], array[float]]:
        """Its own part of the record, and the numbers that go into a file of their own. Called once, at the end."""
        return {}, array("d")

    def lost(self) -> Mapping[str, Any]:
        """Its own part of the record where `record` has failed because the device does not answer any more."""
        return {}
