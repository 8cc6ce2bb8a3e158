"""The code around a place of a step: the round of the loop it stands in, and those of the functions that call it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.file import FileFacts


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
