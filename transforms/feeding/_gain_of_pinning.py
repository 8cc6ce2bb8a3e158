"""Loaders whose pinning gains nothing: those that give one batch only, so that nothing runs beside the making and
copying of the next, or a few; those whose copies wait whatever is done; and those without workers, which would pin
each batch in the training process. `benchmarks/pinning.py` has measured that: with workers 1.01x to 1.4x, without
them 0.6x to 1.0x where samples cost time, and 1.0x to 1.7x where they come from memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Iteration, Loader
from perfmod.transforms.facts.tree import walk_scope
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.facts.worker_code import WorkerCode
from perfmod.transforms.feeding._graph_loaders import is_graph_loader
from perfmod.transforms.feeding._loader_runs import repeating
from perfmod.transforms.feeding._pinning import Pinning
from perfmod.transforms.feeding._settings import is_zero, places, written

_FEW = 10
"""So many batches are looked at, and not trained with."""
_COUNTS = {"builtins.range": 1, "itertools.islice": 2}
"""What gives as many items as its last argument says, where it is given so many."""
_ENDS = (cst.Break, cst.Return)


def why_no_gain(file: FileFacts, loader: Loader) -> str:
    """Why pinning a loader's batches gains nothing, in one line; empty where it may."""
    if is_graph_loader(loader) and loader.is_copied_by_framework:
        return "Lightning waits for copies of graphs: it copies only tensors with non_blocking=True"
    if loader.iterations and not loader.trains and _gives_single_samples(file, loader):
        return "its batches are single samples, and nothing trains with them: each result is waited for anyway"
    begun = [each for each in loader.iterations if each.in_step and not isinstance(each.node, cst.CompFor)]
    if begun and len(begun) == len(loader.iterations) and all(map(_takes_one, begun)):
        return f"line {file.line(begun[0].iterable)} begins it anew in every step, so that nothing is copied meanwhile"
    return _why_few_batches(file, loader) or _why_in_process(file, loader)


def _takes_one(iteration: Iteration) -> bool:
    """Whether what a step begins anew gives one batch: `next(iter(loader))`, or a generator's."""
    if isinstance(iteration.node, cst.Call):
        return True
    return isinstance(iteration.node, cst.For) and any(
        isinstance(node, cst.Yield) for node in walk_scope(iteration.node.body)
    )


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
        return "its batches are one sample from memory: pinning copies each of them once more, and hides nothing"
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


def _why_few_batches(file: FileFacts, loader: Loader) -> str:
    """Why a loader gives one batch, or a few, in one line; empty where it may give many."""
    for given in loader.values("batch_size"):
        for size in written(file, given):
            if _is_size_of_dataset(file, loader, size):
                return (
                    f"its batch is the whole dataset (line {file.line(size)}): there is no next one to copy meanwhile"
                )
    most = max((_taken(file, loader, each) for each in loader.iterations), default=math.inf)
    if most > _FEW:
        return ""
    line = file.line(loader.iterations[0].node)
    if most > 1:
        return f"only its first {most} batches are ever taken (line {line}): nothing runs for long enough to gain"
    return f"only its first batch is ever taken (line {line}): there is no next one to copy meanwhile"


def _is_size_of_dataset(file: FileFacts, loader: Loader, size: cst.CSTNode) -> bool:
    if not isinstance(size, cst.Call) or file.qualified(size) != "builtins.len" or not size.args:
        return False
    measured = size.args[0].value
    return any(
        file.code(dataset) == file.code(measured) or set(file.tracing.ends(dataset)) & set(file.tracing.ends(measured))
        for dataset in loader.values("dataset")
    )


def _taken(file: FileFacts, loader: Loader, iteration: Iteration) -> float:
    """How many batches of a loader an iteration takes, as far as it is written down; infinity where that is unknown."""
    node, loops = iteration.node, repeating(file, loader, iteration)
    if isinstance(node, cst.For):
        return _rounds(file, node) if not loops else math.inf
    if not isinstance(node, cst.Call) or not _begins_here(file, iteration):
        return math.inf
    is_new = isinstance(iteration.iterable, cst.Call)
    return math.inf if loops and is_new else math.prod(_rounds(file, loop) for loop in loops)


def _begins_here(file: FileFacts, iteration: Iteration) -> bool:
    """Whether an iterator that `next` asks begins in the same function: `iter(loader)` itself, or a name for it."""
    begun = iteration.iterable
    if not isinstance(begun, cst.Name):
        return isinstance(begun, cst.Call) and file.qualified(begun) == "builtins.iter"
    function = file.tree.function(iteration.node)
    definitions = file.flow.definitions(begun)
    return bool(definitions) and all(
        isinstance(each.part, cst.Call)
        and file.qualified(each.part) == "builtins.iter"
        and file.tree.function(each.node) is function
        for each in definitions
    )


def _rounds(file: FileFacts, loop: cst.For | cst.While) -> float:
    """How many rounds a loop has at most."""
    if isinstance(loop, cst.While):
        return math.inf
    if _ends_at_once(file, loop):
        return 1
    found = [math.inf]
    iterated: list[cst.BaseExpression] = [loop.iter]
    if isinstance(loop.iter, cst.Call) and file.qualified(loop.iter) == "builtins.zip":
        iterated += [arg.value for arg in loop.iter.args]
    for each in iterated:
        if isinstance(each, cst.Call) and len(each.args) == _COUNTS.get(file.qualified(each) or ""):
            found += _number(file, each.args[-1].value)
    for step in _steps_of(loop) if not _goes_on(file, loop) else ():
        found += _last(file, loop, step) if isinstance(step, cst.If) and isinstance(_end(step.body), _ENDS) else ()
    return min(found)


def _last(file: FileFacts, loop: cst.For, choice: cst.If) -> list[float]:
    """The round of `for i, batch in enumerate(loader)` that `if i == 2` is about, from 1."""
    test, numbered, iterated = choice.test, loop.target, loop.iter
    if not isinstance(iterated, cst.Call) or file.qualified(iterated) != "builtins.enumerate":
        return []
    if len(iterated.args) != 1 or not isinstance(numbered, cst.Tuple):
        return []
    if not isinstance(test, cst.Comparison) or file.code(test.left) != file.code(numbered.elements[0].value):
        return []
    comparison = test.comparisons[0]
    behind = {cst.Equal: 1, cst.GreaterThanEqual: 1, cst.GreaterThan: 2}.get(type(comparison.operator))
    if behind is None or len(test.comparisons) > 1:
        return []
    return [number + behind for number in _number(file, comparison.comparator)]


def _number(file: FileFacts, node: cst.BaseExpression) -> list[float]:
    value = file.constants.value(node)
    return [value] if isinstance(value, int) else []


def _ends_at_once(file: FileFacts, loop: cst.For) -> bool:
    """Whether the body of a loop ends with `break` or `return`, and nothing goes on to the next round before."""
    return isinstance(_end(loop.body), _ENDS) and not _goes_on(file, loop)


def _goes_on(file: FileFacts, loop: cst.For) -> bool:
    """Whether a loop has a `continue`."""
    found = (node for node in walk_scope(loop.body) if isinstance(node, cst.Continue))
    return any(file.tree.loops(node)[:1] == [loop] for node in found)


def _steps_of(loop: cst.For) -> Iterator[cst.CSTNode]:
    """What every round of a loop runs: its statements, and those in a `with`."""
    waiting: list[cst.CSTNode] = [*loop.body.body]
    while waiting:
        yield (each := waiting.pop())
        waiting += each.body.body if isinstance(each, cst.With) else ()


def _end(body: cst.BaseSuite) -> cst.CSTNode | None:
    """The last statement of a block, or of a `with` at its end."""
    while isinstance(last := body.body[-1], cst.With):
        body = last.body
    return last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last
