"""Assignments to attributes and items, and which of them come before a read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import Tree, find_all, walk
from perfmod.transforms.facts.values import Values

_CHANGES_ITEMS = frozenset({"update", "pop", "popitem", "setdefault", "clear"})


class Stores:
    """Stores of one file, found by the name of the attribute or the key of the item."""

    def __init__(self, tree: Tree, values: Values) -> None:
        self._tree = tree
        self._values = values

    def before(self, read: cst.Attribute | cst.Subscript) -> frozenset[cst.CSTNode]:
        """What stands before `read` in its function and may change which object it reads.

        Objects are told apart by nothing, so that a store through another name counts. Two reads of `data.mask` before
        which the same stores stand give the same object as long as both are evaluated in one round of all loops.
        """
        around = self._tree.function(read) or self._tree.module
        place = self._order[read]
        return frozenset(store for store in self._stores(read, around) if self._order[store] < place)

    def _stores(self, read: cst.Attribute | cst.Subscript, around: cst.CSTNode) -> Iterator[cst.CSTNode]:
        if isinstance(read, cst.Attribute):
            yield from (store for store in self._of_attributes.get(read.attr.value, ()) if self._is_in(store, around))
            for call in find_all(around, cst.Call):
                called = self._values.calls.resolve(call) if self._of_attributes.get(read.attr.value) else None
                if called is not None and any(self._is_in(s, called) for s in self._of_attributes[read.attr.value]):
                    yield call
            for call in self._calls("setattr", "delattr"):
                name = call.args[1].value if len(call.args) > 1 else None
                if _text(name) in (read.attr.value, None) and self._is_in(call, around):
                    yield call
            return
        key, base = _key(read), self._code(read.value)
        for subscript in find_all(around, cst.Subscript):
            other = _key(subscript)
            same = other == key or (other is None and self._code(subscript.value) == base)
            if same and self._is_stored(subscript):
                yield subscript
        for call in find_all(around, cst.Call):
            changes = isinstance(call.func, cst.Attribute) and call.func.attr.value in _CHANGES_ITEMS
            if changes and isinstance(call.func, cst.Attribute) and self._code(call.func.value) == base:
                yield call

    @cached_property
    def _order(self) -> dict[cst.CSTNode, int]:
        return {node: place for place, node in enumerate(walk(self._tree.module))}

    @cached_property
    def _of_attributes(self) -> dict[str, list[cst.Attribute]]:
        found: dict[str, list[cst.Attribute]] = {}
        for node in find_all(self._tree.module, cst.Attribute):
            if self._is_stored(node):
                found.setdefault(node.attr.value, []).append(node)
        return found

    def _calls(self, *names: str) -> Iterator[cst.Call]:
        return (call for call in find_all(self._tree.module, cst.Call) if dotted(call.func) in names)

    def _is_in(self, node: cst.CSTNode, around: cst.CSTNode) -> bool:
        return self._tree.is_within(node, around)

    def _is_stored(self, node: cst.CSTNode) -> bool:
        """Whether an attribute or item is assigned, deleted or unpacked into."""
        child = node
        for parent in self._tree.ancestors(node):
            if isinstance(parent, (cst.AssignTarget, cst.AnnAssign, cst.AugAssign, cst.For, cst.CompFor, cst.Del)):
                return parent.target is child
            if isinstance(parent, cst.AsName):
                return True
            if not isinstance(parent, (cst.Tuple, cst.List, cst.Element, cst.StarredElement)):
                return False
            child = parent
        return False

    def _code(self, node: cst.CSTNode) -> str:
        return self._tree.module.code_for_node(node)


def _key(node: cst.Subscript) -> str | None:
    index = node.slice[0].slice
    return _text(index.value) if len(node.slice) == 1 and isinstance(index, cst.Index) else None


def _text(node: cst.CSTNode | None) -> str | None:
    value = node.evaluated_value if isinstance(node, cst.SimpleString) else None
    return value if isinstance(value, str) else None
