"""Convolutions over images that lie in memory channel by channel.

The tensor cores want the channels of a pixel side by side. Where images and weights lie channel by channel (NCHW), as
torch makes them, cuDNN turns them around before and behind its kernels. With the weights in the format `channels_last`,
torch keeps that format from the first convolution on; shapes and indices stay what they are:

    model = ResNet().to(device)
    model.to(memory_format=torch.channels_last)

It pays together with mixed precision (PM301) and may cost without. `view` needs strides that a tensor in this format
need not have, so that `x.view(n, -1)` in a model becomes `x.reshape(n, -1)`, which gives the same values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.compute._device_switches import convolves
from perfmod.transforms.compute._graph_breaks import parts_of
from perfmod.transforms.compute._mentions import first_mention
from perfmod.transforms.compute._trained_models import TrainedModel, trained_models
from perfmod.transforms.facts.accelerators import uses_accelerator
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all, find_any
from perfmod.transforms.finding import Edit, Family, Finding, Numerics, Safety, Status
from perfmod.transforms.rule import Rule
from perfmod.transforms.writing import insert_after_statement, replace

_DEPENDS = re.compile(
    r"\bchannels_last\w*\b|\bmemory_format\b|\bdata_ptr\b|\.(?:as_)?strides?\(|\bConv(?:Transpose)?3d\b"
)


class NchwConvolutions(Rule):
    code = "PM305"
    name = "nchw-convolutions"
    family = Family.COMPUTE
    summary = "Convolutions work on images that lie channel by channel"
    fix_title = "Put the weights into the format channels_last"
    numerics = Numerics.PRECISION
    safety = Safety.OPT_IN
    min_torch = "1.7"
    status = Status.PREVIEW
    triggers = frozenset({"parameters"})
    references = ("https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html",)
    changes_results = (
        "Other kernels round elsewhere. Code that asks for strides, or writes into a view of activations, sees another "
        "order of memory. Checkpoints load either way."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        if not uses_accelerator(file) or not convolves(file):
            return
        for trained in trained_models(file):
            place = trained.place
            if place is None or not file.is_own(place.statement):
                continue
            reason = file.once(_why_not) or _written_into(file, trained)
            if reason:
                yield self.refused(file, place.model, reason)
                continue
            torch, imports = file.names.spelled("torch", place.model)
            line = f"{file.code(place.model)}.to(memory_format={torch}.channels_last)"
            edits = [insert_after_statement(file.source, place.statement, line), *_reshaped(file, trained)]
            yield self.found(file, place.model, "torch keeps the format", edits, imports=imports)


def _why_not(file: FileFacts) -> str:
    """Why the format stays, in one line; empty where it may change."""
    found = first_mention(file, _DEPENDS)
    return f"`{found[0]}` on {found[1]} depends on the order of memory" if found is not None else ""


def _views(file: FileFacts, trained: TrainedModel) -> Iterator[cst.Call]:
    """The calls that view activations in another shape, in the model and its parts, as far as they are in sight."""
    classes = parts_of(file, trained.classes) or [cls for cls in file.classes if cls.is_module]
    for cls in classes:
        for method in cls.methods.values():
            for call in find_all(method.body, cst.Call):
                if isinstance(call.func, cst.Attribute) and call.func.attr.value == "view" and _is_shape(file, call):
                    yield call


def _written_into(file: FileFacts, trained: TrainedModel) -> str:
    """Why a view has to stay one: what is written into it is meant for the tensor that it shows."""
    for call in _views(file, trained):
        statement, function = file.tree.statement(call), file.tree.function(call)
        bound = {target.target.value for target in find_all(statement, cst.AssignTarget)
                 if isinstance(target.target, cst.Name)}  # fmt: skip
        for node in find_any(function.body, cst.AugAssign, cst.AssignTarget, cst.Call) if function else ():
            if bound & _overwritten(node) or (isinstance(node, cst.Call) and _is_in_place_on(node, call)):
                return f"line {file.line(node)} writes into a view of line {file.line(call)}"
    return ""


def _overwritten(node: cst.CSTNode) -> set[str]:
    """The name whose tensor a node changes in place: `y += 1`, `y[0] = 1`, `y.mul_(2)`."""
    target: cst.CSTNode | None = None
    if isinstance(node, cst.AugAssign):
        target = node.target
    elif isinstance(node, cst.AssignTarget):
        target = node.target if isinstance(node.target, cst.Subscript) else None
    elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value.endswith("_"):
        target = node.func.value
    while isinstance(target, cst.Subscript):
        target = target.value
    return {target.value} if isinstance(target, cst.Name) else set()


def _is_in_place_on(node: cst.Call, view: cst.Call) -> bool:
    func = node.func
    return isinstance(func, cst.Attribute) and func.value is view and func.attr.value.endswith("_")


def _reshaped(file: FileFacts, trained: TrainedModel) -> tuple[Edit, ...]:
    """The edits that let a model take tensors whose strides do not fit a view."""
    funcs = [cst.ensure_type(call.func, cst.Attribute) for call in _views(file, trained)]
    return tuple(replace(file.source_of(func), func.attr, "reshape") for func in funcs)


def _is_shape(file: FileFacts, call: cst.Call) -> bool:
    """Whether a view is given a shape, and not a type."""
    return bool(call.args) and not any(file.values.placement.is_dtype(arg.value) for arg in call.args)
