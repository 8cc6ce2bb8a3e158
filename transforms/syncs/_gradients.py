"""Which values may be part of a graph, so that what a rewrite computes beside them could reach a gradient."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts import torch_api
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition
from perfmod.transforms.facts.values import DType, Kind

_NO_GRAD = frozenset({"torch.no_grad", "torch.inference_mode"})
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
        or bool(definition.path)
        or definition.value is None
        or (not runs_without_graph(file, definition.value) and _may_carry(file, definition.value, seen | {definition}))
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
            return short == "as_tensor" or argument(call, "requires_grad") is not None
    elif isinstance(call.func, cst.Attribute):
        short = call.func.attr.value
        arguments.insert(0, call.func.value)
    else:
        return True
    if short == "detach":
        return False
    return short not in _OPERATIONS or any(_may_carry(file, argument, seen) for argument in arguments)
