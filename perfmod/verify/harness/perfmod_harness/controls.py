"""Changes to a run that show how it reacts: rounding noise, double precision, no dropout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, ContextManager

import torch
from torch import nn

from . import formats, patching
from .calls import has_parameters
from .dropout import LeftOut
from .seeding import mixed
from .structures import leaves, mapped
from .tensors import HALVES, aside, autocast_type, is_captured

if TYPE_CHECKING:
    from torch import Tensor

    from .job import Job


class Controls:
    """The changes that a job asks for; none of them where it asks for none.

    Attributes:
        perturbed: how many tensors have been given noise.
        left_out: the dropout that does not take place; None where all does.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._noisy: tuple[int, int, nn.Module] | None = None
        self._noisy_parameters: tuple[nn.Module, _Noise] | None = None
        self._in_half: ContextManager[None] | None = None
        self.perturbed = 0
        self.left_out: LeftOut | None = None

    def begin(self) -> None:
        """What is changed once and for all."""
        if not self._job.dropout:
            self.left_out = LeftOut()
        if self._job.half and self._job.device == "cpu":
            for kind in (nn.RNN, nn.LSTM, nn.GRU):
                patching.around(kind, "forward", _as_it_is)

    def batch(self, batch: Any, step: int) -> Any:
        """A batch as the script is to get it: targets of losses that are no modules must have the model's type."""
        if self._job.bare and self._job.half and self._in_half is None:
            self._in_half = formats.begin()
        if self._job.bare and self._job.perturb:
            noise = self._noise(step)
            batch = mapped(batch, noise)
            self.perturbed += noise.tensors
        return mapped(batch, _double) if self._job.double else batch

    def call(self, call: Callable[..., Any], module: nn.Module, args: Any, kwargs: Any) -> Any:
        """An outermost call, in the format that it is to compute in."""
        if not self._job.half or is_captured():
            return call(module, *args, **kwargs)
        with formats.autocast():
            return mapped(call(module, *args, **kwargs), _single)

    def inputs(self, module: nn.Module, args: Any, kwargs: Any, step: int, backwards: int) -> tuple[Any, Any]:
        """The inputs of an outermost call as the module is to get them, after so many steps and backward passes."""
        if is_captured():
            return args, kwargs
        if self._job.double:
            module.double()
            args, kwargs = mapped(args, _double), mapped(kwargs, _double)
        if self._job.perturb and self._is_first(module, step, backwards):
            self._noisy = step, backwards, module
            args, kwargs = self._with_noise(module, args, kwargs, step)
        return args, kwargs

    def renew(self) -> None:
        """The parameters have been set to what the original has, and get their noise again where they had some."""
        if self._noisy_parameters is not None:
            module, noise = self._noisy_parameters
            _move(module, noise)

    def _is_first(self, module: nn.Module, step: int, backwards: int) -> bool:
        """Whether this is the first call in its step that may be trained on.

        So is one of the same module with no backward pass in between: the first may have been for its output alone.
        """
        if not (torch.is_grad_enabled() and has_parameters(module)):
            return False
        return self._noisy is None or self._noisy[0] != step or self._noisy[1:] == (backwards, module)

    def _with_noise(self, module: nn.Module, args: Any, kwargs: Any, step: int) -> tuple[Any, Any]:
        noise = self._noise(step)
        if any(isinstance(leaf, torch.Tensor) and leaf.is_floating_point() for leaf in leaves([args, kwargs])):
            args, kwargs = mapped(args, noise), mapped(kwargs, noise)
        elif self._noisy_parameters is None:
            # Token numbers and bytes cannot be moved a little; the weights can, once.
            self._noisy_parameters = module, noise
            _move(module, noise)
        self.perturbed += noise.tensors
        return args, kwargs

    def _noise(self, step: int) -> _Noise:
        return _Noise(self._job.perturb, mixed(self._job.seed, "noise", self._job.perturb_seed, step))


class _Noise:
    """Moves each value of a tensor up or down by some rounding units.

    Attributes:
        tensors: moved so far.
    """

    def __init__(self, units: float, seed: int) -> None:
        self._units = units
        self._seed = seed
        self.tensors = 0

    def __call__(self, tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor
        self.tensors += 1
        generator = torch.Generator(device=tensor.device).manual_seed(mixed(self._seed, self.tensors))
        with aside():
            draws = torch.empty(tensor.shape, dtype=torch.float64, device=tensor.device)
            signs = draws.uniform_(-1.0, 1.0, generator=generator).sign_()
            factors = signs.mul_(self._size(tensor)).add_(1.0)
        return (tensor * factors).to(tensor.dtype)

    def _size(self, tensor: Tensor) -> float:
        """Of the noise; autocast would round away what is smaller than the units of its type."""
        kinds = {tensor.dtype, autocast_type() or tensor.dtype}
        return self._units * max(torch.finfo(kind).eps for kind in kinds)


def _move(module: nn.Module, noise: _Noise) -> None:
    with aside():
        for parameter in module.parameters():
            parameter.data.copy_(noise(parameter.data))


def _as_it_is(forward: Callable[..., Any], module: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """Not every processor has kernels for recurrent layers in half types."""
    with formats.autocast(enabled=False):
        return forward(module, *mapped(args, _single), **mapped(kwargs, _single))


def _single(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in HALVES else tensor


def _double(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor
