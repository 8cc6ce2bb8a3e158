"""Copies of all parts of a batch at once, `batch = tuple(t.to(device) for t in batch)`, and where it is taken apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all

_SEQUENCES = frozenset({"builtins.tuple", "builtins.list"})


@frozen
class WholeCopy:
    """A copy of all parts of a batch.

    Attributes:
        call: the copy of one part.
        part: what is copied, the variable of the comprehension.
        batch: what the comprehension goes through.
        unpacking: the statement that gives the copied parts their names; nobody else sees them.
        names: these.
    """

    call: cst.Call
    part: cst.Name
    batch: cst.BaseExpression
    unpacking: cst.Assign
    names: tuple[str, ...]


def whole_copies(file: FileFacts, nodes: Iterable[cst.CSTNode], methods: frozenset[str]) -> Iterator[WholeCopy]:
    """The copies of whole batches among some nodes, by one of `methods`."""
    for node in nodes:
        if isinstance(node, (cst.ListComp, cst.GeneratorExp)) and isinstance(node.elt, cst.Call):
            part = _copied(file, node, node.elt, methods)
            unpacking = _unpacking(file, node) if part is not None else None
            names = _names(unpacking) if unpacking is not None else None
            if part is not None and unpacking is not None and names is not None:
                yield WholeCopy(node.elt, part, node.for_in.iter, unpacking, names)


def _copied(
    file: FileFacts, comprehension: cst.ListComp | cst.GeneratorExp, copy: cst.Call, methods: frozenset[str]
) -> cst.Name | None:
    """The variable of a comprehension that does nothing but to copy it."""
    loop, part = comprehension.for_in, copy.func.value if isinstance(copy.func, cst.Attribute) else None
    if loop.inner_for_in is not None or loop.ifs or not isinstance(loop.target, cst.Name):
        return None
    if not isinstance(part, cst.Name) or not isinstance(copy.func, cst.Attribute):
        return None
    reads = [n for n in find_all(copy, cst.Name) if n.value == loop.target.value and file.flow.is_read(n)]
    return part if reads == [part] and copy.func.attr.value in methods else None


def _unpacking(file: FileFacts, made: cst.BaseExpression) -> cst.Assign | None:
    """The one statement that takes apart what a comprehension makes."""
    parent = file.tree.parent(made)
    call = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
    if isinstance(call, cst.Call) and file.qualified(call) in _SEQUENCES and len(call.args) == 1:
        made, parent = call, file.tree.parent(call)
    if not isinstance(parent, cst.Assign) or len(parent.targets) != 1:
        return None
    target = parent.targets[0].target
    if not isinstance(target, cst.Name):
        return parent
    uses = [use for definition in file.flow.defined(target) for use in file.flow.uses(definition)]
    around = file.tree.parent(uses[0]) if len(uses) == 1 else None
    if not isinstance(around, cst.Assign) or len(around.targets) != 1 or len(file.flow.definitions(uses[0])) != 1:
        return None
    return around if file.tree.function(around) is file.tree.function(parent) else None


def _names(unpacking: cst.Assign) -> tuple[str, ...] | None:
    target = unpacking.targets[0].target
    if not isinstance(target, (cst.Tuple, cst.List)):
        return None
    names = [e.value.value for e in target.elements if isinstance(e, cst.Element) and isinstance(e.value, cst.Name)]
    return tuple(names) if len(names) == len(target.elements) and len(set(names)) == len(names) else None
