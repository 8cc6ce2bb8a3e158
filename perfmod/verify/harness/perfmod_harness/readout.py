"""What lay on the shelf, in the form of the record."""

from __future__ import annotations

import math
from array import array
from typing import Any, NamedTuple

from .digests import Digest, Known
from .shelf import Shelf, Ticket


class Norm(NamedTuple):
    """The length of a vector whose parts lie on several devices, as their squared lengths."""

    squares: tuple[Ticket, ...]


class Readout:
    """Reads a shelf whose contents have been fetched.

    Attributes:
        numbers: the sketches read so far, one after the other.
    """

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self.numbers: array[float] = array("d")

    def value(self, value: Any) -> Any:
        """Whatever an event holds."""
        if isinstance(value, Ticket):
            return self._number(value)
        if isinstance(value, Norm):
            return math.sqrt(sum(map(self._number, value.squares)))
        if isinstance(value, (Digest, Known)):
            return self._leaf(value)
        if isinstance(value, list):
            return [self.value(each) for each in value]
        if isinstance(value, dict):
            return {key: self.value(each) for key, each in value.items()}
        return value

    def _number(self, ticket: Ticket) -> float:
        return float(self._shelf.take(ticket)[0])

    def _leaf(self, leaf: Digest | Known) -> dict[str, Any]:
        if isinstance(leaf, Known):
            return {"shape": list(leaf.shape), "dtype": leaf.dtype, "bits": leaf.bits, "sketch": None}
        bits, _, _ = self._shelf.take(leaf.counts)
        sketch = self._span(self._shelf.take(leaf.values)[1:])
        return {"shape": list(leaf.shape), "dtype": leaf.dtype, "bits": _hexadecimal(bits), "sketch": sketch}

    def digest(self, digest: Digest) -> dict[str, Any]:
        """Of a tensor in a snapshot, which is sketched."""
        bits, nan, inf = self._shelf.take(digest.counts)
        squared, *sketch = self._shelf.take(digest.values)
        return {
            "shape": list(digest.shape),
            "dtype": digest.dtype,
            "bits": _hexadecimal(bits),
            "nan": nan,
            "inf": inf,
            "norm": math.sqrt(squared),
            "sketch": self._span(sketch),
        }

    def _span(self, sketch: list[float]) -> list[int]:
        start = len(self.numbers)
        self.numbers.extend(sketch)
        return [start, len(sketch)]


def _hexadecimal(bits: int) -> str:
    return f"{bits % (1 << 64):016x}"
