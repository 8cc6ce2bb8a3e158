"""What happens one after the other in a training, as far as it is to be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable

import torch

from .naming import class_name
from .readout import Norm
from .spreading import hashes
from .structures import leaves, rows
from .tensors import aside, is_captured, plain

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

    from .by_hand import ByHand
    from .digests import Digest, Digests, Known
    from .loaders import Seen
    from .readout import Readout
    from .shelf import Shelf, Ticket

# How an optimizer goes about its work, not what it computes.
_WAYS = frozenset(["capturable", "differentiable", "foreach", "fused"])


class Events:
    """Batches, outermost calls, backward passes and steps, in order.

    Every method gets the number of steps done so far, by all optimizers together.

    Args:
        by_sample: the samples of a batch are told apart.

    Attributes:
        batches, samples: handed to the training process.
    """

    def __init__(self, digests: Digests, shelf: Shelf, *, by_sample: bool = False) -> None:
        self._by_sample = by_sample
        self._digests = digests
        self._shelf = shelf
        self._kept: list[dict[str, Any]] = []
        self.batches = 0
        self.samples = 0

    def batch(self, step: int, seen: Seen, batch: Any) -> None:
        """A loader has handed out a batch."""
        samples = rows(batch)
        self.batches += 1
        self.samples += samples
        found = self._leaves(batch, values=False)
        single = hashes(batch, samples) if self._by_sample else []
        self._keep("batch", step, loader=seen.number, epoch=seen.epoch, samples=samples, leaves=found, single=single)

    def forward(self, step: int, module: nn.Module, result: Any) -> None:
        """The script has called a module."""
        self._keep("forward", step, module=class_name(module), leaves=self._leaves(result, values=True))

    def backward(self, step: int, losses: Iterable[Tensor], *, grad: bool = False) -> None:
        """The script differentiates; `grad`: by `torch.autograd.grad`."""
        values = [value for value in map(self._sum, losses) if value is not None]
        self._keep("backward", step, losses=values, **({"grad": True} if grad else {}))

    def step(self, step: int, optimizer: Optimizer | ByHand, number: int, gradients: Iterable[Tensor] | None) -> None:
        """An optimizer steps along the gradients; None where these are lost."""
        norm = None if gradients is None else self._norm(gradients)
        self._keep(
            "step", step, optimizer=number, gradient_norm=norm, hyper=[*map(self._hyper, optimizer.param_groups)]
        )

    def saved(self, step: int, value: Any) -> None:
        """The script saves something."""
        self._keep("saved", step, leaves=self._leaves(value, values=True))

    def read(self, readout: Readout) -> list[dict[str, Any]]:
        """In the form of the record."""
        return [{key: readout.value(value) for key, value in event.items()} for event in self._kept]

    def _keep(self, kind: str, step: int, **rest: Any) -> None:
        self._kept.append({"kind": kind, "step": step, **rest})

    def _leaves(self, value: Any, *, values: bool) -> list[Digest | Known]:
        found = (self._digests.of_leaf(leaf, values) for leaf in leaves(value))
        return [digest for digest in found if digest is not None]

    def _sum(self, tensor: Tensor) -> Ticket | None:
        if is_captured():
            return None
        with aside():
            dense = plain(tensor)
            return None if dense is None else self._shelf.put(dense.to(torch.float64, copy=True).sum().reshape(1))

    def _norm(self, gradients: Iterable[Tensor]) -> Norm:
        squares: dict[torch.device, list[Tensor]] = {}
        with aside():
            for gradient in () if is_captured() else gradients:
                dense = plain(gradient)
                if dense is not None:
                    norm = torch.linalg.vector_norm(dense, dtype=torch.float64)
                    squares.setdefault(dense.device, []).append(norm.square())
            return Norm(tuple(self._shelf.put(torch.stack(each).sum().reshape(1)) for each in squares.values()))

    def _hyper(self, group: dict[str, Any]) -> dict[str, Any]:
        """The numbers of a parameter group, and those in its tuples."""
        kept: dict[str, Any] = {}
        for name, value in group.items():
            if name in _WAYS:
                continue
            if isinstance(value, torch.Tensor) and value.numel() == 1:
                kept[name] = self._sum(value)
            elif isinstance(value, (bool, int, float)):
                kept[name] = value
            elif isinstance(value, tuple) and all(isinstance(each, (int, float)) for each in value):
                kept[name] = list(value)
        return kept
