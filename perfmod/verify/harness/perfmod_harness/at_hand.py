"""Batches that are at hand: a step is timed as if its loader took no time."""

from __future__ import annotations

from typing import Any, Callable
from weakref import WeakKeyDictionary

import torch
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from . import patching


class _Hand:
    """The first batches of a loader, in host memory as it handed them out.

    Attributes:
        length: batches of an epoch; None where the loader cannot tell.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.batches: list[Any] = []
        try:
            self.length: int | None = len(loader)
        except TypeError:
            self.length = None


def begin(count: int, times: int) -> None:
    """Have each loader hand out its first `count` batches again and again; an epoch is as long as it was.

    Each batch is repeated to `times` its size.
    """
    hands: WeakKeyDictionary[DataLoader[Any], _Hand] = WeakKeyDictionary()

    def open_hand(init: Callable[..., None], iterator: Any, loader: DataLoader[Any], *args: Any) -> None:
        if loader not in hands:
            hands[loader] = _Hand(loader)
        iterator._perfmod_hand, iterator._perfmod_given, iterator._perfmod_size = hands[loader], 0, loader.batch_size
        init(iterator, loader, *args)

    def again(reset: Callable[..., None], iterator: Any, *args: Any) -> None:
        iterator._perfmod_given = 0
        reset(iterator, *args)

    def following(following: Callable[[Any], Any], iterator: Any) -> Any:
        hand: _Hand = iterator._perfmod_hand
        if len(hand.batches) < count:
            batch = following(iterator)
            batch = _repeated(batch, times, iterator._perfmod_size)
            hand.batches.append(batch)
        elif hand.length is not None and iterator._perfmod_given >= hand.length:
            raise StopIteration
        else:
            batch = hand.batches[iterator._perfmod_given % count]
        iterator._perfmod_given += 1
        return batch

    patching.around(_BaseDataLoaderIter, "__init__", open_hand)
    patching.around(_BaseDataLoaderIter, "_reset", again)
    patching.around(_BaseDataLoaderIter, "__next__", following)


def _repeated(batch: Any, times: int, size: int | None) -> Any:
    """A batch of `size` samples as one of `times` as many.

    Raises:
        ValueError: its tensors do not have the samples in their first dimension.
    """
    if times == 1:
        return batch
    if isinstance(batch, torch.Tensor):
        if batch.dim() == 0 or batch.size(0) != size:
            raise ValueError(f"a batch of {size} samples holds a tensor of shape {tuple(batch.shape)}")
        larger = torch.cat([batch] * times)
        return larger.pin_memory() if batch.is_pinned() else larger
    if isinstance(batch, dict):
        return {key: _repeated(value, times, size) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        if len(batch) == size and not any(isinstance(each, torch.Tensor) for each in batch):
            return batch * times
        parts = [_repeated(each, times, size) for each in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
    raise ValueError(f"a batch holds a {type(batch).__name__}")
