"""The state of a training at a certain step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping

import torch

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

    from .by_hand import ByHand
    from .digests import Digest, Digests
    from .naming import Names
    from .readout import Readout


AT_START = "{} at the start"
"""The name of what was kept when a step began; without it, when it had ended."""


class Snapshots:
    """Digests of all that is being trained, by what they are of and the step after which they were taken."""

    def __init__(self, digests: Digests, names: Names) -> None:
        self._digests = digests
        self._names = names
        self._taken: dict[tuple[str, int], dict[str, Digest]] = {}

    def take_model(self, step: int) -> None:
        """Parameters and buffers of the modules known by now; what that step already has stays as it is."""
        self._take("parameters", step, self._names.parameters())
        self._take("buffers", step, self._names.buffers())

    def take_unheld(self, step: int, optimizer: Optimizer | ByHand, number: int) -> None:
        """Parameters of an optimizer, those too that no module holds."""
        self._take("parameters", step, self._names.optimized(optimizer, number))

    def take_state(self, step: int, optimizer: Optimizer | ByHand, number: int) -> None:
        """The state of an optimizer."""
        self._take("optimizer state", step, self._state(optimizer, number))

    def take_gradients(self, step: int, optimizer: Optimizer | ByHand, number: int, divisor: Tensor | None) -> None:
        """The gradients that an optimizer is to step along; `divisor`: what they are still multiplied by."""
        self._take("gradients", step, gradients(self._names.optimized(optimizer, number), divisor))

    def take_copies(self, step: int, found: Iterable[tuple[str, Tensor]]) -> None:
        """Copies of the weights that the script keeps, if it keeps any."""
        tensors = list(found)
        if tensors:
            self._take("copies", step, tensors)

    def take_start(self, step: int, stepped: Mapping[int, Optimizer | ByHand]) -> None:
        """What a step begins with that is looked at by itself."""
        self._take(AT_START.format("parameters"), step, self._names.parameters())
        self._take(AT_START.format("buffers"), step, self._names.buffers())
        for number, optimizer in stepped.items():
            self._take(AT_START.format("parameters"), step, self._names.optimized(optimizer, number))
            self._take(AT_START.format("optimizer state"), step, self._state(optimizer, number))

    def read(self, readout: Readout) -> list[dict[str, Any]]:
        """In the form of the record."""
        return [
            {"name": name, "step": step, "tensors": {key: readout.digest(digest) for key, digest in digests.items()}}
            for (name, step), digests in self._taken.items()
        ]

    def _take(self, name: str, step: int, tensors: Iterable[tuple[str, Tensor]]) -> None:
        taken = self._taken.setdefault((name, step), {})
        for key, tensor in tensors:
            if key not in taken:
                digest = self._digests.of(tensor)
                if digest is not None:
                    taken[key] = digest

    def _state(self, optimizer: Optimizer | ByHand, number: int) -> Iterator[tuple[str, Tensor]]:
        for key, parameter in self._names.optimized(optimizer, number):
            for name, value in optimizer.state.get(parameter, {}).items():
                yield from tensors_of(f"{key}/{name}", value)


def gradients(parameters: Iterable[tuple[str, Tensor]], divisor: Tensor | None) -> Iterator[tuple[str, Tensor]]:
    """Those of the parameters that have one; `divisor`: what they are still multiplied by."""
    for key, parameter in parameters:
        gradient = parameter.grad
        if gradient is not None:
            yield key, gradient if divisor is None else gradient / divisor.to(gradient.device)


def tensors_of(key: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    """What a state of an optimizer consists of; numbers count as tensors."""
    if isinstance(value, torch.Tensor):
        yield key, value
    elif isinstance(value, (bool, int, float)):
        yield key, torch.tensor(value, dtype=torch.float64, device="cpu")
    elif isinstance(value, (list, tuple)):
        for index, part in enumerate(value):
            yield from tensors_of(f"{key}.{index}", part)
