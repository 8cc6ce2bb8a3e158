"""Loaders that give one batch only: nothing runs beside the making and copying of the next."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Iteration, Loader
from perfmod.transforms.feeding._loader_runs import repeating
from perfmod.transforms.feeding._settings import written


def why_one_batch(file: FileFacts, loader: Loader) -> str:
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
    """Whether `next(iter(loader))` runs once for a loader."""
    begun = iteration.iterable
    is_new = isinstance(begun, cst.Call) and file.qualified(begun) == "builtins.iter"
    return is_new and isinstance(iteration.node, cst.Call) and not repeating(file, loader, iteration)
