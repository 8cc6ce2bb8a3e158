"""The DataLoaders of the training process, and what they hand out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable
from weakref import WeakKeyDictionary

from torch.utils.data.dataloader import _BaseDataLoaderIter

from . import patching

if TYPE_CHECKING:
    from torch.utils.data import DataLoader


class Seen:
    """One loader.

    Attributes:
        number: of it, in the order in which they were first iterated.
        epoch: how often it has been begun, less one.
        batches: handed out so far.
    """

    def __init__(self, number: int, loader: DataLoader[Any]) -> None:
        self.number = number
        self.epoch = -1
        self.batches = 0
        self._options = {
            "workers": loader.num_workers,
            "prefetch": loader.prefetch_factor or 0,
            "pin_memory": bool(loader.pin_memory),
            "persistent": bool(loader.persistent_workers),
            "batch_size": loader.batch_size,
        }

    def describe(self) -> dict[str, Any]:
        """For the record."""
        return {**self._options, "batches": self.batches}


class Loaders:
    """All loaders that have been iterated in this process."""

    def __init__(self) -> None:
        self._seen: list[Seen] = []
        # A loader that is kept alive keeps its workers.
        self._by_loader: WeakKeyDictionary[DataLoader[Any], Seen] = WeakKeyDictionary()
        self._drawn: Callable[[Seen, Any], Any] = lambda _, batch: batch

    def watch(self, drawn: Callable[[Seen, Any], Any] | None = None) -> None:
        """Look on from now; `drawn` sees every batch and says what the script gets."""
        if drawn is not None:
            self._drawn = drawn
        patching.around(_BaseDataLoaderIter, "__init__", self._begin)
        patching.around(_BaseDataLoaderIter, "_reset", self._begin_again)
        patching.around(_BaseDataLoaderIter, "__next__", self._next)

    def describe(self) -> list[dict[str, Any]]:
        """For the record."""
        return [seen.describe() for seen in self._seen]

    def _begin(self, init: Callable[..., None], iterator: Any, loader: DataLoader[Any], *args: Any) -> None:
        seen = self._by_loader.get(loader)
        if seen is None:
            seen = self._by_loader[loader] = Seen(len(self._seen), loader)
            self._seen.append(seen)
        seen.epoch += 1
        iterator._perfmod_seen = seen
        init(iterator, loader, *args)

    def _begin_again(
        self, reset: Callable[..., None], iterator: Any, loader: DataLoader[Any], first_iter: bool = False
    ) -> None:
        # Iterators with workers are reset at the end of their construction, too.
        if not first_iter:
            iterator._perfmod_seen.epoch += 1
        reset(iterator, loader, first_iter)

    def _next(self, following: Callable[[Any], Any], iterator: Any) -> Any:
        batch = following(iterator)
        seen: Seen = iterator._perfmod_seen
        seen.batches += 1
        return self._drawn(seen, batch)
