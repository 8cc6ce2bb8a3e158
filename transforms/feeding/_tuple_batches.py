"""Tuples in batches: most versions of PyTorch make lists of them when they pin (tuples with names stay tuples).

What takes a tuple apart, or joins its tensors, does the same with a list. Anything else may see the difference: `+`, a
hash, `isinstance`, a comparison, code that is not in sight.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from perfmod.transforms.facts import torch_api
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import parameters
from perfmod.transforms.facts.handing import Held
from perfmod.transforms.facts.loaders import Iteration, Loader
from perfmod.transforms.facts.tracing import HANDS_ON, Step
from perfmod.transforms.facts.tree import walk, walk_scope
from perfmod.transforms.feeding._collates import Maker, makers, returned

_TAKES_ITEMS = torch_api.PASSES_ITEMS | {
    "builtins.len", "builtins.iter", "builtins.list", "builtins.tuple", "builtins.sorted", "builtins.reversed",
    "builtins.enumerate", "builtins.zip", "builtins.map", "builtins.any", "builtins.all",
    "torch.nn.utils.rnn.pad_sequence", "torch.nn.utils.rnn.pack_sequence",
    *(f"torch.{name}" for name in torch_api.JOINS),
}  # fmt: skip
"""Functions to which a list is as good as a tuple."""


def whole_tuple(file: FileFacts, loader: Loader) -> cst.CSTNode | None:
    """A use of a whole tuple that the collate function puts into the batches of a loader."""
    paths = {path for maker in makers(file, loader) for path in _tuples(file, loader, maker)}
    if not paths:
        return None
    for iteration in loader.iterations:
        for held in _batches(file, loader, iteration, paths):
            for use in file.handing.uses(held.node, held.path):
                apart = _takes_items_apart(file, use) if use.path else _takes_apart(file, use.node)
                if not apart:
                    return use.node
    return None


def _tuples(file: FileFacts, loader: Loader, maker: Maker) -> Iterator[tuple[Step, ...]]:
    """Where in what a collate function gives tuples are."""
    results = list(returned(maker))
    made = [end.node for result in results for end in file.tracing.ends(result) if not end.path]
    if any(isinstance(node, cst.Param) for node in made) and _samples_are_tuples(file, loader):
        yield (None,)
    yield from _handed_on(file, loader, maker, results)
    for node in dict.fromkeys((*made, *walk_scope(maker.body), *(inner for end in made for inner in walk(end)))):
        path = _makes_tuple(file, node)
        if path is None or not isinstance(node, cst.BaseExpression):
            continue
        if node in made:
            yield path
        for held in (Held(node, path), *file.handing.uses(node, path)):
            if held.node in results:
                yield held.path


def _handed_on(
    file: FileFacts, loader: Loader, maker: Maker, results: list[cst.BaseExpression]
) -> Iterator[tuple[Step, ...]]:
    """Where tuples of the samples are in what a collate function gives, as `ids` of `images, ids = zip(*batch)`."""
    batch = next(parameters(maker), None) if isinstance(maker, cst.FunctionDef) else None
    places = list(_tuples_of_samples(file, loader)) if batch is not None else []
    reads = [use for d in file.flow.bound(maker, batch.name.value) for use in file.flow.uses(d)] if batch else []
    stack = [Held(read, (None, *place)) for read in reads for place in places]
    while stack:
        current = stack.pop()
        for use in file.handing.uses(current.node, current.path):
            call = file.tree.parent(parent) if isinstance(parent := file.tree.parent(use.node), cst.Arg) else None
            if use.node in results:
                yield use.path
            elif isinstance(call, cst.Call) and file.qualified(call) == "builtins.zip" and len(use.path) > 1:
                stack.append(Held(call, (use.path[1], None, *use.path[2:])))


def _tuples_of_samples(file: FileFacts, loader: Loader) -> Iterator[tuple[Step, ...]]:
    """Where a dataset in sight puts tuples into its samples."""
    for value in loader.values("dataset"):
        cls = file.value(value).cls
        method = cls.method("__getitem__") if cls is not None else None
        for sample in (
            end.node for result in (returned(method) if method else ()) for end in file.tracing.ends(result)
        ):
            for place, part in _parts(sample):
                if any(_makes_tuple(file, end.node) == () and not end.path for end in file.tracing.ends(part)):
                    yield (place,)


def _parts(sample: cst.CSTNode) -> Iterator[tuple[Step, cst.BaseExpression]]:
    if isinstance(sample, (cst.Tuple, cst.List)):
        yield from ((index, element.value) for index, element in enumerate(sample.elements))
    elif isinstance(sample, cst.Dict):
        for element in sample.elements:
            if isinstance(element, cst.DictElement) and isinstance(element.key, cst.SimpleString):
                yield str(element.key.evaluated_value), element.value


def _samples_are_tuples(file: FileFacts, loader: Loader) -> bool:
    """Whether a dataset may give tuples, as those of libraries do."""
    for value in loader.values("dataset"):
        cls = file.value(value).cls
        method = cls.method("__getitem__") if cls is not None else None
        given = [end.node for result in (returned(method) if method else ()) for end in file.tracing.ends(result)]
        if not given or any(isinstance(node, cst.Tuple) for node in given):
            return True
    return False


def _makes_tuple(file: FileFacts, node: cst.CSTNode) -> tuple[Step, ...] | None:
    """The way from what an expression gives to a tuple that it makes; `None` where it makes none."""
    if isinstance(node, cst.Tuple):
        return ()
    name = file.qualified(node) if isinstance(node, cst.Call) else None
    return {"builtins.tuple": (), "builtins.zip": (None,)}.get(name or "")


def _batches(
    file: FileFacts, loader: Loader, iteration: Iteration, paths: Iterable[tuple[Step, ...]]
) -> Iterator[Held]:
    """The expressions of a loop that hold (parts of) a batch with a tuple in it, and the way to it."""
    node = iteration.node
    if isinstance(node, cst.Call):
        yield from (Held(node, path) for path in paths)
        return
    for name in walk(node.target):
        if not isinstance(name, cst.Name):
            continue
        for use in _uses(file, name):
            for end in file.tracing.ends(use):
                if end.node is loader.call and end.path[:1] == (None,) and not _is_iterated(file, use):
                    yield from (
                        Held(use, path[len(end.path) - 1 :]) for path in paths if _leads_into(end.path[1:], path)
                    )


def _leads_into(outer: tuple[Step, ...], path: tuple[Step, ...]) -> bool:
    """Whether what is at `path` is a part of what is at `outer`."""
    return len(outer) <= len(path) and all(a is None or b is None or a == b for a, b in zip(outer, path, strict=False))


def _is_iterated(file: FileFacts, use: cst.Name) -> bool:
    """Whether a generator yields a batch to loops that all are in sight: they are iterations of the loader too."""
    statement = file.tree.parent(use)
    function = file.tree.function(use)
    if not isinstance(statement, cst.Yield) or function is None:
        return False
    callers = file.values.calls.callers(function)
    return bool(callers) and all(_is_looped_over(file, call) for call in callers)


def _is_looped_over(file: FileFacts, node: cst.CSTNode) -> bool:
    parent = file.tree.parent(node)
    if isinstance(parent, (cst.For, cst.CompFor)):
        return parent.iter is node
    call = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
    is_handed_on = isinstance(call, cst.Call) and file.qualified(call) in HANDS_ON | {"builtins.enumerate"}
    return call is not None and is_handed_on and _is_looped_over(file, call)


def _takes_apart(file: FileFacts, use: cst.CSTNode) -> bool:
    """Whether a list would do as well as a tuple where it is used."""
    parent = file.tree.parent(use)
    if isinstance(parent, (cst.For, cst.CompFor)):
        return parent.iter is use
    if isinstance(parent, cst.Subscript):
        return parent.value is use and isinstance(parent.slice[0].slice, cst.Index)
    if isinstance(parent, cst.StarredElement):
        return True
    if isinstance(parent, cst.Arg):
        call = file.tree.parent(parent)
        return parent.star == "*" or (isinstance(call, cst.Call) and file.qualified(call) in _TAKES_ITEMS)
    return isinstance(parent, cst.Assign) and all(isinstance(t.target, (cst.Tuple, cst.List)) for t in parent.targets)


def _takes_items_apart(file: FileFacts, use: Held) -> bool:
    """Whether tuples are taken apart where what holds them is used: `for start, end in spans`, `len(spans)`."""
    parent = file.tree.parent(use.node)
    if isinstance(parent, (cst.For, cst.CompFor)):
        return use.path == (None,) and parent.iter is use.node and isinstance(parent.target, (cst.Tuple, cst.List))
    call = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
    return isinstance(call, cst.Call) and file.qualified(call) == "builtins.len"


def _uses(file: FileFacts, name: cst.Name) -> Iterator[cst.Name]:
    for node in walk(file.tree.function(name) or file.tree.module_of(name)):
        if not (isinstance(node, cst.Name) and node.value == name.value and file.flow.is_read(node)):
            continue
        if any(definition.node is name for definition in file.flow.definitions(node)):
            yield node
