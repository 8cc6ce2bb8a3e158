"""Collate functions: which code makes the batches of a loader, and what it gives."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.classes import ClassFacts
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.tree import is_none, walk_scope

Maker = cst.FunctionDef | cst.Lambda


def makers(file: FileFacts, loader: Loader) -> Iterator[Maker]:
    """The collate functions in sight that a loader may get."""
    for value in loader.values("collate_fn"):
        for end in file.tracing.ends(value):
            cls = file.classes.of(end.node)
            named = cls.method(str(end.path[0])) if cls is not None and len(end.path) == 1 else None  # `Photos.collate`
            maker = maker_at(file, named or end.node)
            if maker is not None:
                yield maker


def maker_at(file: FileFacts, node: cst.CSTNode) -> Maker | None:
    """The function that is called as `node`: itself, what `functools.partial` binds, the `__call__` of an object."""
    if isinstance(node, (cst.FunctionDef, cst.Lambda)):
        return node
    if not isinstance(node, cst.Call):
        return None
    if file.qualified(node) == "functools.partial" and node.args:
        ends = file.tracing.ends(node.args[0].value)
        return maker_at(file, ends[0].node) if len(ends) == 1 else None
    cls = file.values.calls.constructed(node)
    return cls.method("__call__") if cls is not None else None


def returned(maker: Maker) -> Iterator[cst.BaseExpression]:
    """The values that a function may give."""
    if isinstance(maker, cst.Lambda):
        yield maker.body
        return
    for node in walk_scope(maker.body):
        if isinstance(node, cst.Return) and node.value is not None:
            yield node.value


def takes_samples_whole(loader: Loader) -> bool:
    """Whether the batches of a loader are its samples, one by one: `batch_size=None`."""
    return any(is_none(value) for value in loader.values("batch_size"))


def own_batches(file: FileFacts, loader: Loader) -> ClassFacts | None:
    """The class in sight that the collate function makes batches of, if those cannot be pinned."""
    ends = [end for value in loader.values("collate_fn") for end in file.tracing.ends(value)]
    made = [file.classes.of(end.node) for end in ends if not end.path]
    made += [file.value(given).cls for maker in makers(file, loader) for given in returned(maker)]
    return next((cls for cls in made if cls is not None and not _can_be_pinned(cls)), None)


def _can_be_pinned(cls: ClassFacts) -> bool:
    """Whether objects of a class pin themselves, or are tuples with names, of which PyTorch pins the parts."""
    return cls.method("pin_memory") is not None or "typing.NamedTuple" in cls.bases


def kept_batch(file: FileFacts, loader: Loader) -> cst.CSTNode | None:
    """Where a collate function gives what it keeps, such as a buffer that it fills anew for every batch."""
    for maker in makers(file, loader):
        for given in returned(maker):
            for end in file.tracing.ends(given):
                around = file.tree.function(end.node)
                made_once = around is None or around.name.value == "__init__"
                if made_once and isinstance(end.node, cst.Call) and not end.path and file.value(end.node).is_tensor:
                    return given
    return None
