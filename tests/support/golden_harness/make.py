"""Random inputs that rewrites get wrong: special values, empty tensors, odd layouts, extreme masks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

FLAVOURS: Final = ("plain", "zeros", "nonfinite", "extreme")
MASKS: Final = ("some", "none", "all", "one")


class Make:
    """Draws the arguments of one trial of a golden; two with the same `seed` draw the same.

    Every trial has one flavour of floating-point values (`plain`: normal; `zeros`: with many 0.0 and -0.0;
    `nonfinite`: with NaN and infinities; `extreme`: with the largest, smallest and subnormal numbers) and one
    kind of mask (some, none, all or one element set). Layouts vary from tensor to tensor.
    """

    floats: Final = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
    ints: Final = (torch.int64, torch.int32, torch.uint8)
    dtypes: Final = (*floats, *ints, torch.bool)

    def __init__(self, trial: int, device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)
        self.flavour = FLAVOURS[trial % len(FLAVOURS)]
        self.masks = MASKS[trial // len(FLAVOURS) % len(MASKS)]
        self._rng = torch.Generator().manual_seed(trial)

    def below(self, bound: int) -> int:
        """A random integer from 0 to `bound` - 1."""
        return int(torch.randint(bound, (), generator=self._rng))

    def shape(self, *longest: int) -> tuple[int, ...]:
        """A shape with every dimension from 1 to the given one; one in six has an empty dimension."""
        shape = [1 + self.below(size) for size in longest]
        if shape and self.below(6) == 0:
            shape[self.below(len(shape))] = 0
        return tuple(shape)

    def tensor(
        self,
        shape: Sequence[int] = (),
        dtype: torch.dtype = torch.float32,
        *,
        requires_grad: bool = False,
        finite: bool = False,
    ) -> Tensor:
        """Values of the trial's flavour (`finite`: normal ones); integers from 0 to 4, which repeat."""
        if not dtype.is_floating_point:
            high = 2 if dtype == torch.bool else 5
            return self._laid_out(torch.randint(high, tuple(shape), generator=self._rng).to(dtype))
        values = torch.randn(tuple(shape), generator=self._rng, dtype=torch.float64).to(dtype)
        if not finite and self.flavour != "plain" and values.numel():
            specials = self._specials(dtype)
            chosen = specials[torch.randint(len(specials), values.shape, generator=self._rng)]
            values = torch.where(torch.rand(values.shape, generator=self._rng) < 0.3, chosen, values)
        return self._laid_out(values).requires_grad_(requires_grad)

    def mask(self, shape: Sequence[int]) -> Tensor:
        """A bool tensor of the trial's kind."""
        values = torch.rand(tuple(shape), generator=self._rng) < 0.5
        if self.masks != "some":
            values.fill_(self.masks == "all")
        if self.masks == "one" and values.numel():
            values.view(-1)[self.below(values.numel())] = True
        return self._laid_out(values)

    def labels(
        self,
        shape: Sequence[int],
        classes: int,
        *,
        other: int | None = None,
        dtype: torch.dtype = torch.int64,
    ) -> Tensor:
        """Class numbers from 0 to `classes` - 1, and `other` (say, ignored) under a mask of the trial."""
        values = torch.randint(classes, tuple(shape), generator=self._rng).to(dtype)
        if other is not None:
            values[self.mask(shape).cpu()] = other
        return self._laid_out(values)

    def _specials(self, dtype: torch.dtype) -> Tensor:
        limits = torch.finfo(dtype)
        largest = limits.max / 8  # leaves room for the factors inside a loss
        values = {
            "zeros": (0.0, -0.0),
            "nonfinite": (math.nan, math.inf, -math.inf, -0.0),
            "extreme": (largest, -largest, limits.tiny, -limits.smallest_normal / 2, 1.0 + limits.eps),
        }
        return torch.tensor(values[self.flavour], dtype=dtype)

    def _laid_out(self, values: Tensor) -> Tensor:
        """The same values on the device: contiguous, transposed in memory, or with gaps between them."""
        layout = self.below(3)
        if layout == 1 and values.dim() > 1:
            values = values.transpose(0, -1).contiguous().transpose(0, -1)
        elif layout == 2 and values.dim():
            values = torch.stack((values, values), dim=-1)[..., 0]
        moved = torch.empty_strided(values.size(), values.stride(), dtype=values.dtype, device=self.device)
        return moved.copy_(values)
