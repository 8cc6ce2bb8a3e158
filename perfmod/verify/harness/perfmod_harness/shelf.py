"""Keeps small results on their devices until the run is over: to fetch one is to wait for the device."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch


class Ticket(NamedTuple):
    """Where a result will be found."""

    device: torch.device
    dtype: torch.dtype
    start: int
    stop: int


class Shelf:
    """Vectors, kept by device and type."""

    def __init__(self) -> None:
        self._kept: dict[tuple[torch.device, torch.dtype], list[torch.Tensor]] = {}
        self._lengths: dict[tuple[torch.device, torch.dtype], int] = {}
        self._fetched: dict[tuple[torch.device, torch.dtype], list[Any]] = {}

    def put(self, vector: torch.Tensor) -> Ticket:
        """Keep a vector that nobody will change."""
        key = vector.device, vector.dtype
        start = self._lengths.get(key, 0)
        self._kept.setdefault(key, []).append(vector)
        self._lengths[key] = stop = start + vector.numel()
        return Ticket(*key, start, stop)

    def fetch(self) -> None:
        """Bring everything to the host. Raises `RuntimeError` where a device does not answer."""
        wait_for_devices()
        for key, vectors in self._kept.items():
            self._fetched[key] = torch.cat(vectors).tolist()

    def take(self, ticket: Ticket) -> list[Any]:
        """What was put there. Everything must have been fetched."""
        return self._fetched[ticket.device, ticket.dtype][ticket.start : ticket.stop]


def wait_for_devices() -> None:
    """Have all streams come to their ends."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        for device in range(torch.cuda.device_count()):
            torch.cuda.synchronize(device)
