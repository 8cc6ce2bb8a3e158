"""Optimizers that count nothing on the host, so that their steps can be recorded."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.compute import _optimizers
from perfmod.transforms.compute._step_parts import NotRecorded, owner
from perfmod.transforms.facts.calls import argument, has_star
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import is_none, is_true
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.finding import Edit
from perfmod.transforms.keywords import add_keyword

_FUSED = ("Adam", "AdamW")
_CAPTURABLE = ("Adadelta", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop")


def capturable_form(file: FileFacts, step: cst.Call) -> tuple[Edit, ...]:
    """What an optimizer has to be told, so that nothing in its step is counted on the host."""
    if step.args:
        raise NotRecorded(step, "the optimizer evaluates the model again by a closure")
    return tuple(edit for made in _made(file, step) for edit in _told(file, made))


def _made(file: FileFacts, step: cst.Call) -> list[cst.Call]:
    """The calls of which one makes the optimizer: one, or one on each branch."""
    made = file.value(owner(step)).when_used.call
    calls = (
        [made] if made is not None else [end.node for end in file.tracing.ends(owner(step)) if not is_none(end.node)]
    )
    found = [call for call in calls if isinstance(call, cst.Call) and file.value(call).kind is Kind.OPTIMIZER]
    if not calls or len(found) < len(calls) or any(map(has_star, found)):
        raise NotRecorded(step, f"how `{file.code(owner(step))}` is made is not in sight")
    return found


def _told(file: FileFacts, made: cst.Call) -> tuple[Edit, ...]:
    """What one of these calls has to say."""
    value = file.value(made)
    kind = (value.name or "").rpartition(".")[2]
    if value.cls is not None or kind not in ("SGD", *_FUSED, *_CAPTURABLE):
        raise NotRecorded(made, f"`{file.code(made.func)}` may count its steps on the host")
    if kind == "SGD" or is_true(argument(made, "capturable")):
        return ()
    obstacle = _optimizers.obstacle(file, made)
    if obstacle:
        raise NotRecorded(made, obstacle)
    for setting in ("capturable", "fused", "foreach", "differentiable"):
        given = argument(made, setting)
        if given is not None and not (setting == "fused" and is_true(given)):
            raise NotRecorded(made, f"`{setting}={file.code(given)}` chooses the implementation already")
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
