"""A data set of tensors in the host's memory, of which every batch is gathered there and copied.

A `DataLoader` over a `TensorDataset` takes the samples of a batch out one by one, stacks them, and the loop copies the
batch to the device. Where the tensors fit into the device's memory, they can lie there from the start: each batch is
then gathered by one kernel for each tensor, and nothing is copied:

    train_set = TensorDataset(x_train.to(device), y_train.to(device))
    train_loader = DataLoader(train_set, sampler=BatchSampler(RandomSampler(train_set), 64, drop_last=False),
                              batch_size=None)
    for x, y in train_loader:
        x, y = x.to(device), y.to(device)  # gives back what is there

The batches are the same, in the same order, whatever the seed: the sampler draws the same random numbers. Workers and
pinned memory go, which tensors of a device cannot have. It is on request, because only you know whether the data fits
beside the model: the tensors take as many bytes on the device as they do now on the host.

A loader stays as it is where batches are used on the host before they are copied, where something else reads the data
set or changes its tensors later, and where the loader has a sampler, a collate function or a generator of its own.

This rule is young: its rewrites were run on the CPU, and not yet on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from perfmod.transforms.compute._tensor_loaders import (
    StaysOnHost,
    TensorLoader,
    device_of_batches,
    require_only_copied,
    require_unshared,
    tensor_loaders,
)
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import find_all, is_false, is_true
from perfmod.transforms.finding import Edit, Family, Finding, Numerics, Safety, Status
from perfmod.transforms.import_names import also_imported
from perfmod.transforms.rule import Rule
from perfmod.transforms.source import Source
from perfmod.transforms.style import width

_DROPPED = (
    "shuffle", "drop_last", "num_workers", "pin_memory", "persistent_workers", "prefetch_factor",
    "multiprocessing_context",
)  # fmt: skip
"""What the sampler is told instead, and what batches of a device cannot have."""
_WHOLE = "batch_size=None"
_MODULE = "torch.utils.data"


class DataSetInHostMemory(Rule):
    """PM315."""

    code = "PM315"
    name = "data-set-in-host-memory"
    family = Family.COMPUTE
    summary = "Each batch is gathered on the host and copied, from tensors that may fit into the device's memory"
    fix_title = "Put the data set on the device"
    numerics = Numerics.BITWISE
    safety = Safety.OPT_IN
    min_torch = "1.2"
    status = Status.PREVIEW
    triggers = frozenset({"TensorDataset"})
    references = (
        "https://docs.pytorch.org/docs/stable/data.html#disable-automatic-batching",
        "https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.BatchSampler",
    )
    changes_results = (
        "Never: the same batches come in the same order, and the same random numbers are drawn. The tensors lie on the "
        "device as long as the data set does."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        """Every loader of tensors whose batches go to one device."""
        for found in tensor_loaders(file):
            try:
                require_unshared(file, found)
                require_only_copied(file, found)
                device = device_of_batches(file, found)
                edits = [*_moved(file, found.made, device), *_gathered(file, found)]
            except StaysOnHost as why:
                yield self.refused(file, found.made, str(why))
                continue
            reason = f"the same batches, gathered on `{device}`; the tensors have to fit there beside the model"
            yield self.found(file, found.made, reason, _in_one(file.source, found.loader.call, edits))


def _moved(file: FileFacts, made: cst.Call, device: str) -> Iterator[Edit]:
    """Each tensor of the data set, on the device."""
    for arg in made.args:
        start, end = file.source.span(arg.value)
        if not isinstance(arg.value, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) and not arg.value.lpar:
            yield Edit(start, start, "(")
            yield Edit(end, end, f").to({device})")
        else:
            yield Edit(end, end, f".to({device})")


def _gathered(file: FileFacts, found: TensorLoader) -> Iterator[Edit]:
    """What the loader is told instead: a sampler of lists of places, which index the tensors as they are."""
    call, settings, source = found.loader.call, found.loader.settings, file.source
    other = next((name for name in settings if name not in ("dataset", "batch_size", *_DROPPED)), None)
    if found.loader.unseen or found.loader.open_keywords or any(each.arg is None for each in settings.values()):
        raise StaysOnHost("what the loader is given could not be determined")
    if other is not None:
        raise StaysOnHost(f"the loader is given `{other}`")
    if "batch_size" not in settings:
        raise StaysOnHost("its batches are single samples")
    size = settings["batch_size"].values[0]
    prefix, imports = _spelled(file, call, ["BatchSampler", _sampler(found)])
    yield from imports
    drops = file.code(settings["drop_last"].values[0]) if "drop_last" in settings else "False"
    inner = f"{prefix}{_sampler(found)}({_counted(file, found)})"
    text = f"sampler={prefix}BatchSampler({inner}, {file.code(size)}, drop_last={drops})"
    taken = settings["batch_size"].arg
    assert taken is not None
    dropped = [arg for arg in call.args if any(arg is settings[name].arg for name in _DROPPED if name in settings)]
    if call.args[0] in dropped:
        raise StaysOnHost("the data set is not its first argument")
    removed = [(source.span(call.args[call.args.index(arg) - 1])[1], source.span(arg)[1]) for arg in dropped]
    start, end = source.span(taken)
    first = source.line_start(start)
    is_alone = not source.text[first:start].strip()
    length = source.line_end(end) - first - (end - start) - sum(b - a for a, b in removed) + len(text)
    column = source.span(call.args[0])[0] - first
    gap = ", " if not is_alone and length + len(_WHOLE) < width(source) else f",{source.newline}"
    if gap != ", ":
        gap += source.text[first:start] if is_alone else " " * column
    yield Edit(start, end, f"{text}{gap}{_WHOLE}")
    yield from (Edit(behind, until, "") for behind, until in removed)


def _in_one(source: Source, call: cst.Call, edits: Sequence[Edit]) -> Iterator[Edit]:
    """The edits of a call as one: what another rule would give it at the same time, such as workers, must not join."""
    start, end = source.span(call)
    inside = sorted(edit for edit in edits if start <= edit.start and edit.end <= end)
    code = source.text[start:end]
    for edit in reversed(inside):
        code = code[: edit.start - start] + edit.replacement + code[edit.end - start :]
    yield Edit(start, end, code)
    yield from (edit for edit in edits if edit not in inside)


def _sampler(found: TensorLoader) -> str:
    """The sampler that draws in the order of the loader."""
    values = found.loader.values("shuffle")
    if values and not (is_true(values[0]) or is_false(values[0])):
        raise StaysOnHost("whether it shuffles is decided elsewhere")
    return "RandomSampler" if values and is_true(values[0]) else "SequentialSampler"


def _counted(file: FileFacts, found: TensorLoader) -> str:
    """What the sampler counts the samples of: the data set by its name, or its first tensor."""
    for node in (found.loader.values("dataset")[0], found.made.args[0].value):
        if dotted(node):
            return file.code(node)
    raise StaysOnHost("neither the data set nor its first tensor has a name")


def _spelled(file: FileFacts, call: cst.Call, names: list[str]) -> tuple[str, list[Edit]]:
    """How the loader's module is written in front of its classes, and what has to be imported where it is not."""
    if isinstance(call.func, cst.Attribute):
        return f"{file.code(call.func.value)}.", []
    for line in find_all(file.tree.module, cst.ImportFrom):
        is_module = line.module is not None and dotted(line.module) == _MODULE and not line.relative
        if not is_module or isinstance(line.names, cst.ImportStar):
            continue
        present = {alias.evaluated_name for alias in line.names if alias.asname is None}
        if dotted(call.func) in present:
            return "", also_imported(file.source, line, {*names} - present)
    raise StaysOnHost(f"`{file.code(call.func)}` is imported under another name")
