"""The operations that wait for the device, by their syntax, and the rule that is about each.

Rules look for shapes; here only the operation counts, wherever it stands.
"""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts import torch_api
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.value import Device, DType, Kind

_READS: Mapping[str, str] = {"item": "PM106", "tolist": "PM112", "numpy": "PM112", "cpu": "PM112"}
"""Methods without arguments that bring a tensor to the host: the rule that is about them."""

_OPERATIONS: Mapping[str, str] = {
    "nonzero": "PM101",
    "argwhere": "PM101",
    "unique": "PM103",
    "unique_consecutive": "PM103",
    "masked_select": "PM104",
    "bincount": "PM109",
    "repeat_interleave": "PM109",
    "histc": "PM109",
}
"""The same of methods of tensors that are functions of torch, too: the size of the result needs values."""

_ON_THE_WAY = frozenset({"cpu", "detach", "numpy"})
_CONVERSIONS = frozenset({"builtins.float", "builtins.int", "builtins.bool", "builtins.range"})
_WAITS = frozenset({"torch.cuda.synchronize", "torch.accelerator.synchronize", "torch.cuda.empty_cache", "gc.collect"})
_REPORTS = frozenset({"print", "format", "log", "info", "debug", "write", "add_scalar", "set_postfix"})
_TYPES_OF_HOST = frozenset(name for name in torch_api.TENSOR_TYPES if not name.startswith("torch.cuda."))
_LIBRARIES = frozenset({"numpy", "np", "math", "pandas", "pd", "cv2", "tensorflow", "tf", "jax", "scipy", "random"})
"""First names of what has operations of the same names for the host."""

TESTS = (cst.If, cst.IfExp, cst.While, cst.Assert, cst.CompIf)
"""What has a `test` that Python needs the truth of."""
NODES = (cst.Call, cst.Subscript, cst.FormattedStringExpression, *TESTS)


@frozen
class Operation:
    """An operation that may wait for the device.

    Attributes:
        code: of the rule.
        tensor: what it is done with, if with anything.
        is_named: whether its name tells, so that what is done with an unknown value is such an operation as well.
    """

    code: str
    tensor: cst.BaseExpression | None
    is_named: bool = True


def operation(file: FileFacts, node: cst.CSTNode) -> Operation | None:
    """The operation that a node is by its syntax."""
    if isinstance(node, cst.Call):
        return _method(file, node) or _function(file, node)
    if isinstance(node, cst.Subscript):
        return _selection(file, node)
    if isinstance(node, cst.FormattedStringExpression):
        return Operation("PM107", node.expression, is_named=False)
    if isinstance(node, TESTS):
        return Operation("PM105", tested(file, node.test), is_named=False)
    return None


def tested(file: FileFacts, test: cst.BaseExpression) -> cst.BaseExpression:
    """What a test is about: `found` of `not found and args.strict`."""
    if isinstance(test, cst.UnaryOperation):
        return tested(file, test.expression)
    if isinstance(test, cst.BooleanOperation):
        sides = (tested(file, test.left), tested(file, test.right))
        return next((side for side in sides if file.value(side).is_tensor), sides[0])
    return test


def _method(file: FileFacts, call: cst.Call) -> Operation | None:
    if not isinstance(call.func, cst.Attribute) or file.qualified(call) is not None:
        return None
    name, owner = call.func.attr.value, call.func.value
    if dotted(owner).partition(".")[0] in _LIBRARIES:
        return None
    if name in _READS and not call.args:
        return _read(file, name, owner)
    if name == "to" and _is_host(file, file.values.placement.destination(call)):
        return Operation("PM112", owner)
    if name in _OPERATIONS:
        return _sized(file, call, name, owner, 0)
    given = file.qualified(call.args[0].value) if name == "type" and len(call.args) == 1 else None
    if given in _TYPES_OF_HOST:
        return Operation("PM208", owner, is_named=False)
    return _report(file, call, name)


def _is_method(node: cst.BaseExpression, name: str) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == name


def _read(file: FileFacts, name: str, tensor: cst.BaseExpression) -> Operation:
    """A method of `_READS`, of the tensor that it is about in the end: `x` of `x.detach().cpu().numpy()`."""
    while isinstance(tensor, cst.Call) and isinstance(tensor.func, cst.Attribute):
        is_copy = _is_method(tensor, "to") and _is_host(file, file.values.placement.destination(tensor))
        if not is_copy and (tensor.args or tensor.func.attr.value not in _ON_THE_WAY):
            break
        tensor = tensor.func.value
    return Operation(_READS[name], tensor)


def _is_host(file: FileFacts, device: cst.BaseExpression | None) -> bool:
    return device is not None and file.values.placement.device_of(device) is Device.CPU


def _function(file: FileFacts, call: cst.Call) -> Operation | None:
    qualified = file.qualified(call) or ""
    if qualified in _WAITS:
        return Operation("PM111", None)
    if not call.args:
        return None
    package, _, name = qualified.rpartition(".")
    if qualified in _CONVERSIONS:
        return Operation("PM106", call.args[-1].value, is_named=False)
    if package == "torch" and name in _OPERATIONS:
        return _sized(file, call, name, call.args[0].value, 1)
    if qualified == "torch.where" and len(call.args) == 1:
        return Operation(_OPERATIONS["nonzero"], call.args[0].value)
    return None if package == "torch" else _report(file, call, name)


def _sized(file: FileFacts, call: cst.Call, name: str, tensor: cst.BaseExpression, first: int) -> Operation | None:
    """One of `_OPERATIONS`, unless it is told the size by a number; its own arguments begin at `first`."""
    if name == "repeat_interleave":
        repeats = argument(call, "repeats", first)
        is_told = repeats is not None and file.value(repeats).kind is Kind.NUMBER
        if is_told or argument(call, "output_size") is not None:
            return None
    if name == "histc" and argument(call, "max", first + 2) is not None:
        return None
    return Operation(_OPERATIONS[name], tensor)


def _report(file: FileFacts, call: cst.Call, name: str) -> Operation | None:
    shown = [arg.value for arg in call.args if file.value(arg.value).is_tensor] if name in _REPORTS else []
    return Operation("PM107", shown[0], is_named=False) if shown else None


def _selection(file: FileFacts, node: cst.Subscript) -> Operation | None:
    index = node.slice[0].slice if len(node.slice) == 1 else None
    value = file.value(index.value) if isinstance(index, cst.Index) else None
    if value is None or not value.is_tensor or value.dtype is not DType.BOOL or not isinstance(index, cst.Index):
        return None
    target, statement = file.tree.parent(node), file.tree.statement(node)
    written = statement.value if isinstance(statement, (cst.Assign, cst.AugAssign)) else None
    owner: cst.BaseExpression = node
    around = file.tree.parent(target) if isinstance(target, cst.Element) else None
    if isinstance(target, cst.Element) and isinstance(around, (cst.Tuple, cst.List)) and around is not written:
        # `a[m], b[m] = 0, 1` writes each value of its own.
        place, owner, target = around.elements.index(target), around, file.tree.parent(around)
        if isinstance(written, cst.Tuple) and len(written.elements) == len(around.elements):
            written = written.elements[place].value
    if not isinstance(target, (cst.AssignTarget, cst.AugAssign)) or target.target is not owner:
        return Operation("PM104", index.value)
    # A number is filled in without a wait.
    is_filled = isinstance(statement, cst.Assign) and written is not None and file.value(written).kind is Kind.NUMBER
    return None if is_filled else Operation("PM102", index.value)


def goes_on(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether the operation goes on in a call: `pred.cpu()` of `pred.cpu().numpy()`, or of `float(pred.cpu())`.

    It does not in `float(loss.item())`, which converts a number.
    """
    around = file.tree.parent(node)
    outer = file.tree.parent(around) if isinstance(around, (cst.Attribute, cst.Arg)) else None
    if not isinstance(outer, cst.Call):
        return False
    if outer.func is around:
        return _method(file, outer) is not None
    is_number = isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "item"
    return not is_number and file.qualified(outer) in _CONVERSIONS
