"""Batches that are at hand: a step is timed as if its loader took no time."""

from __future__ import annotations

from typing import Any, Callable
from weakref import WeakKeyDictionary

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


def begin(count: int) -> None:
    """Have each loader hand out its first `count` batches again and again; an epoch is as long as it was."""
    hands: WeakKeyDictionary[DataLoader[Any], _Hand] = WeakKeyDictionary()

    def open_hand(init: Callable[..., None], iterator: Any, loader: DataLoader[Any], *args: Any) -> None:
        if loader not in hands:
            hands[loader] = _Hand(loader)
        iterator._perfmod_hand, iterator._perfmod_given = hands[loader], 0
        init(iterator, loader, *args)

    def again(reset: Callable[..., None], iterator: Any, *args: Any) -> None:
        iterator._perfmod_given = 0
        reset(iterator, *args)

    def following(following: Callable[[Any], Any], iterator: Any) -> Any:
        hand: _Hand = iterator._perfmod_hand
        if len(hand.batches) < count:
            batch = following(iterator)
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
