"""One process against several: under `DataParallel`, a model gets a batch in the parts that the processes are given."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any, Callable, ContextManager, Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.parallel import DataParallel

from . import patching
from .structures import leaves, mapped


def begin(count: int, uncounted: Callable[[], ContextManager[None]]) -> None:
    """Have `DataParallel` split each batch for so many devices, on one of them, and on the CPU as well.

    What a model makes of a part by itself, such as the statistics of batch normalisation, is then that of the part.
    The parts are those of a `DistributedSampler`: every sample with the same remainder, and not neighbours, as the
    devices get them. As on several devices, only what the first part does to buffers stays; what the others would drop
    is `uncounted`, because each process counts its own.
    """

    def forward(whole: Callable[..., Any], wrapper: Any, *inputs: Any, **named: Any) -> Any:
        fewest = min((len(each) for each in _batched((inputs, named))), default=0)
        if fewest < count:
            return whole(wrapper, *inputs, **named)
        if wrapper.device_ids:
            inputs, named = mapped((inputs, named), lambda tensor: tensor.to(wrapper.src_device_obj))
        outputs = []
        for number in range(count):
            some, others = mapped((inputs, named), partial(_part, number, count))
            with contextlib.ExitStack() as stack:
                if number:
                    stack.enter_context(_own_buffers(wrapper.module))
                    stack.enter_context(uncounted())
                outputs.append(wrapper.module(*some, **others))
        return _joined(outputs)

    patching.around(DataParallel, "forward", forward)


def _part(number: int, count: int, tensor: Tensor) -> Tensor:
    return tensor[number::count] if tensor.dim() else tensor


def _batched(inputs: Any) -> Iterator[Tensor]:
    return (each for each in leaves(inputs) if isinstance(each, Tensor) and each.dim())


@contextlib.contextmanager
def _own_buffers(module: nn.Module) -> Iterator[None]:
    """Meanwhile a module has copies of its buffers, whose changes are lost."""
    usual = [(each, dict(each._buffers)) for each in module.modules()]
    try:
        for each, buffers in usual:
            each._buffers.update({key: None if held is None else held.clone() for key, held in buffers.items()})
        yield
    finally:
        for each, buffers in usual:
            each._buffers.update(buffers)


def _joined(outputs: Sequence[Any]) -> Any:
    """Outputs of parts as one, with the samples in the order of the batch; numbers become one for each part."""
    first = outputs[0]
    if isinstance(first, Tensor):
        if not first.dim():
            return torch.stack(list(outputs))
        count = sum(map(len, outputs))
        order = torch.cat([torch.arange(at, count, len(outputs)) for at in range(len(outputs))])
        return torch.cat(list(outputs))[order.argsort().to(first.device)]
    if isinstance(first, Mapping):
        return type(first)((key, _joined([each[key] for each in outputs])) for key in first)  # type: ignore[call-arg]
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*map(_joined, zip(*outputs)))
    if isinstance(first, (list, tuple)):
        return type(first)(map(_joined, zip(*outputs)))
    return first
