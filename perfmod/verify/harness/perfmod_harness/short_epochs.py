"""Ends epochs early, so that few steps reach the next ones, what is done between them, and the end of the script."""

from __future__ import annotations

from typing import Any, Callable

from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from . import patching


def begin(batches: int) -> None:
    """Have loaders hand out so many batches at most in an epoch, and say so when asked for their length."""

    def length(measure: Callable[[Any], int], counted: Any) -> int:
        return min(measure(counted), batches)

    def first(following: Callable[[Any], Any], iterator: Any) -> Any:
        if iterator._perfmod_drawn == batches:
            raise StopIteration
        iterator._perfmod_drawn += 1
        return following(iterator)

    def again(reset: Callable[..., None], iterator: Any, *args: Any) -> None:
        iterator._perfmod_drawn = 0
        reset(iterator, *args)

    for owner in (DataLoader, _BaseDataLoaderIter):
        patching.around(owner, "__len__", length)
    # An iterator without workers is made anew for each epoch, the others are reset.
    _BaseDataLoaderIter._perfmod_drawn = 0  # type: ignore[attr-defined]
    patching.around(_BaseDataLoaderIter, "_next_index", first)
    patching.around(_BaseDataLoaderIter, "_reset", again)
