"""Whether the batches of a loader stay the same when worker processes make them."""

from __future__ import annotations

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.gradients import runs_without_graph
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.tree import is_false, is_true
from perfmod.transforms.facts.worker_code import Remark, Trait, WorkerCode
from perfmod.transforms.feeding._dataset_changes import (
    READ,
    SENT,
    first_change,
    first_training,
    first_written_file,
)
from perfmod.transforms.feeding._draw_order import why_other_order
from perfmod.transforms.feeding._graph_loaders import cuts_graph, draws_neighbours, unseen_graph, why_no_workers
from perfmod.transforms.feeding._kept_samples import making, written_sample
from perfmod.transforms.feeding._loader_runs import sampling, while_iterated
from perfmod.transforms.feeding._sent_batches import unsendable
from perfmod.transforms.feeding._settings import Place, asked
from perfmod.transforms.feeding._shown_errors import why_shown
from perfmod.transforms.finding import Numerics, Safety

# `{text}` and `{line}` are those of the remark.
_REFUSED = {
    Trait.ITERABLE: "{text} and does not shard by get_worker_info: every worker would yield every sample",
    Trait.DEVICE: "{text} uses the GPU (line {line}), which worker processes must not do",
    Trait.OWN_GENERATOR: "{text} (line {line}) draws from a generator of which each worker has an equal copy",
    Trait.PRINTS: "line {line} {text}, and the output of several workers would come earlier and in mixed order",
    Trait.STATE: "line {line} changes {text}: each worker would change its own copy",
    Trait.HANDLE: "{text} (line {line}) is opened before the workers start, and they would all read from one position",
}
_UNSAFE = {
    Trait.RANDOM: (
        Numerics.SAMPLING,
        "different random numbers: {text} (line {line}) would draw from the workers' generators",
    ),
    Trait.SHARDED: (
        Numerics.SAMPLING,
        "{text} that shards by get_worker_info: samples come in another order",
    ),
    Trait.PROCESS: (
        Numerics.SAMPLING,
        "{text} (line {line}) returns another value in a worker process, and samples may depend on it",
    ),
    Trait.UNSEEN: (
        Numerics.SAMPLING,
        ("perfmod cannot see the code of {text} (line {line}), which may draw random numbers or change its own state"),
    ),
    Trait.MAY_WRITE: (
        Numerics.BITWISE,
        "line {line} may modify the dataset's own data ({text}), of which each worker has a copy",
    ),
    Trait.LAZY_HANDLE: (
        Numerics.BITWISE,
        "{text} (line {line}) is opened when the first sample is read: right unless the main process opens it before",
    ),
}
_PARAMETERS = ("torch.nn.Parameter", "torch.nn.parameter.Parameter")
_AROUND = ("torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict")
_RUNS = ("forward", "encode", "extract", "get_image_features", "get_text_features", "features")
_CUTS = ("detach", "data", "argmax", "item", "numpy", "tolist")
_LEARNS = (
    *_PARAMETERS,
    *("torchvision.models.", "timm.create_model", "torch.hub.load", "transformers.", "open_clip.", "clip.load"),
    *(
        f"torch.nn.{layer}"
        for layer in (
            "Linear", "Bilinear", "LazyLinear", "Conv", "LazyConv", "BatchNorm", "LayerNorm", "GroupNorm", "Embedding",
            "RNN", "LSTM", "GRU", "MultiheadAttention", "Transformer", "PReLU",
        )
    ),
)  # fmt: skip
"""How the names of layers and models with parameters begin."""


@frozen
class Judgement:
    """What may be done with one loader.

    Attributes:
        safety, numerics: of the finding.
        reason: why it is right, or what could not be shown.
        refusal: why workers would be wrong or useless; else empty.
    """

    safety: Safety = Safety.SAFE
    numerics: Numerics = Numerics.BITWISE
    reason: str = ""
    refusal: str = ""


def judge(file: FileFacts, loader: Loader, work: WorkerCode, *, alone: bool = True) -> Judgement:
    """Whether `loader` may get workers, and how sure that is; not `alone` if it shares the setting of another that
    trains.
    """
    refusal = _refusal(file, loader, work, alone=alone)
    if refusal:
        return Judgement(refusal=refusal)
    graph = unseen_graph(file, loader)
    if graph is not None:
        reason = (
            f"its graph (line {file.line(graph)}) comes from elsewhere: workers cannot use it if it is on the device"
        )
        return Judgement(Safety.UNSAFE, Numerics.SAMPLING, reason)
    if draws_neighbours(loader):
        reason = "different random numbers: neighbours would be sampled with the workers' generators"
        return Judgement(Safety.UNSAFE, Numerics.SAMPLING, reason)
    if cuts_graph(loader):
        return Judgement(
            reason="no random numbers are drawn while batches are cut out of the graph, so every batch stays the same"
        )
    for trait, (numerics, why) in _UNSAFE.items():
        remark = work.first(trait)
        if remark is not None:
            return Judgement(Safety.UNSAFE, numerics, _filled(file, remark, why))
    learned = _may_need_gradients(file, loader)
    if learned is not None:
        reason = f"line {file.line(learned)} may compute samples that require gradients, which workers cannot return"
        return Judgement(Safety.UNSAFE, Numerics.BITWISE, reason)
    written = written_sample(file, loader, work)
    if written is not None:
        line = file.line(written)
        reason = (
            f"line {line} modifies the batch, which may be the dataset's own sample: with workers only a copy "
            "would change"
        )
        return Judgement(Safety.UNSAFE, Numerics.BITWISE, reason)
    order = why_other_order(file, loader)
    if order:
        return Judgement(Safety.UNSAFE, Numerics.SAMPLING, order)
    shown = why_shown(file, loader, work)
    if shown:
        return Judgement(Safety.UNSAFE, Numerics.BITWISE, shown)
    rounded = work.first(Trait.ROUNDS)
    if rounded is not None:
        reason = (
            f"samples are not random and the dataset does not change; workers compute with one thread, which may round "
            f"{rounded.text} (line {file.line(rounded.node)}) differently"
        )
        return Judgement(numerics=Numerics.ROUNDING, reason=reason)
    return Judgement(reason="samples are not random and do not change the dataset, so every batch stays the same")


def _filled(file: FileFacts, remark: Remark, why: str) -> str:
    return why.format(text=remark.text, line=file.line(remark.node))


def why_shared(file: FileFacts, given: list[Place]) -> str:
    """Why a number of workers that is written elsewhere stays as it is, in one line; empty where it need not."""
    for place in given:
        if place.stray is not None:
            return (
                f"num_workers=0 is set through {place.through}, which line {file.line(place.stray)} also uses "
                "for something else"
            )
        if place.option is not None and place.option.default is not place.value:
            return f"num_workers comes from {place.through}: set it there"
    return ""


def _refusal(file: FileFacts, loader: Loader, work: WorkerCode, *, alone: bool) -> str:
    if loader.settings.get("num_workers") is None and loader.unseen:
        return loader.unseen
    graph = why_no_workers(file, loader)
    if graph:
        return graph
    if alone and not loader.trains:
        if loader.iterations:
            return "this loader only evaluates, where starting workers may cost more than it gains"
        return "perfmod found no training loop over this loader"
    told = asked(file, loader, "num_workers")
    if told is not None:
        return f"line {file.line(told)} reads its number of workers"
    if file.steps.in_sight(loader.call):
        return "it is created in every step, and starting workers takes longer than loading a batch"
    for iteration in loader.iterations:
        if iteration.in_step:
            line = file.line(iteration.iterable)
            return f"line {line} restarts it in every step, and its workers would be started every time"
    for trait, why in () if cuts_graph(loader) else _REFUSED.items():
        remark = work.first(trait)
        if remark is not None:
            return _filled(file, remark, why)
    lost = unsendable(file, loader, work)
    if lost is not None:
        return f"{lost[1]} (line {file.line(lost[0])}) cannot be pickled, so a worker could not return such a batch"
    change = _changed_while_running(file, loader)
    if change is not None:
        line = file.line(change)
        return f"line {line} changes data that the loader reads while it runs, which workers would not see"
    trained = first_training(file, loader)
    if trained is not None:
        return (
            f"its samples are computed by a module that line {file.line(trained)} trains, of which workers "
            "would keep an old copy"
        )
    daemons = _daemons(file, loader)
    if daemons is not None:
        line = file.line(daemons)
        return f"line {line} starts daemonic processes, which may not start workers of their own"
    return ""


def _changed_while_running(file: FileFacts, loader: Loader) -> cst.CSTNode | None:
    """What may change the dataset or a sampler inside a loop over the loader. Between two epochs it would be seen."""
    code = [part for iteration in loader.iterations for part in while_iterated(file, iteration)]
    changed = first_change(file, loader, code, READ) or first_change(file, loader, sampling(file, loader), SENT)
    return changed or first_written_file(file, loader, code)


def _may_need_gradients(file: FileFacts, loader: Loader) -> cst.CSTNode | None:
    """What asks for gradients in the code of samples and batches, or runs a module with parameters: workers raise
    "Cowardly refusing to serialize non-leaf tensor which requires_grad".
    """
    for node in making(file, loader):
        used = file.tree.parent(node)
        is_cut = isinstance(used, cst.Attribute) and used.attr.value in _CUTS
        if isinstance(node, cst.Attribute):
            stored = file.tree.statement(node) if isinstance(used, cst.AssignTarget) else None
            given = stored.value if isinstance(stored, cst.Assign) else None
            if node.attr.value == "requires_grad" and given is not None and not is_false(given):
                return node
        elif isinstance(node, cst.Call) and not is_cut and not runs_without_graph(file, node):
            method = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
            asked = argument(node, "requires_grad", 0 if method == "requires_grad_" else None)
            asks = method == "requires_grad_" if asked is None else not is_false(asked)
            runs = [
                node.func,
                *([node.func.value] if method.startswith(_RUNS) and isinstance(node.func, cst.Attribute) else []),
            ]
            if asks or file.qualified(node) in _PARAMETERS or any(_learns(file, file.value(run).call) for run in runs):
                return node
    return None


def _learns(file: FileFacts, made: cst.Call | None, depth: int = 3) -> bool:
    """Whether a module has parameters: itself, or in what it is made of."""
    if made is None or not depth:
        return made is not None
    cls, name = file.values.calls.constructed(made), file.qualified(made) or ""
    if cls is None and name not in _AROUND:
        return name.startswith(_LEARNS)
    assigned = (item for base in cls.lineage() for group in base.assigned.values() for item in group) if cls else ()
    inner: list[cst.CSTNode | None] = [item.value for item in assigned]
    inner += [end.node for arg in made.args for end in file.tracing.ends(arg.value, (None,))]
    return any(isinstance(each, cst.Call) and _learns(file, each, depth - 1) for each in inner)


def _daemons(file: FileFacts, loader: Loader) -> cst.CSTNode | None:
    """What starts daemonic processes, where the training may run in them: they may have no children."""
    starts: list[cst.CSTNode] = [call for call in file.tree.all(cst.Call) if _starts_daemons(file, call)]
    starts += [
        target
        for target in file.tree.all(cst.AssignTarget)
        if isinstance(target.target, cst.Attribute)
        and target.target.attr.value == "daemon"
        and any(
            isinstance(end.node, cst.Call) and dotted(end.node.func).endswith("Process")
            for end in file.tracing.ends(target.target.value)
        )
    ]
    if not starts or not any(_is_handed_on(file, iteration.node) for iteration in loader.iterations):
        return None
    return starts[0]


def _starts_daemons(file: FileFacts, call: cst.Call) -> bool:
    name = (file.qualified(call) or dotted(call.func)).rpartition(".")[2]
    daemon = argument(call, "daemon")
    return name == "Pool" or (name == "Process" and is_true(daemon))


def _is_handed_on(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether code stands in a function, or is run by one, that is used as a value."""
    seen: set[cst.FunctionDef] = set()
    stack = [node]
    while stack:
        function = file.tree.function(stack.pop())
        if function is None or function in seen:
            continue
        seen.add(function)
        if not file.values.calls.is_only_called(function):
            return True
        stack.extend(file.values.calls.callers(function))
    return False
