"""What of a training is rounded to half types and ought not to be: parts of the loss, and the parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, Iterator

import torch

from .graphs import nodes
from .shelf import wait_for_devices
from .tensors import HALVES, aside, plain

if TYPE_CHECKING:
    from torch import Tensor

_FEW = 16
"""Values that may all fit a half type by chance, or because they are what they were set to."""


def adds_up_in_half(roots: Iterable[Tensor]) -> bool:
    """Whether anything that a loss is made of is a single number of a half type, as a mean over the batch is."""
    return any(shape == () and dtype in HALVES for node in nodes(roots) for shape, dtype in _outputs(node))


def held_in_half(parameters: Iterable[tuple[str, Tensor]]) -> int:
    """How many of the tensors hold nothing but values of a half type, whatever their own type is; waits for each."""
    wait_for_devices()
    with aside():
        return sum(_fits(value) for value in (plain(each) for _, each in parameters) if value is not None)


def _fits(value: Tensor) -> bool:
    if value.numel() < _FEW or not value.is_floating_point() or bool((value == value.reshape(-1)[0]).all()):
        return False
    return any(bool((value.to(half).to(value.dtype) == value).all()) for half in HALVES)


def _outputs(node: Any) -> Iterator[tuple[tuple[int, ...], torch.dtype]]:
    """Shapes and types of what a node computed, which are those of the gradients that it gets; since torch 2.1."""
    for each in getattr(node, "_input_metadata", ()):
        if isinstance(each.shape, (tuple, list)):
            yield tuple(each.shape), each.dtype
