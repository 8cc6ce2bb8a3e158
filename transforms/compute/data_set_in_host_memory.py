"""Tensors that lie in host memory, out of which every batch is collated and copied to the device anew.

A `TensorDataset` holds tensors that are ready. Its loader takes them apart sample by sample, stacks the samples again
and leaves the copy to the loop, in every epoch. Where all of the data fits on the device, it can be moved there once,
and each batch is one indexing operation there:

    train_set = TensorDataset(x, y)
    train_loader = DataLoader(train_set, batch_size=64, shuffle=True)

    train_set = TensorDataset(x.to(device), y.to(device))
    train_loader = DataLoader(
        train_set,
        sampler=BatchSampler(RandomSampler(train_set), batch_size=64, drop_last=False),
        batch_size=None,
    )

With `batch_size=None` the loader asks the data set for a whole list of indices. The samplers are those that the loader
made for itself before, with the same random numbers, so that every epoch has the same batches in the same order. The
loop stays as it is: its `x.to(device)` has nothing left to do. Workers and pinned memory are for data on the host, so
`num_workers`, `pin_memory` and what belongs to them go.

All loaders of a data set are rewritten together, evaluation too, or none. They stay where a batch is used on the host
before it is moved, where the data set or a loader is used for something else (`random_split`, `dataset[0]`,
`loader.batch_size`, a framework), where batches are made in another way (`collate_fn`, a sampler), where several
processes share the training, and where tensors are not seen to be plain data: computed by a model, changed later, or
with dimensions in another order in memory.

How large the data is does not show in the code, so whether it fits is an open question: `--unsafe`, or
`assume = ["fits-on-the-device"]` for the project. The rewrites were run on the CPU, and not yet on a GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.compute._mentions import first_mention
from perfmod.transforms.compute._moved_batches import Kept, Move, move_at, moves
from perfmod.transforms.compute._plain_tensors import why_not_plain
from perfmod.transforms.compute._resident_edits import (
    PACKAGE,
    assigned,
    batched,
    draws_otherwise,
    moved_tensors,
    named,
    require_no_comment,
    sampler_of,
    spelled,
    takes_batches_whole,
)
from perfmod.transforms.facts.accelerators import uses_accelerator
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import TORCH_LOADER, Loader
from perfmod.transforms.facts.torch_api import PASSES_ITEMS
from perfmod.transforms.finding import Edit, Family, Finding, Numerics, Safety, Status
from perfmod.transforms.questions import Predicate
from perfmod.transforms.rule import Rule, question
from perfmod.transforms.writing import replace

_SEVERAL_PROCESSES = re.compile(
    r"\btorch\.distributed\b|\bDistributed\w+\b|\bDataParallel\b|\bset_device\b|\bimport deepspeed\b|\bAccelerator\("
)
_GOES_THROUGH = PASSES_ITEMS - {"itertools.cycle", "itertools.islice"} | {"builtins.enumerate", "builtins.len"}


class DataSetInHostMemory(Rule):
    code = "PM315"
    name = "data-set-in-host-memory"
    family = Family.COMPUTE
    summary = "Every batch is collated from tensors in host memory and copied to the device"
    fix_title = "Keep the data set on the device and take batches out of it there"
    numerics = Numerics.SAMPLING
    safety = Safety.OPT_IN
    min_torch = "1.2"
    status = Status.PREVIEW
    triggers = frozenset({"TensorDataset"})
    references = (
        "https://docs.pytorch.org/docs/stable/data.html#disable-automatic-batching",
        "https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.BatchSampler",
    )
    changes_results = (
        "Not without workers, nor with workers that are started anew in every epoch: the batches, their order and the "
        "state of the random number generators are the same. With `persistent_workers` the order is another from the "
        "second epoch on, because other seeds are drawn. If an array that was read from a file has its dimensions in "
        "another order in memory, so have the batches, whose values are the same. An allocation that fails for lack of "
        "memory fails before the first step."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        done: set[cst.CSTNode] = set()
        for loader in file.loaders if uses_accelerator(file) else ():
            if loader.name != TORCH_LOADER or not loader.iterations or takes_batches_whole(loader):
                continue
            if loader.call in done:
                continue
            try:
                data_set = _data_set(file, loader)
                together = _loaders_of(file, data_set)
                done |= {each.call for each in together}
                yield self._resident(file, data_set, together)
            except Kept as reason:
                yield self.refused(file, loader.call, str(reason))

    def _resident(self, file: FileFacts, data_set: cst.Call, together: list[Loader]) -> Finding:
        shared = first_mention(file, _SEVERAL_PROCESSES)
        if shared is not None:
            raise Kept(f"several processes or devices may share the training: `{shared[0]}` on {shared[1]}")
        for arg in data_set.args:
            reason = why_not_plain(file, arg.value, data_set)
            if reason:
                raise Kept(reason)
        require_no_comment(file, data_set)
        wanted = {each: sampler_of(file, each) for each in together}
        found: list[Move] = []
        for loader in together:
            _require_plain_use(file, loader)
            found += moves(file, loader, len(data_set.args))
        moved = moved_tensors(file, data_set, move_at(file, found, data_set))
        edits: dict[Edit, None] = {}
        for loader, sampler in wanted.items():
            (given,) = loader.values("dataset")
            names, imports = spelled(file, loader.call, dict.fromkeys((*wanted.values(), "BatchSampler")))
            samples, is_new = named(file, given, data_set, loader.call)
            whole = moved if given is data_set else file.code(given)
            written = batched(
                file, loader, samples if is_new else whole, samples, names[sampler], names["BatchSampler"]
            )
            edits |= dict.fromkeys([written, *imports])
            if is_new:
                statement = cst.ensure_type(file.tree.statement(loader.call), cst.Assign)
                edits[assigned(file, statement, samples, whole)] = None
            if given is not data_set:
                edits[replace(file.source, data_set, moved)] = None
        other = next(filter(None, map(draws_otherwise, together)), "")
        where = file.lines([each.call for each in found])
        return self.found(
            file,
            together[0].call,
            other or f"its batches are moved unchanged ({where}), and come in the same order",
            edits,
            safety=Safety.UNSAFE,
            numerics=Numerics.SAMPLING if other else Numerics.BITWISE,
            questions=[question(file, Predicate.FITS_ON_THE_DEVICE, data_set)],
        )


def _data_set(file: FileFacts, loader: Loader) -> cst.Call:
    """The construction of a loader's `TensorDataset`."""
    made = list(dict.fromkeys(end.node for each in loader.values("dataset") for end in file.tracing.ends(each)))
    call = made[0] if len(made) == 1 else None
    if loader.cls is not None or not isinstance(call, cst.Call) or len(loader.values("dataset")) != 1:
        raise Kept("which data set it gets is decided at run time")
    if file.qualified(call) not in (f"{PACKAGE}.TensorDataset", f"{PACKAGE}.dataset.TensorDataset"):
        raise Kept(
            f"`{file.code(call.func)}` (line {file.line(call)}) is no TensorDataset: it makes samples one by one"
        )
    if not file.is_own(call) or not call.args or any(arg.star or arg.keyword is not None for arg in call.args):
        raise Kept(f"the tensors of the data set on line {file.line(call)} are not written out here")
    return call


def _loaders_of(file: FileFacts, data_set: cst.Call) -> list[Loader]:
    """All loaders of a data set. Raises `Kept` where it is used for something else."""
    found: dict[Loader, None] = {}
    for held in file.handing.uses(data_set):
        if held.node is data_set and isinstance(file.tree.parent(data_set), (cst.Assign, cst.AnnAssign)):
            raise Kept("other files may use the data set")
        arg = file.tree.parent(held.node)
        call = file.tree.parent(arg) if isinstance(arg, cst.Arg) and not held.path else None
        loader = file.loaders.of(call) if call is not None else None
        if loader is not None and loader.values("dataset") == (held.node,) and file.is_own(loader.call):
            found[loader] = None
        elif not isinstance(call, cst.Call) or file.qualified(call) != "builtins.len":
            statement = file.tree.statement(held.node)
            raise Kept(f"line {file.line(statement)} uses the data set, too: `{file.code(statement)}`")
    return list(found)


def _require_plain_use(file: FileFacts, loader: Loader) -> None:
    """Raises `Kept` where a loader is used for more than its batches and their number."""
    for held in file.handing.uses(loader.call):
        if held.node is loader.call and isinstance(file.tree.parent(loader.call), (cst.Assign, cst.AnnAssign)):
            raise Kept("other files may use the loader")
        parent = file.tree.parent(held.node)
        call = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
        if isinstance(parent, cst.For) or (isinstance(call, cst.Call) and file.qualified(call) in _GOES_THROUGH):
            continue
        around = file.tree.parent(parent) if parent is not None else None
        counts = file.tree.parent(around) if isinstance(around, cst.Arg) else None
        is_data_set = isinstance(parent, cst.Attribute) and parent.attr.value == "dataset" and not held.path
        if is_data_set and isinstance(counts, cst.Call) and file.qualified(counts) == "builtins.len":
            continue
        statement = file.tree.statement(held.node)
        raise Kept(f"line {file.line(statement)} uses the loader for more than its batches: `{file.code(held.node)}`")
