"""Numbers that are written down in the code: literals, arithmetic of them, tuples, and module-level names for them."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from perfmod.transforms.facts.aliasing import Aliasing
from perfmod.transforms.facts.flow import Flow, Read

Constant = float | tuple["Constant", ...]

_LARGEST = 64


class Constants:
    """Values of constant expressions."""

    def __init__(self, flow: Flow, aliasing: Aliasing) -> None:
        self._flow = flow
        self._aliasing = aliasing

    def value(self, node: cst.BaseExpression, bound: Mapping[str, Constant] | None = None) -> Constant | None:
        """What an expression evaluates to wherever and whenever it is: a number, or a tuple of those; else `None`.

        Names count where one assignment binds them and nobody writes into their list. Lists come out as tuples.
        `bound` holds the variables of the comprehensions around.
        """
        bound = bound or {}
        if isinstance(node, (cst.Integer, cst.Float)):
            return node.evaluated_value
        if isinstance(node, cst.Name) and node.value in bound:
            return bound[node.value]
        if self._flow.is_variable(node):
            return self._named(node)
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, (cst.Minus, cst.Plus)):
            inner = self.value(node.expression, bound)
            if not isinstance(inner, (int, float)):
                return None
            return -inner if isinstance(node.operator, cst.Minus) else inner
        if isinstance(node, (cst.Tuple, cst.List)):
            return _tuple([self.value(element.value, bound) for element in node.elements])
        if isinstance(node, cst.BinaryOperation):
            return _computed(self.value(node.left, bound), node.operator, self.value(node.right, bound))
        if isinstance(node, cst.ListComp):
            return self._comprehended(node, bound)
        return None

    def _named(self, node: Read) -> Constant | None:
        definitions = self._flow.definitions(node)
        if len(definitions) != 1:
            return None
        (definition,) = definitions
        part = definition.part
        if part is None:
            return None
        if len(self._flow.bound(definition.scope, definition.name)) != 1:
            return None
        if any(self._aliasing.mutates(use) for use in self._flow.uses(definition)):
            return None
        return self.value(part)

    def _comprehended(self, node: cst.ListComp, bound: Mapping[str, Constant]) -> Constant | None:
        loop = node.for_in
        items = self.value(loop.iter, bound)
        if loop.ifs or loop.inner_for_in is not None or not isinstance(loop.target, cst.Name):
            return None
        if not isinstance(items, tuple):
            return None
        return _tuple([self.value(node.elt, {**bound, loop.target.value: item}) for item in items])


def _tuple(parts: list[Constant | None]) -> Constant | None:
    known = tuple(part for part in parts if part is not None)
    return known if len(known) == len(parts) else None


def _computed(left: Constant | None, operator: cst.BaseBinaryOp, right: Constant | None) -> Constant | None:
    if isinstance(left, tuple) and isinstance(right, int) and isinstance(operator, cst.Multiply):
        return left * right if len(left) * right <= _LARGEST else None
    if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        return None
    if isinstance(operator, cst.Add):
        return left + right
    if isinstance(operator, cst.Subtract):
        return left - right
    if isinstance(operator, cst.Multiply):
        return left * right
    return left / right if isinstance(operator, cst.Divide) and right != 0 else None
