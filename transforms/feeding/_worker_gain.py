"""Whether workers gain anything, wherever they change nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable

import libcst as cst

from perfmod.transforms.facts.accelerators import uses_accelerator
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.tree import walk, walk_scope
from perfmod.transforms.facts.worker_code import Trait, WorkerCode
from perfmod.transforms.feeding._loader_runs import Loop, repeating, rounds
from perfmod.transforms.feeding._settings import Place, why_overridden, written

_MANY_EPOCHS = 10_000
"""Nobody makes as many epochs unless each is short: then it takes longer to start workers than to load the samples."""

_FEW_BATCHES = 50
"""So few batches of samples that need no file load before workers have started, in every epoch again.

On two busy processors, 10 batches of 32 small samples took 15 ms an epoch and 50 took 90 ms; two forked workers made
that 560 and 710 ms (torch 2.13). With idle processors workers start in 50 to 100 ms.
"""
_DEEPEST = 4
_COMPUTES = frozenset({"torch", "numpy", "math", "random", "builtins"})
"""Packages whose functions make small samples quickly."""
_READS = frozenset({"load", "loadtxt", "genfromtxt", "fromfile", "memmap", "open", "read", "read_bytes", "read_text"})
"""What functions and methods are called that read files."""
_FILLS = frozenset({f"torch.{name}" for name in ("randn", "rand", "zeros", "ones", "empty", "full")})
"""Functions that are given a size first."""


def why_little(file: FileFacts, loader: Loader, together: Iterable[Loader]) -> str:
    """Why workers would load the samples of loaders that share a setting but gain little, in one line; else empty."""
    work = [(WorkerCode.of(file, other), other) for other in together if other is loader or other.trains]
    if all(code.in_memory for code, _ in work):
        return "its samples are ready in memory: workers would only copy them"
    counts = [_few_batches(file, other, code) for code, other in work]
    most = max((count for count in counts if count is not None), default=0)
    if None not in counts and most:
        batches = "one batch" if most == 1 else f"{most} batches"
        return f"an epoch has {batches} of small samples, which load faster than workers start"
    return ""


def why_no_gain(file: FileFacts, loader: Loader, together: Iterable[Loader], given: Iterable[Place]) -> str:
    """Why workers would gain nothing for loaders that share a setting, which is `given` there, or are not wanted.

    In one line; empty where they gain.
    """
    work = [(WorkerCode.of(file, other), other) for other in together if other is loader or other.trains]
    little = why_little(file, loader, together)
    if little:
        return little
    loops = [_many_epochs(file, other) for code, other in work if code.in_memory or code.converted]
    if len(loops) == len(work) and (epochs := next(filter(None, loops), None)) is not None:
        return f"the loop on line {file.line(epochs)} would start workers anew for each of its many short epochs"
    if not uses_accelerator(file):
        return "this script trains on the CPU: workers would take time away from the training"
    many = _made_in_numbers(file, loader.call)
    if many is not None:
        return f"line {file.line(many)} makes many such loaders, and each would start workers of its own"
    if loader.values("num_workers"):
        return next(filter(None, (why_overridden(file, place) for place in given)), "")
    return ""


def _few_batches(file: FileFacts, loader: Loader, work: WorkerCode) -> int | None:
    """How many batches a loader gives in each of several epochs, if those are few and their samples need no file."""
    loops = [loop for each in loader.iterations for loop in repeating(file, loader, each)]
    is_repeated = any(rounds(file, loop) != 1 for loop in loops)
    if not is_repeated or {"batch_sampler", "sampler", "persistent_workers"} & loader.settings.keys():
        return None
    if not work.functions or work.first(Trait.UNSEEN, Trait.LAZY_HANDLE) or not _is_quick(file, work):
        return None
    lengths = [_length(file, made, 0) for made in work.datasets]
    sizes = [_number(file, size, 0) for size in loader.values("batch_size")] or [1]
    if not lengths or None in lengths or None in sizes:
        return None
    batches = math.ceil(max(filter(None, lengths), default=0) / max(1, min(filter(None, sizes), default=1)))
    return batches if 0 < batches < _FEW_BATCHES else None


def _is_quick(file: FileFacts, work: WorkerCode) -> bool:
    """Whether samples are made without files, decoders and loops."""
    for node in (node for function in work.functions for node in walk(function.body)):
        if isinstance(node, (cst.For, cst.While)):
            return False
        if isinstance(node, cst.Call) and file.values.calls.resolve(node) is None:
            name = file.qualified(node) or ""
            method = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
            if (name.rpartition(".")[2] or method) in _READS or (name and name.partition(".")[0] not in _COMPUTES):
                return False
    return True


def _length(file: FileFacts, node: cst.CSTNode, depth: int) -> int | None:
    """How many items an object has, at most, where that is written down."""
    if isinstance(node, (cst.List, cst.Tuple)):
        is_written = not any(isinstance(element, cst.StarredElement) for element in node.elements)
        return len(node.elements) if is_written else None
    if isinstance(node, cst.ListComp):
        is_plain = not node.for_in.ifs and node.for_in.inner_for_in is None
        return _most(file, node.for_in.iter, depth) if is_plain else None
    if not isinstance(node, cst.Call):
        return None
    cls = file.values.calls.constructed(node)
    method = cls.method("__len__") if cls is not None else None
    if method is not None:
        given = [each.value for each in walk_scope(method.body) if isinstance(each, cst.Return)]
        return _number(file, given[0], depth) if len(given) == 1 and given[0] is not None else None
    name = file.qualified(node)
    if name == "torch.utils.data.TensorDataset" and node.args:
        return _most(file, node.args[0].value, depth)
    if (name == "builtins.range" and len(node.args) == 1) or (name in _FILLS and node.args):
        return _number(file, node.args[0].value, depth)
    return None


def _most(file: FileFacts, node: cst.BaseExpression, depth: int) -> int | None:
    """The largest length that an expression may have."""
    found = [_length(file, end.node, depth + 1) if not end.path else None for end in file.tracing.ends(node)]
    known = [each for each in found if each is not None]
    return max(known) if known and len(known) == len(found) and depth <= _DEEPEST else None


def _number(file: FileFacts, node: cst.BaseExpression, depth: int) -> int | None:
    """The largest number that an expression may give; of a size, the first."""
    if isinstance(node, cst.Call) and file.qualified(node) == "builtins.len" and node.args:
        return _most(file, node.args[0].value, depth)
    known: list[int] = []
    for each in written(file, node):
        value = file.constants.value(each) if isinstance(each, cst.BaseExpression) else None
        first = value[0] if isinstance(value, tuple) and value else value
        if not isinstance(first, int):
            return None
        known.append(first)
    return max(known, default=None)


def _many_epochs(file: FileFacts, loader: Loader) -> Loop | None:
    """The loop that goes so many times through a loader of samples in memory that they must be few or small."""
    loops = (loop for each in loader.iterations for loop in repeating(file, loader, each))
    return next((loop for loop in loops if (rounds(file, loop) or 0) >= _MANY_EPOCHS), None)


def _made_in_numbers(file: FileFacts, call: cst.Call) -> cst.BaseComp | None:
    """The comprehension that makes many loaders, unless it goes over a few names: `for x in ["train", "val"]`."""
    around = (node for node in file.tree.ancestors(call) if isinstance(node, cst.BaseComp))
    made = next(around, None)
    return None if made is None or isinstance(made.for_in.iter, (cst.List, cst.Tuple, cst.Set)) else made
