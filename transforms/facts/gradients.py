"""Which values may be part of a graph, so that what a rewrite computes beside them could reach a gradient."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts import torch_api
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition
from perfmod.transforms.facts.value import DType, Kind

_NO_GRAD = frozenset({"torch.no_grad", "torch.inference_mode"})
_SWITCHES = frozenset({"no_grad", "inference_mode", "set_grad_enabled"})
_OPERATIONS = (torch_api.ELEMENTWISE | torch_api.REDUCTIONS) - {"requires_grad_"}


def may_carry_gradient(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether the value of an expression may need a gradient; False only where it provably does not."""
    return not runs_without_graph(file, node) and _may_carry(file, node, frozenset())


def runs_without_graph(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether `node` stands under `with torch.no_grad():` or in a function decorated with it."""
    child = node
    for ancestor in file.tree.ancestors(node):
        items = ancestor.items if isinstance(ancestor, cst.With) and child is ancestor.body else ()
        if any(_is_no_grad(file, item.item) for item in items):
            return True
        if isinstance(ancestor, cst.FunctionDef):
            return any(_is_no_grad(file, decorator.decorator) for decorator in ancestor.decorators)
        child = ancestor
    return False


def cuts_graph(file: FileFacts, name: cst.Name) -> bool:
    """Whether a new tensor made where `name` is read may lack the graph of the tensor that the name holds.

    That is so under `torch.no_grad()` and the like, unless the tensor was made there as well. Parameters are
    not looked at.
    """
    if not _may_lack_graph(file, name) or file.value(name).dtype in (DType.INTEGER, DType.BOOL):
        return False
    return any(
        d.binding is not Binding.ASSIGNED
        or d.value is None
        or not (runs_without_graph(file, d.value) and file.aliasing.is_fresh(d.value))
        for d in file.flow.definitions(name)
        if d.binding is not Binding.PARAMETER
    )


def _may_lack_graph(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether `node` stands under anything that switches gradients off, or may do so."""
    for ancestor in file.tree.ancestors(node):
        switches: list[cst.BaseExpression] = []
        if isinstance(ancestor, cst.With):
            switches = [item.item for item in ancestor.items]
        elif isinstance(ancestor, cst.FunctionDef):
            switches = [decorator.decorator for decorator in ancestor.decorators]
        if any((file.qualified(switch) or "").rpartition(".")[2] in _SWITCHES for switch in switches):
            return True
        if isinstance(ancestor, cst.FunctionDef):
            return False
    return False


def _is_no_grad(file: FileFacts, node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and not node.args and file.qualified(node) in _NO_GRAD


def _may_carry(file: FileFacts, node: cst.CSTNode, seen: frozenset[Definition]) -> bool:
    value = file.value(node)
    if value.kind is Kind.NUMBER or value.dtype in (DType.INTEGER, DType.BOOL):
        return False
    if isinstance(node, cst.Name):
        return _name_may_carry(file, node, seen)
    if isinstance(node, cst.Attribute):
        return node.attr.value != "data"
    if isinstance(node, cst.Subscript):
        return _may_carry(file, node.value, seen)
    if isinstance(node, cst.UnaryOperation):
        return _may_carry(file, node.expression, seen)
    if isinstance(node, cst.BinaryOperation):
        return _may_carry(file, node.left, seen) or _may_carry(file, node.right, seen)
    if isinstance(node, cst.Call):
        return _call_may_carry(file, node, seen)
    return True


def _name_may_carry(file: FileFacts, name: cst.Name, seen: frozenset[Definition]) -> bool:
    definitions = file.flow.definitions(name)
    # A tensor that is written in place takes over the graph of what is written.
    if not definitions or file.aliasing.is_mutated(name):
        return True
    return any(
        definition in seen
        or definition.binding is not Binding.ASSIGNED
        or definition.value is None
        or (
            not runs_without_graph(file, definition.value)
            and (bool(definition.path) or _may_carry(file, definition.value, seen | {definition}))
        )
        for definition in definitions
    )


def _call_may_carry(file: FileFacts, call: cst.Call, seen: frozenset[Definition]) -> bool:
    arguments: list[cst.CSTNode] = [arg.value for arg in call.args]
    name = file.qualified(call)
    if name is not None:
        short = name.removeprefix("torch.nn.functional.").removeprefix("torch.")
        if not name.startswith("torch."):
            return True
        if short in torch_api.CREATES:
            return short in ("as_tensor", "asarray") or argument(call, "requires_grad") is not None
    elif isinstance(call.func, cst.Attribute):
        short = call.func.attr.value
        arguments.insert(0, call.func.value)
    else:
        return True
    if short == "detach":
        return False
    return short not in _OPERATIONS or any(_may_carry(file, argument, seen) for argument in arguments)
