"""The operations of the catalogue, by their syntax: what each waits for, and the rule that is about it.

Rules look for shapes; here only the operation counts, wherever it stands. `unanswered` asks what became of each.
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

NUMBER = "Python uses the value as a number"
COPY = "the tensor is used on the CPU"
HOW_MANY = "the CPU waits for the number of elements, because the shape of the result depends on it"
SIZE = "the size of the result depends on values on the device"
_RANGE = "without `min=` and `max=` it waits for the smallest and the largest value"
_FROM_HOST = "made from NumPy or Python data: `.pin_memory()` and `non_blocking=True` avoid the wait"
TOGETHER = "all values are already read in one transfer"
_PINNED = "it is pinned in the step, which takes longer than the copy: let the loader pin it (`pin_memory=True`)"
SHOWN = "the tensor itself is printed"
TESTED = "Python needs its value to decide what runs next"
WRITTEN = "it is written into a tensor or array on the CPU"
CHECKED = "torchmetrics checks the values it is given, and waits for them; `validate_args=False` leaves that out"
COMPARED = "Python's built-in functions compare the values on the CPU"
_CAST = "a cast to a CPU tensor type such as torch.LongTensor copies it to the CPU"
_EXPLICIT = "every step waits for this call"

_READS: Mapping[str, tuple[str, str]] = {
    "item": ("PM106", NUMBER),
    "tolist": ("PM112", COPY),
    "numpy": ("PM112", COPY),
    "cpu": ("PM112", COPY),
}
"""Methods without arguments that bring a tensor to the host: the rule that is about them, and what they wait for."""

_OPERATIONS: Mapping[str, tuple[str, str]] = {
    "nonzero": ("PM101", HOW_MANY),
    "argwhere": ("PM101", HOW_MANY),
    "unique": ("PM103", HOW_MANY),
    "unique_consecutive": ("PM103", HOW_MANY),
    "masked_select": ("PM104", HOW_MANY),
    "bincount": ("PM109", SIZE),
    "repeat_interleave": ("PM109", SIZE),
    "histc": ("PM109", _RANGE),
}
"""The same of methods of tensors that are functions of torch, too."""

_ON_THE_WAY = frozenset({"cpu", "detach", "numpy"})
_MAKERS = frozenset({"torch.tensor", "torch.as_tensor"}).union(torch_api.TENSOR_TYPES)
_CONVERSIONS = frozenset({"builtins.float", "builtins.int", "builtins.bool", "builtins.range"})
_WAITS = frozenset({"torch.cuda.synchronize", "torch.accelerator.synchronize", "torch.cuda.empty_cache", "gc.collect"})
_REPORTS = frozenset({"print", "format", "log", "info", "debug", "write", "add_scalar", "set_postfix"})
_COLLECTORS = frozenset({"append", "extend", "insert", "add", "update", "push"})
_TYPES_OF_HOST = frozenset(name for name in torch_api.TENSOR_TYPES if not name.startswith("torch.cuda."))
_LIBRARIES = frozenset({"numpy", "np", "math", "pandas", "pd", "cv2", "tensorflow", "tf", "jax", "scipy", "random"})
"""First names of what has operations of the same names for the host."""


RULES = frozenset({"PM105", "PM107", "PM108", "PM111", "PM202", "PM206", "PM208"}).union(
    code for code, _ in (*_READS.values(), *_OPERATIONS.values())
)
TESTS = (cst.If, cst.IfExp, cst.While, cst.Assert, cst.CompIf)
"""What has a `test` that Python needs the truth of."""
NODES = (cst.Call, cst.Subscript, cst.FormattedStringExpression, *TESTS)


@frozen
class Operation:
    """An operation that a rule is about.

    Attributes:
        code: of the rule.
        wait: why it is there, for where nothing else speaks against it.
        tensor: what it is done with, if with anything.
        is_of_host: whether it is about tensors that are on the host.
        is_named: whether its name tells, so that what is done with an unknown value is such an operation as well.
    """

    code: str
    wait: str
    tensor: cst.BaseExpression | None
    is_of_host: bool = False
    is_named: bool = True


def operation(file: FileFacts, node: cst.CSTNode) -> Operation | None:
    """The operation that a node is by its syntax."""
    if isinstance(node, cst.Call):
        return _method(file, node) or _function(file, node)
    if isinstance(node, cst.Subscript):
        return _selection(file, node)
    if isinstance(node, cst.FormattedStringExpression):
        return Operation("PM107", SHOWN, node.expression, is_named=False)
    if isinstance(node, TESTS):
        return Operation("PM105", TESTED, tested(file, node.test), is_named=False)
    return None


def is_read(node: cst.CSTNode) -> bool:
    """Whether a node is a read by name: `x.item()`, `x.tolist()`, `x.cpu()`, `x.numpy()`."""
    method = node.func.attr.value if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) else ""
    return method in _READS


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
        return _read(file, call, name, owner)
    if name == "to" and _is_host(file, file.values.placement.destination(call)):
        return Operation("PM112", COPY, owner)
    if name in _OPERATIONS:
        return _sized(file, call, name, owner, 0)
    given = file.qualified(call.args[0].value) if name == "type" and len(call.args) == 1 else None
    if given in _TYPES_OF_HOST:
        return Operation("PM208", _CAST, owner, is_named=False)
    if name in ("to", "cuda") and _is_method(owner, "pin_memory"):
        return Operation("PM202", _PINNED, owner, is_of_host=True)
    if name == "type_as" and call.args and file.value(call.args[0].value).device is Device.ACCELERATOR:
        return Operation("PM206", _FROM_HOST, owner, is_of_host=True, is_named=False)
    if name in ("new", "new_tensor") and call.args:
        is_number = name == "new_tensor" and file.value(call.args[0].value).kind is Kind.NUMBER
        if is_number or isinstance(call.args[0].value, (cst.List, cst.Tuple)):
            return Operation("PM108", _FROM_HOST, owner, is_named=False)
    if _moves(file, call, name) and _is_made_here(file, owner):
        is_made = file.qualified(owner) in torch_api.TENSOR_TYPES if isinstance(owner, cst.Call) else False
        return Operation("PM206", _FROM_HOST, owner, is_of_host=True, is_named=is_made)
    return _report(file, call, name)


def _is_made_here(file: FileFacts, tensor: cst.BaseExpression) -> bool:
    """Whether a tensor is no part of a batch, and not on the device yet."""
    value = file.value(tensor)
    return value.origin is None and value.device is not Device.ACCELERATOR


def _is_method(node: cst.BaseExpression, name: str) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == name


def _read(file: FileFacts, call: cst.Call, name: str, tensor: cst.BaseExpression) -> Operation:
    """A method of `_READS`; what is called for its effect reports a scalar."""
    while isinstance(tensor, cst.Call) and isinstance(tensor.func, cst.Attribute):
        is_copy = _is_method(tensor, "to") and _is_host(file, file.values.placement.destination(tensor))
        if not is_copy and (tensor.args or tensor.func.attr.value not in _ON_THE_WAY):
            break
        tensor = tensor.func.value
    if file.qualified(tensor) == "torch.stack" and name == "tolist":
        return Operation("PM107", TOGETHER, tensor)
    code, wait = _READS[name]
    statement = file.tree.statement(call)
    shows = isinstance(statement, cst.Expr) and isinstance(statement.value, cst.Call) and not _collects(statement.value)
    is_text = isinstance(statement, cst.Assign) and isinstance(statement.value, (cst.Dict, cst.FormattedString))
    return Operation("PM107" if wait is NUMBER and (shows or is_text) else code, wait, tensor)


def _collects(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in _COLLECTORS


def _moves(file: FileFacts, call: cst.Call, name: str) -> bool:
    """Whether a call copies a tensor to a device that is not known to be the host."""
    where = file.values.placement.destination(call) if name == "to" else None
    return name == "cuda" or (where is not None and file.values.placement.device_of(where) is not Device.CPU)


def _is_host(file: FileFacts, device: cst.BaseExpression | None) -> bool:
    return device is not None and file.values.placement.device_of(device) is Device.CPU


def _function(file: FileFacts, call: cst.Call) -> Operation | None:
    qualified = file.qualified(call) or ""
    if qualified in _WAITS:
        return Operation("PM111", _EXPLICIT, None)
    if not call.args:
        return None
    if qualified in _MAKERS and _is_put_on_device(file, call):
        return Operation("PM108", _FROM_HOST, None)
    package, _, name = qualified.rpartition(".")
    if qualified in _CONVERSIONS:
        return Operation("PM106", NUMBER, call.args[-1].value, is_named=False)
    if package == "torch" and name in _OPERATIONS:
        return _sized(file, call, name, call.args[0].value, 1)
    if qualified == "torch.where" and len(call.args) == 1:
        return Operation(*_OPERATIONS["nonzero"], call.args[0].value)
    return None if package == "torch" else _report(file, call, name)


def _is_put_on_device(file: FileFacts, call: cst.Call) -> bool:
    """Whether something of the host becomes a tensor of the device: `torch.tensor(np.mean(rewards), device=device)`."""
    given = [file.value(arg.value) for arg in call.args if arg.keyword is None]
    is_sized = file.qualified(call) in torch_api.TENSOR_TYPES and all(value.kind is Kind.NUMBER for value in given)
    is_copied = not is_sized and not any(value.is_tensor for value in given)
    return is_copied and file.value(call).device is Device.ACCELERATOR


def _sized(file: FileFacts, call: cst.Call, name: str, tensor: cst.BaseExpression, first: int) -> Operation | None:
    """One of `_OPERATIONS`, unless it is told the size by a number; its own arguments begin at `first`."""
    if name == "repeat_interleave":
        repeats = argument(call, "repeats", first)
        is_told = repeats is not None and file.value(repeats).kind is Kind.NUMBER
        if is_told or argument(call, "output_size") is not None:
            return None
    if name == "histc" and argument(call, "max", first + 2) is not None:
        return None
    return Operation(*_OPERATIONS[name], tensor)


def _report(file: FileFacts, call: cst.Call, name: str) -> Operation | None:
    shown = [arg.value for arg in call.args if file.value(arg.value).is_tensor] if name in _REPORTS else []
    return Operation("PM107", SHOWN, shown[0], is_named=False) if shown else None


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
        return Operation("PM104", HOW_MANY, index.value)
    # A number is filled in without a wait.
    is_filled = isinstance(statement, cst.Assign) and written is not None and file.value(written).kind is Kind.NUMBER
    return None if is_filled else Operation("PM102", HOW_MANY, index.value)


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
