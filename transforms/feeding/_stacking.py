"""Collate functions that put the images of a batch together and do nothing else with them."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import parameters
from perfmod.transforms.facts.handing import Held
from perfmod.transforms.facts.tracing import Step, literal
from perfmod.transforms.facts.tree import find_all, walk_scope

Path = tuple[int | str, ...]


def stacked_at(file: FileFacts, collate: cst.CSTNode, path: Path) -> Path | None:
    """Where the batches of a collate function hold the images that its samples hold at `path`.

    `None` unless it only stacks them, so that bytes come out as the bytes that went in: `torch.stack` along the first
    dimension, of images taken out of the samples by unpacking, `zip(*batch)` or a comprehension. It may put the samples
    into another order, by something else than their images.
    """
    if not isinstance(collate, cst.FunctionDef) or len(list(parameters(collate))) != 1:
        return None
    definitions = file.flow.bound(collate, next(parameters(collate)).name.value)
    if len(definitions) != 1:
        return None
    stacks: dict[cst.Call, None] = {}
    for read in file.flow.uses(definitions[0]):
        found = _stacks(file, read, (None, *path))
        if found is None:
            return None
        stacks.update(dict.fromkeys(found))
    return _returned_at(file, collate, list(stacks))


def _stacks(file: FileFacts, node: cst.BaseExpression, path: tuple[Step, ...]) -> list[cst.Call] | None:
    """The calls that stack the images; `None` where something else sees one."""
    found: list[cst.Call] = []
    stack = [Held(node, path)]
    while stack:
        current = stack.pop()
        for use in file.handing.uses(current.node, current.path):
            parent = file.tree.parent(use.node)
            call = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
            if isinstance(parent, cst.Arg) and isinstance(call, cst.Call):
                name = file.qualified(call)
                if name == "builtins.zip" and parent.star == "*" and len(call.args) == 1 and len(use.path) > 1:
                    stack.append(Held(call, (use.path[1], None, *use.path[2:])))
                    continue
                if name == "torch.stack" and use.path == (None,) and parent is call.args[0] and _is_along_first(call):
                    found.append(call)
                    continue
            if isinstance(parent, cst.Attribute) and _is_sorted_by_others(file, parent, use.path):
                continue
            return None
    return found


def _is_along_first(call: cst.Call) -> bool:
    dimension = argument(call, "dim", 1)
    known = {arg.keyword.value for arg in call.args if arg.keyword is not None} <= {"dim"} and len(call.args) <= 2
    return known and (dimension is None or literal(dimension) == 0)


def _is_sorted_by_others(file: FileFacts, method: cst.Attribute, path: tuple[Step, ...]) -> bool:
    """Whether `batch.sort(key=lambda sample: len(sample[1]))` looks at other parts of the samples than the image."""
    call = file.tree.parent(method)
    if method.attr.value != "sort" or not isinstance(call, cst.Call) or call.func is not method or len(path) < 2:
        return False
    key = argument(call, "key")
    if not isinstance(key, cst.Lambda) or len(key.params.params) != 1:
        return False
    return all(
        isinstance(around := file.tree.parent(read), cst.Subscript)
        and around.value is read
        and (index := _index(around)) is not None
        and index != path[1]
        for read in _reads(file, key)
    )


def _reads(file: FileFacts, key: cst.Lambda) -> Iterator[cst.Name]:
    name = key.params.params[0].name.value
    return (node for node in find_all(key.body, cst.Name) if node.value == name and file.flow.is_read(node))


def _index(subscript: cst.Subscript) -> Step:
    index = subscript.slice[0].slice
    return literal(index.value) if len(subscript.slice) == 1 and isinstance(index, cst.Index) else None


def _returned_at(file: FileFacts, function: cst.FunctionDef, stacks: list[cst.Call]) -> Path | None:
    """The one place of the returned batch where the stacked images are, and nothing else is."""
    places: set[tuple[Step, ...]] = set()
    for call in stacks:
        for use in file.handing.uses(call):
            if not isinstance(file.tree.parent(use.node), cst.Return):
                return None
            places.add(use.path)
    place = tuple(step for step in next(iter(places), (None,)) if step is not None)
    if places != {place}:
        return None
    for node in walk_scope(function.body):
        if isinstance(node, cst.Yield):
            return None
        if isinstance(node, cst.Return):
            ends = file.tracing.ends(node.value, place) if node.value is not None else ()
            if not ends or any(end.path or end.node not in stacks for end in ends):
                return None
    return place
