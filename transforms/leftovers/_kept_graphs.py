"""Tensors that are added up or collected over steps together with their graphs."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition
from perfmod.transforms.facts.tree import walk
from perfmod.transforms.syncs._gradients import may_carry_gradient, runs_without_graph

_COLLECTS = frozenset({"append", "appendleft", "update", "add", "push", "extend"})
_SCALES = frozenset({"scale", "backward", "manual_backward"})


@frozen
class Kept:
    """One place that keeps a tensor beyond its step: the statement, the tensor, and what keeps it."""

    statement: cst.CSTNode
    tensor: cst.BaseExpression
    holder: cst.BaseExpression


def kept(file: FileFacts) -> Iterator[Kept]:
    """Every sum and container outside of a loop to which the loop adds a tensor with its graph."""
    for node in walk(file.tree.module):
        if isinstance(node, (cst.AugAssign, cst.Assign, cst.Call)) and file.tree.loops(node):
            found = _kept_by(file, node)
            if found is not None and _outlives_step(file, found) and _has_graph(file, found.tensor):
                yield found


def _kept_by(file: FileFacts, node: cst.AugAssign | cst.Assign | cst.Call) -> Kept | None:
    if isinstance(node, cst.AugAssign):
        if isinstance(node.operator, (cst.AddAssign, cst.SubtractAssign)):
            return Kept(node, node.value, node.target)
    elif isinstance(node, cst.Assign):
        target = node.targets[0].target
        if len(node.targets) == 1 and isinstance(target, cst.Subscript):
            return Kept(node, node.value, target)
        added = _added(file, node.value, target)
        if len(node.targets) == 1 and added is not None:
            return Kept(node, *added)
    elif isinstance(node.func, cst.Attribute) and node.func.attr.value in _COLLECTS and node.args:
        is_alone = isinstance(file.tree.parent(node), cst.Expr) and not node.args[0].star
        if is_alone and node.args[0].keyword is None and file.qualified(node) is None:
            return Kept(node, node.args[0].value, node.func.value)
    return None


def _added(
    file: FileFacts, value: cst.BaseExpression, target: cst.BaseExpression
) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """`x` of `total = total + x`, and the `total` that is read."""
    if not isinstance(value, cst.BinaryOperation) or not isinstance(value.operator, cst.Add):
        return None
    code = file.code(target)
    if file.code(value.left) == code:
        return value.right, value.left
    return (value.left, value.right) if file.code(value.right) == code else None


def _outlives_step(file: FileFacts, found: Kept) -> bool:
    """Whether what keeps the tensor was there before the loop."""
    holder = found.holder
    while isinstance(holder, (cst.Subscript, cst.Attribute, cst.Call)):
        holder = holder.func if isinstance(holder, cst.Call) else holder.value
    if not isinstance(holder, cst.Name):
        return False
    region = file.steps.region(found.statement)
    around = region if isinstance(region, (cst.For, cst.While)) else file.tree.loops(found.statement)[-1]
    starts = [
        d for d in file.flow.definitions(holder) if d.binding is not Binding.AUGMENTED and not _adds(file, d, found)
    ]
    return bool(starts) and not any(file.tree.is_within(d.node, around) for d in starts)


def _adds(file: FileFacts, definition: Definition, found: Kept) -> bool:
    return file.tree.is_within(definition.node, found.statement)


def _has_graph(file: FileFacts, tensor: cst.BaseExpression) -> bool:
    if runs_without_graph(file, tensor) or not may_carry_gradient(file, tensor):
        return False
    return file.value(tensor).is_tensor or any(carriers(file, tensor))


def carriers(file: FileFacts, tensor: cst.BaseExpression) -> Iterator[cst.Name]:
    """The variables of an expression from which a backward pass starts, so that they hold tensors with a graph."""
    if isinstance(tensor, cst.Name):
        if any(_is_differentiated(file, use) for d in file.flow.definitions(tensor) for use in file.flow.uses(d)):
            yield tensor
    elif isinstance(tensor, cst.BinaryOperation):
        yield from carriers(file, tensor.left)
        yield from carriers(file, tensor.right)
    elif isinstance(tensor, cst.UnaryOperation):
        yield from carriers(file, tensor.expression)


def _is_differentiated(file: FileFacts, use: cst.CSTNode) -> bool:
    """`loss.backward()`, `scaler.scale(loss)`, `accelerator.backward(loss)`."""
    parent = file.tree.parent(use)
    if isinstance(parent, cst.Attribute):
        return parent.attr.value == "backward"
    call = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
    return isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.attr.value in _SCALES
