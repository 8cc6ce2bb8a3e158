"""Tensors in batches of which several elements lie in one place in memory, as `expand` makes them.

Pinning copies a tensor into the same layout, and PyTorch refuses to write there. What joins tensors (the default
collate function, `torch.stack`), computes with them or makes them contiguous gives each element a place of its own;
views and containers do not. Windows by `unfold` overlap too, but PyTorch only looks for dimensions without a stride.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts import torch_api
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import parameters
from perfmod.transforms.facts.handing import Held
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.tracing import Step
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.facts.worker_code import WorkerCode
from perfmod.transforms.feeding._batches import DEFAULT_COLLATE
from perfmod.transforms.feeding._collates import Maker, makers, returned, takes_samples_whole
from perfmod.transforms.feeding._graph_loaders import gives_graphs
from perfmod.transforms.feeding._kept_samples import makes_new

_METHODS = frozenset({"expand", "expand_as", "broadcast_to", "as_strided"})
_FUNCTIONS: dict[str, tuple[Step, ...]] = {
    "torch.broadcast_to": (),
    "torch.as_strided": (),
    "torch.broadcast_tensors": (None,),
    "torch.functional.broadcast_tensors": (None,),
    "torch.meshgrid": (None,),
    "torch.functional.meshgrid": (None,),
    "numpy.broadcast_to": (),
    "numpy.broadcast_arrays": (None,),
}
"""Functions that give such tensors, or arrays, and the way to them in what they give."""
_VIEWS = torch_api.CASTS | {
    "view", "reshape", "flatten", "ravel", "squeeze", "unsqueeze", "permute", "transpose", "t", "swapaxes", "movedim",
    "moveaxis", "detach", "view_as", "reshape_as", "type_as", "narrow", "select", "diagonal", "unflatten", "as_tensor",
    "from_numpy", "asarray", "requires_grad_", "atleast_1d", "atleast_2d", "atleast_3d",
}  # fmt: skip
"""What may give a view of a tensor, or the tensor itself: some do so only where they have nothing to change."""
_VIEW_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "data"})
_PARTS = frozenset({"chunk", "split", "unbind", "tensor_split"})
_CONTAINERS = frozenset({"dict", "OrderedDict", "defaultdict", "BatchEncoding", "BatchFeature"})
_GIVE_SAMPLES = frozenset({"__getitem__", "__getitems__", "__iter__", "__next__"})
_LONGEST_PATH = 6


@frozen
class Given:
    """An overlapping tensor that a function gives: `path` leads to it, `made` is the call that makes it."""

    path: tuple[Step, ...]
    made: cst.Call


def overlapping(file: FileFacts, loader: Loader) -> cst.Call | None:
    """The call that makes an overlapping tensor which comes into the batches of a loader."""
    given = file.once(_given)
    collates = list(makers(file, loader))
    for maker in collates:
        if maker in given:
            return given[maker][0].made
    is_whole = takes_samples_whole(loader)
    if gives_graphs(loader) or not (is_whole or loader.values("collate_fn")):
        return None
    for function in WorkerCode.of(file, loader).functions:
        for each in given.get(function, ()) if function not in collates else ():
            if _is_handed_on(file, loader, function, each, collates, is_whole=is_whole):
                return each.made
    return None


def _is_handed_on(
    file: FileFacts, loader: Loader, function: Maker, given: Given, collates: list[Maker], *, is_whole: bool
) -> bool:
    """Whether a part of what a function of the dataset gives comes into the batches as it is."""
    is_sample = isinstance(function, cst.FunctionDef) and function.name.value in _GIVE_SAMPLES
    if not is_sample and isinstance(function, cst.FunctionDef) and file.values.calls.callers(function):
        return False  # followed to what its callers give
    if not loader.values("collate_fn"):
        return True
    if not collates:
        names = [file.qualified(value) or "" for value in loader.values("collate_fn")]
        return not all(name in DEFAULT_COLLATE or name.startswith("transformers.") for name in names)
    if not is_sample:
        # A transform: where in the samples its tensors are is not known.
        return not all(makes_new(file, value) for maker in collates for value in returned(maker))
    assert isinstance(function, cst.FunctionDef)
    path = given.path[1:] if function.name.value in ("__iter__", "__getitems__") else given.path
    path = path if is_whole else (None, *path)
    return any(_gives_part(file, maker, path) for maker in collates)


def _gives_part(file: FileFacts, maker: Maker, path: tuple[Step, ...]) -> bool:
    """Whether a collate function gives as it is what is at `path` in what it is given."""
    names = [param.name.value for param in parameters(maker) if param.name.value != "self"]
    reads = (use for name in names for d in file.flow.bound(maker, name) for use in file.flow.uses(d))
    return any(function is maker for read in reads for function, _ in _results(file, Held(read, path)))


def _given(file: FileFacts) -> dict[Maker, list[Given]]:
    """The functions in sight that give overlapping tensors."""
    found: dict[Maker, list[Given]] = {}
    for call in file.tree.all(cst.Call):
        path = _made_by(file, call)
        if path is not None:
            for function, way in _results(file, Held(call, path)):
                found.setdefault(function, []).append(Given(way, call))
    return found


def _made_by(file: FileFacts, call: cst.Call) -> tuple[Step, ...] | None:
    """The way to overlapping tensors in what a call gives; `None` where it makes none."""
    name = file.qualified(call)
    if name is not None or not isinstance(call.func, cst.Attribute) or call.func.attr.value not in _METHODS:
        return _FUNCTIONS.get(name or "")
    return () if file.value(call.func.value).kind in (Kind.TENSOR, Kind.UNKNOWN) else None


# Following


def _results(file: FileFacts, start: Held) -> Iterator[tuple[Maker, tuple[Step, ...]]]:
    """Every function that gives a held tensor as it is, and the way to it in what it gives."""
    seen: set[Held] = set()
    stack = [start]
    while stack:
        held = stack.pop()
        for use in file.handing.uses(held.node, held.path):
            if use in seen or len(use.path) > _LONGEST_PATH:
                continue
            seen.add(use)
            parent = file.tree.parent(use.node)
            stack += _further(file, use, parent)
            if isinstance(parent, cst.Lambda) and parent.body is use.node:
                yield parent, use.path
            gives = isinstance(parent, (cst.Return, cst.Yield, cst.From))
            function = file.tree.function(use.node) if gives else None
            if function is not None:
                path = (None, *use.path) if isinstance(parent, cst.Yield) else use.path
                yield function, path
                stack += [Held(caller, path) for caller in file.values.calls.callers(function)]


def _further(file: FileFacts, use: Held, parent: cst.CSTNode | None) -> Iterable[Held]:
    """What holds an overlapping tensor next: a view of it, a container that it is put into."""
    if isinstance(parent, cst.Attribute):
        return _attribute(file, use, parent)
    if isinstance(parent, cst.Subscript) and parent.value is use.node and not use.path:
        indices = [element.slice.value for element in parent.slice if isinstance(element.slice, cst.Index)]
        return [] if any(file.value(index).is_tensor for index in indices) else [Held(parent)]
    if isinstance(parent, cst.Assign):
        targets = [target.target for target in parent.targets if isinstance(target.target, cst.Subscript)]
        return [each for target in targets for each in _holders(file, target.value, (None, *use.path))]
    around = file.tree.parent(parent) if parent is not None else None
    if isinstance(parent, cst.StarredDictElement) and isinstance(around, cst.Dict):
        return [Held(around, use.path)]
    if isinstance(parent, cst.StarredElement) and isinstance(around, (cst.List, cst.Tuple)):
        return [Held(around, (None, *use.path[1:]))]
    if isinstance(parent, cst.BinaryOperation) and use.path:
        return [Held(parent, (None, *use.path[1:]))]
    return _argument(file, use, parent, around) if isinstance(parent, cst.Arg) and isinstance(around, cst.Call) else []


def _attribute(file: FileFacts, use: Held, parent: cst.Attribute) -> Iterable[Held]:
    name, call = parent.attr.value, file.tree.parent(parent)
    if use.path:
        return []
    if not isinstance(call, cst.Call) or call.func is not parent:
        return [Held(parent)] if name in _VIEW_ATTRIBUTES else []
    if name in _PARTS:
        return [Held(call, (None,))]
    return [Held(call)] if name in _VIEWS and not _casts(file, parent.value, call) else []


def _casts(file: FileFacts, before: cst.BaseExpression, after: cst.BaseExpression) -> bool:
    """Whether a tensor is copied into another type for sure."""
    types = {file.value(before).dtype, file.value(after).dtype}
    return None not in types and len(types) > 1


def _argument(file: FileFacts, use: Held, arg: cst.Arg, call: cst.Call) -> Iterable[Held]:
    name = file.qualified(call) or ""
    short = name.rpartition(".")[2]
    if name == "builtins.zip" and arg.star == "*" and len(use.path) > 1:
        return [Held(call, (use.path[1], None, *use.path[2:]))]
    if arg.star:
        return []
    if name == "builtins.map" and call.args[0] is not arg:
        kept = file.qualified(call.args[0].value) in ("builtins.list", "builtins.tuple")
        return [Held(call, use.path)] if kept else []
    path = use.path if arg.keyword is None else (arg.keyword.value, *use.path)
    if short in _CONTAINERS:
        return [Held(call, path)]
    if isinstance(call.func, cst.Attribute) and call.func.attr.value in ("update", "extend"):
        return _holders(file, call.func.value, path)
    if file.tracing.fields(call.func) is not None:
        return [Held(call, (None, *use.path))]
    is_view = name.startswith("torch.") and short in _VIEWS and call.args[0] is arg and not use.path
    return [Held(call)] if is_view else []


def _holders(file: FileFacts, container: cst.BaseExpression, path: tuple[Step, ...]) -> list[Held]:
    """Everything that may hold a container, into which something was put."""
    definitions = file.flow.definitions(container) if isinstance(container, cst.Name) else ()
    return [Held(use, path) for each in definitions for use in file.flow.uses(each) if use is not container]
