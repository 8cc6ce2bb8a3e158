"""The functions in sight that code runs, through others too, and what its assignments bind."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.calls import is_decorated
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding
from perfmod.transforms.facts.tree import children, find_all, find_in_scope
from perfmod.transforms.facts.value import Kind

OF_TENSORS = frozenset(
    {"abs", "argmax", "clamp", "contiguous", "detach", "div", "exp", "expand", "expand_as", "flatten", "float",
     "gather", "log", "log_softmax", "long", "max", "mean", "min", "mul", "permute", "pow", "repeat", "reshape", "size",
     "softmax", "sqrt", "squeeze", "sum", "transpose", "type_as", "unsqueeze", "view", "view_as"}
)  # fmt: skip
_RUN_METHODS = (
    cst.BinaryOperation, cst.UnaryOperation, cst.BooleanOperation, cst.Comparison, cst.AugAssign, cst.If, cst.IfExp,
    cst.While, cst.Assert, cst.For, cst.CompFor, cst.FormattedStringExpression,
)  # fmt: skip
"""What runs special methods of its operands."""
_CONTAINERS = frozenset({"torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict"})
"""Modules that run the layers that they are given; others of torch run layers of their own."""


def reached(file: FileFacts, statement: cst.CSTNode) -> list[cst.FunctionDef]:
    """The functions in sight that a statement runs, through others too."""
    found: dict[cst.FunctionDef, None] = {}
    stack: list[cst.CSTNode] = [statement]
    while stack:
        for node in find_in_scope(stack.pop(), cst.Call, cst.Attribute, cst.Subscript, *_RUN_METHODS):
            for function in _run_by(file, node):
                for each in (function, *_wrappers(file, function)):
                    if each not in found:
                        found[each] = None
                        stack.append(each.body)
    return list(found)


def _wrappers(file: FileFacts, function: cst.FunctionDef) -> Iterator[cst.FunctionDef]:
    """The functions in decorators in sight, which run in the place of a function."""
    for decorator in function.decorators:
        name = decorator.decorator.func if isinstance(decorator.decorator, cst.Call) else decorator.decorator
        for made in file.flow.of_name(name):
            if isinstance(made.node, cst.FunctionDef):
                yield from find_all(made.node.body, cst.FunctionDef)


def _run_by(file: FileFacts, node: cst.CSTNode) -> Iterator[cst.FunctionDef]:
    """The functions in sight that a call runs, that a property is, or that gives an item."""
    if isinstance(node, cst.Call):
        yield from file.values.calls.reached(node) or _maybe_run_by(file, node)
        yield from file.values.calls.handed(node)
    elif isinstance(node, cst.Attribute) and file.qualified(node) is None:
        own = file.classes.self_attribute(node)
        cls = own[0] if own is not None else file.value(node.value).cls
        method = cls.method(node.attr.value) if cls is not None else None
        if method is not None and is_decorated(method, "property"):
            yield method
    elif isinstance(node, cst.Subscript) and (cls := file.value(node.value).cls) is not None:
        yield from filter(None, [cls.method("__getitem__")])
    yield from _run_by_operands(file, node)


def _run_by_operands(file: FileFacts, node: cst.CSTNode) -> Iterator[cst.FunctionDef]:
    """What arithmetic with an object of a class in sight may run, a comparison, a condition or a conversion of it:
    `__mul__`, `__eq__`, `__bool__`, `__float__`.
    """
    operands: list[cst.CSTNode] = []
    if isinstance(node, _RUN_METHODS):
        operands = [*children(node), *(each.comparator for each in getattr(node, "comparisons", ()))]
    elif isinstance(node, cst.Call) and (file.qualified(node) or "").startswith("builtins."):
        operands = [arg.value for arg in node.args]
    values = (file.value(each) for each in operands if isinstance(each, cst.BaseExpression))
    for cls in filter(None, (each.cls for each in values)):
        for own in cls.lineage():
            yield from (
                each
                for name, each in own.methods.items()
                if name.startswith("__") and name not in ("__init__", "__call__")
            )


def _maybe_run_by(file: FileFacts, call: cst.Call) -> list[cst.FunctionDef]:
    """What a call may run that names no function in sight: methods of that name where the object is not known, as those
    of callbacks in a list, and layers in sight that a container, or a wrapper around a model, may hold.
    """
    func = call.func
    if isinstance(func, cst.Attribute) and file.qualified(func) is None and func.attr.value not in OF_TENSORS:
        held = file.value(func.value)
        if held.kind is Kind.UNKNOWN and held.present is None:
            return [each for cls in file.classes if (each := cls.methods.get(func.attr.value)) is not None]
    made = [each.value for each in file.flow.of_name(func) if isinstance(each.value, cst.Call)]
    makers = [each for call_of_maker in made for each in file.values.calls.reached(call_of_maker)]
    if makers and isinstance(func, cst.Name) and file.value(func).kind is Kind.UNKNOWN:
        return [each for maker in makers for each in find_all(maker.body, cst.FunctionDef)]
    value = file.value(func).when_used
    is_looped = value.kind is Kind.UNKNOWN and (
        isinstance(func, cst.Subscript) or any(each.binding is Binding.LOOPED for each in file.flow.of_name(func))
    )
    is_layer = (value.name or "").startswith("torch.nn.") and value.name not in _CONTAINERS
    is_whole = is_layer or (value.call is not None and _is_of_torch_only(file, value.call))
    if is_looped or (value.kind is Kind.MODULE and value.cls is None and not is_whole):
        return [each for cls in file.classes if cls.is_module and (each := cls.methods.get("forward")) is not None]
    return []


def _is_of_torch_only(file: FileFacts, made: cst.BaseExpression) -> bool:
    """Whether a module is one of torch and holds no other: `nn.Sequential(nn.Linear(4, 8), nn.ReLU())`."""
    name = file.qualified(made) or "" if isinstance(made, cst.Call) else ""
    if name not in _CONTAINERS or not isinstance(made, cst.Call):
        return name.startswith("torch.nn.")
    return all(not arg.star and _is_of_torch_only(file, arg.value) for arg in made.args)


def targets_of(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """What a statement, or the head of a loop, binds, changes or deletes: `x = 1`, `for self.epoch in range(9)`."""
    if isinstance(node, cst.Assign):
        for each in node.targets:
            yield from _parts(each.target)
    elif isinstance(node, (cst.AugAssign, cst.AnnAssign, cst.For, cst.CompFor)):
        yield from _parts(node.target)
    elif isinstance(node, cst.WithItem) and node.asname is not None:
        yield from _parts(node.asname.name)
    elif isinstance(node, cst.Del):
        yield from _parts(node.target)


def _parts(target: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from _parts(element.value)
    else:
        yield target
