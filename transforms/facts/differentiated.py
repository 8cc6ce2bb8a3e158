"""Tensors that `backward()` runs on: losses, whatever made them. They have one element, and are of floating point."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition, dotted
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Kind

_COPIES = frozenset({"data", "detach", "clone", "cpu", "cuda", "float", "double"})
_OPTIONS = frozenset({"gradient", "retain_graph", "create_graph", "inputs"})
_ARITHMETIC = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide)


def is_differentiated(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether `backward()` runs on the tensor or a sum that it is part of: one element, floating-point."""
    node = _without_copies(node)
    if isinstance(node, cst.Name):
        definitions = file.flow.definitions(node)
        trained = bool(definitions) and all(_is_trained(file, definition) for definition in definitions)
        return trained or _adds_trained(file, node, {})
    if isinstance(node, cst.BinaryOperation):
        return _adds_trained(file, node, {})
    if isinstance(node, cst.Attribute):
        cls = file.classes.around(node)
        code = dotted(node)
        around = cls.node if cls is not None else None
        return (
            bool(code)
            and around is not None
            and any(
                dotted(other) == code and _backward_runs_on(file, other, set())
                for other in find_all(around, cst.Attribute)
            )
        )
    return False


def is_pass(file: FileFacts, call: cst.Call) -> bool:
    """Whether a call is `x.backward(...)` of what may be a tensor: an object of a class in sight has a method of its
    own, and so has one that takes other arguments than those of tensors.
    """
    func = call.func
    if not isinstance(func, cst.Attribute) or func.attr.value != "backward":
        return False
    is_tensor = file.value(func.value).kind in (Kind.TENSOR, Kind.UNKNOWN)
    return is_tensor and all(arg.keyword is None or arg.keyword.value in _OPTIONS for arg in call.args)


def _adds_trained(file: FileFacts, node: cst.BaseExpression, known: dict[tuple[Definition, ...], bool]) -> bool:
    """Whether an expression is arithmetic of numbers and of losses that are differentiated one by one."""
    node = _without_copies(node)
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, _ARITHMETIC):
        numbers = [file.value(side).kind is Kind.NUMBER for side in (node.left, node.right)]
        sides = [_adds_trained(file, side, known) for side in (node.left, node.right)]
        return any(sides) and all(map(any, zip(numbers, sides, strict=True)))
    if not isinstance(node, cst.Name):
        return False
    definitions = file.flow.definitions(node)
    if definitions not in known:
        known[definitions] = False  # what is made of itself only
        parts = [definition.part if definition.binding is Binding.ASSIGNED else None for definition in definitions]
        known[definitions] = bool(definitions) and (
            all(_is_trained(file, definition) for definition in definitions)
            or all(part is not None and _adds_trained(file, part, known) for part in parts)
        )
    return known[definitions]


def _without_copies(node: cst.BaseExpression) -> cst.BaseExpression:
    """`loss` of `loss.data`, `loss.detach()`, `loss.float()`: as many elements, floating-point as well."""
    while True:
        inner = node.func if isinstance(node, cst.Call) else node
        if not isinstance(inner, cst.Attribute):
            return node
        if inner.attr.value not in _COPIES or (isinstance(node, cst.Call) and node.args):
            return node
        if isinstance(node, cst.Attribute) and inner.attr.value != "data":
            return node
        node = inner.value


def _is_trained(file: FileFacts, definition: Definition) -> bool:
    known, seen = file.once(_trained), set[Definition]()
    if definition not in known:
        known[definition] = _leads_to_backward(file, definition, seen)
        known |= {} if known[definition] else dict.fromkeys(seen, False)
    return known[definition]


def _trained(_file: FileFacts) -> dict[Definition, bool]:
    """What was found out already."""
    return {}


def _leads_to_backward(file: FileFacts, definition: Definition, seen: set[Definition]) -> bool:
    known = file.once(_trained).get(definition)
    if known is not None or definition in seen:
        return bool(known)
    seen.add(definition)
    return any(_backward_runs_on(file, use, seen) for use in file.flow.uses(definition))


def _backward_runs_on(file: FileFacts, use: cst.BaseExpression, seen: set[Definition]) -> bool:
    node: cst.CSTNode = use
    parent = file.tree.parent(node)
    while True:
        call = file.tree.parent(parent) if parent is not None else None
        if isinstance(parent, cst.BinaryOperation) and isinstance(parent.operator, _ARITHMETIC):
            # One element comes out of an operation that broadcasts only where one went in.
            if isinstance(parent.operator, cst.Divide) and parent.right is node:
                return False
        elif isinstance(parent, cst.Arg) and isinstance(call, cst.Call) and call.args[0] is parent:
            method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
            if method in ("backward", "manual_backward"):
                return True
            if method != "scale":
                return isinstance(call.func, cst.Name) and call.func.value == "loss_scaler"
            parent = call
        elif isinstance(parent, cst.Attribute) and isinstance(call, cst.Call) and call.func is parent:
            # With an argument for `gradient`, tensors of any size are differentiated.
            return is_pass(file, call) and all(
                arg.keyword is not None and arg.keyword.value != "gradient" for arg in call.args
            )
        elif not isinstance(parent, cst.UnaryOperation):
            break
        node, parent = parent, file.tree.parent(parent)
    return any(_leads_to_backward(file, definition, seen) for definition in _made_by(file, node, parent))


def _made_by(file: FileFacts, value: cst.CSTNode, statement: cst.CSTNode | None) -> list[Definition]:
    """The names that get the value of an expression by `name = value` or `name += value`."""
    if isinstance(statement, cst.Assign) and statement.value is value:
        targets = [target.target for target in statement.targets]
    elif isinstance(statement, cst.AugAssign) and isinstance(
        statement.operator, (cst.AddAssign, cst.SubtractAssign, cst.MultiplyAssign, cst.DivideAssign)
    ):
        targets = [statement.target]
    else:
        return []
    return [
        definition
        for target in targets
        if isinstance(target, cst.Name)
        for definition in file.flow.bound(file.tree.scope(target), target.value)
        if definition.node is target and definition.binding in (Binding.ASSIGNED, Binding.AUGMENTED)
    ]
