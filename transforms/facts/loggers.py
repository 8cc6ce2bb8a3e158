"""Loggers such as TensorBoard's `SummaryWriter`, which take tensors of the device as they take numbers."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.calls import has_star, is_decorated, passed
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import parameters
from perfmod.transforms.facts.formats import shows_number
from perfmod.transforms.facts.value import Kind

_METHODS = frozenset({"add_scalar", "add_scalars"})
_READS = frozenset({"builtins.float", "builtins.int", "torch.is_tensor"})


def is_logged(file: FileFacts, node: cst.BaseExpression, seen: frozenset[cst.FunctionDef] = frozenset()) -> bool:
    """Whether a figure is given to a logger that takes tensors, by itself or in a dictionary.

    A logger in sight does if it only shows the figure or hands it on to another one: `assert isinstance(value, float)`
    needs a number.
    """
    given: cst.CSTNode = node
    arg = file.tree.parent(node)
    if isinstance(arg, cst.DictElement):
        given = file.tree.parent(arg) or arg
        arg = file.tree.parent(given)
    call = file.tree.parent(arg) if isinstance(arg, cst.Arg) and not arg.star else None
    if not isinstance(call, cst.Call) or has_star(call):
        return False
    if file.qualified(call) == "wandb.log":
        return True
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in _METHODS:
        return False
    receiver = file.value(call.func.value)
    if receiver.kind is Kind.MODULE and receiver.cls is None:
        return False
    functions = file.values.calls.reached(call)
    if not functions and receiver.name is None:
        functions = tuple(
            function for function in file.tree.all(cst.FunctionDef) if function.name.value == call.func.attr.value
        )
    return all(function in seen or _takes_tensors(file, function, call, given, seen) for function in functions)


def _takes_tensors(
    file: FileFacts, function: cst.FunctionDef, call: cst.Call, given: cst.CSTNode, seen: frozenset[cst.FunctionDef]
) -> bool:
    """Whether a function in sight only shows or logs what a call passes to it, or makes a number of it."""
    is_bound = file.classes.of(file.tree.scope(function)) is not None and not is_decorated(function, "staticmethod")
    taking = [param for param in parameters(function) if passed(call, function, param, bound=is_bound) is given]
    uses = [use for param in taking for each in file.flow.defined(param) for use in file.flow.uses(each)]
    fits = (_takes_tensor(file, use) or is_logged(file, use, seen | {function}) for use in uses)
    return bool(taking) and all(fits)


def _takes_tensor(file: FileFacts, use: cst.BaseExpression) -> bool:
    """Whether a figure is shown, made a number, or asked whether it is a tensor."""
    arg = file.tree.parent(use)
    call = file.tree.parent(arg) if isinstance(arg, cst.Arg) and not arg.star else None
    if not isinstance(call, cst.Call):
        return shows_number(file, use)
    name = file.qualified(call)
    asks = name == "builtins.isinstance" and file.qualified(call.args[-1].value) == "torch.Tensor"
    return name in _READS or asks or shows_number(file, use)
