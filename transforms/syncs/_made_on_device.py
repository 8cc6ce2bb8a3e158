"""Tensors that are made on the host from numbers and copied to the device: `torch.tensor(0.5).to(device)`."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from attrs import field, frozen

from perfmod.transforms.facts.calls import argument, has_star
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Device, Kind

_FUNCTIONS = frozenset({"torch.tensor", "torch.as_tensor"})
_LEGACY = {
    "torch.FloatTensor": "float32", "torch.DoubleTensor": "float64", "torch.HalfTensor": "float16",
    "torch.LongTensor": "int64", "torch.IntTensor": "int32", "torch.BoolTensor": "bool", "torch.ByteTensor": "uint8",
    "torch.cuda.FloatTensor": "float32", "torch.cuda.LongTensor": "int64", "torch.cuda.DoubleTensor": "float64",
    "torch.cuda.HalfTensor": "float16", "torch.cuda.IntTensor": "int32", "torch.cuda.BoolTensor": "bool",
    "torch.cuda.ByteTensor": "uint8",
}  # fmt: skip
_CASTS = {"float": "float32", "half": "float16", "bfloat16": "bfloat16", "long": "int64", "int": "int32"}
_NORMALISING = frozenset(
    f"torchvision.transforms.{name}"
    for name in ("Normalize", "v2.Normalize", "functional.normalize", "v2.functional.normalize")
)
_DROPPED = frozenset({"non_blocking", "copy"})
_DEVICE_WORDS = ("dev", "gpu", "cuda", "rank")


class NotFollowed(Exception):
    """The tensor is made of numbers and moved, in a way that cannot be written at once; the text is the reason."""


@frozen
class Made:
    """A tensor that is made from Python's data on the host, and is on the device in the end.

    Attributes:
        node: the whole expression, moves and casts included.
        data: what it is made of.
        device: the code that names the device; `None` where the tensor `like` says it.
        dtype: the code that names the type, where something does.
        like: `x` of `x.new_tensor(...)`.
        options: other keywords as they stand in the call.
        device_node: the expression that names the device, where one does.
    """

    node: cst.Call
    data: cst.BaseExpression
    device: str | None
    dtype: str | None
    like: cst.BaseExpression | None = None
    options: tuple[str, ...] = ()
    device_node: cst.BaseExpression | None = field(default=None)


def made_on_device(file: FileFacts) -> Iterator[tuple[cst.Call, Made | str]]:
    """Every such call of a file; with the reason where it cannot be followed. Tensors of the CPU are none."""
    for call in find_all(file.tree.module, cst.Call):
        made = _made_or_reason(file, call)
        if made is not None:
            yield call, made


def normalising_on_device(file: FileFacts) -> Iterator[cst.Call]:
    """The calls by which torchvision normalises a tensor of the device with numbers, functions and transforms."""
    return (call for call in find_all(file.source.module, cst.Call) if _normalises(file, call))


def _normalises(file: FileFacts, call: cst.Call) -> bool:
    given = argument(call, "tensor", 0) or argument(call, "inpt", 0)
    module = file.value(call.func)
    if given is None or (file.qualified(call) or module.name) not in _NORMALISING:
        return False
    made = module.call
    mean = argument(call, "mean", 1) if made is None else argument(made, "mean", 0)
    value = file.value(given)
    is_copied = mean is not None and not file.value(mean).is_tensor
    return is_copied and value.is_tensor and value.device is Device.ACCELERATOR


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
    if name in _LEGACY or name == "torch.Tensor":
        return _from_constructor(file, call, name)
    if isinstance(call.func, cst.Attribute) and call.func.attr.value == "new_tensor" and call.args:
        owner = file.value(call.func.value)
        if not owner.is_tensor or owner.device is Device.CPU:
            return None
        if argument(call, "device") is not None or argument(call, "dtype") is not None:
            raise NotFollowed("`new_tensor` is told another device or type")
        options = tuple(file.code(arg) for arg in call.args[1:])
        return Made(call, call.args[0].value, None, None, call.func.value, options)
    return None


def _from_function(file: FileFacts, call: cst.Call) -> Made | None:
    data = argument(call, "data", 0)
    device = argument(call, "device")
    dtype = argument(call, "dtype")
    if data is None:
        return None
    options = [file.code(arg) for arg in call.args if arg.keyword is not None and arg.keyword.value == "requires_grad"]
    known = {"data", "device", "dtype", "requires_grad"}
    unknown = [arg.keyword.value for arg in call.args if arg.keyword is not None and arg.keyword.value not in known]
    if device is not None:
        if file.values.placement.device_of(device) is Device.CPU:
            return None
        if unknown:
            raise NotFollowed(f"it is told `{unknown[0]}` too")
        written = file.code(dtype) if dtype is not None else None
        return Made(call, data, file.code(device), written, None, tuple(options), device)
    moved = _moved(file, call, file.code(dtype) if dtype is not None else None)
    if moved is None:
        return None
    node, where, written, place = moved
    if options or unknown:
        raise NotFollowed("it is trained or pinned before it is moved")
    return Made(node, data, where, written, None, (), place)


def _from_constructor(file: FileFacts, call: cst.Call, name: str) -> Made | None:
    """`torch.FloatTensor([0.5])`; with numbers instead of a list, the constructors take sizes."""
    if len(call.args) != 1 or not isinstance(call.args[0].value, (cst.List, cst.Tuple, cst.BinaryOperation)):
        return None
    data = call.args[0].value
    if name == "torch.Tensor" and any(
        isinstance(node, cst.Name) and node.value in ("set_default_dtype", "set_default_tensor_type")
        for node in find_all(file.tree.module, cst.Name)
    ):
        raise NotFollowed("the type of `torch.Tensor` is set in the file")
    torch, _ = file.names.spelled("torch", call)
    dtype = f"{torch}.{_LEGACY.get(name, 'float32')}"
    if name.startswith("torch.cuda."):
        return Made(call, data, '"cuda"', dtype)
    moved = _moved(file, call, dtype)
    if moved is None:
        return None
    node, where, written, place = moved
    return Made(node, data, where, written, None, (), place)


def _moved(
    file: FileFacts, call: cst.Call, dtype: str | None
) -> tuple[cst.Call, str, str | None, cst.BaseExpression | None] | None:
    """Where `.to(...)` or `.cuda()` behind a call brings its tensor, and as which type; `None`: nowhere else."""
    node = call
    while True:
        func = file.tree.parent(node)
        outer = file.tree.parent(func) if isinstance(func, cst.Attribute) and func.value is node else None
        if not isinstance(func, cst.Attribute) or not isinstance(outer, cst.Call) or outer.func is not func:
            return None
        method = func.attr.value
        if method in _CASTS and not outer.args:
            if dtype is not None:
                raise NotFollowed("its type is changed twice")
            torch, _ = file.names.spelled("torch", call)
            dtype = f"{torch}.{_CASTS[method]}"
        elif method == "double" and not outer.args:
            raise NotFollowed("it is rounded to the default type before it becomes double")
        elif method == "cuda":
            return _cuda(file, outer, dtype)
        elif method == "to":
            return _to(file, outer, dtype)
        else:
            return None
        node = outer


def _cuda(
    file: FileFacts, call: cst.Call, dtype: str | None
) -> tuple[cst.Call, str, str | None, cst.BaseExpression | None]:
    places = [arg.value for arg in call.args if arg.keyword is None or arg.keyword.value == "device"]
    others = {arg.keyword.value for arg in call.args if arg.keyword is not None} - _DROPPED - {"device"}
    if others or len(places) > 1:
        raise NotFollowed("`cuda()` is told more than a device")
    if not places:
        return call, '"cuda"', dtype, None
    if isinstance(places[0], cst.Integer):
        return call, f'"cuda:{places[0].value}"', dtype, None
    raise NotFollowed(f"`{file.code(places[0])}` may be None, which is the current device for `cuda()` only")


def _to(
    file: FileFacts, call: cst.Call, dtype: str | None
) -> tuple[cst.Call, str, str | None, cst.BaseExpression | None] | None:
    placement = file.values.placement
    where = placement.destination(call)
    if where is None or placement.device_of(where) is Device.CPU:
        return None
    code = file.code(where)
    if not _is_device(file, where):
        raise NotFollowed(f"`{code}` could not be shown to be a device")
    for arg in call.args:
        keyword = arg.keyword.value if arg.keyword is not None else ""
        if arg.value is where or keyword in _DROPPED:
            continue
        name = file.qualified(arg.value) or ""
        if dtype is not None or not name.startswith("torch.") or name in ("torch.float64", "torch.double"):
            raise NotFollowed("its type is changed as it is moved")
        dtype = file.code(arg.value)
    return call, code, dtype, where


def _is_device(file: FileFacts, node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.SimpleString) or file.value(node).kind is Kind.DEVICE:
        return True
    last = dotted(node).rpartition(".")[2].lower()
    return any(word in last for word in _DEVICE_WORDS)
