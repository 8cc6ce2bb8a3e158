"""Tensors boiled down to a few numbers that tell whether, and how far, two of them differ.

The bits are hashed together with their places and summed, so that no order of summation matters. The values are
sketched: each gets a sign by its place and is added to one of 128 buckets. That is linear, so the sketch of a
difference is the difference of the sketches, whose squared length estimates that of the difference [1]_. The first
value of each bucket has the sign plus: a tensor of up to 128 values is its own sketch.

.. [1] M. Charikar, K. Chen, M. Farach-Colton, "Finding frequent items in data streams", ICALP 2002;
   N. Alon, Y. Matias, M. Szegedy, "The space complexity of approximating the frequency moments", STOC 1996.
"""

from __future__ import annotations

import ctypes
import hashlib
from typing import Any, Iterator, NamedTuple

import torch
from torch import Tensor

from .shelf import Shelf, Ticket, wait_for_devices
from .structures import is_array
from .tensors import aside, is_captured, plain

BUCKETS = 128
CHUNK = 1 << 21
"""Values looked at together, so that little memory is needed beside a large tensor; a multiple of the buckets."""

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

# Odd constants with well mixed bits: the fraction of the golden ratio, and those of the finaliser of splitmix64.
_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_FIRST = 0xBF58476D1CE4E5B9 - (1 << 64)
_SECOND = 0x94D049BB133111EB - (1 << 64)


class Digest(NamedTuple):
    """What is known of a tensor, partly still on its device.

    Attributes:
        shape, dtype: of the tensor.
        counts: hash of the bits, number of NaNs, number of infinities.
        values: squared norm of the finite values and their sketch.
    """

    shape: tuple[int, ...]
    dtype: str
    counts: Ticket
    values: Ticket


class Known(NamedTuple):
    """What is known at once of something that is no tensor."""

    shape: tuple[int, ...]
    dtype: str
    bits: str


class Digests:
    """Makes digests and keeps them on a shelf."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._patterns: dict[torch.device, _Pattern] = {}

    def of_leaf(self, value: Any, values: bool) -> Digest | Known | None:
        """Of something found in a batch or an output; sketched only where `values` are wanted and it has fractions."""
        if isinstance(value, Tensor):
            values = values and (value.is_floating_point() or value.is_complex())
            return self.of(value) if values else known(value)
        if is_array(value):
            return Known(tuple(value.shape), str(value.dtype), _hashed(value.tobytes()))
        return Known((), type(value).__name__, _hashed(repr(value).encode()))

    def of(self, tensor: Tensor) -> Digest | None:
        """Of a tensor; None where it has no values to be read."""
        if is_captured():
            return None
        with aside():
            dense = plain(tensor)
            if dense is None:
                return None
            counts, sums = map(self._shelf.put, self._sums(dense))
            return Digest(tuple(tensor.shape), str(tensor.dtype)[len("torch.") :], counts, sums)

    def _sums(self, tensor: Tensor) -> tuple[Tensor, Tensor]:
        pattern = self._patterns.get(tensor.device)
        if pattern is None:
            pattern = self._patterns[tensor.device] = _Pattern(tensor.device)
        counts = torch.zeros(3, dtype=torch.int64, device=tensor.device)
        sums = torch.zeros(1 + min(BUCKETS, tensor.numel()), dtype=torch.float64, device=tensor.device)
        for place, chunk in enumerate(_chunks(tensor)):
            counts[0] += pattern.hashed(chunk, place)
            nan, inf, norm, sketch = pattern.sketched(chunk, place)
            counts[1] += nan
            counts[2] += inf
            sums[0] += norm
            sums[1:] += sketch[: len(sums) - 1]
        return counts, sums


class _Pattern:
    """What the places of a chunk contribute: a number to each hash, and a sign to each value."""

    def __init__(self, device: torch.device) -> None:
        self._places = _mix(torch.arange(CHUNK, dtype=torch.int64, device=device).mul_(_GOLDEN))
        self._signs = _signs(self._places)
        self._signs[:BUCKETS] = 1.0

    def hashed(self, chunk: Tensor, place: int) -> Tensor:
        bits = chunk.view(_INTEGERS[chunk.element_size()]).to(torch.int64, copy=True)
        bits.mul_(_GOLDEN).add_(self._places[: len(bits)]).add_(_scalar_mix(place))
        return _mix(bits).sum()

    def sketched(self, chunk: Tensor, place: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        values = chunk.to(torch.float64, copy=True)
        nan, inf = values.isnan().sum(), values.isinf().sum()
        values.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
        norm = values.square().sum()
        values.mul_(self._signs[: len(values)])
        missing = -len(values) % BUCKETS
        if missing:
            values = torch.nn.functional.pad(values, (0, missing))
        sketch = values.view(-1, BUCKETS).sum(0)
        if place:  # each chunk has the same signs, but for those of its buckets
            sketch.mul_(_signs(_mix(self._places[:BUCKETS] + _scalar_mix(place))))
        return nan, inf, norm, sketch


def _signs(mixed: Tensor) -> Tensor:
    """Plus and minus one, by some bit or other."""
    return ((mixed >> 20) & 2).sub_(1).to(torch.float64)


def _chunks(tensor: Tensor) -> Iterator[Tensor]:
    """The values in logical order, as vectors of `CHUNK` each but for the last."""
    if tensor.is_contiguous() or tensor.numel() <= CHUNK:
        yield from torch.split(tensor.reshape(-1), CHUNK) if tensor.numel() else ()
        return
    # To lay out a large tensor anew at once may take more memory than there is.
    flat = tensor.new_empty(CHUNK)
    filled = 0
    for part in _parts(tensor):
        while len(part):
            taken = part[: CHUNK - filled]
            flat[filled : filled + len(taken)] = taken
            filled, part = filled + len(taken), part[len(taken) :]
            if filled == CHUNK:
                yield flat
                filled = 0
    if filled:
        yield flat[:filled]


def _parts(tensor: Tensor) -> Iterator[Tensor]:
    """The same as vectors of any lengths up to `CHUNK`."""
    if tensor.is_contiguous() or tensor.numel() <= CHUNK:
        yield from torch.split(tensor.reshape(-1), CHUNK)
        return
    size = tensor.numel() // tensor.shape[0]
    for slab in torch.split(tensor, max(1, CHUNK // size)):
        yield from _parts(slab[0] if len(slab) == 1 else slab)


def _mix(bits: Tensor) -> Tensor:
    """Every bit of each number to depend on all of them; in place. Shifts fill up with the sign, which is cut off."""
    bits.bitwise_xor_((bits >> 30) & ((1 << 34) - 1)).mul_(_FIRST)
    bits.bitwise_xor_((bits >> 27) & ((1 << 37) - 1)).mul_(_SECOND)
    return bits.bitwise_xor_((bits >> 31) & ((1 << 33) - 1))


def _scalar_mix(place: int) -> int:
    """The contribution of a whole chunk, as a signed 64-bit number; nothing for the first."""
    digest = hashlib.blake2b(str(place).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True) if place else 0


def known(tensor: Tensor) -> Known | None:
    """Of a tensor's bits, wherever it lies: a batch that one side finds on the device may be on the host on the other.

    Batches are large, and on the host this is ten times faster than tensors' own arithmetic.
    """
    if is_captured():
        return None
    with aside():
        dense = plain(tensor)
        if dense is None:
            return None
        if dense.device.type != "cpu":
            wait_for_devices()
            dense = dense.cpu()
        laid_out = dense.contiguous()
        size = laid_out.numel() * laid_out.element_size()
        content = (ctypes.c_char * size).from_address(laid_out.data_ptr()) if size else b""
        return Known(tuple(tensor.shape), str(tensor.dtype)[len("torch.") :], _hashed(content))


def _hashed(content: ctypes.Array[ctypes.c_char] | bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()
