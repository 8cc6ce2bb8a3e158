"""Loaders of tensors in memory whose batches all go to one device, and what keeps their tensors from lying there."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.batch_copies import Copy, copies, destination
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition, dotted
from perfmod.transforms.facts.loaders import TORCH_LOADER, Loader
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Device
from perfmod.transforms.style import quoted

_DATA_SET = "torch.utils.data.TensorDataset"
_LENGTHS = frozenset({"builtins.len"})
_SIZES = frozenset({"shape", "size", "dim", "ndim", "numel", "dtype"})
_CASTS = frozenset({"float", "double", "half", "long", "int", "bool"})
"""What may come in front of a copy."""
_DRAWN_FROM = frozenset({"builtins.enumerate", "builtins.len", "builtins.zip", "tqdm.tqdm", "tqdm.auto.tqdm"})


class StaysOnHost(Exception):
    """Why tensors stay where they are, in one line."""


@frozen
class TensorLoader:
    """A loader of tensors.

    Attributes:
        loader: the loader.
        made: the call that makes its data set.
        copies: what copies its batches to the device.
    """

    loader: Loader
    made: cst.Call
    copies: tuple[Copy, ...]


def tensor_loaders(file: FileFacts) -> Iterator[TensorLoader]:
    """The loaders of a file that read a `TensorDataset` of the host and whose batches are copied to a device."""
    every = file.once(copies)
    for loader in file.loaders:
        found = tuple(copy for copy in every if loader in copy.origins)
        made = _made(file, loader) if found and loader.name == TORCH_LOADER and loader.cls is None else None
        if made is not None:
            yield TensorLoader(loader, made, found)


def _made(file: FileFacts, loader: Loader) -> cst.Call | None:
    """The one call in this file that makes the tensors' data set; None where they lie on a device already."""
    ends = [end for value in loader.values("dataset") for end in file.tracing.ends(value)]
    made = ends[0].node if len(ends) == 1 and not ends[0].path else None
    if not isinstance(made, cst.Call) or file.qualified(made) != _DATA_SET or not file.is_own(made):
        return None
    is_plain = made.args and not any(arg.star or arg.keyword is not None for arg in made.args)
    on_device = any(file.value(arg.value).device is Device.ACCELERATOR for arg in made.args)
    return made if is_plain and not on_device else None


def device_of_batches(file: FileFacts, found: TensorLoader) -> str:
    """The device that all batches go to, as code that is known where the data set is made. Raises `StaysOnHost`."""
    devices = {_device(file, copy.call, found.made) for copy in found.copies}
    if len(devices) > 1:
        raise StaysOnHost(f"its batches go to several devices: {', '.join(sorted(devices))}")
    return devices.pop()


def _device(file: FileFacts, move: cst.Call, made: cst.Call) -> str:
    where = destination(file, move)
    is_plain = all(arg.keyword is not None and arg.keyword.value == "non_blocking" for arg in move.args)
    if where is None and cst.ensure_type(move.func, cst.Attribute).attr.value == "cuda" and is_plain:
        return quoted(file.source_of(made), "cuda")
    if isinstance(where, cst.SimpleString):
        return file.code(where)
    if where is None or not dotted(where):
        raise StaysOnHost(f"line {file.line(move)} copies to a device that is not written down by name")
    name, known = dotted(where), {end.node for end in file.tracing.ends(where)}
    home = file.tree.function(made)
    bound_to = _definitions(file, where)
    if file.tree.function(move) is home and bound_to and all(file.comes_before(d.node, made) for d in bound_to):
        return name
    for scope in (home, file.tree.module_of(made)):
        for bound in file.flow.bound(scope, name) if scope is not None else ():
            ends = {end.node for end in file.tracing.ends(bound.value)} if bound.value is not None else set()
            if ends and ends == known and file.comes_before(bound.node, made):
                return name
    raise StaysOnHost(f"line {file.line(move)} copies to `{name}`, which is not known where the data set is made")


def _definitions(file: FileFacts, node: cst.BaseExpression) -> tuple[Definition, ...]:
    while isinstance(node, cst.Attribute):
        node = node.value
    return tuple(file.flow.definitions(node)) if isinstance(node, cst.Name) else ()


def require_only_copied(file: FileFacts, found: TensorLoader) -> None:
    """Batches are used on the device only, and drawn by loops whose heads unpack them. Raises `StaysOnHost`."""
    moves = {copy.call for copy in found.copies}
    for iteration in found.loader.iterations:
        if not isinstance(iteration.node, cst.For):
            raise StaysOnHost(f"line {file.line(iteration.node)} draws batches without a loop of its own")
        parts = _parts(file, iteration.node)
        if len(parts) != len(found.made.args) or len(parts) == 1:
            raise StaysOnHost(f"line {file.line(iteration.node)} does not unpack the batch")
        for name in parts:
            for definition in file.flow.defined(name):
                for use in file.flow.uses(definition):
                    if not _only_copies(file, use, moves):
                        raise StaysOnHost(f"line {file.line(use)} uses `{name.value}` before it is copied")


def _parts(file: FileFacts, loop: cst.For) -> list[cst.Name]:
    """The names that the head of a loop gives to the parts of a batch."""
    target: cst.BaseExpression = loop.target
    counts = [call for call in find_all(loop.iter, cst.Call) if file.qualified(call) == "builtins.enumerate"]
    if counts and isinstance(target, cst.Tuple):
        target = target.elements[-1].value
    elements = target.elements if isinstance(target, (cst.Tuple, cst.List)) else ()
    return [each.value for each in elements if isinstance(each.value, cst.Name)]


def _only_copies(file: FileFacts, use: cst.CSTNode, moves: set[cst.Call]) -> bool:
    """Whether a use of a part of a batch copies it to the device, or asks only for its size."""
    parent = file.tree.parent(use)
    call = file.tree.parent(parent) if parent is not None else None
    if isinstance(parent, cst.Attribute):
        if parent.attr.value in _SIZES or call in moves:
            return True
        return isinstance(call, cst.Call) and parent.attr.value in _CASTS and _only_copies(file, call, moves)
    return isinstance(parent, cst.Arg) and isinstance(call, cst.Call) and file.qualified(call) in _LENGTHS


def require_unshared(file: FileFacts, found: TensorLoader) -> None:
    """Nothing else reads the data set, changes its tensors later, or looks into the loader. Raises `StaysOnHost`."""
    for use in _uses(file, found.made):
        if not file.tree.is_within(use, found.loader.call) and not _asks_length(file, use):
            raise StaysOnHost(f"line {file.line(use)} uses the data set, too")
    for use in _uses(file, found.loader.call):
        parent = file.tree.parent(use)
        call = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
        is_drawn = isinstance(parent, cst.For) or (isinstance(parent, cst.Attribute) and parent.attr.value == "dataset")
        if isinstance(call, cst.Call):
            is_drawn = file.qualified(call) in _DRAWN_FROM or not file.callees.of(call).is_unseen
        if not is_drawn:
            raise StaysOnHost(f"line {file.line(use)} may ask the loader for what it is told now")
    for arg in found.made.args:
        for definition in _definitions(file, arg.value):
            in_place = [use for use in file.flow.uses(definition) if _is_method_in_place(file, use)]
            for write in (*file.aliasing.mutations(definition), *in_place):
                if file.comes_before(found.made, write):
                    raise StaysOnHost(f"line {file.line(write)} writes into the tensors of the data set")


def _is_method_in_place(file: FileFacts, use: cst.CSTNode) -> bool:
    """Whether a method of a tensor writes into it, `x.sub_(mean)`: what a `TensorDataset` is given are tensors."""
    parent = file.tree.parent(use)
    return isinstance(parent, cst.Attribute) and parent.attr.value.endswith("_") and "__" not in parent.attr.value


def _uses(file: FileFacts, made: cst.Call) -> Iterator[cst.CSTNode]:
    """Where the name is used that a call's result is given. Raises `StaysOnHost` where it gets none in this place."""
    parent = file.tree.parent(made)
    if isinstance(parent, (cst.Arg, cst.For)):  # it is used where it is made
        return
    target = parent.targets[0].target if isinstance(parent, cst.Assign) and len(parent.targets) == 1 else None
    if not isinstance(target, cst.Name):
        raise StaysOnHost(f"line {file.line(made)}: it is kept in something else than a variable")
    for definition in file.flow.defined(target):
        yield from file.flow.uses(definition)


def _asks_length(file: FileFacts, use: cst.CSTNode) -> bool:
    arg = file.tree.parent(use)
    call = file.tree.parent(arg) if isinstance(arg, cst.Arg) else None
    return isinstance(call, cst.Call) and file.qualified(call) in _LENGTHS
