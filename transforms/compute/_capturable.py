"""Optimizers that count nothing on the host, so that their steps can be recorded."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.compute import _optimizers
from perfmod.transforms.compute._scaled_steps import is_scaled, may_be_scaled, stepping
from perfmod.transforms.compute._step_calls import NotRecorded
from perfmod.transforms.facts.calls import argument, has_star
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.scalers import scaler_of_step
from perfmod.transforms.facts.tree import is_none, is_true
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.finding import Edit
from perfmod.transforms.keywords import add_keyword

_FUSED = ("Adam", "AdamW")
_CAPTURABLE = ("Adadelta", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop")


def capturable_form(file: FileFacts, step: cst.Call) -> tuple[Edit, ...]:
    """What an optimizer has to be told, so that nothing in its step is counted on the host."""
    if step.args and not scaler_of_step(file, step):
        raise NotRecorded(step, "the optimizer evaluates the model again by a closure")
    return tuple(edit for made in _made(file, step) for edit in _told(file, made, step))


def _made(file: FileFacts, step: cst.Call) -> list[cst.Call]:
    """The calls of which one makes the optimizer: one, or one on each branch."""
    optimizer = stepping(file, step)
    made = file.value(optimizer).when_used.call
    calls = [made] if made is not None else [e.node for e in file.tracing.ends(optimizer) if not is_none(e.node)]
    found = [call for call in calls if isinstance(call, cst.Call) and file.value(call).kind is Kind.OPTIMIZER]
    if not calls or len(found) < len(calls) or any(map(has_star, found)):
        raise NotRecorded(step, f"how `{file.code(optimizer)}` is made is not in sight")
    return found


def _told(file: FileFacts, made: cst.Call, step: cst.Call) -> tuple[Edit, ...]:
    """What one of these calls has to say."""
    is_fused = may_be_scaled(file, step)  # only a fused one asks the host for nothing then
    value = file.value(made)
    kind = (value.name or "").rpartition(".")[2]
    if value.cls is not None or kind not in ("SGD", *_FUSED, *_CAPTURABLE):
        raise NotRecorded(made, f"`{file.code(made.func)}` may count its steps on the host")
    if is_true(argument(made, "capturable")) or (kind == "SGD" and not is_fused):
        return ()
    if kind == "SGD" and is_true(argument(made, "fused")):
        return ()
    if kind in _CAPTURABLE and is_scaled(file, step):
        raise NotRecorded(step, f"`{file.code(step)}` asks on the host whether a gradient is infinite")
    obstacle = _optimizers.obstacle(file, made)
    if obstacle:
        raise NotRecorded(made, obstacle)
    for setting in ("capturable", "fused", "foreach", "differentiable"):
        given = argument(made, setting)
        is_fitting = setting == "fused" or (setting == "foreach" and kind in _CAPTURABLE)
        if given is not None and not (is_fitting and is_true(given)):
            raise NotRecorded(made, f"`{setting}={file.code(given)}` chooses the implementation already")
    if kind == "SGD":
        return add_keyword(file.source_of(made), made, "fused=True")
    if kind in _CAPTURABLE:
        return add_keyword(file.source_of(made), made, f"capturable={_is_on_cuda(file, made)}")
    added = ["capturable=True"] if argument(made, "fused") is not None else ["fused=True", "capturable=True"]
    return add_keyword(file.source_of(made), made, *added)


def _is_on_cuda(file: FileFacts, made: cst.Call) -> str:
    """Whether parameters are on CUDA, as code: an optimizer without a fused form is only capturable there."""
    models, given = _optimizers.models(made), argument(made, "params", 0)
    if len(models) != 1 or given is None or file.code(given) != f"{file.code(models[0])}.parameters()":
        raise NotRecorded(made, f"`{file.code(made.func)}` can be recorded on CUDA only, and where it is does not show")
    return f"next({file.code(given)}).is_cuda"
