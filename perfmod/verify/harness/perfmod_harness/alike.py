"""Makes alike what two versions of a training may do differently by their class, so that the rest can be compared.

Half types and TF32 become float32, nothing is compiled, and what dropout drops depends on the place in the step and
not on the kernel that draws: a mask belongs to elements in their logical order. Its seed comes from the default
stream, so that whoever rewinds that stream drops the same again.
"""

from __future__ import annotations

import functools
import math
import os
import sys
from typing import Any, Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import patching
from .dropout import make_without_dropout
from .tensors import HALVES

_SETTERS = (
    "_set_cublas_allow_tf32",
    "_set_cudnn_allow_tf32",
    "_set_float32_matmul_precision",
    "_set_fp32_precision_setter",
)


def begin() -> None:
    """From now, whatever the script asks for later. To be called before it uses torch."""
    _compile_nothing()
    _use_float32()
    for name, dimensions in (("dropout", None), ("dropout1d", 2), ("dropout2d", 2), ("dropout3d", 2)):
        patching.around(F, name, functools.partial(_dropout, dimensions))
    patching.around(F, "scaled_dot_product_attention", _attention)
    patching.around(nn.RNNBase, "__init__", make_without_dropout)


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
    patching.around(Tensor, "type", _wide)


def _ignored(*_args: Any) -> None:
    """In place of a function that sets something."""


def _switched_off(init: Callable[..., None], made: Any, *args: Any, **kwargs: Any) -> None:
    init(made, *args, **kwargs)
    made._enabled = False


def _wide(cast: Callable[..., Any], value: Any, *args: Any, **kwargs: Any) -> Any:
    return cast(value, *map(_widened, args), **{name: _widened(each) for name, each in kwargs.items()})


def _widened(argument: Any) -> Any:
    return torch.float32 if isinstance(argument, torch.dtype) and argument in HALVES else argument


def _mask(shape: tuple[int, ...], probability: float, device: torch.device) -> Tensor:
    """What stays, scaled up, by places in logical order."""
    seed = int(torch.randint(1 << 62, ()))
    draws = torch.empty(math.prod(shape), dtype=torch.float64, device=device)
    draws.uniform_(generator=torch.Generator(device=device).manual_seed(seed))
    kept = (draws >= probability).reshape(shape)
    return kept / (1.0 - probability) if probability < 1.0 else kept.double()


def _dropout(
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
    mask = _mask(tuple(shape), p, input.device).to(input.dtype)
    return input.mul_(mask) if inplace else input * mask


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
