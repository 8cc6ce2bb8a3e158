"""A model that is run operation by operation.

`Module.compile` has torch's compiler read the forward pass at its first call and write kernels that each do the work of
several operations; the backward pass as well. That pays most where many small operations follow each other.

    model = Net().to(device)
    model.compile()

The model is compiled in place: it stays the same object with the same parameters, and names in checkpoints stay plain.
The first steps take seconds to minutes, and so does each new shape of the inputs. The mode is a setting
(`compile-mode`): `reduce-overhead` also replays the passes as CUDA graphs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.compute._trained_models import Trained, behind_complete, trained_models
from perfmod.transforms.facts.accelerators import replays_graphs, uses_accelerator
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.finding import Family, Finding, Numerics, Safety, Status
from perfmod.transforms.policy import CompileMode
from perfmod.transforms.rule import Rule

_PREVENTS = (
    (r"\btorch\.compile\b|\.compile\(", "is compiled already"),
    (r"\btorch\.jit\.\w+|\bfx\.symbolic_trace\b", "is compiled by other means"),
    (r"\b(?:nn\.)?(?:LSTM|GRU|RNN|RNNBase)(?:Cell)?\(", "makes a recurrent layer, which torch does not compile"),
    (r"\bcreate_graph\s*=\s*True\b", "differentiates twice, which torch does not compile"),
    (r"\bDataParallel\b|\bDistributedDataParallel\b|\bDDP\(", "wraps the model for several devices"),
    (r"\bregister_(?:full_)?(?:forward|backward)\w*hook\b", "hooks into the model, and compiled code passes hooks by"),
    (r"\b(?:Accelerator|Fabric|deepspeed|LightningModule|pl\.Trainer|L\.Trainer)\b", "leaves that to a framework"),
)
_WHY = tuple((re.compile(pattern), reason) for pattern, reason in _PREVENTS)


class EagerModel(Rule):
    code = "PM303"
    name = "eager-model"
    family = Family.COMPUTE
    summary = "The model is run operation by operation"
    fix_title = "Compile the model"
    numerics = Numerics.PRECISION
    safety = Safety.OPT_IN
    min_torch = "2.2"
    status = Status.PREVIEW
    triggers = frozenset({"optim"})
    references = (
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.compile",
        "https://docs.pytorch.org/docs/stable/generated/torch.compile.html",
    )
    changes_results = (
        "Fused kernels round elsewhere, and dropout draws other random numbers. What the forward pass prints, or does "
        "to Python objects, may happen only when it is compiled. Checkpoints are the same."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        if not uses_accelerator(file):
            return
        mode = file.policy.compile_mode
        argument = "" if mode is CompileMode.DEFAULT else f'mode="{mode.value}"'
        for trained in trained_models(file):
            reason = _why_not(file) or (_why_not_replayed(file, trained) if mode is CompileMode.REDUCE_OVERHEAD else "")
            if reason:
                yield self.refused(file, trained.optimizer, reason)
                continue
            line = f"{file.code(trained.model)}.compile({argument})"
            edits = [behind_complete(file, trained, line)]
            yield self.found(file, trained.optimizer, "its passes become few kernels", edits)


def _why_not(file: FileFacts) -> str:
    """Why the models of the files are not compiled, in one line; empty where they may be."""
    for source in file.world.files:
        for pattern, reason in _WHY:
            found = pattern.search(source.text)
            if found is not None:
                line, _ = source.position(found.start())
                where = "" if source is file.source else f" of {file.world.labels[source]}"
                return f"line {line}{where} {reason}"
    return "a CUDA graph is recorded by hand" if replays_graphs(file) else ""


def _why_not_replayed(file: FileFacts, trained: Trained) -> str:
    """Why the passes of a model are not replayed: the next replay overwrites what the last one gave."""
    name = file.code(trained.model)
    for region in file.steps.regions:
        steps = [call for call in find_all(region.body, cst.Call) if _is_step(file, call)]
        rare = next((call for call in steps if file.steps.is_gated(call)), None)
        if rare is not None:
            return f"gradients of several batches are added up (line {file.line(rare)}), which replays may overwrite"
        calls = [call for call in find_all(region.body, cst.Call) if file.code(call.func) == name]
        if len(calls) > 1:
            return f"`{name}` is called again on line {file.line(calls[1])}, which overwrites what it gave before"
    return ""


def _is_step(file: FileFacts, call: cst.Call) -> bool:
    func = call.func
    if not isinstance(func, cst.Attribute) or func.attr.value != "step":
        return False
    return file.value(func.value).kind is Kind.OPTIMIZER
