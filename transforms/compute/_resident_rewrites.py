"""The edits that put a data set on the device and let its loaders take batches out of it there.

Both functions raise `Kept` where that would change a batch.
"""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.compute._moved_batches import Kept, Move, move_at
from perfmod.transforms.compute._plain_tensors import why_not_plain
from perfmod.transforms.compute._prepared_pictures import (
    KINDS,
    PREPARING,
    prepared,
    require_several_epochs,
)
from perfmod.transforms.compute._resident_edits import assigned, batched, moved_tensors, named, spelled
from perfmod.transforms.compute._resident_uses import moves_of
from perfmod.transforms.compute._same_samples import require_same_samples
from perfmod.transforms.compute._sampling import arguments_of, require_no_comment
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.finding import Edit
from perfmod.transforms.writing import replace

Rewrite = tuple[dict[Edit, None], list[Move]]
"""Edits, each once, and how the loops move batches."""


def pictures_on_device(file: FileFacts, data_set: cst.Call, together: list[Loader], *, is_shown: bool) -> Rewrite:
    """Pictures that are made into tensors once; `is_shown` says that they are used for more than their loaders."""
    require_same_samples(file, data_set)
    wanted = {each: arguments_of(file, each) for each in together}
    found = moves_of(file, together, KINDS)
    require_several_epochs(file, together)
    move = move_at(file, found, data_set)
    names, imports = spelled(file, together[0].call, PREPARING, data_set)
    name, placed = prepared(file, data_set, together, names, move, is_shown=is_shown)
    edits = dict.fromkeys((*imports, *placed))
    for loader, arguments in wanted.items():
        (given,) = loader.values("dataset")
        samples = name if is_shown or given is data_set else file.code(given)
        edits[batched(file, loader, samples, samples, arguments)] = None
    return edits, found


def tensors_on_device(file: FileFacts, data_set: cst.Call, together: list[Loader]) -> Rewrite:
    """Tensors that are moved where their data set is made."""
    for arg in data_set.args:
        reason = why_not_plain(file, arg.value, data_set)
        if reason:
            raise Kept(reason)
    require_no_comment(file, data_set)
    wanted = {each: arguments_of(file, each) for each in together}
    found = moves_of(file, together, [file.value(arg.value).dtype for arg in data_set.args])
    moved = moved_tensors(file, data_set, move_at(file, found, data_set))
    edits: dict[Edit, None] = {}
    for loader, arguments in wanted.items():
        (given,) = loader.values("dataset")
        samples, is_new = named(file, given, data_set, loader.call)
        whole = moved if given is data_set else file.code(given)
        edits[batched(file, loader, samples if is_new else whole, samples, arguments)] = None
        if is_new:
            statement = cst.ensure_type(file.tree.statement(loader.call), cst.Assign)
            edits[assigned(file, statement, samples, whole)] = None
        if given is not data_set:
            edits[replace(file.source, data_set, moved)] = None
    return edits, found
