"""Tensors that are made on the host from numbers and copied to the device: `torch.tensor(0.5).to(device)`."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from attrs import evolve, frozen

from perfmod.transforms.facts.calls import argument, has_star
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Device, Kind
from perfmod.transforms.writing import quoted

_FUNCTIONS = frozenset({"torch.tensor", "torch.as_tensor"})
_TYPES = {"Float": "float32", "Double": "float64", "Half": "float16", "Long": "long", "Int": "int32", "Bool": "bool",
          "Byte": "uint8"}  # fmt: skip
_LEGACY = {f"torch.{where}{name}Tensor": dtype for where in ("", "cuda.") for name, dtype in _TYPES.items()}
_LEGACY["torch.Tensor"] = "float32"
_CASTS = {"float": "float32", "half": "float16", "bfloat16": "bfloat16", "long": "long", "int": "int32"}
_DROPPED = frozenset({"non_blocking", "copy"})
_DEVICE_WORDS = ("dev", "gpu", "cuda", "rank")


class NotFollowed(Exception):
    """The tensor is made and moved in a way that cannot be written otherwise; the text is the reason."""


@frozen
class Made:
    """A tensor that is made from Python's data on the host, and is on the device in the end.

    Attributes:
        node: the whole expression, moves and casts included.
        data: what it is made of.
        like: `x` of `x.new_tensor(...)`.
        moved_to: the code of the device that it is moved to behind the call; None where the call names it.
        dtype: the code of its type, where something says it.
        is_float: whether it is float32 without saying so, whatever the numbers are.
        is_said: whether the call itself says the type.
        is_trained: whether it asks for a gradient.
        element: `[0]` behind it, which takes its only element, or `.expand(n)` or `.repeat(n, 1)`, which makes more of
            them, with what it is taken of.
    """

    node: cst.Call
    data: cst.BaseExpression
    like: cst.BaseExpression | None = None
    moved_to: str | None = None
    dtype: str | None = None
    is_float: bool = False
    is_said: bool = False
    is_trained: bool = False
    element: cst.Subscript | cst.Call | None = None

    @property
    def whole(self) -> cst.Call | cst.Subscript:
        """The tensor that is used: the one that is made, its only element, or several of it."""
        return self.element or self.node


def made_on_device(file: FileFacts) -> Iterator[tuple[cst.Call, Made | str]]:
    """Every such call of a file; with the reason where it cannot be followed. Tensors of the CPU are none."""
    for call in find_all(file.tree.module, cst.Call):
        made = _made_or_reason(file, call)
        if made is not None:
            yield call, made


def _made_or_reason(file: FileFacts, call: cst.Call) -> Made | str | None:
    try:
        return _made(file, call)
    except NotFollowed as reason:
        return str(reason)


def _made(file: FileFacts, call: cst.Call) -> Made | None:
    name = file.qualified(call) or ""
    if has_star(call):
        return None
    if name in _FUNCTIONS:
        return _from_function(file, call)
    if name in _LEGACY:
        return _from_constructor(file, call, name)
    if isinstance(call.func, cst.Attribute) and call.func.attr.value == "new_tensor" and call.args:
        owner = file.value(call.func.value)
        if not owner.is_tensor or owner.device is Device.CPU:
            return None
        if argument(call, "device") is not None or argument(call, "dtype") is not None:
            raise NotFollowed("`new_tensor` is given another device or dtype")
        return Made(call, call.args[0].value, like=call.func.value, is_trained=len(call.args) > 1)
    return None


def _from_function(file: FileFacts, call: cst.Call) -> Made | None:
    data, device, dtype = (
        argument(call, name, place) for name, place in (("data", 0), ("device", None), ("dtype", None))
    )
    named = {arg.keyword.value for arg in call.args if arg.keyword is not None}
    unknown = sorted(named - {"data", "device", "dtype", "requires_grad"})
    written = file.code(dtype) if dtype is not None else None
    if data is None:
        return None
    if device is not None:
        if file.values.placement.device_of(device) is Device.CPU:
            return None
        if unknown:
            raise NotFollowed(f"it is also given `{unknown[0]}`")
        is_trained = "requires_grad" in named
        return Made(call, data, dtype=written, is_said=written is not None, is_trained=is_trained)
    moved = _moved(file, Made(call, data, dtype=written))
    if moved is not None and (unknown or "requires_grad" in named):
        raise NotFollowed("it requires a gradient or is pinned before it is moved")
    return moved


def _from_constructor(file: FileFacts, call: cst.Call, name: str) -> Made | None:
    """`torch.FloatTensor([0.5])`; with numbers instead of a list, the constructors take sizes."""
    data = call.args[0].value if len(call.args) == 1 and call.args[0].keyword is None else None
    if not isinstance(data, (cst.List, cst.Tuple, cst.BinaryOperation)):
        return None
    if name == "torch.Tensor" and _sets_default(file):
        raise NotFollowed("the file changes the default type of `torch.Tensor`")
    made = _typed(file, Made(call, data), _LEGACY[name])
    if name.startswith("torch.cuda."):
        return evolve(made, moved_to=quoted(file.source, "cuda"))
    return _moved(file, made)


def _sets_default(file: FileFacts) -> bool:
    return any(name.value in ("set_default_dtype", "set_default_tensor_type") for name in file.tree.all(cst.Name))


def _typed(file: FileFacts, made: Made, dtype: str) -> Made:
    """What is made as it comes out of a cast to a type."""
    if made.dtype is not None or made.is_float:
        raise NotFollowed("its dtype is converted twice")
    if dtype == "float32" and not _sets_default(file):
        return evolve(made, is_float=True)
    return evolve(made, dtype=f"{file.names.spelled('torch', made.node)[0]}.{dtype}")


def _moved(file: FileFacts, made: Made) -> Made | None:
    """The same with the casts behind it, and the `.to(...)` or `.cuda()` that brings it to the device; `None`: none."""
    while True:
        func = file.tree.parent(made.node)
        outer = file.tree.parent(func) if isinstance(func, cst.Attribute) and func.value is made.node else None
        if not isinstance(func, cst.Attribute) or not isinstance(outer, cst.Call) or outer.func is not func:
            return None
        method = func.attr.value
        if method in ("cuda", "to"):
            return (_cuda if method == "cuda" else _to)(file, evolve(made, node=outer))
        if method == "double" and not outer.args:
            raise NotFollowed("its values are rounded to the default dtype before they become double")
        if method not in _CASTS or outer.args:
            return None
        made = evolve(_typed(file, made, _CASTS[method]), node=outer)


def _cuda(file: FileFacts, made: Made) -> Made:
    call = made.node
    places = [arg.value for arg in call.args if arg.keyword is None or arg.keyword.value == "device"]
    others = {arg.keyword.value for arg in call.args if arg.keyword is not None} - _DROPPED - {"device"}
    if others or len(places) > 1:
        raise NotFollowed("`cuda()` is given more than a device")
    if places and not isinstance(places[0], cst.Integer):
        raise NotFollowed(f"`{file.code(places[0])}` may be None, which only `cuda()` takes to mean the current device")
    number = f":{file.code(places[0])}" if places else ""
    return evolve(made, moved_to=quoted(file.source, f"cuda{number}"))


def _to(file: FileFacts, made: Made) -> Made | None:
    call, placement = made.node, file.values.placement
    where = placement.destination(call)
    if where is None or placement.device_of(where) is Device.CPU:
        return None
    code = file.code(where)
    if not _is_device(file, where):
        raise NotFollowed(f"`{code}` is not known to be a device")
    for arg in call.args:
        keyword = arg.keyword.value if arg.keyword is not None else ""
        if arg.value is where or keyword in _DROPPED:
            continue
        name = file.qualified(arg.value) or ""
        is_changed = made.dtype is not None or made.is_float
        if is_changed or not name.startswith("torch.") or name in ("torch.float64", "torch.double"):
            raise NotFollowed("the same call also changes its dtype")
        made = evolve(made, dtype=file.code(arg.value))
    return evolve(made, moved_to=code)


def _is_device(file: FileFacts, node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.SimpleString) or file.value(node).kind is Kind.DEVICE:
        return True
    last = dotted(node).rpartition(".")[2].lower()
    return any(word in last for word in _DEVICE_WORDS)
