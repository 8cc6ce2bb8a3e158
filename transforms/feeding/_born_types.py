"""The types of tensors where they are made: casts behind a factory that it can do without."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts import torch_api
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.value import DType, Kind
from perfmod.transforms.feeding._births import Birth

CONSTANT = frozenset({"zeros", "ones", "empty", "eye"})
"""What is the same in every type."""
_CASTS = {
    **{name: name for name in ("long", "int", "short", "float", "double", "half", "bfloat16", "bool")}, "byte": "uint8",
}  # fmt: skip
_ROUNDED = frozenset({"arange", "linspace", "logspace"})
_LATE = {("eye", "bool")}
"""What old versions of PyTorch cannot make in a type: 1.2 has no `eye` of bool on the CPU (issue 24088 of PyTorch)."""


def cast_behind(file: FileFacts, birth: Birth, behind: cst.Call) -> cst.Call | None:
    """The cast directly behind a call, to a type in which the tensor can be made: `torch.zeros(3).long()`."""
    method = file.tree.parent(behind)
    call = file.tree.parent(method) if isinstance(method, cst.Attribute) else None
    if not isinstance(method, cst.Attribute) or behind.lpar or argument(birth.call, "dtype") is not None:
        return None
    name = method.attr.value
    can_be = name in _CASTS if birth.name in CONSTANT else name == "long" and _is_long(file, birth.call)
    can_be = can_be and (birth.name, name) not in _LATE
    is_cast = can_be and isinstance(call, cst.Call) and call.func is method and not call.args and not call.lpar
    return call if is_cast and isinstance(call, cst.Call) else None


def cast_of_copy(file: FileFacts, move: cst.Call, birth: Birth) -> cst.Call | None:
    """The cast directly behind the copy of what a factory makes: `torch.zeros(3).to(device).long()`."""
    assert isinstance(move.func, cst.Attribute)
    is_direct = move.func.value is birth.call and isinstance(birth.call.func, cst.Attribute)
    cast = cast_behind(file, birth, move) if is_direct else None
    is_plain = cast is not None and "#" not in file.code(cast)
    return cast if is_plain else None


def named_type_of_copy(file: FileFacts, move: cst.Call, birth: Birth) -> tuple[cst.Call, cst.BaseExpression] | None:
    """The call directly behind the copy that casts to a type by its name, and that: `.to(device).to(x.dtype)`."""
    method = file.tree.parent(move)
    cast = file.tree.parent(method) if isinstance(method, cst.Attribute) else None
    assert isinstance(move.func, cst.Attribute)
    if not isinstance(method, cst.Attribute) or not isinstance(cast, cst.Call) or cast.func is not method:
        return None
    if method.attr.value not in ("to", "type") or len(cast.args) != 1 or cast.args[0].keyword is not None or cast.lpar:
        return None
    dtype = cast.args[0].value
    is_type = isinstance(dtype, cst.Attribute) and dtype.attr.value == "dtype" and file.value(dtype.value).is_tensor
    is_type = is_type or (file.qualified(dtype) or "") in torch_api.DTYPES
    is_direct = move.func.value is birth.call and argument(birth.call, "dtype") is None and not birth.legacy_dtype
    is_plain = "#" not in file.code(cast) and not move.lpar
    return (cast, dtype) if is_type and is_direct and is_plain and birth.name in ("zeros", "ones") else None


def why_filled(file: FileFacts, move: cst.Call, birth: Birth) -> str:
    """Why ones that are multiplied by a number and cast are better filled in, `(k * torch.ones(n).to(d)).long()`."""
    product = file.tree.parent(move)
    method = file.tree.parent(product) if isinstance(product, cst.BinaryOperation) else None
    is_product = isinstance(product, cst.BinaryOperation) and isinstance(product.operator, cst.Multiply)
    if birth.name != "ones" or not is_product or not isinstance(method, cst.Attribute):
        return ""
    name = method.attr.value
    return f"`torch.full` with `dtype=torch.{_CASTS[name]}` makes this product at once" if name in _CASTS else ""


def type_given(file: FileFacts, birth: Birth, cast: cst.Call) -> str:
    """The type that a cast casts to, as the factory takes it, `dtype=torch.long, `; nothing where it is the same."""
    assert isinstance(birth.call.func, cst.Attribute)
    assert isinstance(cast.func, cst.Attribute)
    if birth.name not in CONSTANT:
        return ""
    return f"dtype={file.code(birth.call.func.value)}.{_CASTS[cast.func.attr.value]}, "


def is_rounded(file: FileFacts, birth: Birth) -> bool:
    """Whether some of its numbers are computed, other than by counting in integers, and may be rounded differently."""
    return birth.is_rounded or any(
        (file.qualified(call) or "").removeprefix("torch.") in _ROUNDED and not _is_integer(file, call)
        for call in (birth.call, *birth.others)
    )


def _is_integer(file: FileFacts, call: cst.Call) -> bool:
    """Whether a sequence begins with an integer and counts in integers, which are exact on either device."""
    if (file.qualified(call) or "").rpartition(".")[2] != "arange" or any(arg.star for arg in call.args):
        return False
    by_position = [arg.value for arg in call.args if arg.keyword is None]
    start = argument(call, "start") or (by_position[0] if len(by_position) > 1 else None)
    step = argument(call, "step") or (by_position[2] if len(by_position) > 2 else None)
    return all(number is None or isinstance(number, cst.Integer) or _is_count(file, number) for number in (start, step))


def _is_long(file: FileFacts, call: cst.Call) -> bool:
    """Whether a sequence is one of integers in any case, which PyTorch makes as int64."""
    return _is_integer(file, call) and all(
        isinstance(arg.value, cst.Integer) or _is_count(file, arg.value)
        for arg in call.args
        if arg.keyword is None or arg.keyword.value in ("start", "end", "step")
    )


def _is_count(file: FileFacts, node: cst.BaseExpression) -> bool:
    value = file.value(node)
    return value.kind is Kind.NUMBER and value.dtype is DType.INTEGER
