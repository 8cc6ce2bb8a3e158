"""Fills tensors and arrays with the same random numbers, whoever draws them: NumPy, or torch on any device.

A draw that is moved to another library or device is another draw. Here, whatever is filled without naming a generator
gets its numbers from a stream on the host, which belongs to the place, the family of distributions (normal, uniform,
integers), and the number of such fills in that place. The k-th noise of a step is then the same on both sides, up to
the cast to what is wanted, and the common streams do not move. What a step draws while it is recorded as a CUDA graph
is drawn so before each replay. What comes with a generator, an output or arrays of
parameters is drawn as ever, and so are single numbers of NumPy and the first values of parameters.
"""

from __future__ import annotations

import functools
import math
import numbers
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Iterable

import torch
from torch import Tensor

from . import after_import, patching, replays, seeding
from .compiling import is_compiling
from .tensors import aside, is_captured, is_tried_out

_DRAWS = {"normal": torch.randn, "uniform": torch.rand}
_RANDINT = torch.randint

_HOST = "torch's on the host"
_DEVICES = "torch's on devices"
_NUMPY = "NumPy's"
_BEGINNERS = (
    (torch, "manual_seed", (_HOST, _DEVICES)),
    (torch.random, "manual_seed", (_HOST, _DEVICES)),
    (torch, "set_rng_state", (_HOST,)),
    (torch.random, "set_rng_state", (_HOST,)),
    (torch.cuda, "manual_seed", (_DEVICES,)),
    (torch.cuda, "manual_seed_all", (_DEVICES,)),
    (torch.cuda, "set_rng_state", (_DEVICES,)),
)
"""What begins streams of torch anew."""
_stream_class: Any = torch.cuda.Stream
_OWN = ("generator", "out", "names")
"""Arguments with which a draw is left as it is."""


def begin() -> None:
    """From now. To be called before the script uses torch."""
    for owner, name, streams in _BEGINNERS:
        _note_beginnings(owner, name, streams)
    for name, family in (("randn", "normal"), ("rand", "uniform")):
        _stand_in(torch, name, functools.partial(_made, family, torch.empty))
        _stand_in(torch, f"{name}_like", functools.partial(_made, family, torch.empty_like))
    _stand_in(torch, "normal", _normal)
    _stand_in(torch, "randint", _randint)
    _stand_in(Tensor, "normal_", _normal_in_place)
    _stand_in(Tensor, "uniform_", _uniform_in_place)
    _stand_in(Tensor, "random_", _random_in_place)
    after_import.call("numpy.random", _begin_numpy)


def _stand_in(owner: Any, name: str, call: Callable[..., Any]) -> None:
    """As `patching.around`; what goes into a graph of torch.compile is left to the compiler."""

    def unless_compiling(draw: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return draw(*args, **options) if is_compiling() else call(draw, *args, **options)

    patching.around(owner, name, unless_compiling)


def _note_beginnings(owner: Any, name: str, streams: tuple[str, ...]) -> None:
    def call(begin_anew: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = begin_anew(*args, **kwargs)
        what = [*args, *kwargs.values()][:1]
        if what and what[0] is not None:  # else it is left to chance, and new each time
            seeding.note_begun(streams, _plain(what[0]))
        return result

    patching.around(owner, name, call)


def _plain(what: Any) -> Any:
    """A seed, or a state, as something whose text tells it from others."""
    if isinstance(what, (tuple, list)):
        return tuple(map(_plain, what))
    return what.tolist() if hasattr(what, "tolist") else what


def _drawn(stream: str, family: str, low: float, high: float, count: int) -> Tensor:
    """So many numbers on the host, as float64 or int64; of a normal distribution, by its mean and deviation."""
    generator = torch.Generator().manual_seed(seeding.seed_of_fill(stream, family, count))
    if family == "integers":
        return _RANDINT(int(low), int(high), (count,), generator=generator, dtype=torch.int64, device="cpu")
    # Of single precision, so that what is below one stays below it when it is cast to that.
    found = _DRAWS[family](count, generator=generator, dtype=torch.float32, device="cpu").double()
    return low + (found * high if family == "normal" else found * (high - low))


# Torch


def _is_unusual(tensor: Tensor) -> bool:
    """Whether there are no values to be filled in, or ones that belong to a model or to a graph of autograd."""
    is_plain = type(tensor) is Tensor and tensor.layout == torch.strided and tensor.device.type in ("cpu", "cuda")
    return not is_plain or tensor.is_complex() or tensor.requires_grad or is_tried_out()


def _fill(tensor: Tensor, family: str, low: float, high: float) -> Tensor:
    """Fill a tensor, whose elements are counted in their logical order."""
    stream = _HOST if tensor.device.type == "cpu" else _DEVICES

    def fill(wanted: Tensor) -> None:
        with aside():
            wanted.copy_(_drawn(stream, family, low, high, wanted.numel()).reshape(wanted.shape))

    if is_captured():
        kept = _outside_of_the_graph(tensor)
        with aside():
            tensor.copy_(kept)
        replays.preparations.append(functools.partial(fill, kept))
    else:
        fill(tensor)
    return tensor


def _outside_of_the_graph(tensor: Tensor) -> Tensor:
    """Memory for as many values as a tensor has: that of the graph may hold something else earlier in the step.

    A thread that records may not allocate other memory; another one may, in a stream of its own.
    """
    shape, dtype, device = tensor.shape, tensor.dtype, tensor.device

    def allocate() -> Tensor:
        with torch.cuda.device(device), torch.cuda.stream(_stream_class()):
            return torch.empty(shape, dtype=dtype, device=device)

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(allocate).result()


def _made(family: str, make: Callable[..., Tensor], draw: Callable[..., Tensor], *args: Any, **options: Any) -> Tensor:
    """A tensor that `make` makes of arguments and options, filled; else what `draw` makes of them."""
    found = _filled(family, make, args, options)
    return draw(*args, **options) if found is None else found


def _filled(
    family: str, make: Callable[..., Tensor], args: Any, options: dict[str, Any], low: float = 0.0, high: float = 1.0
) -> Tensor | None:
    """None where the draw is to be left as it is."""
    if any(options.get(name) is not None for name in _OWN):
        return None
    made = make(*args, **{name: each for name, each in options.items() if name not in (*_OWN, "requires_grad")})
    if _is_unusual(made) or not (family == "integers" or made.is_floating_point()):
        return None
    return _fill(made, family, low, high).requires_grad_(bool(options.get("requires_grad")))


def _normal(draw: Callable[..., Tensor], *args: Any, **options: Any) -> Tensor:
    given = {**dict(zip(("mean", "std", "size"), args)), **options}
    mean, std, size = given.pop("mean", 0.0), given.pop("std", 1.0), given.pop("size", None)
    is_usual = size is not None and _are_numbers(mean, std)
    found = _filled("normal", torch.empty, (size,), given, mean, std) if is_usual else None
    return draw(*args, **options) if found is None else found


def _randint(draw: Callable[..., Tensor], *args: Any, **options: Any) -> Tensor:
    is_short = len(args) + ("high" in options) + ("size" in options) == 2
    given = {**dict(zip(("high", "size") if is_short else ("low", "high", "size"), args)), **options}
    low, high, size = given.pop("low", 0), given.pop("high", None), given.pop("size", None)
    given["dtype"] = given.get("dtype") or torch.int64
    is_usual = size is not None and _are_integers(low, high) and low < high
    found = _filled("integers", torch.empty, (size,), given, low, high) if is_usual else None
    return draw(*args, **options) if found is None else found


def _normal_in_place(
    draw: Callable[..., Tensor], tensor: Tensor, mean: Any = 0.0, std: Any = 1.0, *, generator: Any = None
) -> Tensor:
    if generator is not None or _is_unusual(tensor) or not tensor.is_floating_point() or not _are_numbers(mean, std):
        return draw(tensor, mean, std, generator=generator)
    return _fill(tensor, "normal", mean, std)


def _uniform_in_place(draw: Callable[..., Tensor], tensor: Tensor, *args: Any, **options: Any) -> Tensor:
    given = {"from": 0.0, "to": 1.0, **dict(zip(("from", "to"), args)), **options}  # a keyword of Python
    low, high = given["from"], given["to"]
    if given.get("generator") is not None or _is_unusual(tensor) or not tensor.is_floating_point():
        return draw(tensor, *args, **options)
    return _fill(tensor, "uniform", low, high) if _are_numbers(low, high) else draw(tensor, *args, **options)


def _random_in_place(draw: Callable[..., Tensor], tensor: Tensor, *args: Any, **options: Any) -> Tensor:
    given = {**dict(zip(("to",) if len(args) == 1 else ("from", "to"), args)), **options}
    low, high = given.get("from", 0), given.get("to", 0)
    is_own = given.get("generator") is not None or not _are_integers(low, high) or low >= high
    return draw(tensor, *args, **options) if is_own or _is_unusual(tensor) else _fill(tensor, "integers", low, high)


# NumPy


def _begin_numpy() -> None:
    module = sys.modules["numpy.random"]
    for name in ("seed", "set_state"):
        _note_beginnings(module, name, (_NUMPY,))
    for name, family, places in (
        ("normal", "normal", ("loc", "scale", "size")),
        ("standard_normal", "normal", ("size",)),
        ("uniform", "uniform", ("low", "high", "size")),
        ("random", "uniform", ("size",)),
        ("random_sample", "uniform", ("size",)),
        ("randint", "integers", ("low", "high", "size", "dtype")),
    ):
        patching.around(module, name, _of_numpy(family, places))
    for name, family in (("randn", "normal"), ("rand", "uniform")):
        patching.around(module, name, _by_sizes(family))


def _of_numpy(family: str, places: tuple[str, ...]) -> Callable[..., Any]:
    """Stands in for a function of NumPy with such arguments."""

    def call(draw: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(places, args)), **kwargs}
        low, high = given.get("loc", given.get("low", 0)), given.get("scale", given.get("high", 1))
        if family == "integers" and given.get("high") is None:
            low, high = 0, low
        fits = _are_integers(low, high) and low < high if family == "integers" else _are_numbers(low, high)
        if not fits or given.get("size") is None or set(given) - set(places):
            return draw(*args, **kwargs)
        return _array(family, low, high, given["size"], given.get("dtype", int if family == "integers" else None))

    return call


def _by_sizes(family: str) -> Callable[..., Any]:
    def call(draw: Callable[..., Any], *sizes: Any) -> Any:
        return _array(family, 0, 1, sizes, None) if sizes else draw(*sizes)

    return call


def _array(family: str, low: float, high: float, size: Any, dtype: Any) -> Any:
    shape = tuple(size) if isinstance(size, Iterable) else (size,)
    with aside():
        found = _drawn(_NUMPY, family, low, high, math.prod(shape)).numpy().reshape(shape)
    return found if dtype is None else found.astype(dtype)


def _are_numbers(*values: Any) -> bool:
    return all(isinstance(value, numbers.Real) for value in values)


def _are_integers(*values: Any) -> bool:
    return all(isinstance(value, numbers.Integral) for value in values)
