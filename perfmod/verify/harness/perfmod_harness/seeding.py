"""The random streams that scripts draw from without naming them: Python's, NumPy's and torch's.

Seeds are made from what is to be done (a step, an epoch of a loader, a sample), never from what has been drawn
before, so that one draw more or less in one place does not move those in another.
"""

from __future__ import annotations

import hashlib
import operator
import random
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Iterator, Sequence

from . import patching

if TYPE_CHECKING:
    from torch import Generator

# No torch at the top: Python's stream is pinned before the script has imported it.


_SEED_BYTES = 8


class _Place:
    """What is going on at present; its attributes are replaced, and never changed in place.

    Attributes:
        asked: how many seeds have been asked for in it.
        filled: how many fills of a kind there were, and what tells their sizes apart; see `seed_of_fill`.
        begun: a number for what the script itself has begun a stream anew with in it, and how often it has.
    """

    key: tuple[Any, ...] = ()
    asked = 0
    filled: ClassVar[dict[tuple[Any, ...], tuple[int, int]]] = {}
    begun: ClassVar[dict[str, tuple[int, int]]] = {}

    @classmethod
    def enter(cls, *key: Any) -> None:
        cls.key, cls.asked, cls.filled, cls.begun = key, 0, {}, {}


def mixed(*parts: Any) -> int:
    """A seed of 62 bits, which depends on every part."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "little") >> 2


def fresh() -> int:
    """A seed for somebody who left it to chance: the same each time that the script comes here."""
    _Place.asked += 1
    return mixed(*_Place.key, "fresh", _Place.asked)


def place() -> tuple[Any, ...]:
    """What the streams were begun for."""
    return _Place.key


def seed_of_fill(stream: str, family: str, count: int) -> int:
    """A seed for the next tensor or array that is filled with so many numbers of a family of distributions.

    It depends on the place and on how many fills of the family came before in it, whichever stream they would have
    drawn from. What is filled from a stream that the script has begun anew in this place is counted from there, and
    depends on what it was begun with.
    """
    begun = _Place.begun.get(stream)
    kind = (family,) if begun is None else (family, begun)
    number, sizes = _Place.filled.get(kind, (0, 0))
    _Place.filled = {**_Place.filled, kind: (number + 1, mixed(sizes, count))}
    start = _Place.key if begun is None else (*_Place.key[:1], "begun", begun[0])
    return mixed(*start, "fill", family, number)


def note_begun(streams: Sequence[str], *what: Any) -> None:
    """The script has begun streams anew. At its start that counts for nothing: fills follow the seed of the run."""
    if _Place.key[1:]:
        number = mixed(*what)
        _Place.begun = {**_Place.begun, **{stream: (number, _times_begun(stream) + 1) for stream in streams}}


def _times_begun(stream: str) -> int:
    return _Place.begun[stream][1] if stream in _Place.begun else 0


def positions() -> dict[str, float]:
    """Tells apart where the streams of the host stand, by whose they are; moves them on."""
    import torch

    # Whoever stands in for `rand` leaves that of a given generator alone.
    of_torch = torch.rand((), device="cpu", generator=torch.default_generator)
    found = {"Python's": random.random(), "torch's": float(of_torch)}
    numpy = _numpy_random()
    return found if numpy is None else {**found, "NumPy's": float(numpy.random_sample())}


def draws_on_devices() -> bool:
    """Whether a GPU's stream was drawn from since the streams began. Their states are a seed, and how far they are."""
    import torch

    return any(any(generator.get_state().tolist()[_SEED_BYTES:]) for generator in torch.cuda.default_generators)


def drawn() -> str:
    """Tells apart how much has been drawn on all devices since the streams began, which are to begin anew."""
    import torch

    on_devices = [generator.get_state().tolist() for generator in torch.cuda.default_generators]
    return f"{mixed(positions(), on_devices, sorted(_Place.filled.items(), key=repr)):x}"


def pin_python(seed: int, shift: int = 0) -> None:
    """Seed Python's stream, and let no later call leave the seed to chance; `shift` is added to what others seed."""
    _Place.enter(seed)
    patching.around(random, "seed", lambda seed, a=None, *rest: seed(fresh() if a is None else a, *rest))
    random.seed(mixed(seed, "python"))
    _shift(random, "seed", shift)


def pin_numpy(seed: int, shift: int = 0) -> None:
    """The same for NumPy's, and for generators that are made without a seed. `numpy.random` must have been imported."""
    numpy_random = sys.modules["numpy.random"]
    patching.around(numpy_random, "seed", lambda call, /, seed=None: call(fresh() % 2**32 if seed is None else seed))
    patching.around(numpy_random, "default_rng", lambda make, /, seed=None: make(fresh() if seed is None else seed))
    numpy_random.seed(mixed(seed, "numpy") % 2**32)  # type: ignore[attr-defined]
    _shift(numpy_random, "seed", shift, bound=2**32)


def pin_torch(seed: int, shift: int = 0) -> None:
    """The same for torch's streams on all devices."""
    import torch

    def seeded(_: Any) -> int:
        number = fresh()
        torch.manual_seed(number)
        return number

    for owner, name in ((torch, "seed"), (torch.random, "seed"), (torch.cuda, "seed"), (torch.cuda, "seed_all")):
        patching.around(owner, name, seeded)
    torch.manual_seed(mixed(seed, "torch"))
    for owner in (torch, torch.random):
        _shift(owner, "manual_seed", shift)


def _shift(owner: Any, name: str, by: int, bound: int = 2**63) -> None:
    """Have another seed taken than the one that is given; generators that somebody made keep theirs: they draw data."""

    def other(seed: Any) -> Any:
        try:
            return (operator.index(seed) + by) % bound
        except TypeError:  # none, or not a number
            return seed

    def seeded(seed: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return seed(*map(other, args), **{key: other(value) for key, value in kwargs.items()})

    if by:
        patching.around(owner, name, seeded)


def seed_everything(*key: Any) -> None:
    """Begin all streams anew, on every device."""
    import torch

    torch.manual_seed(mixed(*key))
    seed_host(*key)


def seed_host(*key: Any) -> None:
    """Begin the streams anew that are drawn from on the CPU; workers of a loader must not touch a device."""
    import torch

    number = mixed(*key)
    random.seed(number)
    numpy = _numpy_random()
    if numpy is not None:
        numpy.seed(number % 2**32)
    torch.default_generator.manual_seed(number)
    _Place.enter(*key)  # last: it was not the script that began them


def _numpy_random() -> Any:
    """`numpy.random` where the script has imported it, else None."""
    module = sys.modules.get("numpy.random")
    return module if hasattr(module, "get_state") else None


class _State:
    """Where the streams of the host stand, and those of some generators."""

    def __init__(self, generators: Sequence[Generator]) -> None:
        import torch

        self._place = _Place.key, _Place.asked, _Place.filled, _Place.begun
        self._python = random.getstate()
        numpy = _numpy_random()
        self._numpy = None if numpy is None else numpy.get_state()
        self._torch = torch.default_generator.get_state()
        self._generators = [(generator, generator.get_state()) for generator in generators]

    def restore(self) -> None:
        """Go back there."""
        import torch

        random.setstate(self._python)
        if self._numpy is not None:
            _numpy_random().set_state(self._numpy)
        torch.default_generator.set_state(self._torch)
        for generator, state in self._generators:
            generator.set_state(state)
        _Place.key, _Place.asked, _Place.filled, _Place.begun = self._place


@contextmanager
def kept() -> Iterator[None]:
    """Leave the streams of the host afterwards where they were before."""
    state = _State(())
    try:
        yield
    finally:
        state.restore()


class Streams:
    """Streams of somebody's own, in the place of the common ones whenever it is at work.

    Args:
        generators: that it draws from as well.
    """

    def __init__(self, *key: Any, generators: Sequence[Generator] = ()) -> None:
        self._key = key
        self._generators = generators
        self._state: _State | None = None

    def restart(self, *key: Any) -> None:
        """Begin anew when it is next at work."""
        self._key = key
        self._state = None

    @contextmanager
    def active(self) -> Iterator[None]:
        """It is at work. Not to be entered again from within."""
        outer = _State(self._generators)
        try:
            self._begin_or_go_on()
            yield
            self._state = _State(self._generators)
        finally:
            outer.restore()

    def _begin_or_go_on(self) -> None:
        if self._state is not None:
            self._state.restore()
            return
        seed_host(*self._key)
        for generator in self._generators:
            generator.manual_seed(mixed(*self._key, "generator"))
