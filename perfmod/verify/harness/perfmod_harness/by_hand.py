"""Steps of a training whose parameters the script changes itself, without a torch optimizer.

There, a backward pass begins a step: it computes the gradients of the parameters it reaches, the script then changes
them, and the step is over when the next pass begins, or the run ends. Passes that reach other parameters (a generator's
and a discriminator's) count on their own, like several optimizers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Iterable

from torch.optim import Optimizer

from . import patching
from .graphs import leaves
from .tensors import aside, plain

if TYPE_CHECKING:
    from torch import Tensor


class OptimizersMade:
    """Counts the optimizers that a script makes, from now."""

    def __init__(self) -> None:
        self.count = 0
        patching.around(Optimizer, "__init__", self._made)

    def _made(self, init: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        self.count += 1
        init(*args, **kwargs)


class ByHand:
    """What stands in for an optimizer: the parameters that one kind of backward pass reaches.

    Attributes:
        param_groups, state: as an optimizer has them.
    """

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self.param_groups: list[dict[str, Any]] = [{"params": list(parameters)}]
        self.state: dict[Any, Any] = {}


class StepsByHand:
    """Tells which backward passes are steps of what."""

    def __init__(self) -> None:
        self._known: dict[frozenset[int], ByHand] = {}

    def of(self, roots: Iterable[Tensor]) -> ByHand | None:
        """What a backward pass from `roots` is to step; None where it reaches no parameters."""
        parameters = leaves(roots)
        reached = frozenset(map(id, parameters))
        if reached and reached not in self._known:
            # The graph has them in another order where the same is computed otherwise. It keeps them, or another might
            # get the id of one.
            self._known[reached] = ByHand(sorted(parameters, key=_looks))
        return self._known.get(reached)


def _looks(tensor: Tensor) -> tuple[Any, ...]:
    """What tells a parameter from others, before it is trained."""
    with aside():
        value = plain(tensor)
        return tuple(tensor.shape), 0.0 if value is None else float(value.double().sum()), tensor.data_ptr()
