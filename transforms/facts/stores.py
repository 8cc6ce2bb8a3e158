"""Assignments to attributes and items, and which of them come before a read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import Tree, find_all
from perfmod.transforms.facts.values import Values

_CHANGES_ITEMS = frozenset({"update", "pop", "popitem", "setdefault", "clear"})


_PRINTER = cst.Module([])


class Stores:
    """Stores, found by the name of the attribute or the key of the item."""

    def __init__(self, tree: Tree, values: Values) -> None:
        self._tree = tree
        self._values = values

    def before(self, read: cst.Attribute | cst.Subscript) -> frozenset[cst.CSTNode]:
        """What stands before `read` in its function and may change which object it reads.

        Objects are told apart by nothing, so that a store through another name counts. Two reads of `data.mask` before
        which the same stores stand give the same object as long as both are evaluated in one round of all loops.
        """
        around = self._tree.function(read) or self._tree.module_of(read)
        place = self._tree.place
        return frozenset(store for store in self.inside(read, around) if place(store) < place(read))

    def inside(self, read: cst.Attribute | cst.Subscript, around: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The places in `around` that may put another object where `read` reads: assignments, `setattr`, `update`.

        An attribute and an item of one name count as one, as they are for the data of PyTorch Geometric. Calls of
        functions in sight that do so count too.
        """
        name, base = _name(read), self._tree.code(read.value)
        stores = self._by_name.get(name, []) if name is not None else []
        yield from (store for store in stores if self._tree.is_within(store, around))
        for call in find_all(around, cst.Call):
            called = self._values.calls.resolve(call) if stores else None
            if called is not None and any(self._tree.is_within(store, called) for store in stores):
                yield call
            elif dotted(call.func) in ("setattr", "delattr") and len(call.args) > 1:
                if _text(call.args[1].value) in (name, None):
                    yield call
            elif isinstance(read, cst.Subscript) and self._changes_items(call, base):
                yield call
        for subscript in find_all(around, cst.Subscript):
            if (
                _name(subscript) is None
                and self._tree.code(subscript.value) == base
                and self._tree.is_target(subscript, cst.AugAssign, cst.Del)
            ):
                yield subscript

    def _changes_items(self, call: cst.Call, base: str) -> bool:
        func = call.func
        return (
            isinstance(func, cst.Attribute)
            and func.attr.value in _CHANGES_ITEMS
            and self._tree.code(func.value) == base
        )

    @cached_property
    def _by_name(self) -> dict[str, list[cst.CSTNode]]:
        found: dict[str, list[cst.CSTNode]] = {}
        for node in self._tree.all_of(cst.Attribute, cst.Subscript):
            if isinstance(node, (cst.Attribute, cst.Subscript)) and self._tree.is_target(node, cst.AugAssign, cst.Del):
                name = _name(node)
                if name is not None:
                    found.setdefault(name, []).append(node)
        return found


def _name(node: cst.Attribute | cst.Subscript) -> str | None:
    """`mask` of `data.mask` and `data["mask"]`."""
    if isinstance(node, cst.Attribute):
        return node.attr.value
    index = node.slice[0].slice
    return _text(index.value) if len(node.slice) == 1 and isinstance(index, cst.Index) else None


def _text(node: cst.CSTNode | None) -> str | None:
    value = node.evaluated_value if isinstance(node, cst.SimpleString) else None
    return value if isinstance(value, str) else None
