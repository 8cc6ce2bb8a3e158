"""Tensors that are brought to the host as a whole: `pred.cpu()`, `pred.detach().cpu().numpy()`, `pred.tolist()`."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Device
from perfmod.transforms.syncs._host_reads import host_read

_BRINGS = frozenset({"cpu", "numpy", "tolist"})
_ON_THE_WAY = _BRINGS | {"detach", "data", "resolve_conj", "resolve_neg"}


@frozen(eq=False)
class HostCopy:
    """One tensor that the host gets.

    Attributes:
        node: the whole expression: `pred.detach().cpu().numpy()`.
        tensor: what it is taken from: `pred`.
        is_array: whether the host gets an array.
        is_list: whether the host gets a list.
    """

    node: cst.Call
    tensor: cst.BaseExpression
    is_array: bool
    is_list: bool


def host_copies(file: FileFacts) -> Iterator[HostCopy]:
    """The copies that a file makes, except for those that bring one scalar over, which are other rules'."""
    for call in find_all(file.tree.module, cst.Call):
        copy = host_copy(file, call)
        # Modules are moved in place; of tensors nobody drops the copy.
        is_dropped = isinstance(file.tree.parent(call), cst.Expr)
        if copy is not None and not (is_dropped or _is_extended(file, call) or _is_scalar(file, copy)):
            yield copy


def host_copy(file: FileFacts, node: cst.CSTNode) -> HostCopy | None:
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
    return HostCopy(node, tensor, "numpy" in methods, "tolist" in methods)


def _is_extended(file: FileFacts, call: cst.Call) -> bool:
    """Whether the copy goes on behind a call: `pred.cpu()` of `pred.cpu().numpy()`."""
    func = file.tree.parent(call)
    outer = file.tree.parent(func) if isinstance(func, cst.Attribute) else None
    if isinstance(func, cst.Attribute) and func.value is call and func.attr.value in _ON_THE_WAY:
        return func.attr.value == "data" or (isinstance(outer, cst.Call) and not outer.args)
    return False


def _is_scalar(file: FileFacts, copy: HostCopy) -> bool:
    """Whether the copy is the way on which a scalar is read: `loss.cpu()` of `loss.cpu().item()`."""
    if host_read(file, copy.node) is not None or _is_joined(file, copy):
        return True
    parent = file.tree.parent(copy.node)
    around = [file.tree.parent(parent)] if isinstance(parent, (cst.Attribute, cst.Arg)) else []
    for call in around:
        read = host_read(file, call) if isinstance(call, cst.Call) else None
        if read is not None and not file.tree.is_within(copy.node, read.tensor):
            return True
    return False


def _is_joined(file: FileFacts, copy: HostCopy) -> bool:
    """Whether scalars are brought over together on purpose: `torch.stack((loss, accuracy)).tolist()`."""
    made = copy.tensor
    if not copy.is_list or not isinstance(made, cst.Call) or file.qualified(made) != "torch.stack" or not made.args:
        return False
    return len(made.args) == 1 and isinstance(made.args[0].value, (cst.Tuple, cst.List))


def variable_of(file: FileFacts, node: cst.BaseExpression) -> Definition | None:
    """The variable that is given an expression and nothing else: `pred = out.argmax(1).cpu()`."""
    statement = file.tree.parent(node)
    if not isinstance(statement, cst.Assign) or statement.value is not node or len(statement.targets) != 1:
        return None
    target = statement.targets[0].target
    found = file.flow.defined(target) if isinstance(target, cst.Name) else ()
    return found[0] if len(found) == 1 and found[0].binding is Binding.ASSIGNED else None
