"""Whether a loader's batches may be pinned and copied without waiting, and how sure that is."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts import lightning
from perfmod.transforms.facts.accelerators import other_device
from perfmod.transforms.facts.batch_copies import (
    BatchWrite,
    Copy,
    copies,
    gaps,
    is_part,
    overlap,
    writes,
    written_after,
)
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.loaders import TORCH_LOADERS, Loader
from perfmod.transforms.facts.tracing import End, Step
from perfmod.transforms.facts.tree import find_all, is_false
from perfmod.transforms.facts.worker_code import Trait, WorkerCode
from perfmod.transforms.feeding._batches import acts_as_tensor, is_tensor, is_told_apart
from perfmod.transforms.feeding._casts import goes_behind
from perfmod.transforms.feeding._collates import kept_batch, own_batches
from perfmod.transforms.feeding._graph_loaders import gives_graphs, joins_graphs_of_dgl, unseen_graph, why_unpinned
from perfmod.transforms.feeding._kept_samples import hands_on, making, written_sample
from perfmod.transforms.feeding._mappings import why_read_otherwise
from perfmod.transforms.feeding._movable import stranger
from perfmod.transforms.feeding._pinning import Pinning, why_chosen_elsewhere, why_kept
from perfmod.transforms.feeding._settings import asked, places, switched_off, why_given_twice
from perfmod.transforms.feeding._sparse import made_sparse
from perfmod.transforms.feeding._tuple_batches import whole_tuple
from perfmod.transforms.questions import Predicate

_OVERLAPS = frozenset(
    {"expand", "expand_as", "broadcast_to", "broadcast_tensors", "broadcast_arrays", "as_strided", "meshgrid"}
)
"""Functions and methods whose results have several elements at one place in memory, which PyTorch cannot pin."""


def why_not(file: FileFacts, loader: Loader, pinning: Pinning) -> str:
    """Why the batches of a loader stay as they are, in one line; empty where they need not."""
    unpinned = why_unpinned(file, loader)
    if unpinned:
        return unpinned
    if loader.name not in TORCH_LOADERS and not gives_graphs(loader) and not joins_graphs_of_dgl(loader):
        return f"the batches of {loader.name.rpartition('.')[2]} are not known"
    if pinning.depends is not None:
        return (
            f"{file.code(pinning.depends)} decides whether the loader pins its batches; if it does not, "
            "non_blocking gains nothing"
        )
    kept = kept_batch(file, loader)
    if kept is not None:
        return (
            f"its collate function keeps the batch it returns (line {file.line(kept)}), and may fill it again too early"
        )
    if pinning.on:
        return ""
    setting = loader.settings.get("pin_memory")
    if setting is None and loader.unseen:
        return loader.unseen
    for place in places(file, loader, "pin_memory"):
        other = place.stray or place.escape
        if other is not None:
            line = file.line(other)
            return f"pin_memory=False is set through {place.through}, which line {line} also uses for something else"
    own = own_batches(file, loader)
    if own is not None:
        return f"its batches are {own.name} objects, which cannot be pinned: they have no pin_memory()"
    asked = _asked_whether_pinned(file, loader)
    if asked is not None:
        return f"line {file.line(asked)} checks whether its batches are pinned"
    work = WorkerCode.of(file, loader)
    device = work.first(Trait.DEVICE)
    if device is not None:
        line = file.line(device.node)
        return f"its samples may be in CUDA memory ({device.text}, line {line}), which cannot be pinned"
    for call in (call for function in work.functions for call in find_all(function.body, cst.Call)):
        switches = isinstance(call.func, cst.Attribute) and call.func.attr.value == "requires_grad_"
        watched = argument(call, "requires_grad", 0 if switches else None)
        if is_false(watched) if watched is not None else not switches:
            continue
        return f"its samples require gradients (line {file.line(call)}), and pinned copies would get them instead"
    # Graphs are often stored sparse, or moved, by a transform of their dataset.
    code = [file.source.module] if gives_graphs(loader) else [function.body for function in work.functions]
    sparse = made_sparse(file, code)
    if sparse is not None:
        return f"sparse tensors cannot be pinned (line {file.line(sparse)})"
    for call in (call for part in code for call in find_all(part, cst.Call)):
        if (file.qualified(call) or dotted(call.func)).rpartition(".")[2] == "ToDevice":
            return f"its graphs are already on the device (line {file.line(call)})"
    return ""


def _asked_whether_pinned(file: FileFacts, loader: Loader) -> cst.Attribute | None:
    """Where something depends on whether a loader pins: `loader.pin_memory`, `batch.is_pinned()`."""
    for node in file.tree.all(cst.Attribute):
        if node.attr.value == "is_pinned" and loader in file.loaders.behind(node.value):
            return node
    return asked(file, loader, "pin_memory")


def why_copied_otherwise(file: FileFacts) -> str:
    """Why Lightning may not copy batches to the device, and without waiting, as it usually does; empty if it does."""
    for cls in file.classes:
        for name in ("transfer_batch_to_device", "move_data_to_device"):
            if name in cls.methods:
                return f"line {file.line(cls.methods[name])} copies the batches in its own way"
    for call in lightning.runs(file.tree, file.names, file.values):
        made = file.value(call.func.value).call if isinstance(call.func, cst.Attribute) else None
        accelerator = argument(made, "accelerator") if made is not None else None
        if isinstance(accelerator, cst.SimpleString) and accelerator.evaluated_value in ("cpu", "mps"):
            return f"the Trainer runs on the {str(accelerator.evaluated_value).upper()} (line {file.line(accelerator)})"
    return ""


def why_overwritten(file: FileFacts, found: list[Copy], written: tuple[BatchWrite, ...]) -> str:
    """Which write into a batch comes while a copy may still be under way; empty where none does."""
    for copy in found:
        write = written_after(file, copy, written) if copy.blocks else None
        if write is not None:
            line, copied = file.line(write.node), file.line(copy.call)
            return f"line {line} modifies the batch on the CPU while line {copied} may still be copying it"
    return ""


def why_not_copy(file: FileFacts, copy: Copy) -> str:
    """Why one copy stays as it is; empty where it need not."""
    if copy.pinned_here:
        return "it is pinned by hand in the step, which costs more than it gains: pin in the loader instead"
    stream = _side_stream(file, copy.call) if copy.blocks else None
    if stream is not None:
        return f"it runs on the stream of line {file.line(stream)}, and no other stream waits for that one"
    if copy.cast is not None and not goes_behind(file, copy):
        cast, line = file.code(copy.cast.func).rpartition(".")[2], file.line(copy.cast)
        return f"{cast}() on line {line} makes a new tensor, which is not pinned, so its copy would still wait"
    if (part := gaps(file, copy)) is not None:
        return (
            f"PyTorch first joins the pieces of `{file.code(part)}` in memory that is not pinned, so its copy would "
            "still wait: copy the whole tensor, and slice it on the device"
        )
    if copy.others and copy.may_fetch:
        line = file.line(copy.others[0].node)
        return f"it also copies tensors that come from no known loader (line {line}), in some calls to the CPU"
    return ""


def _side_stream(file: FileFacts, copy: cst.Call) -> cst.With | None:
    """The `with torch.cuda.stream(side)` around a copy, where no stream waits for another."""
    waits = any(each.attr.value in ("wait_stream", "wait_event") for each in file.tree.all(cst.Attribute))
    for around in file.tree.ancestors(copy) if not waits else ():
        calls = [each.item for each in around.items] if isinstance(around, cst.With) else []
        if any(isinstance(call, cst.Call) and dotted(call.func).endswith(".stream") for call in calls):
            assert isinstance(around, cst.With)
            return around
    return None


def why_half(file: FileFacts, loader: Loader, chosen: list[Copy]) -> str:
    """Which copy of the same statement, or of another part of a batch, would go on waiting; empty where none would."""
    done = {copy.call for copy in chosen}
    statements = {file.tree.statement(call) for call in done}
    copied = [path for copy in chosen for path in copy.origins[loader]]
    for copy in (each for each in file.once(copies) if each.blocks and each.call not in done):
        line = file.line(copy.call)
        if file.tree.statement(copy.call) in statements:
            return f"another copy on line {line} would still wait: its source is not pinned"
        made, paths = copy.computed.get(loader, (copy.call, frozenset[tuple[Step, ...]]()))
        left = (path for path in paths if len(path) > 1 and not any(overlap(path, other) for other in copied))
        if is_part(file, copy, made) and any(left):
            return (
                f"line {line} would still wait to copy what line {file.line(made)} computes from another part "
                "of the batch"
            )
    return ""


def doubts(file: FileFacts, loader: Loader, good: list[Copy], pinned: bool) -> str:
    """Why the whole rewrite of a loader may not be right, in one line; empty where it is."""
    if not pinned and loader.values("pin_memory"):
        return "pin_memory=False is set explicitly, perhaps for a reason such as little memory"
    off = switched_off(file, loader, "pin_memory") if not pinned else ""
    if off:
        return off
    twice = why_given_twice(loader, "pin_memory") if not pinned else ""
    if twice:
        return twice
    chosen = (why_chosen_elsewhere(file, loader) or why_kept(file, loader)) if not pinned else ""
    if chosen:
        return chosen
    other = other_device(file)
    if other and any(copy.blocks for copy in good):
        return f"{other}, where non-blocking copies have given wrong values"
    if other:
        return f"{other}, which takes nothing from pinned memory"
    scrubbed = unseen_write(file, good)
    if scrubbed is not None:
        called = f"`{file.code(scrubbed.node.func)}`" if isinstance(scrubbed.node, cst.Call) else "the function"
        return (
            f"perfmod cannot see the code of {called} on line {file.line(scrubbed.node)}, which may modify the batch "
            f"while line {file.line(good[0].call)} is still copying it"
        )
    moved = _moved_samples(file, loader) if not pinned else None
    if moved is not None:
        return f"line {file.line(moved)} moves what its samples are taken from: what is on the device cannot be pinned"
    graph = unseen_graph(file, loader)
    if graph is not None and not pinned:
        return f"its graph (line {file.line(graph)}) comes from elsewhere: if it is on the device, it cannot be pinned"
    if loader.name.startswith("torch_geometric.data.") and any(copy.blocks for copy in good):
        return (
            "its loader is imported from a path of PyTorch Geometric before 2.0, where `to` may not accept non_blocking"
        )
    overlaps = _overlapping(file, loader) if not pinned else None
    if overlaps is not None:
        made = file.code(overlaps.func).rpartition(".")[2]
        return f"{made}() may make overlapping elements in a batch (line {file.line(overlaps)}), which cannot be pinned"
    written = written_sample(file, loader, WorkerCode.of(file, loader)) if not pinned else None
    if written is not None:
        return f"line {file.line(written)} modifies the batch, which may be a sample that the dataset keeps"
    read = why_read_otherwise(file, loader) if not pinned else ""
    if read:
        return read
    whole = whole_tuple(file, loader) if not pinned else None
    if whole is not None:
        return (
            f"pinning turns the collate function's tuple into a list, and line {file.line(whole)} uses the "
            "tuple as a whole"
        )
    return ""


def _overlapping(file: FileFacts, loader: Loader) -> cst.Call | None:
    """What makes tensors of which several elements lie in one place, where nothing joins them to new ones later."""
    if not hands_on(file, loader) or (gives_graphs(loader) and not loader.values("collate_fn")):
        return None
    for call in (node for node in making(file, loader) if isinstance(node, cst.Call)):
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        used = file.tree.parent(call)
        is_copied = isinstance(used, cst.Attribute) and used.attr.value in ("contiguous", "clone")
        if {method, (file.qualified(call) or "").rpartition(".")[2]} & _OVERLAPS and not is_copied:
            return call
    return None


def _moved_samples(file: FileFacts, loader: Loader) -> cst.Call | None:
    """What moves an object in place whose tensors the loader's data set is made of: `buffer.to(device)`."""
    function = file.tree.function(loader.call)
    sources = {
        owner
        for dataset in loader.values("dataset")
        for end in file.tracing.ends(dataset)
        if isinstance(end.node, cst.Call) and file.qualified(end.node) == "torch.utils.data.TensorDataset"
        for attribute in find_all(end.node, cst.Attribute)
        if (owner := dotted(attribute.value))
    }
    statements = find_all(function, cst.Expr) if function is not None and sources else ()
    calls = (statement.value for statement in statements if isinstance(statement.value, cst.Call))
    moves = (call for call in calls if dotted(call.func).rpartition(".")[2] in ("to", "cuda"))
    return next((call for call in moves if dotted(call.func).rpartition(".")[0] in sources), None)


def unseen_write(file: FileFacts, good: list[Copy]) -> BatchWrite | None:
    """A call of a function out of sight that gets a batch which may still be copied, and that may write into it."""
    if Predicate.LEAVES_ARGUMENTS.value in file.policy.assumed:
        return None
    written = file.once(writes)
    found = (written_after(file, copy, written, is_seen=False) for copy in good if copy.blocks)
    return next(filter(None, found), None)


def doubt_of_copy(file: FileFacts, copy: Copy) -> str:
    """Why one copy may not be made without waiting, in one line; empty where it may."""
    if not copy.blocks:
        return ""
    if copy.non_blocking is not None:
        return "non_blocking=False is set explicitly, perhaps for a reason"
    for end in copy.others:
        if not _is_tensor(file, end):
            line, made = file.line(copy.call), file.line(end.node)
            return f"line {line} also copies tensors that come from no known loader (line {made})"
    for loader, paths in copy.origins.items():
        for path in paths:
            told_apart = path == (None,) and is_told_apart(file, copy)
            if told_apart or is_tensor(file, loader, path) or acts_as_tensor(file, copy):
                continue
            other = stranger(file, copy.call)
            if other:
                line = file.line(copy.call)
                return f"line {line} may copy an object of {other}, whose `to` may not accept `non_blocking`"
    return ""


def _is_tensor(file: FileFacts, end: End) -> bool:
    """Whether a value of other origin is a tensor (or a number, which nothing copies) that nobody has pinned."""
    if not isinstance(end.node, cst.Call) or any(isinstance(step, str) for step in end.path):
        return False
    return file.value(end.node).is_tensor and not (
        isinstance(end.node.func, cst.Attribute) and end.node.func.attr.value == "pin_memory"
    )
