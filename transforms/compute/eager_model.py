"""A model that is trained eagerly: Python launches each of its operations one by one.

The compiler makes few, fused kernels of them, for the forward and the backward pass:

    model = Net().to(device)                     model = Net().to(device)
                                                 model.compile()

`nn.Module.compile` compiles the calls of the model in place. The model stays the same object: `isinstance`, its
attributes, the names in its state dict, checkpoints and the parameters that the optimizer has are as before, and so
are copies (`copy.deepcopy`) and what `torch.save(model)` writes, which are eager again. `torch.compile(model)` gives
another object, whose state dict has other names.

The line stands behind the one that makes the model or moves it to its device, and before it is distributed. The first
step takes seconds to minutes longer, and so does the first one with another shape, such as a smaller last batch. On the
CPU, a C++ compiler is needed. With `compile-mode = "reduce-overhead"` in `[tool.perfmod]`, passes are replayed as CUDA
graphs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.compute import _graph_breaks
from perfmod.transforms.compute._compiled_steps import OWN_SETTINGS, why_not_compiled, why_not_replayed
from perfmod.transforms.compute._trained_models import Place, TrainedModel, trained_models
from perfmod.transforms.facts import lightning
from perfmod.transforms.facts.accelerators import uses_accelerator
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.frameworks import trains_with_torch
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.finding import Family, Finding, Numerics, Question, Safety, Status
from perfmod.transforms.policy import CompileMode
from perfmod.transforms.questions import Predicate
from perfmod.transforms.rule import Rule, question
from perfmod.transforms.writing import insert_after_statement, quoted

_KNOWN_TO_COMPILE = ("torchvision.models.", "torch.nn.", "timm.")
_MOST_LINES = 6


class EagerModel(Rule):
    code = "PM303"
    name = "eager-model"
    family = Family.COMPUTE
    summary = "The model is trained eagerly: each of its operations is launched by itself"
    fix_title = "Compile the model"
    numerics = Numerics.PRECISION
    safety = Safety.OPT_IN
    min_torch = "2.2"
    status = Status.PREVIEW
    triggers = frozenset({"parameters", "to", "cuda", "fit", "Accelerator", "TrainingArguments"})
    references = (
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.compile",
        "https://docs.pytorch.org/docs/stable/generated/torch.compile.html",
    )
    changes_results = (
        "Fused kernels round less often and in another order than the eager ones, and dropout draws other random "
        "numbers from the same distribution. Code that the compiler cannot take in one piece (a print, a value that is "
        "read, a branch on a tensor) runs as before, between the compiled pieces: an open question that lists those "
        "lines. Trainings that would be wrong, or compiled anew in each step, are refused."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        yield from self._frameworks(file)
        if not trains_with_torch(file):
            return
        models = trained_models(file)
        statements = Counter(model.place.statement for model in models if model.place is not None)
        for model in models:
            if file.is_own(model.place.statement if model.place is not None else model.node):
                is_alone = model.place is not None and statements[model.place.statement] == 1
                yield from self._judge(file, model, is_alone=is_alone)

    def _frameworks(self, file: FileFacts) -> Iterator[Finding]:
        for call in find_all(file.source.module, cst.Call):
            own = OWN_SETTINGS.get(file.qualified(call) or "")
            if own is not None:
                yield self.refused(file, call, own)
        for call in lightning.runs(file.world.tree, file.names, file.values):
            if file.is_own(call):
                model = "compiled = torch.compile(model)"
                yield self.refused(file, call, f"Lightning is given a compiled model: `{model}` before this line")

    def _judge(self, file: FileFacts, model: TrainedModel, *, is_alone: bool) -> Iterator[Finding]:
        calls = model.calls(file)
        if not calls:
            method = next(iter(model.methods(file)), None)
            if method is not None:
                where = f"the step calls `{file.code(method.func)}` on line {file.line(method)}"
                node = model.place.model if model.place is not None else model.node
                yield self.refused(file, node, f"{where}: only calls of the model itself, `model(...)`, are compiled")
            return
        if model.place is None:
            yield self.refused(file, model.node, model.refusal)
            return
        place = model.place
        parts = _graph_breaks.parts_of(file, model.classes)
        reason = "this script never uses the GPU" if not uses_accelerator(file) else ""
        reason = reason or why_not_compiled(file, model, calls, parts)
        mode = file.policy.compile_mode
        if mode is CompileMode.REDUCE_OVERHEAD:
            reason = reason or why_not_replayed(file, calls)
        if reason:
            yield self.refused(file, place.model, reason)
            return
        asked, doubt = _questions(file, model, place)
        written = "" if mode is CompileMode.DEFAULT else f"mode={quoted(file.source, mode.value)}"
        line = f"{file.code(place.model)}.compile({written})"
        yield self.found(
            file,
            # A statement that makes several models is the place of several findings.
            place.statement if is_alone and isinstance(place.statement, cst.BaseSmallStatement) else place.model,
            doubt or f"the step on line {file.line(calls[0])} runs it",
            [insert_after_statement(file.source, place.statement, line)],
            safety=Safety.UNSAFE if asked else None,
            questions=asked,
        )


def _questions(file: FileFacts, model: TrainedModel, place: Place) -> tuple[list[Question], str]:
    """What could not be shown, and why."""
    asked = [question(file, Predicate.COMPILES_WHOLE, place.model)]
    if not model.classes:
        known = (model.library or "").startswith(_KNOWN_TO_COMPILE)
        return ([], "") if known else (asked, f"the code of `{file.code(place.model)}` is not in sight")
    parts = _graph_breaks.parts_of(file, model.classes)
    splitting = list(_graph_breaks.breaks(file, _graph_breaks.forward_code(file, parts)))
    if splitting:
        shown = [f"`{file.code(node)}` on line {file.line(node)}" for node in splitting[:_MOST_LINES]]
        return asked, f"the graph is split in {len(splitting)} places: {', '.join(shown)}"
    ragged = _graph_breaks.ragged(file, parts)
    if ragged is not None:
        where = f"`{file.code(ragged)}` on line {file.line(ragged)}"
        return asked, f"sparse tensors split the graph, and each new shape may be compiled anew: {where}"
    if file.policy.is_portable:
        return asked, "the compiler may not know every device that the code runs on"
    return [], ""
