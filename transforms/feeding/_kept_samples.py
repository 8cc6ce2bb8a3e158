"""Batches that are samples as the dataset keeps them: what writes into one changes the dataset.

A copy of the batch, which pinning and workers make, would be changed in its place.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.batch_copies import destination
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.pickling import owner
from perfmod.transforms.facts.worker_code import WorkerCode
from perfmod.transforms.feeding._collates import makers, returned, takes_samples_whole
from perfmod.transforms.feeding._loader_runs import executed, while_iterated


def written_sample(file: FileFacts, loader: Loader, work: WorkerCode) -> cst.CSTNode | None:
    """What writes into a batch that may be a sample as the dataset keeps it, if collating makes no new one of it."""
    if not hands_on(file, loader):
        return None
    samples = [f for f in work.functions if isinstance(f, cst.FunctionDef) and f.name.value == "__getitem__"]
    if samples and all(makes_new(file, each) for function in samples for each in returned(function)):
        return None
    for node in executed(file, [part for each in loader.iterations for part in while_iterated(file, each)]):
        if (
            isinstance(node, (cst.Name, cst.Attribute))
            and file.flow.is_variable(node)
            and file.aliasing.mutates(node)
            and not _moves_entry(file, node)
            and any(end.node is loader.call and end.path[:1] == (None,) for end in file.tracing.ends(node))
        ):
            return node
    return None


def making(file: FileFacts, loader: Loader) -> Iterator[cst.CSTNode]:
    """Every node of the code that makes samples, what they are taken from, and batches, each once."""
    functions = (*makers(file, loader), *WorkerCode.of(file, loader).functions)
    classes = (owner(file, function) for function in functions)
    kept = (cls.method("__init__") for cls in classes if cls is not None)
    yield from executed(file, [*functions, *filter(None, kept)])


def hands_on(file: FileFacts, loader: Loader) -> bool:
    """Whether batches may hold what the samples hold, or views of it: not where collating makes new tensors."""
    if takes_samples_whole(loader):
        return True
    results = [each for maker in makers(file, loader) for each in returned(maker)]
    return bool(loader.values("collate_fn")) and not (results and all(makes_new(file, each) for each in results))


def _moves_entry(file: FileFacts, node: cst.Name | cst.Attribute) -> bool:
    """Whether an entry gets its own copy on a device, `batch[i] = batch[i].to(device)`: whoever reads it there, or in
    what the dataset keeps, sees the same numbers.
    """
    entry = file.tree.parent(node)
    target = file.tree.parent(entry) if isinstance(entry, cst.Subscript) and entry.value is node else None
    statement = file.tree.parent(target) if isinstance(target, cst.AssignTarget) else None
    moved = statement.value if isinstance(statement, cst.Assign) and len(statement.targets) == 1 else None
    return (
        isinstance(entry, cst.Subscript)
        and isinstance(moved, cst.Call)
        and isinstance(moved.func, cst.Attribute)
        and (
            moved.func.attr.value == "cuda" or (moved.func.attr.value == "to" and destination(file, moved) is not None)
        )
        and len([arg for arg in moved.args if arg.keyword is None or arg.keyword.value != "non_blocking"]) <= 1
        and file.whole_code(moved.func.value) == file.whole_code(entry)
    )


def makes_new(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether evaluating an expression makes new tensors, or containers of those."""
    if isinstance(node, (cst.Tuple, cst.List, cst.Dict)):
        return all(makes_new(file, element.value) for element in node.elements)
    if isinstance(node, cst.Name) and file.flow.is_variable(node):
        made = file.flow.definitions(node)
        return bool(made) and all(
            each.binding is Binding.ASSIGNED
            and not each.path
            and each.value is not None
            and not isinstance(each.value, (cst.List, cst.Dict))  # which may be filled later
            and makes_new(file, each.value)
            for each in made
        )
    return isinstance(node, (cst.BaseNumber, cst.BaseString)) or file.aliasing.is_fresh(node)
