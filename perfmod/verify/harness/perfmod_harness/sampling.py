"""Gives loaders random streams of their own, so that workers and prefetching change nobody's draws.

A loader draws a seed for its workers when it is begun; its sampler draws when the first index is asked for, and so
many batches ahead as are prefetched; and a dataset's augmentation draws in whichever process fetches the sample.
Here each of the three has streams that depend on nothing but the loader, its epoch, and the sample. A sample that is
drawn once and kept for all epochs is therefore another one in the second.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Callable, Iterable, List

from torch import Generator
from torch.utils.data import get_worker_info
from torch.utils.data._utils.fetch import _IterableDatasetFetcher, _MapDatasetFetcher
from torch.utils.data.dataloader import _BaseDataLoaderIter

from . import patching
from .seeding import Streams, kept, seed_host
from .workers import base_seed, loader_of

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

    from .workers import Workers


class Sampling:
    """Pins the draws of every loader by its number and epoch. `Loaders`, which gives them, is to be begun later."""

    def __init__(self, seed: int, workers: Workers) -> None:
        self._seed = seed
        self._workers = workers
        self._base_seed = 0

    def begin(self) -> None:
        """Pin them from now."""
        patching.around(_BaseDataLoaderIter, "__init__", self._begin)
        patching.around(_BaseDataLoaderIter, "_reset", self._begin_epoch)
        patching.around(_BaseDataLoaderIter, "_next_index", self._next_index)
        patching.around(_MapDatasetFetcher, "__init__", self._begin_map)
        patching.around(_MapDatasetFetcher, "fetch", self._fetch)
        patching.around(_IterableDatasetFetcher, "__init__", self._begin_iterable)
        patching.around(_IterableDatasetFetcher, "fetch", self._fetch_iterable)

    # In the process that has the loader

    def _begin(self, init: Callable[..., None], iterator: Any, loader: DataLoader[Any], *args: Any) -> None:
        iterator._perfmod_streams = Streams(generators=_generators(loader))
        self._begin_epoch(init, iterator, loader, *args)
        seen = iterator._perfmod_seen
        self._base_seed = iterator._base_seed = base_seed(self._seed, seen.number, seen.epoch)

    def _begin_epoch(self, begin: Callable[..., None], iterator: Any, *args: Any) -> None:
        streams: Streams = iterator._perfmod_streams
        seen = iterator._perfmod_seen
        key = self._seed, "loader", seen.number, seen.epoch
        streams.restart(*key)
        with streams.active():
            begin(iterator, *args)
        # What was drawn at the beginning, and how often that was made, differs with workers.
        streams.restart(*key)

    def _next_index(self, following: Callable[[Any], Any], iterator: Any) -> Any:
        with iterator._perfmod_streams.active():
            index = following(iterator)
        return _Indices(index, iterator._perfmod_seen.epoch) if type(index) is list else index

    # In the process that fetches samples, which may be a worker

    def _begin_map(self, init: Callable[..., None], fetcher: Any, *args: Any) -> None:
        self._workers.note()
        init(fetcher, *args)

    def _fetch(self, fetch: Callable[..., Any], fetcher: Any, index: Any) -> Any:
        key = self._seed, getattr(index, "epoch", None)
        seeded = copy.copy(fetcher)
        seeded.dataset = _Samples(fetcher.dataset, key)

        def collate(samples: Any) -> Any:
            seed_host(*key, "collate", _plain(index))
            return fetcher.collate_fn(samples)

        seeded.collate_fn = collate
        with kept():
            return fetch(seeded, index)

    def _begin_iterable(self, init: Callable[..., None], fetcher: Any, *args: Any) -> None:
        self._workers.note()
        info = get_worker_info()
        worker, base = (0, self._base_seed) if info is None else (info.id, info.seed - info.id)
        # Workers that persist are seeded once, others in each epoch: all epochs have one seed.
        fetcher._perfmod_streams = Streams(loader_of(base), "iterable", worker)
        with fetcher._perfmod_streams.active():
            init(fetcher, *args)

    def _fetch_iterable(self, fetch: Callable[..., Any], fetcher: Any, index: Any) -> Any:
        with fetcher._perfmod_streams.active():
            return fetch(fetcher, index)


class _Indices(List[Any]):
    """The indices of a batch, with the epoch that it is for: a worker that persists cannot tell otherwise."""

    def __init__(self, indices: Iterable[Any], epoch: int) -> None:
        super().__init__(indices)
        self.epoch = epoch

    def __reduce__(self) -> tuple[Any, ...]:
        return _Indices, (list(self), self.epoch)


class _Samples:
    """A dataset whose samples are drawn each from streams of their own; for the rest, the dataset itself."""

    def __init__(self, dataset: Any, key: tuple[Any, ...]) -> None:
        self._dataset = dataset
        self._key = key

    def __getitem__(self, index: Any) -> Any:
        seed_host(*self._key, "sample", _plain(index))
        return self._dataset[index]

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._dataset, name)
        if name != "__getitems__" or not value:
            return value

        def items(indices: Any) -> Any:
            seed_host(*self._key, "samples", _plain(indices))
            return value(indices)

        return items


def _plain(index: Any) -> Any:
    """An index as something whose text tells it from others: an integer is an integer, whoever made it."""
    if hasattr(index, "tolist"):
        index = index.tolist()
    return tuple(map(_plain, index)) if isinstance(index, (list, tuple)) else index


def _generators(loader: DataLoader[Any]) -> list[Generator]:
    """Those that a loader and its samplers were given; each once."""
    found: dict[int, Generator] = {}
    owners: list[Any] = [loader]
    while owners:
        owner = owners.pop()
        generator = getattr(owner, "generator", None)
        if isinstance(generator, Generator):
            found[id(generator)] = generator
        inner = (getattr(owner, name, None) for name in ("batch_sampler", "sampler"))
        owners.extend(each for each in inner if each is not None and each is not owner)
    return list(found.values())
