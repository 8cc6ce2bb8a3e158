"""Sizes of results that depend on data, where a number of Python says the same."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding
from perfmod.transforms.facts.tree import find_all, walk
from perfmod.transforms.facts.value import DType, Kind

_MAKES = frozenset({"torch.tensor", "torch.as_tensor", "torch.LongTensor", "torch.IntTensor"})
_SIZES = (
    cst.Name, cst.Attribute, cst.Integer, cst.Call, cst.Arg, cst.Subscript, cst.SubscriptElement, cst.Index,
    cst.BinaryOperation, cst.UnaryOperation, cst.BaseBinaryOp, cst.BaseUnaryOp,
)  # fmt: skip
_KEEPS = frozenset({"to", "cuda", "long", "int"})
_CASTS = frozenset({"float", "double", "half", "bool", "to", "type", "type_as", "cuda"})


def classes_of_partner(file: FileFacts, call: cst.Call) -> str | None:
    """`p.shape[-1]`, where an encoding is multiplied with, added to or compared with `p` entry by entry."""
    node: cst.CSTNode = call
    while True:
        func = file.tree.parent(node)
        outer = file.tree.parent(func) if isinstance(func, cst.Attribute) and func.value is node else None
        if isinstance(func, cst.Attribute) and isinstance(outer, cst.Call) and func.attr.value in _CASTS:
            node = outer
        else:
            break
    parent = file.tree.parent(node)
    elementwise = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide)
    if not isinstance(parent, cst.BinaryOperation) or not isinstance(parent.operator, elementwise):
        return None
    other = parent.right if parent.left is node else parent.left
    if not isinstance(other, (cst.Name, cst.Attribute)) or not file.value(other).is_tensor:
        return None
    return f"{file.code(other)}.shape[-1]"


def sum_of_list(file: FileFacts, node: cst.BaseExpression) -> str | None:
    """`sum(lengths)`, where a tensor is made of the list `lengths` of integers."""
    made = _made_by(file, node)
    if made is None or file.qualified(made) not in _MAKES or file.names.hides_builtin("sum", node):
        return None
    data = argument(made, "data", 0)
    if data is None or not isinstance(data, (cst.Name, cst.Attribute)):
        return None
    entry = file.values.iterated(data)
    is_list = file.value(data).kind is Kind.SEQUENCE and entry.kind is Kind.NUMBER and entry.dtype is DType.INTEGER
    here = _same_here(file, data, node) if is_list and not file.aliasing.is_mutated(data) else None
    return f"sum({here})" if here is not None else None


def _made_by(file: FileFacts, node: cst.BaseExpression) -> cst.Call | None:
    """The call that makes a tensor, through one variable and moves."""
    while True:
        if isinstance(node, cst.Name):
            found = file.flow.definitions(node)
            if len(found) != 1 or found[0].binding is not Binding.ASSIGNED or found[0].path or found[0].value is None:
                return None
            if file.aliasing.mutations(found[0]) or file.flow.from_earlier_rounds(node):
                return None
            node = found[0].value
        elif (
            isinstance(node, cst.Call)
            and isinstance(node.func, cst.Attribute)
            and node.func.attr.value in _KEEPS
            and file.qualified(node) is None
        ):
            node = node.func.value
        else:
            return node if isinstance(node, cst.Call) else None


def _same_here(file: FileFacts, node: cst.BaseExpression, at: cst.BaseExpression) -> str | None:
    """The code of an expression, where its variables hold at another place what they held where it stands."""
    if not all(isinstance(part, _SIZES) for part in walk(node)):
        return None
    for call in find_all(node, cst.Call):
        is_size = isinstance(call.func, cst.Attribute) and call.func.attr.value == "size"
        if not is_size and file.qualified(call) != "builtins.len":
            return None
    if file.tree.is_within(node, at):
        return file.code(node)
    for attribute in find_all(node, cst.Attribute):
        if attribute.attr.value not in ("shape", "size"):
            return None  # it may be set in between
    for name in find_all(node, cst.Name):
        if file.flow.is_read(name) and file.qualified(name) is None:
            scope = file.tree.scope(name)
            if scope is not file.tree.scope(at) or len(file.flow.bound(scope, name.value)) != 1:
                return None
    return file.code(node)


def is_length(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether an expression is a length, which is never negative."""
    if isinstance(node, cst.Integer):
        return True
    if isinstance(node, cst.Call):
        is_size = isinstance(node.func, cst.Attribute) and node.func.attr.value in ("size", "numel", "dim")
        return file.qualified(node) == "builtins.len" or (is_size and file.value(node).dtype is DType.INTEGER)
    return (
        isinstance(node, cst.Subscript) and isinstance(node.value, cst.Attribute) and node.value.attr.value == "shape"
    )
