"""The code around a place of a step: the round of the loop it stands in, and those of the functions that call it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.rounds import runs_every_step
from perfmod.transforms.facts.tree import find_all


def rounds(file: FileFacts, node: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, cst.For | cst.While | cst.CSTNode]]:
    """A place and the code that runs with it in every step: the loops up to the one over steps, else the function,
    and then its callers.

    Yields pairs: a place (`node`, or a call that leads there), and the loop or function that holds it, or the module.
    """
    seen: set[cst.CSTNode] = set()
    stack: list[cst.CSTNode] = [node]
    while stack:
        place = stack.pop()
        if place in seen:
            continue
        seen.add(place)
        function = file.tree.function(place)
        loops = _loops_of_step(file, place)
        yield from ((place, loop) for loop in loops)
        callers = file.values.calls.callers(function) if function is not None else ()
        if loops and (
            goes_over_batches(file, loops[-1])
            or not any(goes_over_batches(file, loop) for call in callers for loop in file.tree.loops(call))
        ):
            continue
        yield place, function if function is not None else file.tree.module
        stack += callers


def _loops_of_step(file: FileFacts, place: cst.CSTNode) -> list[cst.For | cst.While]:
    """The loops around a place, up to the one over batches; up to the innermost one that trains where there is none."""
    loops = file.tree.loops(place)
    for ends in (goes_over_batches, _trains):
        last = next((index for index, loop in enumerate(loops) if ends(file, loop)), None)
        if last is not None:
            return loops[: last + 1]
    return loops


def _trains(file: FileFacts, loop: cst.For | cst.While) -> bool:
    return loop in file.steps.regions


def goes_over_batches(file: FileFacts, loop: cst.For | cst.While) -> bool:
    """Whether a loop goes over a loader, as far as it shows or is called one."""
    if not isinstance(loop, cst.For):
        return False
    is_named = any("load" in name.value.lower() for name in find_all(loop.iter, cst.Name))
    return is_named or file.values.loader_of(loop.iter) is not None


def parameter_loop(file: FileFacts, node: cst.CSTNode) -> cst.For | None:
    """The innermost loop around `node`, if it goes over the parameters of a model or over their gradients."""
    loop = next(iter(file.tree.loops(node)), None)
    if not isinstance(loop, cst.For):
        return None
    targets = {name.value for name in find_all(loop.target, cst.Name)}
    gradients = (each for each in find_all(loop.body, cst.Attribute) if each.attr.value == "grad")
    calls = (each.func for each in find_all(loop.iter, cst.Call) if isinstance(each.func, cst.Attribute))
    is_named = any(each.attr.value in ("parameters", "named_parameters") for each in calls)
    return loop if is_named or any(file.code(each.value) in targets for each in gradients) else None


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
    in_text = file.steps.region(node) is not None or file.steps.is_beside_parts(node)
    if function is None or function in seen or in_text:
        return True
    seen.add(function)
    callers = file.values.calls.callers(function)
    return not callers or any(_is_in_every_step(file, call, seen) for call in callers)


def _is_forward(file: FileFacts, function: cst.FunctionDef | None) -> bool:
    cls = file.classes.around(function) if function is not None else None
    return cls is not None and cls.is_module and function is not None and function.name.value == "forward"
