"""Whether workers gain anything, wherever they change nothing."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from perfmod.transforms.facts.accelerators import uses_accelerator
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.worker_code import WorkerCode
from perfmod.transforms.feeding._loader_runs import Loop, repeating, rounds
from perfmod.transforms.feeding._settings import Place, why_overridden

_MANY_EPOCHS = 10_000
"""Nobody makes as many epochs unless each is short: then it takes longer to start workers than to load the samples."""


def why_no_gain(file: FileFacts, loader: Loader, together: Iterable[Loader], given: Iterable[Place]) -> str:
    """Why workers would gain nothing for loaders that share a setting, which is `given` there, or are not wanted.

    In one line; empty where they gain.
    """
    work = [(WorkerCode.of(file, other), other) for other in together if other is loader or other.trains]
    if all(code.in_memory for code, _ in work):
        return "its samples are ready in memory: workers would only copy them"
    loops = [_many_epochs(file, other) for code, other in work if code.in_memory or code.converted]
    if len(loops) == len(work) and (epochs := next(filter(None, loops), None)) is not None:
        return f"the loop on line {file.line(epochs)} would start workers anew for each of its many short epochs"
    if not uses_accelerator(file):
        return "this script never uses the GPU: workers would compete with the training for the CPU"
    many = _made_in_numbers(file, loader.call)
    if many is not None:
        return f"line {file.line(many)} makes many such loaders, and each would start workers of its own"
    if loader.values("num_workers"):
        return next(filter(None, (why_overridden(file, place) for place in given)), "")
    return ""


def _many_epochs(file: FileFacts, loader: Loader) -> Loop | None:
    """The loop that goes so many times through a loader of samples in memory that they must be few or small."""
    loops = (loop for each in loader.iterations for loop in repeating(file, loader, each))
    return next((loop for loop in loops if (rounds(file, loop) or 0) >= _MANY_EPOCHS), None)


def _made_in_numbers(file: FileFacts, call: cst.Call) -> cst.BaseComp | None:
    """The comprehension that makes many loaders, unless it goes over a few names: `for x in ["train", "val"]`."""
    around = (node for node in file.tree.ancestors(call) if isinstance(node, cst.BaseComp))
    made = next(around, None)
    return None if made is None or isinstance(made.for_in.iter, (cst.List, cst.Tuple, cst.Set)) else made
