"""Where somebody handles an error that a sample raises, and would see another one.

Workers hand an error on as one of the same class, made anew with "Caught ... in DataLoader worker process 0" and the
worker's traceback as its only argument; as a RuntimeError where the class takes no such argument. Who lets it end the
training sees an error of the same line; who prints it, looks into it, or tells it by its class, may see another.
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
_SHOWS = frozenset({"exception", "print_exc", "format_exc", "print_exception", "format_exception", "exc_info"})

_Handler = cst.ExceptHandler | cst.ExceptStarHandler | cst.With


def why_shown(file: FileFacts, loader: Loader, work: WorkerCode) -> str:
    """Who would see another error than the one that a sample raises, in one line; empty where nobody does."""
    handlers = [handler for iteration in loader.iterations for handler in _handlers(file, iteration)]
    for handler in handlers:
        line = file.line(handler)
        for raised in _raised(work):
            own = _made_otherwise(file, raised)
            if own:
                return (
                    f"line {line} handles errors, and the {own} of line {file.line(raised)} would come from a worker "
                    f"as a RuntimeError"
                )
            if _looks_into(file, handler):
                return (
                    f"line {line} uses the exception it catches, and one that a sample raises (line "
                    f"{file.line(raised)}) has another message when it comes from a worker"
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


def _exits(file: FileFacts, block: cst.With) -> Iterator[cst.FunctionDef]:
    """The methods in sight that are told which error ends a block, where they look at it."""
    for call in (item.item for item in block.items if isinstance(item.item, cst.Call)):
        cls = file.values.calls.constructed(call)
        method = cls.method("__exit__") if cls is not None else None
        told = {param.name.value for param in list(parameters(method))[1:]} if method is not None else set()
        if method is not None and any(name.value in told for name in find_all(method.body, cst.Name)):
            yield method


def _is_of_another_kind(handler: cst.ExceptHandler | cst.ExceptStarHandler) -> bool:
    if handler.type is None:
        return False
    caught = [each.value for each in handler.type.elements] if isinstance(handler.type, cst.Tuple) else [handler.type]
    return all(dotted(each).rpartition(".")[2] in _OF_ANOTHER_KIND for each in caught)


def _looks_into(file: FileFacts, handler: _Handler) -> bool:
    """Whether a handler reads the error: by its name, or as the one that is being handled."""
    if isinstance(handler, cst.With):
        return any(_exits(file, handler))
    name = _name(handler)
    for node in walk(handler.body):
        if isinstance(node, cst.Name) and node.value == name:
            return True
        if isinstance(node, cst.Call) and dotted(node.func).rpartition(".")[2] in _SHOWS:
            return True
        if isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value == "exc_info":
            return True
    return False


def _read_attribute(handler: _Handler) -> str:
    """Which attribute of an error a handler reads: `error.filename`, which Python sets where a file is missing."""
    name = None if isinstance(handler, cst.With) else _name(handler)
    for node in find_all(handler.body, cst.Attribute) if name else ():
        if isinstance(node.value, cst.Name) and node.value.value == name and not node.attr.value.startswith("__"):
            return dotted(node)
    return ""


def _name(handler: cst.ExceptHandler | cst.ExceptStarHandler) -> str | None:
    name = handler.name.name if handler.name is not None else None
    return name.value if isinstance(name, cst.Name) else None


def _made_otherwise(file: FileFacts, raised: cst.Raise | cst.Assert) -> str:
    """The name of an error's class that takes other arguments than a text."""
    if isinstance(raised, cst.Assert) or not isinstance(raised.exc, cst.Call):
        return ""
    cls = file.values.calls.constructed(raised.exc)
    return cls.name if cls is not None and cls.method("__init__") is not None else ""
