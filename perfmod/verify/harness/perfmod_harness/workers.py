"""Where the random streams of a loader's workers stand when these begin: no two ought to draw the same numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch.utils.data import get_worker_info

from .seeding import kept, mixed, positions

_EPOCH_BITS = 16
_WORKER_BITS = 10


def base_seed(seed: int, loader: int, epoch: int) -> int:
    """Of the workers of a loader in an epoch, to which each adds its number."""
    part = mixed(seed, "workers", loader) >> (_EPOCH_BITS + _WORKER_BITS)
    return (part << _EPOCH_BITS | epoch % (1 << _EPOCH_BITS)) << _WORKER_BITS


def loader_of(base: int) -> int:
    """What the base seeds of all epochs of a loader have in common."""
    return base >> (_EPOCH_BITS + _WORKER_BITS)


class Workers:
    """Keeps the positions of the streams, in a folder that all processes of a run see."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def note(self) -> None:
        """Called in a worker once the script has set it up; does nothing in another process."""
        info = get_worker_info()
        if info is None:
            return
        base = info.seed - info.id
        with kept():
            streams = positions()
        known = {"loader": loader_of(base), "epoch": base >> _WORKER_BITS, "worker": info.id, "streams": streams}
        path = self._folder / f"worker-{base}-{info.id}"
        path.write_text(json.dumps(known), encoding="utf-8")
        path.replace(path.with_suffix(".json"))

    def noted(self) -> list[Any]:
        """Of all workers that have begun so far."""
        paths = sorted(self._folder.glob("worker-*.json"))
        return [json.loads(path.read_text(encoding="utf-8")) for path in paths]
