"""What runs while a loader is iterated, and between one iteration of it and the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from perfmod.transforms.facts import lightning
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Iteration, Loader
from perfmod.transforms.facts.tree import walk, walk_scope
from perfmod.transforms.facts.worker_code import WorkerCode
from perfmod.transforms.feeding._settings import written

_DEEPEST = 3

Loop = cst.For | cst.While


def repeating(file: FileFacts, loader: Loader, iteration: Iteration) -> list[Loop]:
    """The loops that iterate one loader several times: those around the iteration in which it is not made anew."""
    made = set(_around(file, loader.call, 0))
    return [loop for loop in dict.fromkeys(_around(file, iteration.node, 0)) if loop not in made]


def rounds(file: FileFacts, loop: Loop) -> int | None:
    """How many rounds `for epoch in range(args.epochs)` has, by default where users say; `None` if that is unseen."""
    counted = loop.iter if isinstance(loop, cst.For) else None
    if not isinstance(counted, cst.Call) or file.qualified(counted) != "builtins.range" or not counted.args:
        return None
    found = [counted.args[min(1, len(counted.args) - 1)].value]
    for _ in range(_DEEPEST):
        found = [value for each in found for value in _given(file, each)]
    most: int | None = None
    for each in found:
        number = file.constants.value(each)
        if isinstance(number, int) and (most is None or number > most):
            most = number
    return most


def _given(file: FileFacts, value: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Where a value was written: in a variable, an option, an attribute of an object whose class is in sight."""
    cls = file.value(value.value).cls if isinstance(value, cst.Attribute) else None
    assigned = cls.assignments(value.attr.value) if cls is not None and isinstance(value, cst.Attribute) else []
    if assigned:
        return [each.value for each in assigned if each.value is not None and not each.path]
    return [end for end in written(file, value) if isinstance(end, cst.BaseExpression)]


def while_iterated(file: FileFacts, iteration: Iteration) -> list[cst.CSTNode]:
    """The code that runs while batches are drawn, as far as it is in sight; without what it calls."""
    node = iteration.node
    if isinstance(node, cst.For):
        yields = any(isinstance(inner, cst.Yield) for inner in walk_scope(node.body))
        return [node.body, *(_consumers(file, node, 0) if yields else ())]
    if isinstance(node, cst.CompFor):
        return [file.tree.parent(node) or node]
    if iteration.by_framework:
        return [
            cls.methods[name].body for cls in file.classes for name in cls.methods if name in lightning.WHILE_ITERATED
        ]
    bound = file.flow.definitions(iteration.iterable) if isinstance(iteration.iterable, cst.Name) else ()
    loops = [
        loop
        for loop in file.tree.loops(node)
        if not bound or not all(file.tree.is_within(definition.node, loop.body) for definition in bound)
    ]
    if loops:
        return [loops[-1].body]
    return [] if bound and file.tree.loops(node) else list(_consumers(file, node, 0))


def executed(file: FileFacts, code: Iterable[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    """Every node of some code and of the functions in sight that it runs, each once."""
    seen: set[cst.CSTNode] = set()
    stack = list(code)
    while stack:
        current = stack.pop(0)
        if current in seen:
            continue
        seen.add(current)
        nodes = list(walk(current))
        yield from nodes
        stack += [function.body for function in file.steps.called_by(current)]
        if any(_calls_by_name(file, node) for node in nodes):
            stack += [method.body for method in file.once(_only_called_by_name)]


def registered(file: FileFacts, loader: Loader) -> list[cst.CSTNode]:
    """The functions in sight that others may call at any time, such as hooks and callbacks; not those that workers run,
    nor those that lead to the loader.
    """
    around: set[cst.CSTNode] = {*WorkerCode.of(file, loader).functions}
    stack: list[cst.CSTNode] = [loader.call, *(each.node for each in loader.iterations)]
    while stack:
        function = file.tree.function(stack.pop())
        if function is not None and function not in around:
            around.add(function)
            stack += [function, *file.values.calls.callers(function)]
    return [each.body for each in file.values.calls.handed_out if each not in around]


def _calls_by_name(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether a node is `getattr(callback, name)(...)`."""
    return (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Call)
        and (file.qualified(node.func) == "builtins.getattr")
    )


def _only_called_by_name(file: FileFacts) -> tuple[cst.FunctionDef, ...]:
    """The methods in sight that nothing calls in the usual way."""
    methods = (method for cls in file.classes for name, method in cls.methods.items() if not name.startswith("__"))
    return tuple(method for method in methods if not file.values.calls.callers(method))


def sampling(file: FileFacts, loader: Loader) -> list[cst.CSTNode]:
    """What the samplers in sight run for a loader, in the process that trains."""
    values = (*loader.values("sampler"), *loader.values("batch_sampler"))
    made = [end.node for value in values for end in file.tracing.ends(value)]
    classes = [file.values.calls.constructed(node) for node in made if isinstance(node, cst.Call)]
    methods = [item for cls in classes if cls is not None for base in cls.lineage() for item in base.methods.items()]
    return [method.body for name, method in methods if name != "__init__"]


def _around(file: FileFacts, node: cst.CSTNode, depth: int) -> Iterator[Loop]:
    """The loops around a node, and around the calls that lead to it."""
    yield from file.tree.loops(node)
    function = file.tree.function(node)
    if function is not None and depth <= _DEEPEST:
        for call in file.values.calls.callers(function):
            yield from _around(file, call, depth + 1)


def _consumers(file: FileFacts, node: cst.CSTNode, depth: int) -> Iterator[cst.CSTNode]:
    """What runs between two batches that a function gives: the loops around the calls of it."""
    function = file.tree.function(node)
    if function is None or depth > _DEEPEST:
        return
    for call in file.values.calls.callers(function):
        loop = next((around for around in file.tree.ancestors(call) if isinstance(around, cst.For)), None)
        loops = file.tree.loops(call)
        if loop is not None and file.tree.is_within(call, loop.iter):
            yield loop.body
        elif loops:
            yield loops[-1].body
        else:
            outer = file.tree.function(call)
            yield from [outer.body] if outer is not None else ()
            yield from _consumers(file, call, depth + 1)
