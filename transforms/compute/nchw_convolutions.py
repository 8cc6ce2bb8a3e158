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
from perfmod.transforms.compute._trained_models import Trained, behind_complete, classes_of, trained_models
from perfmod.transforms.facts.accelerators import uses_accelerator
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.finding import Edit, Family, Finding, Numerics, Safety, Status
from perfmod.transforms.rule import Rule
from perfmod.transforms.writing import replace

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
    triggers = frozenset({"optim"})
    references = ("https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html",)
    changes_results = (
        "Other kernels round elsewhere. Code that asks for strides, or writes into a view of activations, sees another "
        "order of memory. Checkpoints load either way."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        if not uses_accelerator(file) or not convolves(file):
            return
        for trained in trained_models(file):
            reason = file.once(_why_not)
            if reason:
                yield self.refused(file, trained.optimizer, reason)
                continue
            torch, imports = file.names.spelled("torch", trained.optimizer)
            line = f"{file.code(trained.model)}.to(memory_format={torch}.channels_last)"
            edits = [behind_complete(file, trained, line), *_reshaped(file, trained)]
            yield self.found(file, trained.optimizer, "torch keeps the format", edits, imports=imports)


def _why_not(file: FileFacts) -> str:
    """Why the format stays, in one line; empty where it may change."""
    for source in file.world.files:
        found = _DEPENDS.search(source.text)
        if found is not None:
            line, _ = source.position(found.start())
            where = "" if source is file.source else f" of {file.world.labels[source]}"
            return f"`{found[0]}` on line {line}{where} depends on the order of memory"
    return ""


def _reshaped(file: FileFacts, trained: Trained) -> tuple[Edit, ...]:
    """The edits that let a model take tensors whose strides do not fit a view."""
    found = []
    classes = classes_of(file, trained)
    for cls in file.classes:
        if not cls.is_module or (classes is not None and cls not in classes):
            continue
        for method in cls.methods.values():
            for call in find_all(method.body, cst.Call):
                func = call.func
                if isinstance(func, cst.Attribute) and func.attr.value == "view" and _is_shape(file, call):
                    found.append(replace(file.source_of(call), func.attr, "reshape"))
    return tuple(found)


def _is_shape(file: FileFacts, call: cst.Call) -> bool:
    """Whether a view is given a shape, and not a type."""
    return bool(call.args) and not any(file.values.placement.is_dtype(arg.value) for arg in call.args)
