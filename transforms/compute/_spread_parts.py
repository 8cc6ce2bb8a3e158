"""The parts of a script that a training on several processes changes, and why a script stays on DataParallel."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.compute._spread_draws import require_alike
from perfmod.transforms.compute._spread_model import require_whole
from perfmod.transforms.compute._spread_program import NotSpread, require_one_program
from perfmod.transforms.compute._spread_rounds import require_together
from perfmod.transforms.facts.calls import argument, has_star
from perfmod.transforms.facts.entry import Top
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import TORCH_LOADER, Loader
from perfmod.transforms.facts.tree import find_any


@frozen
class Parts:
    """What a rewrite of a script is about.

    Attributes:
        call: the DataParallel.
        body: the statements that run one after the other when the script is started.
        loader: the training's loader, and the name that it has there.
        loop: the loop over its batches.
        epochs: the loop over epochs, which runs in `body`.
    """

    call: cst.Call
    body: Sequence[cst.BaseStatement]
    loader: Loader
    name: str
    loop: cst.For
    epochs: cst.For


def parts(file: FileFacts, call: cst.Call) -> Parts:
    """The parts of the script of a DataParallel. Raises `NotSpread`."""
    require_one_program(file, call)
    require_alike(file)
    if has_star(call) or len(call.args) != 1:
        raise NotSpread(call, "it is told which devices to use")
    function, body = _entry(file, call)
    statement = file.tree.statement(call)
    targets = statement.targets if isinstance(statement, cst.Assign) else ()
    if len(targets) != 1 or not isinstance(targets[0].target, cst.Name) or "(" in file.code(call.func):
        raise NotSpread(call, "the model is not assigned to a name")
    require_whole(file, call)
    found = [loader for loader in file.loaders if loader.trains]
    if len(found) != 1:
        raise NotSpread(call, f"{len(found) or 'no'} loaders of training batches are in sight, and one is needed")
    name = _require_loader(file, found[0], function)
    loops = [each.node for each in found[0].iterations if each.trains]
    if len(loops) != 1 or not isinstance(loops[0], cst.For):
        raise NotSpread(found[0].call, "its batches are not drawn by one loop")
    for other in found[0].iterations:
        if other.node is not loops[0]:
            raise NotSpread(other.node, f"here `{name}` would give each process its own share only")
    return Parts(call, body, found[0], name, loops[0], _epochs(file, loops[0], function))


def _entry(file: FileFacts, call: cst.Call) -> tuple[cst.FunctionDef | None, Sequence[cst.BaseStatement]]:
    """The function in which a DataParallel is made, and the statements that run when the script is started."""
    function = file.tree.function(call)
    if file.tree.loops(call):
        raise NotSpread(call, "it is made in a loop")
    if function is None:
        top: Top = file.entry.statement(call)
        guarded = file.entry.is_guarded(call) and isinstance(top, cst.If) and isinstance(top.body, cst.IndentedBlock)
        body: Sequence[cst.CSTNode] = top.body.body if guarded and isinstance(top, cst.If) else file.entry.statements
        return None, [line for line in body if isinstance(line, cst.BaseStatement)]
    callers = file.values.calls.callers(function)
    is_once = len(callers) == 1 and file.tree.function(callers[0]) is None and not file.tree.loops(callers[0])
    if not is_once or not file.values.calls.is_only_called(function):
        raise NotSpread(call, f"`{function.name.value}` is not called once, at the top level")
    if not isinstance(function.body, cst.IndentedBlock):
        raise NotSpread(call, f"`{function.name.value}` has its code on one line")
    return function, list(function.body.body)


def _require_loader(file: FileFacts, loader: Loader, function: cst.FunctionDef | None) -> str:
    """The name of a loader that can be given a sampler."""
    call = loader.call
    if loader.name != TORCH_LOADER or loader.cls or loader.unseen or loader.open_keywords or has_star(call):
        raise NotSpread(call, "not all arguments of the loader are in sight")
    for setting in ("sampler", "batch_sampler", "generator", "collate_fn", "worker_init_fn"):
        if loader.values(setting):
            raise NotSpread(call, f"the loader has a `{setting}` of its own")
    if len(loader.values("batch_size")) != 1 or argument(call, "batch_size", 1) is None:
        raise NotSpread(call, "the loader is given no batch size")
    dataset = argument(call, "dataset", 0)
    if not isinstance(dataset, cst.Name):
        raise NotSpread(call, "the dataset has no name of its own, and its sampler needs it as well")
    if argument(call, "shuffle", 2) is not None and argument(call, "shuffle") is None:
        raise NotSpread(call, "`shuffle` is passed without its name")
    cls = file.value(dataset).cls
    if cls is not None and cls.method("__iter__") is not None and cls.method("__getitem__") is None:
        raise NotSpread(call, f"`{dataset.value}` has no indices that could be split")
    statement = file.tree.statement(call)
    if file.tree.function(call) is not function or file.tree.loops(call):
        raise NotSpread(call, "the loader is not made where the model is")
    is_named = isinstance(statement, cst.Assign) and statement.value is call and len(statement.targets) == 1
    target = statement.targets[0].target if isinstance(statement, cst.Assign) else None
    if not is_named or not isinstance(target, cst.Name):
        raise NotSpread(call, "the loader is not assigned to a name")
    return target.value


def _epochs(file: FileFacts, loop: cst.For, function: cst.FunctionDef | None) -> cst.For:
    """The loop over epochs, which stands around that over batches, or around the call of its function."""
    place: cst.CSTNode = loop
    inside = file.tree.function(loop)
    if inside is not function and inside is not None:
        callers = file.values.calls.callers(inside)
        if len(callers) != 1 or file.tree.loops(loop) or not file.values.calls.is_only_called(inside):
            raise NotSpread(loop, f"`{inside.name.value}` is not called in one place, once in an epoch")
        place = callers[0]
    loops = file.tree.loops(place)
    if file.tree.function(place) is not function or len(loops) != 1 or not isinstance(loops[0], cst.For):
        raise NotSpread(loop, "no loop over epochs stands around it")
    epochs = loops[0]
    ends = find_any(epochs.body, cst.Break, cst.Return)
    for end in ends:
        raise NotSpread(end, "a process that leaves the loop over epochs alone would let the others wait for ever")
    require_together(file, epochs, function)
    target = epochs.target
    if not isinstance(target, cst.Name) or target.value == "_" or "range(" not in file.code(epochs.iter):
        raise NotSpread(epochs, "the number of the epoch has no name, and the sampler needs it")
    return epochs
