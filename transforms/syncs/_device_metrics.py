"""Counts of equal entries, as accuracies are computed from: what the device can count as well as the host."""

from __future__ import annotations

import math
from collections.abc import Iterator

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.masks import is_unchanged
from perfmod.transforms.facts.value import Device, DType
from perfmod.transforms.rule import Edit, Numerics
from perfmod.transforms.syncs._gathers import sole_definition
from perfmod.transforms.syncs._host_copies import HostCopy, host_copy, variable_of
from perfmod.transforms.syncs._report_figures import several_devices
from perfmod.transforms.writing import replace

_COMPARES = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_CASTS = frozenset({"float", "double", "long", "int"})
_NUMPY = {"numpy.sum": "sum", "numpy.mean": "mean", "numpy.count_nonzero": "sum"}


@frozen(eq=False)
class Metric:
    """A comparison of two tensors on the host, or one tensor, and the reduction that makes one number of it.

    Attributes:
        node: the expression that gives the number.
        comparison: the comparison in it, or the tensor.
        copies: what is brought to the host for it; `sides` are the expressions that read it there, which are the
            copies themselves or variables.
        is_numpy: whether NumPy computes it, and gives numbers of its own.
        numerics: how far the number may move on the device.
    """

    node: cst.BaseExpression
    comparison: cst.BaseExpression
    copies: tuple[HostCopy, ...]
    sides: tuple[cst.BaseExpression, ...]
    is_numpy: bool
    numerics: Numerics


def metric_of(file: FileFacts, copy: HostCopy) -> Metric | str:
    """The metric that a copy is made for; or why there is none that the device can compute, in one line."""
    read = _read(file, copy)
    comparison = file.tree.parent(read)
    if isinstance(comparison, (cst.ComparisonTarget, cst.Arg)):
        comparison = file.tree.parent(comparison)
    if isinstance(comparison, cst.Attribute) and isinstance(file.tree.parent(comparison), cst.Call):
        comparison = file.tree.parent(comparison)
    sides = list(_sides(file, comparison)) if comparison is not None else []
    if comparison is None or len(sides) != 2 or not any(side is read for side in sides):
        is_same = read is copy.node or is_unchanged(file, copy.tensor, read)
        alone = None if copy.is_array or copy.is_list or not is_same else _reduction(file, read, is_array=False)
        if alone is None:
            return ""
        is_count = file.value(copy.tensor).dtype in (DType.BOOL, DType.INTEGER) and not alone[1]
        return Metric(alone[0], read, (copy,), (read,), False, Numerics.BITWISE if is_count else Numerics.ROUNDING)
    assert isinstance(comparison, cst.BaseExpression)
    copies = [_copy_behind(file, side) for side in sides]
    here = [(side, found) for side, found in zip(sides, copies, strict=True) if found is not None and not found.is_list]
    others = [side for side in sides if not any(side is known for known, _ in here)]
    if others and not (here and not here[0][1].is_array and _is_exact(file, others[0], here[0][1].tensor)):
        return _why_not_there(file, others[0])
    if len({found.is_array for _, found in here}) > 1:
        return "a tensor is compared with an array"
    if not others:
        if any(file.value(found.tensor).device is not Device.ACCELERATOR for _, found in here):
            return "that both tensors are on the same device could not be shown"
        if several_devices(file) is not None:
            return f"the file uses several devices (line {file.line(several_devices(file) or comparison)})"
    is_array = here[0][1].is_array
    reduced = _reduction(file, comparison, is_array)
    if reduced is None:
        return f"more than a count is made of `{' '.join(file.code(comparison).split())[:60]}` on the host"
    node, is_rounded = reduced
    numerics = Numerics.ROUNDING if is_rounded else Numerics.BITWISE
    read_there, brought = zip(*here, strict=True)
    return Metric(node, comparison, brought, read_there, is_array, numerics)


def _why_not_there(file: FileFacts, side: cst.BaseExpression) -> str:
    """Why one side of a comparison cannot be read on the device."""
    code, known = " ".join(file.code(side).split())[:60], file.value(side)
    definition = sole_definition(file, side) if isinstance(side, cst.Name) else None
    if definition is not None and definition.value is not None and host_copy(file, definition.value) is not None:
        return f"`{code}` is a copy that is read elsewhere too, or of what has changed since"
    if known.is_tensor and known.device is Device.CPU:
        return f"`{code}` is on the host: move it to the device once, and compare there"
    return f"`{code}` could not be shown to come from the device, too"


def _is_exact(file: FileFacts, node: cst.BaseExpression, tensor: cst.BaseExpression) -> bool:
    """Whether a number means the same beside a tensor of the host and of the device.

    Host and device round it to narrow types at different times: it has to need no more than the 8 bits of bfloat16.
    """
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        return _is_exact(file, node.expression, tensor)
    if not isinstance(node, (cst.Integer, cst.Float)):
        return False
    mantissa, _ = math.frexp(node.evaluated_value)
    is_integer = isinstance(node, cst.Integer) and file.value(tensor).dtype in (DType.INTEGER, DType.BOOL)
    return is_integer or (mantissa * 256).is_integer()


def _read(file: FileFacts, copy: HostCopy) -> cst.BaseExpression:
    """Where a copy is read: the copy itself, or the one place that reads the variable it is given to.

    What only asks for the length gets the same of the tensor on the device.
    """
    definition = variable_of(file, copy.node)
    uses = file.flow.uses(definition) if definition is not None else ()
    reads = [use for use in uses if not _asks_for_length(file, use)]
    if len(reads) == 1 and isinstance(reads[0], cst.Name) and sole_definition(file, reads[0]) is definition:
        return reads[0]
    return copy.node


def _copy_behind(file: FileFacts, side: cst.BaseExpression) -> HostCopy | None:
    """The copy that a side of a comparison is, or that its variable holds while nobody writes to the tensor."""
    definition = sole_definition(file, side) if isinstance(side, cst.Name) else None
    if definition is None or definition.path or definition.value is None:
        return host_copy(file, side)
    copy = host_copy(file, definition.value)
    if copy is None or _read(file, copy) is not side or not is_unchanged(file, copy.tensor, side):
        return None
    return copy


def _asks_for_length(file: FileFacts, use: cst.CSTNode) -> bool:
    """`len(pred)`, `pred.shape` and `pred.size(0)`; the first two of arrays, too."""
    around = file.tree.parent(use)
    call = file.tree.parent(around) if around is not None else None
    if isinstance(around, cst.Attribute):
        is_called = isinstance(call, cst.Call) and call.func is around
        return around.attr.value == "shape" or (around.attr.value == "size" and is_called)
    return isinstance(around, cst.Arg) and isinstance(call, cst.Call) and file.qualified(call) == "builtins.len"


def on_device(file: FileFacts, metric: Metric) -> list[Edit]:
    """Edits that compute a metric where its tensors are."""
    source = file.source
    edits = [replace(source, copy.node, _detached(file, copy.tensor)) for copy in metric.copies]
    if not metric.is_numpy:
        return edits
    pairs = zip(metric.sides, metric.copies, strict=True)
    left, right = (_detached(file, copy.tensor if side is copy.node else side) for side, copy in pairs)
    edits = [edit for edit, side in zip(edits, metric.sides, strict=True) if isinstance(side, cst.Name)]
    if isinstance(metric.comparison, cst.Comparison):
        operator = source.code(metric.comparison.comparisons[0].operator).strip()
        compared = f"({left} {operator} {right})"
    else:
        return []
    mean = metric.numerics is Numerics.ROUNDING
    return [*edits, replace(source, metric.node, f"{compared}{'.double().mean()' if mean else '.sum()'}.item()")]


def _detached(file: FileFacts, tensor: cst.BaseExpression) -> str:
    """The code of a tensor; comparisons have no gradient, so that nothing has to be cut."""
    is_primary = isinstance(tensor, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
    return file.code(tensor) if is_primary else f"({file.code(tensor)})"


def _sides(file: FileFacts, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """The two operands of `a == b`, `a.eq(b)` and `torch.eq(a, b)`."""
    if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
        operator = node.comparisons[0].operator
        if not isinstance(operator, (cst.In, cst.NotIn, cst.Is, cst.IsNot)):
            yield node.left
            yield node.comparisons[0].comparator
    elif isinstance(node, cst.Call) and not any(arg.star or arg.keyword for arg in node.args):
        name = file.qualified(node)
        if name is not None and name.startswith("torch.") and name.removeprefix("torch.") in _COMPARES:
            yield from (arg.value for arg in node.args)
        elif name is None and isinstance(node.func, cst.Attribute) and node.func.attr.value in _COMPARES:
            yield node.func.value
            yield from (arg.value for arg in node.args)


def _reduction(
    file: FileFacts, comparison: cst.BaseExpression, is_array: bool
) -> tuple[cst.BaseExpression, bool] | None:
    """The number that is made of a comparison by `sum` or `mean`, and whether it is rounded on the way."""
    node: cst.BaseExpression = comparison
    reduced, is_rounded = False, False
    while True:
        parent = file.tree.parent(node)
        call = file.tree.parent(parent) if parent is not None else None
        if isinstance(parent, cst.Assign) and reduced and not is_array and _is_only_read(file, parent):
            return node, is_rounded
        if not isinstance(call, cst.Call):
            return None
        if isinstance(parent, cst.Arg):
            name = file.qualified(call) or ""
            if len(call.args) != 1:
                return None
            if is_array:
                return (call, _NUMPY[name] == "mean") if not reduced and name in _NUMPY else None
            if reduced:
                return (call, is_rounded) if name in ("builtins.float", "builtins.int") else None
            if name not in ("torch.sum", "torch.mean"):
                return None
            reduced, is_rounded = True, is_rounded or name == "torch.mean"
        elif isinstance(parent, cst.Attribute) and call.func is parent and not call.args:
            method = parent.attr.value
            if method in ("sum", "mean") and not reduced:
                reduced, is_rounded = True, is_rounded or method == "mean"
                if is_array:
                    return call, is_rounded
            elif method == "item" and reduced:
                return call, is_rounded
            elif is_array or method not in _CASTS:
                return None
            else:
                is_rounded = is_rounded or method in ("float", "double")
        else:
            return None
        node = call


def _is_only_read(file: FileFacts, statement: cst.Assign) -> bool:
    """Whether a scalar gets a name and is nothing but read as a number wherever that is used."""
    found = [definition for target in statement.targets for definition in file.flow.defined(target.target)]
    uses = [use for definition in found for use in file.flow.uses(definition)]
    return len(found) == len(statement.targets) == 1 and bool(uses) and all(_is_read(file, use) for use in uses)


def _is_read(file: FileFacts, use: cst.BaseExpression) -> bool:
    parent = file.tree.parent(use)
    call = file.tree.parent(parent) if parent is not None else None
    if isinstance(parent, cst.Attribute):
        return parent.attr.value == "item" and isinstance(call, cst.Call) and call.func is parent
    return isinstance(parent, cst.Arg) and file.qualified(call) in ("builtins.float", "builtins.int") if call else False
