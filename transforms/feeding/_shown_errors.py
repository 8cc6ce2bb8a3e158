"""Where somebody handles an error that a sample raises, and would see another one.

Workers hand an error on as one of the same class, made anew with "Caught ... in DataLoader worker process 0" and the
worker's traceback as its only argument; as a RuntimeError where the class takes no such argument. Who lets it end the
training sees an error of the same line; who handles it may see another.
(torch.utils.data._utils.worker, torch._utils.ExceptionWrapper)
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted, parameters
from perfmod.transforms.facts.loaders import Iteration, Loader
from perfmod.transforms.facts.tree import find_all, walk
from perfmod.transforms.facts.worker_code import WorkerCode

_OF_ANOTHER_KIND = frozenset({"KeyboardInterrupt", "SystemExit", "GeneratorExit", "StopIteration"})
"""Errors that nobody raises for a bad sample."""

_Handler = cst.ExceptHandler | cst.ExceptStarHandler | cst.With


def why_shown(file: FileFacts, loader: Loader, work: WorkerCode) -> str:
    """Who would see another error than the one that a sample raises, in one line; empty where nobody does."""
    handlers = [handler for iteration in loader.iterations for handler in _handlers(file, iteration)]
    raised = next(_raised(work), None)
    for handler in handlers:
        line = file.line(handler)
        if raised is not None:
            return (
                f"line {line} handles errors, and one that a sample raises (line {file.line(raised)}) has another "
                "message, or another class, when it comes from a worker"
            )
        attribute = _read_attribute(handler)
        if attribute:
            return f"line {line} reads `{attribute}` of an exception, which one that comes from a worker does not have"
    return ""


def _raised(work: WorkerCode) -> Iterator[cst.Raise | cst.Assert]:
    for function in work.functions:
        for node in walk(function.body):
            if isinstance(node, cst.Assert) or (isinstance(node, cst.Raise) and node.exc is not None):
                yield node


def _handlers(file: FileFacts, iteration: Iteration) -> Iterator[_Handler]:
    """Of the errors that drawing a batch may raise, here or in functions that lead here."""
    stack: list[cst.CSTNode] = [iteration.node]
    seen: set[cst.FunctionDef] = set()
    while stack:
        place = stack.pop()
        for ancestor in file.tree.ancestors(place):
            if isinstance(ancestor, (cst.Try, cst.TryStar)) and file.tree.is_within(place, ancestor.body):
                yield from (each for each in ancestor.handlers if not _is_of_another_kind(each))
            elif isinstance(ancestor, cst.With) and (_suppresses(file, ancestor) or _exits(file, ancestor)):
                yield ancestor
        function = file.tree.function(place)
        if function is not None and function not in seen:
            seen.add(function)
            stack += file.values.calls.callers(function)


def _suppresses(file: FileFacts, block: cst.With) -> bool:
    return any(file.qualified(item.item) == "contextlib.suppress" for item in block.items)


def _exits(file: FileFacts, block: cst.With) -> bool:
    """Whether a method in sight is told which error ends a block, and looks at it."""
    for call in (item.item for item in block.items if isinstance(item.item, cst.Call)):
        cls = file.values.calls.constructed(call)
        method = cls.method("__exit__") if cls is not None else None
        told = {param.name.value for param in list(parameters(method))[1:]} if method is not None else set()
        if method is not None and any(name.value in told for name in find_all(method.body, cst.Name)):
            return True
    return False


def _is_of_another_kind(handler: cst.ExceptHandler | cst.ExceptStarHandler) -> bool:
    if handler.type is None:
        return False
    caught = [each.value for each in handler.type.elements] if isinstance(handler.type, cst.Tuple) else [handler.type]
    return all(dotted(each).rpartition(".")[2] in _OF_ANOTHER_KIND for each in caught)


def _read_attribute(handler: _Handler) -> str:
    """Which attribute of an error a handler reads: `error.filename`, which Python sets where a file is missing."""
    name = None if isinstance(handler, cst.With) or handler.name is None else handler.name.name
    for node in find_all(handler.body, cst.Attribute):
        if name is not None and node.value.deep_equals(name) and not node.attr.value.startswith("__"):
            return dotted(node)
    return ""
