"""What a scalar that a step reads goes into: sums, lists, meters, variables, callers; all else needs a number."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import has_star
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition
from perfmod.transforms.syncs._terms import ARITHMETIC, Returned, converted, is_square, target_of


@frozen(eq=False)
class Sum:
    """`target += value`, and `target = target + value`."""

    target: cst.BaseExpression
    statement: cst.AugAssign | cst.Assign


@frozen(eq=False)
class Listed:
    """`target.append(value)`, and `target += [value]`."""

    target: cst.BaseExpression
    value: cst.BaseExpression


@frozen(eq=False)
class Metered:
    """`meter.update(value, weight)`."""

    call: cst.Call
    value: cst.BaseExpression


@frozen(eq=False)
class Held:
    """`name = value`; or `return value` of a function, for whoever calls it."""

    carriers: tuple[Definition | Returned, ...]


Sink = Sum | Listed | Metered | Held


def sink_of(file: FileFacts, node: cst.BaseExpression) -> Sink | None:
    """What an expression goes into as a part of a sum or product; `None` where its number is needed."""
    current: cst.BaseExpression = node
    while True:
        parent = file.tree.parent(current)
        around = file.tree.parent(parent) if parent is not None else None
        is_operand = isinstance(parent, cst.BinaryOperation) and isinstance(parent.operator, ARITHMETIC)
        is_squared = is_square(file, parent) and cst.ensure_type(parent, cst.BinaryOperation).left is current
        if (
            is_operand
            or is_squared
            or (isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, (cst.Plus, cst.Minus)))
        ):
            current = parent  # type: ignore[assignment]
        elif isinstance(around, cst.Call) and converted(file, around) is current:
            current = around
        else:
            break
    if isinstance(parent, cst.Arg) and isinstance(around, cst.Call):
        return _taken(file, around, current)
    if isinstance(parent, cst.AugAssign) and parent.value is current:
        target = target_of(file, parent)
        return Sum(target, parent) if target is not None else None
    if isinstance(parent, cst.Assign):
        target = target_of(file, parent)
        return Sum(target, parent) if target is not None else _held(file, current, [t.target for t in parent.targets])
    if isinstance(parent, cst.AnnAssign):
        return _held(file, current, [parent.target])
    if isinstance(parent, cst.Return):
        return _returned(file, parent, None)
    if isinstance(parent, cst.Element):
        return _element(file, current, parent)
    return None


def _taken(file: FileFacts, call: cst.Call, value: cst.BaseExpression) -> Sink | None:
    if not isinstance(call.func, cst.Attribute) or not isinstance(file.tree.parent(call), cst.Expr) or has_star(call):
        return None
    if call.func.attr.value == "append" and len(call.args) == 1 and call.args[0].keyword is None:
        return Listed(call.func.value, value)
    is_meter = call.func.attr.value == "update" and file.value(call.func.value).cls is not None
    return Metered(call, value) if is_meter else None


def _held(file: FileFacts, value: cst.BaseExpression, targets: list[cst.BaseExpression]) -> Sink | None:
    """The variables of `name = value`, and those of `a, b = f()`."""
    found = tuple(each for target in targets for name in _names(target) for each in file.flow.defined(name))
    given = {_given(each) for each in found}
    is_plain = len(targets) == 1 and found and given <= {value}
    return Held(found) if is_plain else None


def _given(definition: Definition) -> cst.BaseExpression | None:
    return definition.part or (definition.value if len(definition.path) == 1 else None)


def _names(target: cst.BaseExpression) -> Iterator[cst.Name]:
    if isinstance(target, cst.Name):
        yield target
    elif isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            if isinstance(element, cst.Element) and isinstance(element.value, cst.Name):
                yield element.value


def _returned(file: FileFacts, statement: cst.Return, index: int | None) -> Sink | None:
    function = file.tree.function(statement)
    return Held((Returned(function, index),)) if function is not None else None


def _element(file: FileFacts, value: cst.BaseExpression, element: cst.Element) -> Sink | None:
    """`a` of `a, b = loss.item(), n`, of `return loss.item(), n`, and of `losses += [loss.item()]`."""
    sequence = file.tree.parent(element)
    statement = file.tree.parent(sequence) if isinstance(sequence, (cst.Tuple, cst.List)) else None
    if isinstance(statement, cst.AugAssign) and isinstance(statement.operator, cst.AddAssign):
        is_one = isinstance(sequence, cst.List) and len(sequence.elements) == 1
        return Listed(statement.target, value) if is_one else None
    if isinstance(statement, cst.Return) and isinstance(sequence, cst.Tuple):
        return _returned(file, statement, list(sequence.elements).index(element))
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        names = _names(statement.targets[0].target)
        found = tuple(each for name in names for each in file.flow.defined(name) if each.part is value)
        return Held(found) if found else None
    return None
