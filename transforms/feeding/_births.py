"""Tensors that are made on the host and moved at once: what makes them, what is done on the way, where they go."""

from __future__ import annotations

import re
from collections.abc import Iterable

import libcst as cst
from attrs import evolve, frozen

from perfmod.transforms.facts.calls import argument, has_star
from perfmod.transforms.facts.devices import beside, never_set
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.value import Device, DType, Kind
from perfmod.transforms.style import quoted

_FILLS = frozenset({"zeros", "ones", "full", "empty", "arange", "eye", "linspace", "logspace"})
_RANDOM = frozenset({"rand", "randn", "randint", "randperm", "normal"})
_KEYWORDS = frozenset(
    {
        "size", "dtype", "fill_value", "start", "end", "step", "steps", "base", "n", "m", "low", "high", "layout",
        "mean", "std", "requires_grad", "pin_memory", "out", "generator", "device",
    }
)  # fmt: skip
_EXACT = frozenset(
    {
        "view", "reshape", "unsqueeze", "squeeze", "repeat", "permute", "transpose", "t", "contiguous", "flatten",
        "long", "int", "short", "float", "double", "half", "bfloat16", "bool", "byte", "tril", "triu", "detach",
        "clone", "zero_", "unsqueeze_", "squeeze_",
    }
)  # fmt: skip
"""Methods that give the same bits on either device, and the same layout as a copy of their result."""
_OF_NUMBERS = {
    **dict.fromkeys(("eq", "ne", "lt", "gt", "le", "ge", "mul", "add", "sub", "fill_"), 1), "neg": 0,
    "logical_not": 0, "masked_fill": 2, "fill_diagonal_": 1,
}  # fmt: skip
"""Methods that compute with numbers, or with what is made beside them, and round alike on either device; how many."""
_EXACT_OPERATORS = (cst.Add, cst.Subtract, cst.Multiply, cst.BitAnd, cst.BitOr, cst.BitXor)
_DRAWS = frozenset(
    {"normal_", "uniform_", "random_", "bernoulli_", "exponential_", "cauchy_", "log_normal_", "geometric_"}
)
_OF_A_MATRIX = frozenset({"torch.tril", "torch.triu"})
_TO_INTEGERS = frozenset({"long", "int", "short", "byte"})
_IN_RANGE = frozenset({"zeros", "ones", "eye", "rand", "randint", "randperm"})
"""What is filled with numbers that every integer type holds."""
_SAFE_NUMBERS = range(128)
_DEVICE_WORDS = frozenset({"device", "dev", "cuda", "gpu", "rank"})
_WHICH = frozenset({"id", "idx", "index", "name", "str", "type", "num", "no"})
_WHOSE = frozenset(
    {
        "local", "global", "my", "main", "cur", "current", "default", "first", "target", "world", "this", "the",
        "output", "out", "master", "primary", "node", "process", "proc", "train", "model", "torch",
    }
)  # fmt: skip
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@frozen
class Birth:
    """What makes a tensor.

    Attributes:
        call: the call of the factory, `torch.zeros(3)`.
        name: its short name.
        is_random: whether it, or a method on the way, draws random numbers.
        refusal: why it cannot be made on the device, in one line; else empty.
        legacy_dtype: the type that an old constructor such as `torch.LongTensor` gives it, in the place of a factory.
        is_rounded: whether what is on the way, such as a division, may be rounded differently on the GPU.
        others: calls of further factories, where it is computed from several.
    """

    call: cst.Call
    name: str
    is_random: bool
    refusal: str = ""
    legacy_dtype: str = ""
    is_rounded: bool = False
    others: tuple[cst.Call, ...] = ()


@frozen
class Target:
    """Where a tensor goes.

    Attributes:
        device: as it is written behind `device=`.
        dtype: the type that the same call casts to; `None` where it does not.
        refusal: why that cannot be said, in one line; else empty.
    """

    device: str = ""
    dtype: cst.BaseExpression | None = None
    refusal: str = ""


@frozen
class _Way:
    """What is done with a tensor between its factory and the copy, and what that asks of the factory."""

    keeps_grad: bool = False
    is_drawn: bool = False
    draws_on_host: bool = False
    becomes_integer: bool = False
    is_computed: bool = False
    is_rounded: bool = False


def born(file: FileFacts, move: cst.Call) -> Birth | None:
    """What makes the tensor that `move` copies, where all of it stands in the same expression; `None` elsewhere."""
    assert isinstance(move.func, cst.Attribute)
    found = _births(file, move.func.value, _Way(becomes_integer=_casts_to_integer(file, move)))
    if not found:
        return None
    return evolve(
        found[0],
        others=tuple(each.call for each in found[1:]),
        is_random=any(each.is_random for each in found),
        is_rounded=any(each.is_rounded for each in found),
        refusal=next((each.refusal for each in found if each.refusal), ""),
    )


def _births(file: FileFacts, node: cst.BaseExpression, way: _Way) -> list[Birth] | None:
    """The factories in an expression of tensors that are made in it, and of numbers; `None` for all others."""
    if isinstance(node, cst.Call):
        return _births_of_call(file, node, way)
    if isinstance(node, cst.Subscript):
        is_view = all(_is_whole(part.slice) for part in node.slice)
        return _births(file, node.value, way) if is_view else None
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, (cst.Minus, cst.BitInvert)):
        return _births(file, node.expression, evolve(way, is_computed=True))
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (*_EXACT_OPERATORS, cst.Divide)):
        is_rounded = way.is_rounded or isinstance(node.operator, cst.Divide)
        return _births_of_all(file, (node.left, node.right), evolve(way, is_computed=True, is_rounded=is_rounded))
    if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
        (compared,) = node.comparisons
        if isinstance(compared.operator, (cst.In, cst.NotIn, cst.Is, cst.IsNot)):
            return None
        return _births_of_all(file, (node.left, compared.comparator), evolve(way, is_computed=True))
    return None


def _births_of_all(file: FileFacts, nodes: Iterable[cst.BaseExpression], way: _Way) -> list[Birth] | None:
    """The same for several operands, of which some may be numbers."""
    found: list[Birth] = []
    for node in nodes:
        if file.value(node).kind is Kind.NUMBER:
            continue
        births = _births(file, node, way)
        if not births:
            return None
        found += births
    return found


def _births_of_call(file: FileFacts, node: cst.Call, way: _Way) -> list[Birth] | None:
    name = file.qualified(node)
    if name is not None and name.startswith("torch."):
        short = name.removeprefix("torch.")
        if short in _FILLS | _RANDOM and "." not in short:
            refusal = _refusal(node, way.keeps_grad) or _why_host_draws(node, short)
            if way.draws_on_host and not refusal:
                refusal = "an argument may be a tensor or a generator on the CPU"
            fits = not way.is_computed and _fits_integers(file, node, short)
            if way.becomes_integer and not refusal and not fits:
                refusal = "its numbers may be outside of the integer range, where CPU and GPU convert differently"
            is_random = way.is_drawn or short in _RANDOM
            is_rounded = way.is_rounded or (way.is_computed and not _is_wide(file, argument(node, "dtype")))
            return [Birth(node, short, is_random, refusal, is_rounded=is_rounded)]
        is_matrix = name in _OF_A_MATRIX
        if not node.args or not (is_matrix or (name == "torch.autograd.Variable" and len(node.args) == 1)):
            return None
        return _births(file, node.args[0].value, way)
    if name is not None or not isinstance(node.func, cst.Attribute):
        return None
    method = node.func.attr.value
    way = evolve(
        way,
        becomes_integer=way.becomes_integer or method in _TO_INTEGERS,
        is_rounded=way.is_rounded or (way.is_computed and method in ("half", "bfloat16")),
    )
    if method == "requires_grad_":
        way = evolve(way, keeps_grad=True)
    elif method in _DRAWS:
        draws_on_host = not all(file.value(a.value).kind is Kind.NUMBER for a in node.args)
        way = evolve(way, is_drawn=True, draws_on_host=way.draws_on_host or draws_on_host)
    elif method in _OF_NUMBERS:
        if any(arg.keyword is not None or arg.star for arg in node.args) or len(node.args) != _OF_NUMBERS[method]:
            return None
        given = [arg.value for arg in node.args]
        return _births_of_all(file, (node.func.value, *given), evolve(way, is_computed=True))
    elif method not in _EXACT:
        return None
    return _births(file, node.func.value, way)


def _is_wide(file: FileFacts, dtype: cst.BaseExpression | None) -> bool:
    """Whether a type is none of the half types, for which versions of PyTorch round numbers earlier or later."""
    name = "float32" if dtype is None else (file.qualified(dtype) or "float16").removeprefix("torch.")
    return not name.endswith(("float16", "half"))


def _is_whole(part: cst.BaseSlice) -> bool:
    """Whether an index is `:`, or the `None` of a new dimension."""
    if isinstance(part, cst.Slice):
        return part.lower is None and part.upper is None and part.step is None
    return isinstance(part, cst.Index) and _is(part.value, "None")


def _casts_to_integer(file: FileFacts, move: cst.Call) -> bool:
    """Whether the call that moves a tensor casts it too, and not for sure to floats or truth values."""
    casts = [arg.value for arg in move.args if file.values.placement.is_dtype(arg.value)]
    return any(file.values.placement.dtype_of(each) not in (DType.FLOATING, DType.BOOL) for each in casts)


def _fits_integers(file: FileFacts, call: cst.Call, name: str) -> bool:
    """Whether what a factory fills in is the same number as an integer of any type, on either device."""
    if name in _IN_RANGE:
        return True
    if name != "full":
        return name == "arange"  # what is no integer there is held back anyway
    fill = argument(call, "fill_value", 1)
    known = file.constants.value(fill) if fill is not None else None
    if isinstance(known, (bool, int, float)):
        return known in _SAFE_NUMBERS or (isinstance(known, float) and 0 <= known < len(_SAFE_NUMBERS))
    return fill is not None and argument(call, "dtype") is None and file.value(fill).dtype is DType.INTEGER


def _why_host_draws(call: cst.Call, name: str) -> str:
    """Why `torch.normal` takes no device: only where it is told a size does it."""
    sized = argument(call, "size", 2) is not None
    return "" if name != "normal" or sized else "its mean or std may be tensors on the CPU"


def _refusal(call: cst.Call, keeps_grad: bool) -> str:
    given = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
    if has_star(call) and any(arg.star == "**" for arg in call.args):
        return "its arguments are passed by `**`, and could not be determined"
    unknown = next((name for name in given if name not in _KEYWORDS), None)
    if unknown is not None:
        return f"what {unknown}= does on the device is not known"
    asks = given.get("requires_grad")
    if keeps_grad or (asks is not None and not _is(asks, "False")):
        return "it requires a gradient, which would then be on the device"
    pins = given.get("pin_memory")
    if pins is not None and not _is(pins, "False"):
        return "it is pinned, which only CPU memory can be"
    if "out" in given:
        return "out= writes it into a tensor on the CPU"
    if "generator" in given:
        return "its generator is a CPU generator"
    device = given.get("device")
    if device is not None:
        return "it is given a device explicitly and then moved, probably on purpose"
    return ""


def target(file: FileFacts, move: cst.Call, made: cst.Call) -> Target | None:
    """Where `move` puts what `made` makes; `None` where it does not leave the CPU, or only casts."""
    found = _target(file, move)
    return evolve(found, device=beside(file, made, found.device)) if found is not None else None


def _target(file: FileFacts, move: cst.Call) -> Target | None:
    assert isinstance(move.func, cst.Attribute)
    if has_star(move):
        return Target(refusal="the device it is copied to could not be determined")
    if "#" in file.code(move):
        return Target(refusal="the expression contains a comment")
    if move.func.attr.value == "cuda":
        return _target_of_cuda(file, move)
    where = file.values.placement.destination(move)
    if where is None:
        other = argument(move, "other", 0)
        if other is not None and file.value(other).is_tensor:
            return Target(refusal=f"it takes the dtype and device of {file.code(other)}, which are not known")
        return None
    if file.values.placement.device_of(where) is Device.CPU:
        return None
    dtype = next((arg.value for arg in move.args if arg.keyword is not None and arg.keyword.value == "dtype"), None)
    if dtype is None:
        dtype = next((arg.value for arg in move.args if file.values.placement.is_dtype(arg.value)), None)
    layout = argument(move, "memory_format")
    if layout is not None:
        return Target(refusal=f"the same call also changes its memory format ({file.code(layout)})")
    if not _names_device(file, where):
        return Target(refusal=f"{file.code(where)} may be a device or a tensor, which could not be determined")
    if never_set(file, where):
        return Target(
            refusal=f"nothing sets `{file.code(where)}`, so this line raises: use the device of a tensor at hand"
        )
    return Target(file.code(where), dtype)


def _target_of_cuda(file: FileFacts, move: cst.Call) -> Target:
    where = argument(move, "device", 0)
    if where is None:
        return Target(quoted(file.source_of(move), "cuda"))
    if isinstance(where, cst.Integer) or file.value(where).kind in (Kind.DEVICE, Kind.NUMBER, Kind.TEXT):
        return Target(file.code(where))
    return Target(
        refusal=f"{file.code(where)} may be None, which means the current GPU for `cuda()` and the CPU for `device=`"
    )


def _names_device(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether an expression is a device, as far as it shows."""
    if isinstance(node, (cst.BaseString, cst.Integer)) or file.value(node).kind in (
        Kind.DEVICE,
        Kind.TEXT,
        Kind.NUMBER,
    ):
        return True
    if isinstance(node, cst.IfExp):
        return _names_device(file, node.body) and _names_device(file, node.orelse)
    if isinstance(node, cst.Call):
        words = _words(node.func)
        return words[-1:] == ["device"] and words[:1] != ["to"]
    return _says_device(_words(node))


def _says_device(words: list[str]) -> bool:
    """Whether a name is that of a device: `device`, `args.gpu_id`, `local_rank`; not `x_gpu`, nor `deviation`."""
    while words and words[-1] in _WHICH:
        words = words[:-1]
    *before, last = words or [""]
    if last not in _DEVICE_WORDS:
        return False
    return last in ("device", "dev") or all(word in _WHOSE | _DEVICE_WORDS for word in before)


def _words(node: cst.BaseExpression) -> list[str]:
    """The words of the last name of an expression, in small letters and without numbers: `gpu`, `id`."""
    name = node.attr.value if isinstance(node, cst.Attribute) else node.value if isinstance(node, cst.Name) else ""
    return [word.lower() for word in _WORDS.findall(name)]


def _is(node: cst.BaseExpression, name: str) -> bool:
    return isinstance(node, cst.Name) and node.value == name
