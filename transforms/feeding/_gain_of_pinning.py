"""Loaders whose pinning gains nothing: those whose copies wait whatever is done, and those without workers, which
would pin each batch in the training process. `benchmarks/pinning.py` has measured that: with workers 1.01x to 1.4x,
without them 0.6x to 1.0x where samples cost time, and 1.0x to 1.7x where they come from memory.
"""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.facts.worker_code import WorkerCode
from perfmod.transforms.feeding._graph_loaders import is_graph_loader
from perfmod.transforms.feeding._pinning import Pinning
from perfmod.transforms.feeding._settings import is_zero, places


def why_no_gain(file: FileFacts, loader: Loader) -> str:
    """Why pinning a loader's batches gains nothing, in one line; empty where it may."""
    if is_graph_loader(loader) and loader.is_copied_by_framework:
        return "Lightning waits for copies of graphs: it copies only tensors with non_blocking=True"
    if loader.iterations and not loader.trains and _gives_single_samples(file, loader):
        return "this loader only evaluates, one sample at a time: the CPU waits for each result anyway"
    return _why_in_process(file, loader)


def _why_in_process(file: FileFacts, loader: Loader) -> str:
    """Why the training process would pin the batches, in one line; empty where it does already, where a thread beside
    workers does, for this loader or one that is made side by side with it, or where the samples come from memory.
    """
    beside = [other for other in file.loaders if made_in(file, other) is made_in(file, loader)]
    if Pinning.of(file, loader).on or any(_has_workers(file, other) for other in beside):
        return ""
    if not WorkerCode.of(file, loader).in_memory:
        return "it has no workers: the training process would pin each batch itself, which can cost more than it saves"
    if _gives_single_samples(file, loader):
        return "each batch is one sample from memory: pinning would only copy it once more"
    return ""


def _has_workers(file: FileFacts, loader: Loader) -> bool:
    """Whether a loader has workers, or may have some: by a setting that is out of sight or on the command line."""
    given = places(file, loader, "num_workers")
    if not given:
        return bool(loader.unseen or loader.open_keywords or loader.values("num_workers"))
    return not all(is_zero(place.value) and place.option is None for place in given)


def made_in(file: FileFacts, loader: Loader) -> cst.CSTNode | None:
    """The class, function or module that makes a loader."""
    cls = file.classes.around(loader.call)
    return cls.node if cls is not None else file.tree.function(loader.call) or file.tree.module_of(loader.call)


def _gives_single_samples(file: FileFacts, loader: Loader) -> bool:
    samplers = (given for given in loader.values("batch_sampler") if file.value(given).kind is not Kind.NONE)
    return not any(samplers) and all(file.constants.value(size) == 1 for size in loader.values("batch_size"))
