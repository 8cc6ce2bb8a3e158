"""Reading tensors of all kinds without changing them, and without being noticed."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import Iterator

import torch
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import _disable_current_modes, _get_current_dispatch_mode_stack

from . import unseen

HALVES = (torch.float16, torch.bfloat16)

_LARGEST_DENSE = 1 << 28


@contextmanager
def aside() -> Iterator[None]:
    """What is computed in here is none of the script's: no graph, no mode and no subclass of the script's sees it."""
    with ExitStack() as stack:
        stack.enter_context(unseen.uncompiled())
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch._C.DisableTorchFunctionSubclass())
        stack.enter_context(_disable_current_modes())
        yield


def is_captured() -> bool:
    """Whether a CUDA graph is being recorded, into which our own kernels must not get."""
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


def is_tried_out() -> bool:
    """Whether torch only tries which shapes and types come out, with tensors that have no values."""
    modes = _get_current_dispatch_mode_stack() if torch._C._len_torch_dispatch_stack() else []
    return any(type(mode).__name__ == "FakeTensorMode" for mode in modes)


def plain(tensor: torch.Tensor) -> torch.Tensor | None:
    """The values of a tensor as one that is dense and real, or None where there are none to be read.

    Sparse tensors that are too large to be filled up are known by their stored values.
    """
    if is_lazy(tensor) or tensor.device.type == "meta" or _is_wrapped(tensor):
        return None
    tensor = tensor.detach()
    if hasattr(tensor, "to_local"):
        tensor = tensor.to_local()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.is_nested:
        tensor = torch.cat([part.reshape(-1) for part in tensor.unbind()])
    elif tensor.is_sparse and tensor.numel() > _LARGEST_DENSE:
        tensor = tensor.coalesce().values()
    elif tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    tensor = tensor.resolve_conj().resolve_neg()
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _is_wrapped(tensor: torch.Tensor) -> bool:
    """Whether it stands for one that does not exist yet, as in a transform of torch.func or while shapes are tried."""
    return torch._C._functorch.is_functorch_wrapped_tensor(tensor) or type(tensor).__name__ in (
        "FakeTensor",
        "FunctionalTensor",
    )


def autocast_type() -> torch.dtype | None:
    """The type that autocast casts to at present, or None where it does not."""
    if hasattr(torch, "get_autocast_dtype"):
        for device in ("cuda", "cpu"):
            if torch.is_autocast_enabled(device):
                return torch.get_autocast_dtype(device)
    elif torch.is_autocast_enabled():
        return torch.get_autocast_gpu_dtype()
    elif torch.is_autocast_cpu_enabled():
        return torch.get_autocast_cpu_dtype()
    return None
