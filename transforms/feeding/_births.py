"""Tensors that are made on the host and moved at once: what makes them, what is done on the way, where they go."""

from __future__ import annotations

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import argument, has_star
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.value import Device, Kind

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
        "clone", "zero_", "unsqueeze_", "squeeze_", "eq", "ne", "lt", "gt", "le", "ge",
    }
)  # fmt: skip
"""Methods that give the same bits on either device, and the same layout as a copy of their result."""
_COMPARES = frozenset({"eq", "ne", "lt", "gt", "le", "ge"})
_DRAWS = frozenset(
    {"normal_", "uniform_", "random_", "bernoulli_", "exponential_", "cauchy_", "log_normal_", "geometric_"}
)
_OF_A_MATRIX = frozenset({"torch.tril", "torch.triu"})
_SAYS_DEVICE = ("dev", "cuda", "gpu", "rank")


@frozen
class Birth:
    """What makes a tensor.

    Attributes:
        call: the call of the factory, `torch.zeros(3)`.
        name: its short name.
        is_random: whether it, or a method on the way, draws random numbers.
        refusal: why it cannot be made on the device, in one line; else empty.
    """

    call: cst.Call
    name: str
    is_random: bool
    refusal: str = ""


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


def born(file: FileFacts, move: cst.Call) -> Birth | None:
    """What makes the tensor that `move` copies, where that stands in the same expression; `None` elsewhere."""
    assert isinstance(move.func, cst.Attribute)
    node: cst.BaseExpression = move.func.value
    is_random, keeps_grad = False, False
    while isinstance(node, cst.Call):
        name = file.qualified(node)
        if name is not None and name.startswith("torch."):
            short = name.removeprefix("torch.")
            if short in _FILLS | _RANDOM and "." not in short:
                is_random = is_random or short in _RANDOM
                return Birth(node, short, is_random, _refusal(node, keeps_grad))
            if (name in _OF_A_MATRIX or name == "torch.autograd.Variable") and node.args:
                if name == "torch.autograd.Variable" and len(node.args) > 1:
                    return None
                node = node.args[0].value
                continue
            return None
        if name is not None or not isinstance(node.func, cst.Attribute):
            return None
        method = node.func.attr.value
        if method == "requires_grad_":
            keeps_grad = True
        elif method in _DRAWS:
            is_random = True
        elif method not in _EXACT or (
            method in ("eq", "ne", "lt", "gt", "le", "ge") and not _compares_number(file, node)
        ):
            return None
        node = node.func.value
    return None


def _compares_number(file: FileFacts, call: cst.Call) -> bool:
    return len(call.args) == 1 and file.value(call.args[0].value).kind is Kind.NUMBER


def _refusal(call: cst.Call, keeps_grad: bool) -> str:
    given = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
    if has_star(call) and any(arg.star == "**" for arg in call.args):
        return "its keywords could not be seen"
    unknown = next((name for name in given if name not in _KEYWORDS), None)
    if unknown is not None:
        return f"what {unknown}= does on the device is not known"
    asks = given.get("requires_grad")
    if keeps_grad or (asks is not None and not _is(asks, "False")):
        return "it collects its gradient on the host: made on the device, the gradient would be there"
    pins = given.get("pin_memory")
    if pins is not None and not _is(pins, "False"):
        return "it is pinned, which only memory of the host can be"
    if "out" in given:
        return "it is written into a tensor of the host"
    if "generator" in given:
        return "it is drawn from a generator of the host"
    device = given.get("device")
    if device is not None:
        return "its device is written out: it is made there and then moved"
    return ""


def target(file: FileFacts, move: cst.Call) -> Target | None:
    """Where a call of `to` or `cuda` moves a tensor; `None` where it does not leave the CPU, or only casts."""
    assert isinstance(move.func, cst.Attribute)
    if has_star(move):
        return Target(refusal="where it goes could not be seen")
    if "#" in file.code(move) or "\\\n" in file.code(move):
        return Target(refusal="a comment or a continued line stands in the expression")
    if move.func.attr.value == "cuda":
        return _target_of_cuda(file, move)
    where = file.values.placement.destination(move)
    if where is None:
        other = argument(move, "other", 0)
        if other is not None and file.value(other).is_tensor:
            return Target(refusal=f"it takes type and device of {file.code(other)}, which may be any")
        return None
    if file.values.placement.device_of(where) is Device.CPU:
        return None
    dtype = next((arg.value for arg in move.args if arg.keyword is not None and arg.keyword.value == "dtype"), None)
    if dtype is None:
        dtype = next((arg.value for arg in move.args if file.values.placement.is_dtype(arg.value)), None)
    if not _names_device(file, where):
        return Target(refusal=f"what {file.code(where)} is could not be seen: a device, or a tensor")
    return Target(file.code(where), dtype)


def _target_of_cuda(file: FileFacts, move: cst.Call) -> Target:
    where = argument(move, "device", 0)
    if where is None:
        return Target('"cuda"')
    if isinstance(where, cst.Integer) or file.value(where).kind in (Kind.DEVICE, Kind.NUMBER, Kind.TEXT):
        return Target(file.code(where))
    return Target(refusal=f"{file.code(where)} may be None, which means the current device here and the CPU there")


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
        return "device" in file.code(node.func).lower()
    name = node.attr.value if isinstance(node, cst.Attribute) else node.value if isinstance(node, cst.Name) else ""
    return any(word in name.lower() for word in _SAYS_DEVICE)


def _is(node: cst.BaseExpression, name: str) -> bool:
    return isinstance(node, cst.Name) and node.value == name
