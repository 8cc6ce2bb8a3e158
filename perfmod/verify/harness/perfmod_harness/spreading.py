"""One process against several: the order in which both draw samples, and which samples are in a batch."""

from __future__ import annotations

from typing import Any, Callable, Iterator

import torch
from torch.utils.data import DistributedSampler, RandomSampler

from . import patching
from .digests import known
from .structures import leaves
from .tensors import aside


def begin() -> None:
    """Have all shuffled samples come in the order that a `DistributedSampler` draws from its own seed.

    Epochs are numbered as they come, also where a script counts them from 1. A script that does not tell its sampler
    of the next epoch still gets the samples of the last one again.
    """
    patching.around(RandomSampler, "__iter__", _drawn)
    patching.around(DistributedSampler, "__iter__", _spread)


def _drawn(iterate: Callable[[Any], Iterator[Any]], sampler: Any) -> Iterator[Any]:
    count = len(sampler.data_source)
    if sampler.replacement or sampler.num_samples != count:
        yield from iterate(sampler)
        return
    sampler._perfmod_epoch = epoch = getattr(sampler, "_perfmod_epoch", -1) + 1
    yield from torch.randperm(count, generator=torch.Generator().manual_seed(epoch)).tolist()


def _spread(iterate: Callable[[Any], Iterator[Any]], sampler: Any) -> Iterator[Any]:
    epochs = sampler.__dict__.setdefault("_perfmod_epochs", {})
    own = sampler.epoch
    sampler.epoch = epochs.setdefault(own, len(epochs))
    try:
        return iterate(sampler)
    finally:
        sampler.epoch = own


def hashes(batch: Any, samples: int) -> list[str]:
    """What tells the samples of a batch apart: of all its tensors that have a row for each."""
    with aside():
        found = [each for each in leaves(batch) if isinstance(each, torch.Tensor) and each.dim()]
        rows = [each.detach().cpu() for each in found if len(each) == samples]
    return [" ".join(map(_bits, each)) for each in zip(*rows)]


def _bits(tensor: torch.Tensor) -> str:
    found = known(tensor)
    return "" if found is None else found.bits
