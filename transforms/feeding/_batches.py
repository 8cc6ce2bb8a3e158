"""What the batches of a loader consist of: tensors, objects with a `to` of their own, tuples."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.classes import ClassFacts
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.tracing import End, Step
from perfmod.transforms.facts.tree import find_all, walk
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.feeding._copies import Copy

GRAPH_LOADERS = frozenset({"torch_geometric.loader.DataLoader", "torch_geometric.data.DataLoader"})
"""Loaders whose batches have a `to` that takes what that of tensors takes, and a `pin_memory`."""
_DEFAULT_COLLATE = frozenset({"torch.utils.data.default_collate", "torch.utils.data._utils.collate.default_collate"})


def own_batches(file: FileFacts, loader: Loader) -> ClassFacts | None:
    """The class of this file that the collate function makes batches of, if those cannot be pinned."""
    for value in loader.values("collate_fn"):
        for end in file.tracing.ends(value):
            made = [file.classes.of(end.node)]
            if isinstance(end.node, (cst.FunctionDef, cst.Lambda)):
                made = [file.value(given).cls for given in _returned(end.node)]
            for cls in made:
                if cls is not None and cls.method("pin_memory") is None:
                    return cls
    return None


def is_told_apart(file: FileFacts, copy: Copy) -> bool:
    """Whether a helper asks for the kind of what it copies, as those do that go into lists and dictionaries."""
    function, moved = file.tree.function(copy.call), copy.call.func
    if function is None or not isinstance(moved, cst.Attribute) or not isinstance(moved.value, cst.Name):
        return False
    return any(
        file.qualified(call) == "builtins.isinstance"
        and bool(call.args)
        and isinstance(call.args[0].value, cst.Name)
        and call.args[0].value.value == moved.value.value
        for call in find_all(function.body, cst.Call)
    )


def is_tensor(file: FileFacts, loader: Loader, path: tuple[Step, ...]) -> bool:
    """Whether a part of a batch is a tensor for sure (or one of PyTorch Geometric's, whose `to` takes
    the same).
    """
    if loader.name in GRAPH_LOADERS:
        return True
    made = [end for value in loader.values("collate_fn") for end in file.tracing.ends(value)]
    sizes = loader.values("batch_size")
    unbatched = any(isinstance(size, cst.Name) and size.value == "None" for size in sizes)
    if not made:
        # The default collate function gives tensors, strings, and containers of those, some of which (such as
        # a tokenizer's) have a `to` of their own.
        return not unbatched and (path != (None,) or _samples_are_tensors(file, loader))
    for end in made:
        if isinstance(end.node, cst.Name) and end.node.value == "None":
            continue
        if isinstance(end.node, (cst.Name, cst.Attribute)) and file.qualified(end.node) in _DEFAULT_COLLATE:
            continue
        if not isinstance(end.node, (cst.FunctionDef, cst.Lambda)):
            return False
        if not all(_gives_tensor(file, value, path[1:]) for value in _returned(end.node)):
            return False
    return True


def _samples_are_tensors(file: FileFacts, loader: Loader) -> bool:
    """Whether every sample is a tensor, an array or a number itself, so that a whole batch is one tensor."""
    ends = [end for value in loader.values("dataset") for end in file.tracing.ends(value)]
    return bool(ends) and all(_has_tensor_samples(file, end) for end in ends)


def _has_tensor_samples(file: FileFacts, dataset: End) -> bool:
    if not isinstance(dataset.node, cst.BaseExpression):
        return False
    cls = file.value(dataset.node).cls
    method = cls.method("__getitem__") if cls is not None and not dataset.path else None
    if method is None:
        return file.value(dataset.node).kind in (Kind.TENSOR, Kind.ARRAY)
    return all(
        file.value(value).kind in (Kind.TENSOR, Kind.ARRAY, Kind.NUMBER) or _is_transformed(file, value)
        for value in _returned(method)
    )


def _is_transformed(file: FileFacts, sample: cst.BaseExpression) -> bool:
    """Whether a sample is made by a transform of torchvision: a picture as a tensor."""
    called = [end.node for end in file.tracing.ends(sample) if not end.path]
    makers = [end.node for call in called if isinstance(call, cst.Call) for end in file.tracing.ends(call.func)]
    return bool(makers) and all((file.qualified(maker) or "").startswith("torchvision.transforms.") for maker in makers)


def _gives_tensor(file: FileFacts, value: cst.BaseExpression, path: tuple[Step, ...]) -> bool:
    ends = file.tracing.ends(value, path)
    return bool(ends) and all(
        isinstance(end.node, cst.Call)
        and (file.value(end.node).is_tensor or file.qualified(end.node) in _DEFAULT_COLLATE)
        for end in ends
    )


def whole_tuple(file: FileFacts, loader: Loader) -> cst.Name | None:
    """A use of a whole batch that the collate function makes a tuple of: pinning would make it a list."""
    makers = [
        end.node
        for value in loader.values("collate_fn")
        for end in file.tracing.ends(value)
        if isinstance(end.node, (cst.FunctionDef, cst.Lambda))
    ]
    gives_tuple = any(
        isinstance(end.node, cst.Tuple)
        for maker in makers
        for value in _returned(maker)
        for end in file.tracing.ends(value)
    )
    if not gives_tuple:
        return None
    for iteration in loader.iterations:
        node = iteration.node
        names = walk(node.target) if not isinstance(node, cst.Call) else ()
        for name in (n for n in names if isinstance(n, cst.Name)):
            for use in _uses(file, name):
                if any(end.path == (None,) for end in file.tracing.ends(use)) and not _takes_part(file, use):
                    return use
    return None


def _takes_part(file: FileFacts, use: cst.Name) -> bool:
    parent = file.tree.parent(use)
    if isinstance(parent, (cst.For, cst.CompFor)):
        return parent.iter is use
    if isinstance(parent, cst.Subscript):
        return isinstance(parent.slice[0].slice, cst.Index)
    return isinstance(parent, cst.Assign) and all(isinstance(t.target, (cst.Tuple, cst.List)) for t in parent.targets)


def _returned(maker: cst.FunctionDef | cst.Lambda) -> Iterator[cst.BaseExpression]:
    """The values that a collate function may give."""
    if isinstance(maker, cst.Lambda):
        yield maker.body
        return
    for node in walk(maker.body):
        if isinstance(node, cst.Return) and node.value is not None:
            yield node.value


def _uses(file: FileFacts, name: cst.Name) -> Iterator[cst.Name]:
    for node in walk(file.tree.function(name) or file.source.module):
        if not (isinstance(node, cst.Name) and node.value == name.value and file.flow.is_read(node)):
            continue
        if any(definition.node is name for definition in file.flow.definitions(node)):
            yield node
