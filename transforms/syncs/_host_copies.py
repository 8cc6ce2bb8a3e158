"""Tensors that are brought to the host as a whole, `pred.detach().cpu()`, and counts that the device can make."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.devices import several_devices
from perfmod.transforms.facts.endings import ends_step
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Device, DType
from perfmod.transforms.syncs._around import in_every_step
from perfmod.transforms.syncs._host_reads import host_read

_BRINGS = frozenset({"cpu", "numpy", "tolist"})
_ON_THE_WAY = _BRINGS | {"detach", "data", "resolve_conj", "resolve_neg"}
_COMPARES = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_CASTS = frozenset({"float", "double", "long", "int"})
_READS = frozenset({"builtins.float", "builtins.int"})


@frozen(eq=False)
class HostCopy:
    """One tensor that the host gets.

    Attributes:
        node: the whole expression: `pred.detach().cpu()`.
        tensor: what it is taken from: `pred`.
        is_tensor: whether the host gets a tensor, and not an array or a list.
    """

    node: cst.Call
    tensor: cst.BaseExpression
    is_tensor: bool


@frozen(eq=False)
class Count:
    """A number that is counted on the host: `(pred.cpu() == y.cpu()).sum().item()`.

    Attributes:
        node: all of it.
        copies: what is brought to the host for it.
        is_rounded: whether floats are added up.
    """

    node: cst.BaseExpression
    copies: Sequence[HostCopy]
    is_rounded: bool


def counts_of(file: FileFacts) -> Sequence[Count]:
    """What a file counts on the host in every step, and the device can count; once for each state of the files."""
    known = file.once(_known_counts)
    if file.source.path not in known:
        taken: set[cst.CSTNode] = set()
        found = known[file.source.path] = []
        for call in find_all(file.tree.module, cst.Call):
            copy = _copy(file, call) if call not in taken else None
            if copy is None or _is_dropped(file, copy) or not in_every_step(file, call) or ends_step(file, call):
                continue
            count = _count(file, copy)
            if count is not None:
                found.append(count)
                taken.update(each.node for each in count.copies)
    return known[file.source.path]


def _known_counts(_: FileFacts) -> dict[str, list[Count]]:
    return {}


def _copy(file: FileFacts, node: cst.CSTNode) -> HostCopy | None:
    """What an expression brings to the host, if it does nothing else; `None` for tensors that are there already."""
    tensor: cst.CSTNode = node
    methods: list[str] = []
    while True:
        func = tensor.func if isinstance(tensor, cst.Call) and not tensor.args else tensor
        is_part = isinstance(tensor, cst.Call) or (isinstance(func, cst.Attribute) and func.attr.value == "data")
        if not isinstance(func, cst.Attribute) or not is_part or func.attr.value not in _ON_THE_WAY:
            break
        methods.append(func.attr.value)
        tensor = func.value
    if (
        not _BRINGS.intersection(methods)
        or not isinstance(node, cst.Call)
        or not isinstance(tensor, cst.BaseExpression)
    ):
        return None
    value = file.value(tensor)
    if not value.is_tensor or value.device is Device.CPU:
        return None
    return HostCopy(node, tensor, not {"numpy", "tolist"}.intersection(methods))


def _is_dropped(file: FileFacts, copy: HostCopy) -> bool:
    """Whether a copy is another rule's: a module that is moved, a scalar that is read, scalars that come together."""
    parent = file.tree.parent(copy.node)
    around = file.tree.parent(parent) if isinstance(parent, (cst.Attribute, cst.Arg)) else None
    if isinstance(parent, cst.Attribute) and parent.attr.value in _ON_THE_WAY:
        return True  # it goes on behind this call
    if isinstance(parent, cst.Expr) or host_read(file, copy.node) is not None:
        return True
    read = host_read(file, around) if isinstance(around, cst.Call) else None
    if read is not None and not file.tree.is_within(copy.node, read.tensor):
        return True
    return isinstance(copy.tensor, cst.Call) and file.qualified(copy.tensor) == "torch.stack"


def _count(file: FileFacts, copy: HostCopy) -> Count | None:
    """The count that a copy is made for; `None` where there is none that the device can make."""
    if not copy.is_tensor:
        return None
    copies, compared = [copy], _compared(file, copy.node)
    sides = [side for side in _sides(file, compared) if side is not copy.node] if compared is not None else []
    for side in sides:
        other = _copy(file, side)
        if other is not None and other.is_tensor:
            copies.append(other)
        elif not _is_exact(file, side, copy.tensor):
            return None
    is_of_one_device = all(file.value(each.tensor).device is Device.ACCELERATOR for each in copies)
    if len(copies) > 1 and (several_devices(file) is not None or not is_of_one_device):
        return None
    found = _reduced(file, compared if compared is not None and len(sides) == 1 else copy.node)
    if found is None or "#" in file.code(found[0]):
        return None
    whole, is_rounded = found
    is_count = bool(sides) or file.value(copy.tensor).dtype in (DType.BOOL, DType.INTEGER)
    return Count(whole, copies, is_rounded or not is_count)


def _compared(file: FileFacts, node: cst.CSTNode) -> cst.CSTNode | None:
    """The comparison that an expression is a side of."""
    parent = file.tree.parent(node)
    is_method = isinstance(parent, cst.Attribute) and isinstance(file.tree.parent(parent), cst.Call)
    if is_method or isinstance(parent, (cst.ComparisonTarget, cst.Arg)):
        parent = file.tree.parent(parent) if parent is not None else None
    return parent if parent is not None and any(side is node for side in _sides(file, parent)) else None


def _sides(file: FileFacts, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """The two operands of `a == b`, `a.eq(b)` and `torch.eq(a, b)`."""
    if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
        if not isinstance(node.comparisons[0].operator, (cst.In, cst.NotIn, cst.Is, cst.IsNot)):
            yield from (node.left, node.comparisons[0].comparator)
    elif isinstance(node, cst.Call) and not any(arg.star or arg.keyword for arg in node.args):
        name = file.qualified(node)
        if name is None and isinstance(node.func, cst.Attribute) and node.func.attr.value in _COMPARES:
            yield from (node.func.value, *(arg.value for arg in node.args))
        elif name is not None and name.removeprefix("torch.") in _COMPARES:
            yield from (arg.value for arg in node.args)


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


def _reduced(file: FileFacts, node: cst.CSTNode) -> tuple[cst.BaseExpression, bool] | None:
    """The number that is made of a tensor by `sum` or `mean`, and whether it is rounded on the way."""
    reduced, is_rounded = False, False
    while True:
        parent = file.tree.parent(node)
        call = file.tree.parent(parent) if parent is not None else None
        if isinstance(parent, cst.Assign) and isinstance(node, cst.Call) and reduced and _is_only_read(file, parent):
            return node, is_rounded
        if not isinstance(call, cst.Call):
            return None
        if isinstance(parent, cst.Arg):
            name = file.qualified(call) or ""
            if reduced or len(call.args) != 1 or name not in ("torch.sum", "torch.mean"):
                return (call, is_rounded) if reduced and name in _READS else None
            reduced, is_rounded = True, is_rounded or name == "torch.mean"
        elif isinstance(parent, cst.Attribute) and call.func is parent and not call.args:
            method = parent.attr.value
            if method == "item" and reduced:
                return call, is_rounded
            if method in ("sum", "mean") and not reduced:
                reduced, is_rounded = True, is_rounded or method == "mean"
            elif method not in _CASTS:
                return None
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
    return isinstance(parent, cst.Arg) and isinstance(call, cst.Call) and file.qualified(call) in _READS
