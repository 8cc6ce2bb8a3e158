"""What the batches of a loader consist of: tensors, objects with a `to` of their own, tuples."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts import torch_api
from perfmod.transforms.facts.batch_copies import Copy
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.tracing import End, Step
from perfmod.transforms.facts.tree import find_all, is_none
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.feeding._collates import maker_at, returned
from perfmod.transforms.feeding._graph_loaders import gives_graphs

DEFAULT_COLLATE = frozenset(
    {
        "torch.utils.data.default_collate", "torch.utils.data._utils.collate.default_collate",
        "torch.utils.data.dataloader.default_collate",
    }
)  # fmt: skip
_MAKES_GRAPHS = frozenset({"torch_geometric.data.Batch.from_data_list", "torch_geometric.data.Batch"}) | {
    f"dgl.{name}"
    for name in (
        "add_edges", "add_nodes", "add_reverse_edges", "add_self_loop", "batch", "edge_subgraph", "graph",
        "heterograph", "in_subgraph", "node_subgraph", "out_subgraph", "remove_edges", "remove_nodes",
        "remove_self_loop", "reverse", "sampling.sample_neighbors", "to_bidirected", "to_block",
        "to_homogeneous", "to_simple",
    )
}  # fmt: skip
"""What makes one graph, whose `to` takes what that of tensors takes."""
_WITHOUT = (cst.Tuple, cst.List, cst.Dict, cst.ListComp, cst.DictComp)
"""Containers, which have no `to`: what is copied by one is never one of these."""
_TENSOR_METHODS = frozenset({"size", "view", "reshape", "squeeze", "dim", "flatten", "transpose", "float", "argmax"})
_COLLATORS = ("transformers.", "ogb.graphproppred.collate_dgl")
"""Data collators of Transformers make dictionaries of tensors; that of OGB for DGL, a graph and its labels."""


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
    if gives_graphs(loader):
        return True
    made = [end for value in loader.values("collate_fn") for end in file.tracing.ends(value)]
    sizes = loader.values("batch_size")
    unbatched = any(is_none(size) for size in sizes)
    if not made:
        # The default collate function gives tensors, strings, and containers of those, some of which (such as
        # a tokenizer's) have a `to` of their own.
        return not unbatched and (path != (None,) or _samples_are_tensors(file, loader))
    for end in made:
        if is_none(end.node):
            continue
        if isinstance(end.node, (cst.Name, cst.Attribute)) and file.qualified(end.node) in DEFAULT_COLLATE:
            continue
        made_by = file.qualified(end.node) if isinstance(end.node, cst.BaseExpression) else None
        if (made_by or "").startswith(_COLLATORS) and len(path) > 1:
            continue
        maker = maker_at(file, end.node)
        if maker is None or not all(_gives_tensor(file, value, path[1:]) for value in returned(maker)):
            return False
    return True


def acts_as_tensor(file: FileFacts, copy: Copy) -> bool:
    """Whether what a copy gives, or what it is made from, is used as only tensors are: `labels.size(0)`."""
    assert isinstance(copy.call.func, cst.Attribute)
    shown = [copy.call, *_names_of(file, copy.call), *_other_reads(file, copy.call.func.value)]
    return any(_shows_tensor(file, use) for use in shown)


def _names_of(file: FileFacts, call: cst.Call) -> Iterator[cst.BaseExpression]:
    """The reads of the variable that a call is assigned to, alone or in `x, y = x.to(d), y.to(d)`."""
    for assign in (around for around in file.tree.ancestors(call) if isinstance(around, cst.Assign)):
        for target in assign.targets:
            pairs: list[tuple[cst.BaseExpression, cst.BaseExpression]] = [(target.target, assign.value)]
            if isinstance(target.target, cst.Tuple) and isinstance(assign.value, cst.Tuple):
                pairs = [
                    (name.value, given.value)
                    for name, given in zip(target.target.elements, assign.value.elements, strict=False)
                ]
            for name, given in pairs:
                if isinstance(name, cst.Name) and given is call:
                    for definition in file.flow.defined(name):
                        yield from file.flow.uses(definition)


def _other_reads(file: FileFacts, base: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Further reads of the variable that is copied."""
    if isinstance(base, cst.Name):
        for definition in file.flow.definitions(base):
            yield from (use for use in file.flow.uses(definition) if use is not base)


def _shows_tensor(file: FileFacts, use: cst.CSTNode) -> bool:
    """Whether the place where a value stands takes only tensors, and no other object that has a `to`."""
    parent = file.tree.parent(use)
    if isinstance(parent, cst.Attribute) and parent.value is use:
        call = file.tree.parent(parent)
        called = isinstance(call, cst.Call) and call.func is parent
        name = parent.attr.value
        return name in (torch_api.TENSOR_ONLY_METHODS | _TENSOR_METHODS if called else ("shape", "dtype", "ndim"))
    call = file.tree.parent(parent) if isinstance(parent, cst.Arg) and not parent.star else None
    if not isinstance(call, cst.Call):
        return False
    name = file.qualified(call) or ""
    if file.value(call.func).name in torch_api.LOSS_MODULES:
        return True
    return call.args[0] is parent and (name in torch_api.NEEDS_TENSOR or name.startswith("torch.nn.functional."))


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
        for value in returned(method)
    )


def _is_transformed(file: FileFacts, sample: cst.BaseExpression) -> bool:
    """Whether a sample is made by a transform of torchvision: a picture as a tensor."""
    called = [end.node for end in file.tracing.ends(sample) if not end.path]
    makers = [end.node for call in called if isinstance(call, cst.Call) for end in file.tracing.ends(call.func)]
    return bool(makers) and all((file.qualified(maker) or "").startswith("torchvision.transforms.") for maker in makers)


def _gives_tensor(file: FileFacts, value: cst.BaseExpression, path: tuple[Step, ...]) -> bool:
    ends = [end for end in file.tracing.ends(value, path) if end.path or not isinstance(end.node, _WITHOUT)]
    made = [end.node for end in ends if not is_none(end.node)]
    are_tensors = all(
        isinstance(node, cst.Call)
        and (file.value(node).is_tensor or file.qualified(node) in DEFAULT_COLLATE | _MAKES_GRAPHS)
        for node in made
    )
    encoded = len(path) == 1 and all(_is_encoding(end) for end in file.tracing.ends(value))
    return encoded or (bool(made) and are_tensors)


def _is_encoding(end: End) -> bool:
    """Whether a tokenizer makes a dictionary of tensors: `tokenizer(text, return_tensors="pt")`."""
    asked = ("return_tensors", "tensor_type")
    given = [argument(end.node, name) for name in asked] if isinstance(end.node, cst.Call) and not end.path else []
    return any(isinstance(value, cst.SimpleString) and value.evaluated_value == "pt" for value in given)
