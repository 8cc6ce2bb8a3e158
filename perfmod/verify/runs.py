"""The runs of one judgement, and whatever is taken from each of them, kept together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Generic, TypeVar

from attrs import evolve, frozen

T = TypeVar("T")
U = TypeVar("U")


@frozen
class Runs(Generic[T]):
    """The same thing of every run.

    Attributes:
        repeats: of the original, run again as it is (A/A).
        perturbed: of the original, run with noise on its inputs.
    """

    original: T
    rewritten: T
    repeats: tuple[T, ...] = ()
    perturbed: tuple[T, ...] = ()

    def map(self, take: Callable[[T], U]) -> Runs[U]:
        """What `take` makes of each."""
        return Runs(
            original=take(self.original),
            rewritten=take(self.rewritten),
            repeats=tuple(map(take, self.repeats)),
            perturbed=tuple(map(take, self.perturbed)),
        )

    def map_rewritten(self, change: Callable[[T], T]) -> Runs[T]:
        """With what `change` makes of the rewritten side's."""
        return evolve(self, rewritten=change(self.rewritten))

    def with_control(self, *more: T) -> Runs[T]:
        """With further runs that show how far the original's rounding reaches."""
        return evolve(self, perturbed=(*self.perturbed, *more))

    def measure(self, distance: Callable[[T, T], float]) -> Spread:
        """How far the rewritten side, the repeats and the perturbed runs lie from the original."""
        return Spread(
            measured=distance(self.original, self.rewritten),
            noise=max((distance(one, other) for one, other in self._repeated()), default=0.0),
            control=max((distance(self.original, other) for other in self.perturbed), default=0.0),
        )

    def repeatable(self, equal: Callable[[T, T], bool]) -> bool:
        """Whether the original and its repeats are all equal."""
        return all(equal(self.original, other) for other in self.repeats)

    def _repeated(self) -> Iterator[tuple[T, T]]:
        return combinations((self.original, *self.repeats), 2)


@frozen
class Spread:
    """Distances between runs, in one unit.

    Attributes:
        measured: between the sides.
        noise: largest between two runs of the original.
        control: largest between the original and its perturbed runs.
    """

    measured: float
    noise: float
    control: float

    def over(self, scale: float) -> Spread:
        """In units of `scale`."""
        return Spread(self.measured / scale, self.noise / scale, self.control / scale)
