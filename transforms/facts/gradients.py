"""Which values may be part of a graph, so that what a rewrite computes beside them could reach a gradient."""

from __future__ import annotations

import re
from functools import partial

import libcst as cst

from perfmod.transforms.facts import torch_api
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition
from perfmod.transforms.facts.solver import Questions
from perfmod.transforms.facts.tree import is_false
from perfmod.transforms.facts.value import DType, Kind

_NO_GRAD = frozenset({"torch.no_grad", "torch.inference_mode"})
_SETTINGS = frozenset(
    {"torch.set_grad_enabled", "torch.autograd.set_grad_enabled", "torch.autograd.grad_mode.set_grad_enabled"}
)
_SWITCHES = frozenset({"no_grad", "inference_mode", "set_grad_enabled"})
# What only tensors of floating point numbers are asked.
_SHOWS_FLOATING = frozenset(
    {"detach", "requires_grad_", "backward", "isnan", "isinf", "isfinite", "softmax", "log_softmax"}
)
# What leaves a graph in `x.grad`: `backward(create_graph=True)`, or other code that writes there.
_GRAPH_OF_GRADIENTS = re.compile(
    r"\bcreate_graph\b|\.grad\s*[-+*/@]?=(?!=)(?!\s*None\b)|\.grad\.(?!zero_|mul_|div_|clamp_|detach_)\w+_\("
)
_FILLS = frozenset({"normal_", "uniform_", "random_", "fill_", "zero_"})
_OPERATIONS = (torch_api.ELEMENTWISE | torch_api.REDUCTIONS | torch_api.SAME_DTYPE | _FILLS) - {"requires_grad_"}
_SIZES = 2
"""An old type of tensors that is given so many arguments is given sizes; one may be a tensor, whose graph it keeps."""


def may_carry_gradient(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether the value of an expression may need a gradient; False only where it provably does not."""
    return not runs_without_graph(file, node) and _may_carry(file, node)


def runs_without_graph(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether `node` stands under `with torch.no_grad():`, or in a function that is decorated with it or is only
    called without a graph.
    """
    child = node
    for ancestor in file.tree.ancestors(node):
        items = ancestor.items if isinstance(ancestor, cst.With) and child is ancestor.body else ()
        if any(_is_no_grad(file, item.item) for item in items):
            return True
        if isinstance(ancestor, cst.FunctionDef):
            switched = any(_is_no_grad(file, decorator.decorator) for decorator in ancestor.decorators)
            return switched or file.once(_called_without_graph)(ancestor)
        child = ancestor
    return False


def _called_without_graph(file: FileFacts) -> Questions[cst.FunctionDef, bool]:
    return Questions(file.values.solver, partial(_is_called_without_graph, file), False)


def _is_called_without_graph(file: FileFacts, function: cst.FunctionDef) -> bool:
    # Methods are called in more ways than are followed, and generators go on where they are read.
    is_plain = not isinstance(file.tree.scope(function), cst.ClassDef) and function.asynchronous is None
    is_plain &= all(isinstance(end, cst.Return) for end in file.tree.results(function))
    callers = file.values.calls.callers(function) if is_plain and file.values.calls.is_only_called(function) else ()
    return bool(callers) and all(runs_without_graph(file, call) for call in callers)


def is_floating(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether a tensor holds floating point numbers: by its type, or by what only such tensors are asked."""
    value = file.value(node)
    if value.dtype is not None or not value.is_tensor:
        return value.dtype is DType.FLOATING
    if isinstance(node, cst.Name):
        definitions = file.flow.definitions(node)
        made = definitions[0].value if len(definitions) == 1 and definitions[0].binding is Binding.ASSIGNED else None
        is_made = isinstance(made, cst.Call) and not definitions[0].path and is_floating(file, made)
        return is_made or any(_shows_floating(file, use) for each in definitions for use in file.flow.uses(each))
    if not isinstance(node, cst.Call):
        return False
    name, subject = file.qualified(node), node.args[0].value if node.args else None
    if name is None and isinstance(node.func, cst.Attribute):
        name, subject = f"torch.{node.func.attr.value}", node.func.value
    short = (name or "").removeprefix("torch.")
    return short in torch_api.ELEMENTWISE | torch_api.REDUCTIONS and subject is not None and is_floating(file, subject)


def _shows_floating(file: FileFacts, use: cst.CSTNode) -> bool:
    parent = file.tree.parent(use)
    if isinstance(parent, cst.Attribute):
        call = file.tree.parent(parent)
        return isinstance(call, cst.Call) and call.func is parent and parent.attr.value in _SHOWS_FLOATING
    call = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
    if not isinstance(call, cst.Call) or call.args[0] is not parent:
        return False
    name = file.qualified(call) or ""
    return name.startswith("torch.") and name.rpartition(".")[2] in _SHOWS_FLOATING


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
    if not isinstance(node, cst.Call):
        return False
    if file.qualified(node) in _SETTINGS:
        given = argument(node, "mode", 0)
        return is_false(given)
    return not node.args and file.qualified(node) in _NO_GRAD


def _may_carry(file: FileFacts, node: cst.CSTNode) -> bool:
    value = file.value(node)
    if value.kind in (Kind.NUMBER, Kind.ARRAY) or value.dtype in (DType.INTEGER, DType.BOOL):
        return False
    if isinstance(node, cst.Name):
        return _name_may_carry(file, node)
    if isinstance(node, cst.Attribute):
        return node.attr.value != "data" and (node.attr.value != "grad" or file.once(_gradients_carry))
    if isinstance(node, cst.Subscript):
        return _may_carry(file, node.value)
    if isinstance(node, cst.UnaryOperation):
        return _may_carry(file, node.expression)
    if isinstance(node, cst.BinaryOperation):
        return _may_carry(file, node.left) or _may_carry(file, node.right)
    if isinstance(node, cst.Call):
        return _call_may_carry(file, node)
    return True


def _gradients_carry(file: FileFacts) -> bool:
    """Whether `x.grad` may have a graph itself: `backward` leaves one there only if it is told so."""
    return any(_GRAPH_OF_GRADIENTS.search(source.text) for source in file.world.files)


def _name_may_carry(file: FileFacts, name: cst.Name) -> bool:
    definitions = file.flow.definitions(name)
    # A tensor that is written in place takes over the graph of what is written.
    if not definitions or file.aliasing.is_mutated(name):
        return True
    return any(map(file.once(_carrying), definitions))


def _definition_may_carry(file: FileFacts, definition: Definition) -> bool:
    value = definition.value if definition.binding is Binding.ASSIGNED else None
    return value is None or (not runs_without_graph(file, value) and (bool(definition.path) or _may_carry(file, value)))


def _carrying(file: FileFacts) -> Questions[Definition, bool]:
    return Questions(file.values.solver, partial(_definition_may_carry, file), True)


def _call_may_carry(file: FileFacts, call: cst.Call) -> bool:
    arguments: list[cst.CSTNode] = [arg.value for arg in call.args]
    name = file.qualified(call)
    if name == "torch.autograd.Variable":
        return argument(call, "requires_grad", 1) is not None  # else it cuts the graph
    if file.values.placement.tensor_types(call.func):
        return len(arguments) < _SIZES and any(_may_carry(file, each) for each in arguments)
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
    return short not in _OPERATIONS or any(_may_carry(file, argument) for argument in arguments)
