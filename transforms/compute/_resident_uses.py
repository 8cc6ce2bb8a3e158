"""Which data set a loader has, which loaders a data set has, and that nothing else needs either as it is."""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from perfmod.transforms.compute._mentions import first_mention
from perfmod.transforms.compute._moved_batches import Kept, Move, moves
from perfmod.transforms.compute._prepared_pictures import only_shows
from perfmod.transforms.compute._resident_edits import PACKAGE
from perfmod.transforms.compute._same_samples import is_picture_set
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.torch_api import PASSES_ITEMS
from perfmod.transforms.facts.value import DType

_GOES_THROUGH = PASSES_ITEMS - {"itertools.cycle", "itertools.islice"} | {"builtins.enumerate", "builtins.len"}
_SEVERAL_PROCESSES = re.compile(
    r"\btorch\.distributed\b|\bDistributed\w+\b|\bDataParallel\b|\bset_device\b|\bimport deepspeed\b|\bAccelerator\("
)


def data_set_of(file: FileFacts, loader: Loader) -> cst.Call:
    """The construction of a loader's `TensorDataset`."""
    made = list(dict.fromkeys(end.node for each in loader.values("dataset") for end in file.tracing.ends(each)))
    call = made[0] if len(made) == 1 else None
    if loader.cls is not None or not isinstance(call, cst.Call) or len(loader.values("dataset")) != 1:
        raise Kept("which data set it gets is decided at run time")
    if is_picture_set(file, call):
        return call
    if file.qualified(call) not in (f"{PACKAGE}.TensorDataset", f"{PACKAGE}.dataset.TensorDataset"):
        raise Kept(
            f"`{file.code(call.func)}` (line {file.line(call)}) is no TensorDataset: it makes samples one by one"
        )
    if not file.is_own(call) or not call.args or any(arg.star or arg.keyword is not None for arg in call.args):
        raise Kept(f"the tensors of the data set on line {file.line(call)} are not written out here")
    return call


def loaders_of(file: FileFacts, data_set: cst.Call) -> tuple[list[Loader], bool]:
    """All loaders of a data set, and whether it is shown beside them. Raises `Kept` where it is used otherwise."""
    found: dict[Loader, None] = {}
    is_shown = False
    for held in file.handing.uses(data_set):
        if held.node is data_set and isinstance(file.tree.parent(data_set), (cst.Assign, cst.AnnAssign)):
            raise Kept("other files may use the data set")
        arg = file.tree.parent(held.node)
        call = file.tree.parent(arg) if isinstance(arg, cst.Arg) and not held.path else None
        loader = file.loaders.of(call) if call is not None else None
        if loader is not None and loader.values("dataset") == (held.node,) and file.is_own(loader.call):
            found[loader] = None
        elif not held.path and is_picture_set(file, data_set) and only_shows(file, held.node):
            is_shown = True
        elif not isinstance(call, cst.Call) or file.qualified(call) != "builtins.len":
            statement = file.tree.statement(held.node)
            raise Kept(f"line {file.line(statement)} uses the data set, too: `{file.code(statement)}`")
    return list(found), is_shown


def require_one_process(file: FileFacts) -> None:
    """Raises `Kept` where other processes or devices may need their part of a data set."""
    shared = first_mention(file, _SEVERAL_PROCESSES)
    if shared is not None:
        raise Kept(f"several processes or devices may share the training: `{shared[0]}` on {shared[1]}")


def moves_of(file: FileFacts, together: list[Loader], kinds: Sequence[DType | None]) -> list[Move]:
    """How loops move the parts of batches, whose types are `kinds` as far as they are known. Raises `Kept` where they,
    or a loader, are used for something else.
    """
    found: list[Move] = []
    for loader in together:
        _require_plain_use(file, loader)
        found += moves(file, loader, kinds)
    return found


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
