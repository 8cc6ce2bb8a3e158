"""Tensors of a snapshot as vectors whose distances can be taken, by keys that both sides share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

from attrs import frozen

from perfmod.verify.tolerances import EPSILON
from perfmod.verify.trace import Digest, Sketch


@frozen
class Vector:
    """A tensor, or how far one moved between two snapshots.

    Attributes:
        bits: hashes that are equal where the tensors are.
        norm: L2.
        size: number of elements.
        grain: L2 norm of what storing the tensor in its type rounds away.
        nan, inf: how many of the values are.
    """

    bits: tuple[str, ...]
    sketch: Sketch
    norm: float
    size: int
    grain: float = 0.0
    nan: int = 0
    inf: int = 0

    @property
    def pattern(self) -> tuple[int, int]:
        """What of it is not finite."""
        return self.nan, self.inf

    def equals(self, other: Vector) -> bool:
        """Whether no value differs. Other bits with the same sketch and norm are the signs of zeros: autograd may
        add a contribution to 0.0 or set it, and -0.0 becomes 0.0 by being added.
        """
        if self.bits == other.bits:
            return True
        return (self.pattern, self.norm) == (other.pattern, other.norm) and list(self.sketch) == list(other.sketch)

    def distance(self, other: Vector) -> float:
        """L2 norm of the difference of the finite values; infinite between tensors of other shapes."""
        if self.bits == other.bits:
            return 0.0
        if len(self.sketch) != len(other.sketch):
            return math.inf
        return math.dist(self.sketch, other.sketch)

    def gone(self) -> Vector:
        """The same tensor where there is none: a gradient that never arrived counts as zero."""
        return Vector(bits=(), sketch=(0.0,) * len(self.sketch), norm=0.0, size=self.size)


Vectors: TypeAlias = Mapping[str, Vector]


def values(snapshot: Mapping[str, Digest]) -> Vectors:
    """The tensors themselves."""
    return {
        key: Vector((digest.bits,), digest.sketch, digest.norm, math.prod(digest.shape), nan=digest.nan, inf=digest.inf)
        for key, digest in snapshot.items()
    }


def movements(before: Mapping[str, Digest], after: Mapping[str, Digest], steps: int) -> Vectors:
    """How far each tensor moved in so many steps, each of which rounded it once."""
    return {
        key: _movement(before[key], digest, steps)
        for key, digest in after.items()
        if key in before and len(before[key].sketch) == len(digest.sketch)
    }


def _movement(before: Digest, after: Digest, steps: int) -> Vector:
    sketch = tuple(new - old for old, new in zip(before.sketch, after.sketch, strict=True))
    rounding = EPSILON.get(after.dtype, 0.0) * after.norm
    return Vector(
        bits=(before.bits, after.bits),
        sketch=sketch,
        norm=math.hypot(*sketch),
        size=math.prod(after.shape),
        grain=rounding * math.sqrt(steps),
        nan=after.nan,
        inf=after.inf,
    )


def distance(one: Vectors, other: Vectors) -> float:
    """L2 norm of the difference over all tensors; both sides have the same keys."""
    return math.hypot(*(vector.distance(other[key]) for key, vector in one.items()))


def equal(one: Vectors, other: Vectors) -> bool:
    """Whether no value of any tensor differs; both sides have the same keys."""
    return all(vector.equals(other[key]) for key, vector in one.items())


def fill(vectors: Vectors, every: Vectors) -> Vectors:
    """With the keys of `every`: what is missing is zero."""
    return {key: vectors.get(key) or vector.gone() for key, vector in every.items()}


def norm(vectors: Vectors) -> float:
    """L2 norm over all tensors."""
    return math.hypot(*(vector.norm for vector in vectors.values()))


def shown(key: str) -> str:
    """A tensor's name for a reader; the number of its module is dropped where that is the first."""
    return key.removeprefix("0.")


@frozen
class Naming:
    """Which key of a run is which of the original.

    Attributes:
        names: keys of tensors, by the run's own; empty where both sides use the same.
    """

    names: Mapping[str, str]

    def rename(self, vectors: Vectors) -> Vectors:
        """By the original's keys. States of an optimizer are `KEY/name of the state`."""
        if not self.names:
            return vectors
        renamed = {}
        for key, vector in vectors.items():
            owner, slash, state = key.partition("/")
            renamed[self.names.get(owner, owner) + slash + state] = vector
        return renamed


def align(original: Mapping[str, Digest], other: Mapping[str, Digest]) -> Naming | None:
    """How the tensors of two runs correspond: by key, or by place where only the names differ. None where neither."""
    if _shapes(original) == _shapes(other):
        return Naming({})
    if [digest.shape for digest in original.values()] == [digest.shape for digest in other.values()]:
        return Naming(dict(zip(other, original, strict=True)))
    return None


def _shapes(tensors: Mapping[str, Digest]) -> dict[str, tuple[int, ...]]:
    return {key: digest.shape for key, digest in tensors.items()}
