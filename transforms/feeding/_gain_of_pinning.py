"""Loaders whose pinning gains nothing: those that give one batch only, so that nothing runs beside the making and
copying of the next, and those whose copies wait whatever is done.
"""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Iteration, Loader
from perfmod.transforms.facts.tree import walk_scope
from perfmod.transforms.feeding._graph_loaders import is_graph_loader
from perfmod.transforms.feeding._loader_runs import repeating
from perfmod.transforms.feeding._settings import written


def why_no_gain(file: FileFacts, loader: Loader) -> str:
    """Why pinning a loader's batches gains nothing, in one line; empty where it may."""
    if is_graph_loader(loader) and loader.is_copied_by_framework:
        return "Lightning waits for copies of graphs: it copies only tensors with non_blocking=True"
    return _why_one_batch(file, loader)


def _why_one_batch(file: FileFacts, loader: Loader) -> str:
    """Why a loader gives a single batch, in one line; empty where it may give several."""
    for given in loader.values("batch_size"):
        for size in written(file, given):
            if _is_size_of_dataset(file, loader, size):
                return (
                    f"its batch is the whole dataset (line {file.line(size)}): there is no next one to copy meanwhile"
                )
    if loader.iterations and all(_takes_first(file, loader, each) for each in loader.iterations):
        line = file.line(loader.iterations[0].node)
        return f"only its first batch is ever taken (line {line}): there is no next one to copy meanwhile"
    return ""


def _is_size_of_dataset(file: FileFacts, loader: Loader, size: cst.CSTNode) -> bool:
    if not isinstance(size, cst.Call) or file.qualified(size) != "builtins.len" or not size.args:
        return False
    measured = size.args[0].value
    return any(
        file.code(dataset) == file.code(measured) or set(file.tracing.ends(dataset)) & set(file.tracing.ends(measured))
        for dataset in loader.values("dataset")
    )


def _takes_first(file: FileFacts, loader: Loader, iteration: Iteration) -> bool:
    """Whether `next(iter(loader))`, or a loop that ends in its first round, runs once for a loader."""
    begun, node = iteration.iterable, iteration.node
    if isinstance(node, cst.For):
        takes_one = _ends_at_once(file, node)
    else:
        is_new = isinstance(begun, cst.Call) and file.qualified(begun) == "builtins.iter"
        takes_one = is_new and isinstance(node, cst.Call)
    return takes_one and not repeating(file, loader, iteration)


def _ends_at_once(file: FileFacts, loop: cst.For) -> bool:
    """Whether the body of a loop ends with `break` or `return`, and nothing goes on to the next round before."""
    body: cst.BaseSuite = loop.body
    while isinstance(last := body.body[-1], cst.With):
        body = last.body
    ends = last if isinstance(body, cst.SimpleStatementSuite) else None
    if isinstance(last, cst.SimpleStatementLine):
        ends = last.body[-1]
    goes_on = (node for node in walk_scope(loop.body) if isinstance(node, cst.Continue))
    return isinstance(ends, (cst.Break, cst.Return)) and not any(
        file.tree.loops(node)[:1] == [loop] for node in goes_on
    )
