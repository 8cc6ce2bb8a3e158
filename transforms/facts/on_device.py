"""Where tensors that somebody keeps, such as the samples of a dataset, may have been made on the device.

What a function makes lies where its tensors lie, what a model gives where the model is; `.cpu()`, arrays and numbers
end the search. A tensor of which nothing shows where it was made is taken for one of the host.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from perfmod.transforms.facts import torch_api
from perfmod.transforms.facts.pickling import parts
from perfmod.transforms.facts.tree import find_all, walk_scope
from perfmod.transforms.facts.value import Device, Kind

if TYPE_CHECKING:
    from perfmod.transforms.facts.file import FileFacts

_MOST = 300
"""So many places are looked at behind one value."""
_ON_HOST = frozenset(
    {Kind.ARRAY, Kind.NUMBER, Kind.TEXT, Kind.NONE, Kind.DEVICE, Kind.LOADER, Kind.OPTIMIZER, Kind.MODULE}
)
"""What lies on the host, or holds no samples."""
_TO_HOST = frozenset({"cpu", "numpy", "tolist", "item", "size", "dim", "numel", "parameters", "state_dict"})
_NO_DATA = frozenset({"shape", "device", "dtype", "ndim", "dataset"})
_GROWS = frozenset({"append", "extend", "add", "insert", "put", "appendleft"})
_FROM_GIVEN = frozenset({"tensor", "as_tensor", "asarray"})
"""Functions that make tensors of what they are given, and not of its size."""


def made_on_device(file: FileFacts, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The first place that puts `node`, or a part of it, on the device; `None` where none does as far as it shows."""
    seen: set[cst.CSTNode] = set()
    waiting: list[cst.BaseExpression] = [node]
    while waiting and len(seen) < _MOST:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        value = file.value(current)
        if value.kind in _ON_HOST or (value.is_tensor and value.device is Device.CPU):
            continue
        ends = [end.node for path in ((), (None,)) for end in file.tracing.ends(current, path)]
        made = [each for each in dict.fromkeys(ends) if isinstance(each, cst.BaseExpression)]
        is_moved = value.device is Device.ACCELERATOR and value.kind in (Kind.TENSOR, Kind.UNKNOWN, Kind.OBJECT)
        origin = next((each for each in made if isinstance(each, cst.Call)), current)
        is_new = file.qualified(origin) in ("torch.nn.Parameter", "torch.nn.parameter.Parameter")  # until it is moved
        if (is_moved and not is_new) or (current in made and _is_of_model(file, current)):
            return origin
        is_end = current in made or not isinstance(current, cst.Call)
        waiting += [*made, *_put_in(file, current), *(_behind(file, current) if is_end else ())]
    return None


def _behind(file: FileFacts, made: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The values that an expression is computed from, or that it holds."""
    if isinstance(made, cst.Call):
        method = made.func.attr.value if isinstance(made.func, cst.Attribute) else ""
        name = file.qualified(made)
        short = (name or "").removeprefix("torch.")
        creates = name is not None and short in torch_api.CREATES and not short.endswith("_like")
        if method in _TO_HOST or (creates and short not in _FROM_GIVEN) or _is_on_host(file, made):
            return
        if isinstance(made.func, cst.Attribute) and name is None:
            yield made.func.value
        yield from (arg.value for arg in made.args if arg.keyword is None or arg.keyword.value != "device")
    elif isinstance(made, cst.Attribute):
        if made.attr.value not in _NO_DATA:
            yield made.value
    elif isinstance(made, cst.Subscript):
        yield made.value
    elif isinstance(made, cst.BinaryOperation):
        yield from (made.left, made.right)
    elif isinstance(made, cst.UnaryOperation):
        yield made.expression
    elif isinstance(made, cst.IfExp):
        yield from (made.body, made.orelse)
    elif isinstance(made, cst.GeneratorExp):
        yield made.elt
    else:
        yield from parts(file, made)


def _is_on_host(file: FileFacts, call: cst.Call) -> bool:
    """Whether a call names the CPU as the place of what it gives."""
    where = next((arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value == "device"), None)
    if where is None and isinstance(call.func, cst.Attribute) and call.func.attr.value == "to":
        where = file.values.placement.destination(call)
    return where is not None and file.values.placement.device_of(where) is Device.CPU


def _put_in(file: FileFacts, kept: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What is put into a list that is kept in a variable or an attribute: `outputs.extend(...)`, `outputs += [...]`."""
    if not isinstance(kept, (cst.Name, cst.Attribute)):
        return
    own = file.classes.self_attribute(kept)
    if own is not None:
        around: list[cst.CSTNode] = [method.body for cls in own[0].lineage() for method in cls.methods.values()]
    else:
        around = [file.tree.function(kept) or file.tree.module_of(kept)]
    code = file.code(kept)
    for node in (node for block in around for node in walk_scope(block)):
        if isinstance(node, cst.AugAssign) and file.code(node.target) == code:
            yield node.value
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _GROWS:
            yield from (arg.value for arg in node.args[-1:] if file.code(node.func.value) == code)


def _is_of_model(file: FileFacts, call: cst.BaseExpression) -> bool:
    """Whether a call gives what a model computes, `model(x)` or `model.encode(x)`, in files that use a device."""
    if not isinstance(call, cst.Call) or file.qualified(call) is not None:
        return False
    func = call.func
    if file.value(func).kind is Kind.MODULE:
        return True
    if not isinstance(func, cst.Attribute) or func.attr.value in _TO_HOST:
        return False
    return file.value(func.value).kind is Kind.MODULE and any(find_all(call, cst.Arg))
