"""Code that measures: times, memory, profiles. What runs next to it is part of what is measured."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.clocks import reads_clock
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.syncs._around import rounds

_EVENTS = ("torch.utils.benchmark.", "torch.cuda.Event", "torch.Event", "torch.cuda.event.", "triton.testing.")
_PROFILERS = (
    "torch.profiler.", "torch.autograd.profiler.", "torch.cuda.profiler.", "torch.cuda.nvtx.", "torch.cuda.cudart",
    "cProfile.", "nvtx.", "torch.autograd.graph.",
)  # fmt: skip
_MEMORY = ("psutil.", "pynvml.", "nvidia_smi.", "GPUtil.", "tracemalloc.", "resource.", "gpustat.", "torch.cuda.mem")
_MEMORY_WORDS = ("memory_", "mem_get_info", "max_memory", "memory_snapshot", "peak_memory", "list_gpu_processes")
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_TIMERS = frozenset(
    {"timer", "timers", "tic", "toc", "stopwatch", "elapsed", "timeit", "benchmark", "speedometer", "throughput"}
)
_PROFILED = frozenset({"prof", "profiler", "nvtx", "tracer"})


def why_measured(file: FileFacts, node: cst.CSTNode) -> str | None:
    """What is measured in the same step as `node`, so that the figure would change with it; `None`: nothing."""
    for place, around in rounds(file, node):
        decorated = _why_decorated(file, place)
        if decorated is not None:
            return decorated
        for found in (*_held_open(file, place), *_looked_at(around)):
            kind = measures(file, found) or _measures_inside(file, found)
            if kind is not None:
                code = file.code(found.func) if isinstance(found, cst.Call) else file.code(found)
                return f"`{code}` on line {file.line(found)} measures {kind}, and would no longer measure the same"
    return None


def _measures_inside(file: FileFacts, call: cst.Call) -> str | None:
    """What the functions in sight measure that a call runs."""
    bodies = {function.body: None for function in file.values.calls.reached(call)}
    for body in list(bodies):
        bodies |= {function.body: None for function in file.steps.called_by(body)}
    inner = (found for body in bodies for found in find_all(body, cst.Call))
    return next(filter(None, (measures(file, found) for found in inner)), None)


def _why_decorated(file: FileFacts, place: cst.CSTNode) -> str | None:
    """The decorator that measures the function around a place."""
    function = file.tree.function(place)
    for decorator in function.decorators if function is not None else ():
        named = decorator.decorator.func if isinstance(decorator.decorator, cst.Call) else decorator.decorator
        found = file.flow.definitions(named) if isinstance(named, (cst.Name, cst.Attribute)) else ()
        wrappers = [d.node for d in found if isinstance(d.node, cst.FunctionDef)]
        inner = (call for wrapper in wrappers for call in find_all(wrapper.body, cst.Call))
        words = {word.lower() for word in _WORDS.findall(dotted(named).rpartition(".")[2])}
        if words & (_TIMERS | _PROFILED | {"profile", "timed"}) or any(measures(file, call) for call in inner):
            return f"`@{file.code(named)}` on line {file.line(decorator)} measures the function around it"
    return None


def _held_open(file: FileFacts, node: cst.CSTNode) -> Iterator[cst.Call]:
    """What the `with` statements around a place hold open."""
    for ancestor in file.tree.ancestors(node):
        if isinstance(ancestor, cst.With):
            for item in ancestor.items:
                yield from find_all(item.item, cst.Call)


def _looked_at(around: cst.CSTNode) -> Iterator[cst.Call]:
    if isinstance(around, cst.Module):
        return  # what a script does before and behind its loops is not measured with one step
    if isinstance(around, cst.While):
        yield from find_all(around.test, cst.Call)
    if isinstance(around, cst.For):
        # A generator runs between the rounds: `for x in logger.log_every(loader):` may take the time of each.
        yield from find_all(around.iter, cst.Call)
    body = around.body if isinstance(around, (cst.For, cst.While, cst.FunctionDef)) else around
    yield from find_all(body, cst.Call)


def measures(file: FileFacts, call: cst.Call) -> str | None:
    """What a call measures: the time, the memory, or both as a profiler does; `None` for other calls."""
    name = file.qualified(call)
    if name is not None and not name.startswith("builtins."):
        if name.startswith(_MEMORY) or (name.startswith("torch.") and any(word in name for word in _MEMORY_WORDS)):
            return "the memory"
        if reads_clock(file, call) or name.startswith(_EVENTS):
            return "the time"
        if name.startswith(_PROFILERS):
            return "the step"
        if name.startswith(("time.", "datetime.", "torch.")):
            return None
    if file.value(call).is_tensor:
        return None
    parts = [[word.lower() for word in _WORDS.findall(part)] for part in _code(call).split(".")]
    words = {word for part in parts for word in part}
    if words & _TIMERS or any(part and part[-1] == "time" for part in parts) or _is_synchronised_clock(parts):
        return "the time"
    if words & _PROFILED:
        return "the step"
    return "the memory" if {"memory", "usage"} <= words or {"max", "mem"} <= words or "vram" in words else None


def _is_synchronised_clock(parts: list[list[str]]) -> bool:
    """Whether a function is called `time_sync`, `time_synchronized`, `get_time_ms` or so."""
    last = parts[-1] if parts else []
    return "time" in last and any(word in ("sync", "synchronized", "synchronize", "get", "ms", "now") for word in last)


def _code(call: cst.Call) -> str:
    return dotted(call.func) or (call.func.attr.value if isinstance(call.func, cst.Attribute) else "")
