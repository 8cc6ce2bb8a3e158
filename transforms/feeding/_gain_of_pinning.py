"""Loaders whose pinning gains nothing: those that give one batch only, so that nothing runs beside the making and
copying of the next; those whose copies wait whatever is done; and those without workers, which would pin each batch
in the training process. `benchmarks/pinning.py` has measured that: with workers 1.01x to 1.4x, without them 0.6x to
1.0x where samples cost time, and 1.0x to 1.7x where they come from memory.
"""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Iteration, Loader
from perfmod.transforms.facts.tree import walk_scope
from perfmod.transforms.facts.worker_code import WorkerCode
from perfmod.transforms.feeding._graph_loaders import is_graph_loader
from perfmod.transforms.feeding._loader_runs import repeating
from perfmod.transforms.feeding._pinning import Pinning
from perfmod.transforms.feeding._settings import is_zero, places, written


def why_no_gain(file: FileFacts, loader: Loader) -> str:
    """Why pinning a loader's batches gains nothing, in one line; empty where it may."""
    if is_graph_loader(loader) and loader.is_copied_by_framework:
        return "Lightning waits for copies of graphs: it copies only tensors with non_blocking=True"
    return _why_one_batch(file, loader) or _why_in_process(file, loader)


def _why_in_process(file: FileFacts, loader: Loader) -> str:
    """Why the training process would pin the batches, in one line; empty where it does already, where a thread beside
    workers does, for this loader or one that is made side by side with it, or where the samples come from memory.
    """
    if Pinning.of(file, loader).on:
        return ""
    beside = [other for other in file.loaders if made_in(file, other) is made_in(file, loader)]
    if any(_has_workers(file, other) for other in beside) or WorkerCode.of(file, loader).in_memory:
        return ""
    return "it has no workers: the training process would pin each batch itself, which can cost more than it saves"


def _has_workers(file: FileFacts, loader: Loader) -> bool:
    """Whether a loader has workers, or may have some: by a setting that is out of sight or on the command line."""
    given = places(file, loader, "num_workers")
    if not given:
        return bool(loader.unseen or loader.values("num_workers"))
    return not all(is_zero(place.value) and place.option is None for place in given)


def made_in(file: FileFacts, loader: Loader) -> cst.CSTNode | None:
    """The class, function or module that makes a loader."""
    cls = file.classes.around(loader.call)
    return cls.node if cls is not None else file.tree.function(loader.call) or file.tree.module_of(loader.call)


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
