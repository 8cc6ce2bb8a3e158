"""Makes alike what two versions of a training may do differently by their class, so that the rest can be compared.

Half types and TF32 become float32, images keep their layout, no algorithms are timed, nothing is compiled, and whatever
decides by chance what stays (dropout, a Bernoulli variable, a comparison with uniform numbers) gets the same uniform
numbers for elements in their logical order, whichever kernel would have drawn. They come from the default stream, so
that whoever rewinds that stream drops the same again.

There is more than one way to drop by a uniform number u with probability p, and no way is the right one: what is
written out may keep where u < 1 - p or where u >= p, and what goes through a module in two parts or in one asks in
another order. Each is a correspondence of its own, of which one has to show that both sides compute the same.
"""

from __future__ import annotations

import functools
import math
import os
import sys
from typing import Any, Callable, Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import patching, seeding
from .dropout import make_without_dropout
from .tensors import HALVES

BELOW = 1
"""What is kept by a uniform number is kept where it is below the share that stays."""
ABOVE = 2
"""Where it is not below the share that goes."""
BY_MODULE = 3
"""As `BELOW`, and each dropout module has a stream of its own, which begins anew in each step."""

_RAND = torch.rand

_SETTERS = (
    "_set_cublas_allow_tf32",
    "_set_cudnn_allow_tf32",
    "_set_float32_matmul_precision",
    "_set_fp32_precision_setter",
    "_set_cudnn_benchmark",
)
_CHANNELS_LAST = (torch.channels_last, torch.channels_last_3d)


def begin(correspondence: int) -> None:
    """From now, whatever the script asks for later. To be called before it uses torch."""
    _compile_nothing()
    _use_float32()
    draws = _OfModules() if correspondence == BY_MODULE else _OfDefault()
    drop = _Dropout(draws, above=correspondence == ABOVE)
    for name, dimensions in (("dropout", None), ("dropout1d", 2), ("dropout2d", 2), ("dropout3d", 2)):
        patching.around(F, name, functools.partial(drop, dimensions))
    patching.around(F, "scaled_dot_product_attention", _attention)
    patching.around(nn.RNNBase, "__init__", make_without_dropout)
    patching.around(torch, "rand", _rand)
    patching.around(torch, "rand_like", _rand_like)
    patching.around(Tensor, "bernoulli_", _bernoulli_in_place)
    for owner in (torch, Tensor):
        patching.around(owner, "bernoulli", _bernoulli)


def _compile_nothing() -> None:
    os.environ["TORCHDYNAMO_DISABLE"] = "1"
    config = sys.modules.get("torch._dynamo.config")
    if config is not None:
        config.disable = True  # type: ignore[attr-defined]


def _use_float32() -> None:
    torch.set_float32_matmul_precision("highest")
    for name in _SETTERS:
        if hasattr(torch._C, name):
            patching.around(torch._C, name, _ignored)
    for name in ("allow_tf32", "fp32_precision"):
        setting = vars(type(torch.backends.cudnn)).get(name)
        if setting is not None:
            setting.setter = _ignored
    patching.around(torch.autocast, "__init__", _switched_off)
    patching.around(getattr(torch.amp, "GradScaler", torch.cuda.amp.GradScaler), "__init__", _switched_off)
    for owner in (Tensor, nn.Module):
        for name in ("half", "bfloat16"):
            patching.around(owner, name, lambda _half, value, *_args, **_kwargs: value.float())
        patching.around(owner, "to", _wide)
    patching.around(Tensor, "contiguous", lambda contiguous, value, **_layout: contiguous(value))
    patching.around(Tensor, "type", _wide)


def _ignored(*_args: Any) -> None:
    """In place of a function that sets something."""


def _switched_off(init: Callable[..., None], made: Any, *args: Any, **kwargs: Any) -> None:
    init(made, *args, **kwargs)
    made._enabled = False


def _wide(cast: Callable[..., Any], value: Any, *args: Any, **kwargs: Any) -> Any:
    return cast(value, *map(_widened, args), **{name: _widened(each) for name, each in kwargs.items()})


def _widened(argument: Any) -> Any:
    """In place of a half type, and of a layout in which other algorithms compute the same."""
    if isinstance(argument, torch.memory_format):
        return torch.preserve_format if argument in _CHANNELS_LAST else argument
    return torch.float32 if isinstance(argument, torch.dtype) and argument in HALVES else argument


def _uniform(count: int, device: torch.device | str | None) -> Tensor:
    """So many numbers from the default stream of a device; those of one type, whichever is wanted in the end."""
    return _RAND(count, dtype=torch.float32, device=device)


def _rand(rand: Callable[..., Tensor], *size: Any, **options: Any) -> Tensor:
    if options.get("generator") is not None or options.get("out") is not None or "names" in options:
        return rand(*size, **options)
    shape = options.pop("size", size)
    if len(shape) == 1 and isinstance(shape[0], Iterable):
        (shape,) = shape
    found = _uniform(math.prod(shape), options.get("device")).reshape(tuple(shape))
    found = found.to(options.get("dtype") or torch.get_default_dtype())
    return found.requires_grad_(options.get("requires_grad", False))


def _rand_like(rand_like: Callable[..., Tensor], like: Tensor, *args: Any, **options: Any) -> Tensor:
    found = torch.empty_like(like, *args, **options)
    if not found.is_floating_point():
        return rand_like(like, *args, **options)
    with torch.no_grad():
        return found.copy_(_uniform(found.numel(), found.device).reshape(found.shape))


def _bernoulli_in_place(_draw: Callable[..., Tensor], tensor: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    if generator is not None:
        return _draw(tensor, p, generator=generator)
    with torch.no_grad():
        return tensor.copy_(_uniform(tensor.numel(), tensor.device).reshape(tensor.shape) < p)


def _bernoulli(draw: Callable[..., Tensor], chances: Tensor, *args: Any, **options: Any) -> Tensor:
    if args or options:
        return draw(chances, *args, **options)
    return (_uniform(chances.numel(), chances.device).reshape(chances.shape) < chances).to(chances.dtype)


class _OfDefault:
    """Draws from the default stream of the device."""

    def __call__(self, count: int, device: torch.device) -> Tensor:
        return _uniform(count, device)


class _OfModules:
    """Gives each module that drops a stream on the host: there, the parts of a tensor get what the whole gets."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._known: list[nn.Module] = []  # kept, or another might get its id
        self._inner: int | None = None
        self._streams: dict[tuple[Any, ...], torch.Generator] = {}
        for kind in (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d):
            patching.around(kind, "forward", self._forward)

    def __call__(self, count: int, device: torch.device) -> Tensor:
        if self._inner is None:
            return _uniform(count, device)
        key = *seeding.place(), self._inner
        if key not in self._streams:
            generator = torch.Generator().manual_seed(seeding.mixed(*key))
            # Those of the last step are not asked for again.
            self._streams = {known: each for known, each in self._streams.items() if known[:-1] == key[:-1]}
            self._streams[key] = generator
        return _RAND(count, generator=self._streams[key], device="cpu").to(device)

    def _forward(self, forward: Callable[..., Tensor], module: nn.Module, *args: Any, **kwargs: Any) -> Tensor:
        if id(module) not in self._numbers:
            self._numbers[id(module)] = len(self._known)
            self._known.append(module)
        self._inner = self._numbers[id(module)]
        try:
            return forward(module, *args, **kwargs)
        finally:
            self._inner = None


class _Dropout:
    """Stands in for the functions that drop."""

    def __init__(self, draws: _OfDefault | _OfModules, *, above: bool) -> None:
        self._draws = draws
        self._above = above

    def __call__(
        self,
        dimensions: int | None,
        _drop: Callable[..., Tensor],
        input: Tensor,  # noqa: A002 -- callers may name it
        p: float = 0.5,
        training: bool = True,
        inplace: bool = False,
    ) -> Tensor:
        if not training or not p:
            return input
        shape = input.shape if dimensions is None else (*input.shape[:dimensions], *(1,) * (input.dim() - dimensions))
        mask = self._mask(tuple(shape), p, input.device).to(input.dtype)
        return input.mul_(mask) if inplace else input * mask

    def _mask(self, shape: tuple[int, ...], probability: float, device: torch.device) -> Tensor:
        """What stays, scaled up."""
        draws = self._draws(math.prod(shape), device).double()
        kept = (draws >= probability if self._above else draws < 1.0 - probability).reshape(shape)
        return kept / (1.0 - probability) if probability < 1.0 else kept.double()


def _attention(
    attend: Callable[..., Tensor],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    if not dropout_p:
        more = {"enable_gqa": True} if enable_gqa else {}
        return attend(query, key, value, attn_mask, 0.0, is_causal, scale=scale, **more)
    if enable_gqa:
        repeats = query.size(-3) // key.size(-3)
        key, value = key.repeat_interleave(repeats, -3), value.repeat_interleave(repeats, -3)
    scores = query @ key.transpose(-2, -1) * (1.0 / math.sqrt(query.size(-1)) if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    return F.dropout(scores.softmax(-1), dropout_p) @ value
