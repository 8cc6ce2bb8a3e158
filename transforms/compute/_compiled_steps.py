"""What in a training keeps its model from being compiled, or its passes from being replayed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from perfmod.transforms.compute import _graph_breaks
from perfmod.transforms.compute._trained_models import TrainedModel, calls_of_program, nodes_of_program
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.classes import ClassFacts
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.steps import makes_step
from perfmod.transforms.facts.tree import is_false
from perfmod.transforms.facts.value import Kind

_OTHER_FORMS = ("torch.compile", "torch.jit.", "torch.onnx.", "torch.export.", "torch.fx.", "torch.quantization.")
OWN_SETTINGS = {
    "accelerate.Accelerator": 'Accelerate compiles what it prepares: `Accelerator(dynamo_backend="inductor")`',
    "transformers.TrainingArguments": "the Trainer compiles by itself: `TrainingArguments(torch_compile=True)`",
}
"""How frameworks are told to compile, by what a script makes of them."""
_WRAPPERS = frozenset({"torch.nn.DataParallel", "torch.nn.parallel.DataParallel"})


def why_not_compiled(file: FileFacts, model: TrainedModel, calls: Sequence[cst.Call], parts: list[ClassFacts]) -> str:
    """Why a model must not be compiled; empty where nothing speaks against it."""
    for node, why in _reasons(file, model, calls, parts):
        return f"line {file.line(node)} {why}"
    return ""


def _reasons(
    file: FileFacts, model: TrainedModel, calls: Sequence[cst.Call], parts: list[ClassFacts]
) -> Iterator[tuple[cst.CSTNode, str]]:
    tree = file.world.tree
    for node in nodes_of_program(file, cst.Attribute, cst.Name):
        name = file.qualified(node) or ""
        if name.startswith(_OTHER_FORMS) and not isinstance(file.tree.parent(node), cst.Attribute):
            yield node, f"compiles, traces or exports by `{file.code(node)}`"
        if name in _WRAPPERS:
            yield node, "has `DataParallel`, which copies the model with its compiled call in every step"
    for call in calls_of_program(file):
        func = call.func
        own = OWN_SETTINGS.get(file.qualified(call) or "")
        if own is not None:
            yield call, f"leaves the training to a framework: {own}"
        if not isinstance(func, cst.Attribute):
            continue
        if func.attr.value == "compile" and model.is_in(file, func.value):
            yield call, "compiles the model already"
        moves = func.attr.value in ("to", "cuda", "cpu", "half", "double", "requires_grad_")
        if moves and file.steps.in_sight(call) and model.is_in(file, func.value):
            yield call, "moves or changes the model in every step"
    hook = _graph_breaks.hook(file)
    if hook is not None:
        yield hook, "registers a hook, which compiled modules may not call"
    recurrent = _graph_breaks.recurrent(file, parts)
    if recurrent is not None:
        yield recurrent, f"makes `{file.code(recurrent.func)}`, which is not compiled"
    written = _graph_breaks.state_written(file, _graph_breaks.forward_code(file, parts))
    if written is not None:
        yield written, f"assigns `{file.code(written)}` in the forward pass, which may be compiled anew in each step"
    yield from _switched(file, model, parts)
    for call in _second_derivatives(file):
        scope = tree.scope(call)
        if any(tree.scope(each) is scope for each in calls):
            yield call, "differentiates twice, which compiled models do not support"


def _switched(file: FileFacts, model: TrainedModel, parts: list[ClassFacts]) -> Iterator[tuple[cst.CSTNode, str]]:
    """Where layers or what needs a gradient are changed behind the place where the model is complete."""
    for target in nodes_of_program(file, cst.AssignTarget):
        inner = target.target if isinstance(target, cst.AssignTarget) else None
        if not isinstance(inner, cst.Attribute) or file.classes.around(inner) in parts:
            continue
        if inner.attr.value == "requires_grad" and file.steps.in_sight(inner) and _is_parameter(file, inner.value):
            yield inner, "switches in the step what is trained"
        if model.place is not None and file.value(inner).kind is Kind.MODULE and model.is_in(file, inner.value):
            statement, place = file.tree.statement(inner), model.place.statement
            is_before = file.tree.scope(inner) is file.tree.scope(place)
            is_before &= file.world.tree.place(statement) <= file.world.tree.place(place)
            if not is_before:
                yield inner, f"changes the model: `{file.code(inner)}`"


def _is_parameter(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether something is a parameter of a loop over those of a model."""
    definitions = file.flow.of_name(node)
    return any(each.value is not None and file.code(each.value).endswith("parameters()") for each in definitions)


def _second_derivatives(file: FileFacts) -> Iterator[cst.Call]:
    for call in calls_of_program(file):
        given = argument(call, "create_graph")
        if given is not None and not is_false(given) and file.steps.in_sight(call):
            yield call


def why_not_replayed(file: FileFacts, calls: Sequence[cst.Call]) -> str:
    """Why the passes of a model must not be replayed as CUDA graphs; empty where they may."""
    if len(calls) > 1:
        lines = file.lines(calls)
        return f"the step calls it on {lines}, and a replayed call overwrites what the one before gave"
    call = calls[0]
    region = file.steps.region(call)
    loops = file.tree.loops(call)
    if file.steps.is_beside_parts(call) or (loops and loops[0] is not region and region is not None):
        return "a step runs it several times, and a replayed call overwrites what the one before gave"
    for other in calls_of_program(file):
        is_step = makes_step(other) and isinstance(other.func, cst.Attribute) and other.func.attr.value == "step"
        if is_step and file.steps.in_sight(other) and file.steps.is_gated(other):
            return f"gradients of several backward passes are added up until line {file.line(other)}"
    return ""
