"""Whether a loader's batches may be pinned and copied without waiting, and how sure that is."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.loaders import TORCH_LOADER, Loader
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.worker_code import Trait, WorkerCode
from perfmod.transforms.feeding._batches import GRAPH_LOADERS, is_tensor, is_told_apart, own_batches, whole_tuple
from perfmod.transforms.feeding._copies import Copy, Write, is_false, written_after

_TORCH_LOADERS = frozenset({TORCH_LOADER, "torchdata.stateful_dataloader.StatefulDataLoader"})
_AVAILABLE = "torch.cuda.is_available"


def why_not(file: FileFacts, loader: Loader, pinned: bool) -> str:
    """Why the batches of a loader stay as they are, in one line; empty where they need not."""
    if loader.name.startswith("dgl."):
        return "dgl's loader moves its batches itself"
    if loader.name not in _TORCH_LOADERS | GRAPH_LOADERS:
        short = loader.name.rpartition(".")[2]
        return f"{short} puts its batches together after pinning, so they may not be pinned"
    if pinned:
        value = _depends(file, loader)
        if value is None:
            return ""
        return f"whether the loader pins is up to {file.source.code(value)}: without, this is only half"
    setting = loader.settings.get("pin_memory")
    if setting is None and loader.unseen:
        return loader.unseen
    if setting is not None and setting.arg is None:
        line = file.source.line(setting.values[0])
        return f"pin_memory=False stands in a dictionary of keywords on line {line}"
    if loader.cls is not None and any("__init__" in cls.methods for cls in loader.cls.lineage()):
        return f"{loader.cls.name} decides itself what it passes on to DataLoader"
    own = own_batches(file, loader)
    if own is not None:
        return f"its batches are {own.name} objects, which could not be pinned: they have no pin_memory()"
    work = WorkerCode.of(file, loader)
    device = work.first(Trait.DEVICE)
    if device is not None:
        line = file.source.line(device.node)
        return f"its samples may lie in CUDA memory ({device.text}, line {line}), which cannot be pinned"
    # Graphs are often stored sparse, or moved, by a transform of their dataset.
    places = [file.source.module] if loader.name in GRAPH_LOADERS else [function.body for function in work.functions]
    for call in (call for place in places for call in find_all(place, cst.Call)):
        name = (file.qualified(call) or dotted(call.func)).rpartition(".")[2]
        if "sparse" in name.lower():
            return f"sparse tensors cannot be pinned (line {file.source.line(call)})"
        if name == "ToDevice":
            return f"its graphs lie on the device already (line {file.source.line(call)})"
    return ""


def why_overwritten(file: FileFacts, found: list[Copy], written: list[Write]) -> str:
    """Which write into a batch comes while a copy may still be under way; empty where none does."""
    for copy in found:
        write = written_after(file, copy, written) if copy.blocks else None
        if write is not None:
            line, copied = file.source.line(write.node), file.source.line(copy.call)
            return f"line {line} writes into the batch on the host while line {copied} may still copy it"
    return ""


def why_not_copy(file: FileFacts, copy: Copy) -> str:
    """Why one copy stays as it is; empty where it need not."""
    if copy.pinned_here:
        return "it is pinned by hand in the step, which costs more than it gives: pin in the loader instead"
    if copy.cast is not None:
        cast = file.source.code(copy.cast.func).rpartition(".")[2]
        return f"{cast}() makes another, unpinned tensor on the host: cast on the device, behind the copy"
    if copy.others:
        line = file.source.line(copy.others[0].node)
        return f"it also copies what does not come out of a loader in sight (line {line})"
    return ""


def doubts(file: FileFacts, loader: Loader, good: list[Copy], pinned: bool) -> str:
    """Why the rewrite may not be right, in one line; empty where it is."""
    if not pinned and given_pin(loader) is not None:
        return "pin_memory=False is written out: somebody may have had a reason, such as little memory"
    if any(copy.non_blocking is not None for copy in good if copy.blocks):
        return "non_blocking=False is written out: somebody may have had a reason"
    if any(copy.may_be_mps for copy in good):
        return "the device may be MPS, where non-blocking copies have given wrong values"
    for copy in good:
        for other, paths in copy.origins.items():
            for path in paths:
                told_apart = path == (None,) and is_told_apart(file, copy)
                if copy.blocks and not told_apart and not is_tensor(file, other, path):
                    line = file.source.line(copy.call)
                    return f"what line {line} copies may be no tensor, with a `to` of another kind"
    whole = whole_tuple(file, loader) if not pinned else None
    if whole is not None:
        return f"pinning makes a list of the collate function's tuple; line {file.source.line(whole)} uses it whole"
    return ""


def given_pin(loader: Loader) -> cst.BaseExpression | None:
    """What the construction itself passes for `pin_memory`."""
    setting = loader.settings.get("pin_memory")
    return setting.values[0] if setting is not None and setting.arg is not None else None


def is_pinned(loader: Loader) -> bool:
    """Whether anything but a literal `False` is passed on some way: `True`, `use_cuda`, `args.pin`."""
    return any(not is_false(value) for value in loader.values("pin_memory"))


def _depends(file: FileFacts, loader: Loader) -> cst.BaseExpression | None:
    """What decides at run time whether the loader pins, apart from there being a device."""
    for value in loader.values("pin_memory"):
        ends = file.tracing.ends(value)
        sure = all(_is_true(end.node) or file.qualified(end.node) == _AVAILABLE for end in ends)
        if not (sure or is_false(value) or "cuda" in file.source.code(value)):
            return value
    return None


def _is_true(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Name) and node.value == "True"
