"""Where Python itself, or a library, asks a tensor for a number, a truth or a text, without a word that says so.

`not mask.any()`, `0 < loss < 3`, `max(a, b)`, `x[:lengths.max()]`, `counts[label] += 1` with a list of counts,
`table[i] = out` with a table or array on the host, `weight[labels]` with weights on the host, `math.sqrt(loss)`,
`"%.3f" % loss`, `scheduler.step(loss)`, `accuracy(out, y)` with a metric of torchmetrics: the host waits in each for a
tensor of the device.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding
from perfmod.transforms.facts.metrics import checks_values
from perfmod.transforms.facts.value import Device, DType, Kind
from perfmod.transforms.operations import TESTS, Operation, tested

NODES = (
    cst.Call, cst.Subscript, cst.BooleanOperation, cst.UnaryOperation, cst.Comparison, cst.BinaryOperation, cst.Assign,
    cst.AugAssign,
)  # fmt: skip

_Truth = cst.BooleanOperation | cst.UnaryOperation | cst.Comparison

_COMPARES = frozenset({"builtins.max", "builtins.min", "builtins.sorted", "builtins.any", "builtins.all"})
_TEXTS = frozenset({"builtins.str", "builtins.repr", "builtins.format"})
_FACTORIES = frozenset(
    f"torch.{name}" for name in ("zeros", "ones", "empty", "full", "rand", "randn", "randint", "eye", "arange")
)
_PLATEAU = "ReduceLROnPlateau"


def implicit_read(file: FileFacts, node: cst.CSTNode) -> Operation | None:
    """The operation that a node is where its tensor is one of the device; only what is shown to be one counts."""
    code, tensor = _asked(file, node) or ("", None)
    return Operation(code, tensor, is_named=False) if tensor is not None else None


def _asked(file: FileFacts, node: cst.CSTNode) -> tuple[str, cst.BaseExpression | None] | None:
    if isinstance(node, cst.Call):
        return _call(file, node)
    if isinstance(node, cst.Subscript):
        return _place(file, node)
    if isinstance(node, cst.BinaryOperation):
        return _operands(file, node)
    if isinstance(node, (cst.Assign, cst.AugAssign)):
        return "PM112", node.value if _fills_host(file, node) else None
    if isinstance(node, _Truth) and not _is_part_of_test(file, node):
        return "PM105", _truth(file, node)
    return None


def _truth(
    file: FileFacts, node: cst.BooleanOperation | cst.UnaryOperation | cst.Comparison
) -> cst.BaseExpression | None:
    """What `a and b`, `not a`, `0 < a < 1` and `a in (b, c)` need the truth of."""
    if isinstance(node, cst.BooleanOperation):
        return tested(file, node.left)
    if isinstance(node, cst.UnaryOperation):
        return tested(file, node.expression) if isinstance(node.operator, cst.Not) else None
    compared = [node.left, *(target.comparator for target in node.comparisons)]
    is_asked = len(compared) > 2 or isinstance(node.comparisons[0].operator, (cst.In, cst.NotIn))
    return _first_tensor(file, compared) if is_asked else None


def _is_part_of_test(file: FileFacts, node: _Truth) -> bool:
    """Whether the truth is asked for by what stands around it: a test, or another `and` or `not`."""
    parent = file.tree.parent(node)
    if isinstance(parent, TESTS):
        return parent.test is node
    return isinstance(parent, cst.BooleanOperation) or (
        isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not)
    )


def _call(file: FileFacts, call: cst.Call) -> tuple[str, cst.BaseExpression | None] | None:
    qualified = file.qualified(call)
    given = [arg.value for arg in call.args]
    if checks_values(file, call):
        return "PM105", _first_tensor(file, given)
    if qualified is None:
        is_step = isinstance(call.func, cst.Attribute) and call.func.attr.value == "step" and bool(given)
        owner = file.value(call.func.value).name if is_step and isinstance(call.func, cst.Attribute) else None
        return ("PM106", _first_tensor(file, given)) if (owner or "").endswith(_PLATEAU) else None
    if qualified in _COMPARES:
        return "PM105", _first_tensor(file, given if len(given) > 1 else list(_elements(given)))
    if qualified in _FACTORIES:
        sizes = [part for value in given for part in _elements([value])]
        return "PM109", _first_tensor(file, sizes)
    if qualified in _TEXTS:
        return "PM107", _first_tensor(file, given)
    return ("PM106", _first_tensor(file, given)) if qualified.startswith("math.") else None


def _elements(values: list[cst.BaseExpression]) -> Iterator[cst.BaseExpression]:
    """What a single argument holds, as far as it is written down; a tensor is gone through itself."""
    for value in values:
        if isinstance(value, (cst.List, cst.Tuple, cst.Set)):
            yield from (element.value for element in value.elements)
        elif isinstance(value, (cst.GeneratorExp, cst.ListComp, cst.SetComp)):
            yield value.elt
        else:
            yield value


def _operands(file: FileFacts, node: cst.BinaryOperation) -> tuple[str, cst.BaseExpression | None] | None:
    """`"%.3f" % loss`, and `[0] * count`."""
    if isinstance(node.operator, cst.Modulo) and file.value(node.left).kind is Kind.TEXT:
        return "PM107", _first_tensor(file, list(_elements([node.right])))
    if isinstance(node.operator, cst.Multiply):
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(one, (cst.List, cst.Tuple)):
                return "PM106", other
    return None


def _place(file: FileFacts, node: cst.Subscript) -> tuple[str, cst.BaseExpression | None] | None:
    """Bounds of slices, masks beside other indices, and places in lists and arrays that a tensor tells."""
    for element in node.slice:
        index = element.slice
        if isinstance(index, cst.Slice):
            bounds = [bound for bound in (index.lower, index.upper, index.step) if bound is not None]
            tensor = _first_tensor(file, bounds)
            if tensor is not None:
                return "PM109", tensor
            continue
        assert isinstance(index, cst.Index)
        value = file.value(index.value)
        if value.is_tensor and value.device is Device.ACCELERATOR and _is_on_host(file, node.value):
            return "PM112", index.value
        if value.is_tensor and value.dtype is DType.BOOL and len(node.slice) > 1:
            return "PM104", index.value
        if value.is_tensor and _is_number_there(file, node.value, index.value):
            return "PM106", index.value
    return None


def _is_on_host(file: FileFacts, tensor: cst.BaseExpression) -> bool:
    """Whether what an index picks from is a tensor of the host: `weight[labels]` copies `labels` there."""
    value = file.value(tensor)
    return value.is_tensor and value.device is Device.CPU


def filled(statement: cst.Assign | cst.AugAssign) -> list[cst.BaseExpression]:
    """What a statement writes into: `table` of `table[:, i] = out` and of `table[i] += out`."""
    targets = [each.target for each in statement.targets] if isinstance(statement, cst.Assign) else [statement.target]
    return [target.value for target in targets if isinstance(target, cst.Subscript)]


def _fills_host(file: FileFacts, statement: cst.Assign | cst.AugAssign) -> bool:
    """Whether a value is written into an array, or a tensor of the host: `table[i] = out`, `scores[i] += accuracy`."""
    owners = [file.value(owner) for owner in filled(statement)]
    return any(owner.kind is Kind.ARRAY or (owner.is_tensor and owner.device is Device.CPU) for owner in owners)


def _is_number_there(file: FileFacts, container: cst.BaseExpression, index: cst.BaseExpression) -> bool:
    """Whether an index has to be a number: that of a list, or a single element of a tensor."""
    value, kind = file.value(index), file.value(container).kind
    if value.dtype in (DType.BOOL, DType.FLOATING) or kind not in (Kind.SEQUENCE, Kind.ARRAY, Kind.TENSOR):
        return False
    if kind is not Kind.TENSOR or value.rank == 0:
        return True
    definitions = file.flow.definitions(index) if isinstance(index, cst.Name) else ()
    return bool(definitions) and all(definition.binding is Binding.LOOPED for definition in definitions)


def _first_tensor(file: FileFacts, values: list[cst.BaseExpression]) -> cst.BaseExpression | None:
    return next((value for value in values if file.value(value).is_tensor), None)
