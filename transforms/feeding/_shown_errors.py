"""Where the text of an error that a sample raises is shown.

Workers hand an error on as one of the same class, made anew with "Caught ... in DataLoader worker process 0" and the
worker's traceback as its only argument. Who lets it end the training sees the same error; who prints it, or looks into
it, does not. (torch.utils.data._utils.worker, torch._utils.ExceptionWrapper)
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.loaders import Iteration, Loader
from perfmod.transforms.facts.tree import walk
from perfmod.transforms.facts.worker_code import WorkerCode

_OF_ANOTHER_KIND = frozenset({"KeyboardInterrupt", "SystemExit", "GeneratorExit", "StopIteration"})
"""Errors that nobody raises for a bad sample."""
_SHOWS = frozenset({"exception", "print_exc", "format_exc", "print_exception", "format_exception", "exc_info"})


@frozen
class ShownError:
    """What raises in a worker, and the handler that would see another text."""

    raised: cst.Raise | cst.Assert
    handler: cst.ExceptHandler


def shown_error(file: FileFacts, loader: Loader, work: WorkerCode) -> ShownError | None:
    """The first error that samples raise on purpose, if a handler around the loader's loops looks into it."""
    for raised in _raised(work):
        for iteration in loader.iterations:
            for handler in _handlers(file, iteration):
                if _looks_into(handler) or _is_made_otherwise(file, raised):
                    return ShownError(raised, handler)
    return None


def _raised(work: WorkerCode) -> Iterator[cst.Raise | cst.Assert]:
    for function in work.functions:
        for node in walk(function.body):
            if isinstance(node, cst.Assert) or (isinstance(node, cst.Raise) and node.exc is not None):
                yield node


def _handlers(file: FileFacts, iteration: Iteration) -> Iterator[cst.ExceptHandler]:
    """Of the errors that drawing a batch may raise, here or in functions that lead here."""
    stack: list[cst.CSTNode] = [iteration.node]
    seen: set[cst.FunctionDef] = set()
    while stack:
        place = stack.pop()
        for ancestor in file.tree.ancestors(place):
            if isinstance(ancestor, cst.Try) and file.tree.is_within(place, ancestor.body):
                yield from (each for each in ancestor.handlers if not _is_of_another_kind(each))
        function = file.tree.function(place)
        if function is not None and function not in seen:
            seen.add(function)
            stack += file.values.calls.callers(function)


def _is_of_another_kind(handler: cst.ExceptHandler) -> bool:
    if handler.type is None:
        return False
    caught = [each.value for each in handler.type.elements] if isinstance(handler.type, cst.Tuple) else [handler.type]
    return all(dotted(each).rpartition(".")[2] in _OF_ANOTHER_KIND for each in caught)


def _looks_into(handler: cst.ExceptHandler) -> bool:
    """Whether a handler reads the error: by its name, or as the one that is being handled."""
    name = handler.name.name if handler.name is not None else None
    for node in walk(handler.body):
        if isinstance(node, cst.Name) and isinstance(name, cst.Name) and node.value == name.value:
            return True
        if isinstance(node, cst.Call) and dotted(node.func).rpartition(".")[2] in _SHOWS:
            return True
        if isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value == "exc_info":
            return True
    return False


def _is_made_otherwise(file: FileFacts, raised: cst.Raise | cst.Assert) -> bool:
    """Whether an error's class takes other arguments than a text: it comes as a RuntimeError, which others handle."""
    if isinstance(raised, cst.Assert) or not isinstance(raised.exc, cst.Call):
        return False
    cls = file.values.calls.constructed(raised.exc)
    return cls is not None and cls.method("__init__") is not None
