"""The parts of a script that a training on several processes changes, and why a script stays on DataParallel."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import argument, has_star
from perfmod.transforms.facts.entry import Top
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.loaders import TORCH_LOADER, Loader
from perfmod.transforms.facts.programs import imports
from perfmod.transforms.facts.tree import find_all, find_any, is_true

DATA_PARALLEL = frozenset({"torch.nn.DataParallel", "torch.nn.parallel.DataParallel"})
_LIBRARIES = {"torch", "torchvision", "torchaudio", "tqdm", "timm", "tensorboardX", "numpy", "scipy", "PIL", "cv2"}
_ALREADY = re.compile(
    r"\b(?:CUDA_VISIBLE_DEVICES|init_process_group|DistributedDataParallel|DistributedSampler|mp\.spawn)\b"
)
_STATE = re.compile(r"\.module\.(?:(?:load_)?state_dict|(?:named_)?parameters|train|eval)\(")
_DRAWS = re.compile(r"torch\.(?:rand\w*|utils\.data\.random_split|normal|multinomial|bernoulli)$")


class NotSpread(Exception):
    """Why a script stays as it is."""

    def __init__(self, node: cst.CSTNode, why: str) -> None:
        super().__init__(why)
        self.node, self.why = node, why


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
    _require_one_program(file, call)
    if has_star(call) or len(call.args) != 1:
        raise NotSpread(call, "it is told which devices to use")
    function, body = _entry(file, call)
    statement = file.tree.statement(call)
    targets = statement.targets if isinstance(statement, cst.Assign) else ()
    if len(targets) != 1 or not isinstance(targets[0].target, cst.Name) or "(" in file.code(call.func):
        raise NotSpread(call, "the model is not assigned to a name")
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
    target = epochs.target
    if not isinstance(target, cst.Name) or target.value == "_" or "range(" not in file.code(epochs.iter):
        raise NotSpread(epochs, "the number of the epoch has no name, and the sampler needs it")
    return epochs


def _require_one_program(file: FileFacts, call: cst.Call) -> None:
    """Only a script that can be seen as a whole is started on several processes."""
    own = file.tree.module
    linked = file.once(imports)
    if file.source.has_cells:
        raise NotSpread(call, "a notebook is no script that `torchrun` could start")
    if linked[own] or any(own in others for others in linked.values()):
        raise NotSpread(call, "the program has several files")
    for node in find_any(own, cst.Import, cst.ImportFrom):
        for name in _imported(node):
            if name.partition(".")[0] not in _LIBRARIES | sys.stdlib_module_names:
                raise NotSpread(node, f"what `{name}` does in several processes is not in sight")
    found = _ALREADY.search(file.source.text)
    if found is not None:
        raise NotSpread(call, f"`{found.group()}` is there already")
    if len([each for each in find_all(own, cst.Call) if file.qualified(each) in DATA_PARALLEL]) > 1:
        raise NotSpread(call, "the script has several models of this kind")
    if len([each for each in find_all(own, cst.Call) if dotted(each.func).endswith("backward")]) > 1:
        raise NotSpread(call, "the script has several backward passes")
    for node in find_all(own, cst.Attribute):
        if node.attr.value == "module" and not _STATE.match(file.source.text, file.source.span(node.value)[1]):
            raise NotSpread(node, f"`{file.code(node)}` passes by the wrapper, which then does not average gradients")
    for other in find_all(own, cst.Call):
        _require_shared(file, other)
        tests = [each for each in file.tree.ancestors(other) if isinstance(each, (cst.If, cst.While))]
        is_tested = any(file.tree.is_within(other, each.test) for each in tests)
        if is_tested and (file.qualified(other) or "").startswith(("time.", "datetime.", "random.", "numpy.random.")):
            raise NotSpread(other, "processes may decide differently here, and wait for each other for ever")


def _imported(node: cst.CSTNode) -> Iterator[str]:
    if isinstance(node, cst.ImportFrom):
        yield "." * len(node.relative) + (dotted(node.module) if node.module is not None else "")
    elif isinstance(node, cst.Import):
        yield from (dotted(alias.name) for alias in node.names)


def _require_shared(file: FileFacts, call: cst.Call) -> None:
    """What each process does must be the same, or do no harm when several do it at once."""
    name = file.qualified(call) or ""
    if is_true(argument(call, "download")):
        raise NotSpread(call, "all processes would download at once: download before the training, with another script")
    library = "torch" if _DRAWS.match(name) else name.partition(".")[0]
    is_draw = _DRAWS.match(name) or name.startswith(("random.", "numpy.random."))
    seeds = {"torch": "torch.manual_seed", "random": "random.seed", "numpy": "numpy.random.seed"}
    function = file.tree.function(call)
    is_of_class = function is not None and file.tree.class_of(function) is not None
    if not is_draw or name in seeds.values() or is_of_class or argument(call, "generator") is not None:
        return
    for seed in find_all(file.tree.module, cst.Call):
        is_above = file.tree.function(seed) is not function or file.comes_before(seed, call)
        if file.qualified(seed) == seeds[library] and seed.args and is_above:
            return
    raise NotSpread(call, f"each process would draw its own numbers: call `{seeds[library]}` before")
