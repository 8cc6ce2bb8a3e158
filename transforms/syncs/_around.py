"""The code around a place of a step: the round of the loop it stands in, and those of the functions that call it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.syncs._when import runs_every_step


def rounds(file: FileFacts, node: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, cst.For | cst.While | cst.CSTNode]]:
    """A place and the code that runs with it in every step: the innermost loop, or the function, and then its callers.

    Yields pairs: a place (`node`, or a call that leads there), and the loop or function that holds it, or the module.
    """
    seen: set[cst.CSTNode] = set()
    stack: list[cst.CSTNode] = [node]
    while stack:
        place = stack.pop()
        if place in seen:
            continue
        seen.add(place)
        loops = file.tree.loops(place)
        function = file.tree.function(place)
        if loops:
            yield place, loops[0]
            continue
        yield place, function if function is not None else file.tree.module
        if function is not None:
            stack += file.values.calls.callers(function)


def between(file: FileFacts, node: cst.CSTNode, outer: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The nodes around `node` inside of `outer`, from the inside out."""
    for ancestor in file.tree.ancestors(node):
        if ancestor is outer:
            return
        yield ancestor


def in_every_step(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether every step comes by a place: nothing that leads there, in the functions that call it, is gated.

    A forward pass counts as a part of a step; other code of files without steps does only where a loop runs it.
    """
    return _is_in_every_step(file, node, set())


def _is_in_every_step(file: FileFacts, node: cst.CSTNode, seen: set[cst.CSTNode]) -> bool:
    function = file.tree.function(node)
    if _is_forward(file, function) and file.steps.runs_every_step(node):
        return True
    if not runs_every_step(file, node):
        return False
    if function is None or function in seen or file.steps.region(node) is not None:
        return True
    seen.add(function)
    callers = file.values.calls.callers(function)
    return not callers or any(_is_in_every_step(file, call, seen) for call in callers)


def _is_forward(file: FileFacts, function: cst.FunctionDef | None) -> bool:
    cls = file.classes.around(function) if function is not None else None
    return cls is not None and cls.is_module and function is not None and function.name.value == "forward"
