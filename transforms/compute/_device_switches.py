"""Switches of torch that hold for a whole program: whether a script has set them, and where it would."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.finding import Edit
from perfmod.transforms.writing import insert_after_statement, insert_before_statement

_CONVOLUTIONS = re.compile(r"\b(?:Lazy)?Conv(?:Transpose)?[123]d\b|\bconv(?:_transpose)?[123]d\b")
_MODELS = ("torchvision.models", "timm.", "segmentation_models_pytorch.")
"""Libraries whose models are convolutional, most of them."""


def convolves(file: FileFacts) -> bool:
    """Whether the files build models with convolutions, or take them from a library of such models."""
    return file.once(_convolves)


def _convolves(file: FileFacts) -> bool:
    if any(_CONVOLUTIONS.search(source.text) for source in file.world.files):
        return True
    calls = (call for call in file.world.tree.all_of(cst.Call) if isinstance(call, cst.Call))
    return any((file.qualified(call) or "").startswith(_MODELS) for call in calls)


def set_already(file: FileFacts, names: Collection[str]) -> cst.CSTNode | None:
    """Where the files set or ask for one of some switches, by the last part of its name."""
    words = (node for node in file.world.tree.all_of(cst.Name) if isinstance(node, cst.Name) and node.value in names)
    return next(words, None)


def training_optimizers(file: FileFacts) -> Iterator[cst.Call]:
    """The calls of a file that make optimizers of torch, the first of each function: there a training is set up."""
    seen: set[cst.CSTNode | None] = set()
    for call in find_all(file.tree.module, cst.Call):
        if not (file.qualified(call) or "").startswith("torch.optim.") or file.value(call).kind is not Kind.OPTIMIZER:
            continue
        around = file.tree.function(call)
        if around not in seen:
            seen.add(around)
            yield call


def switch(file: FileFacts, optimizer: cst.Call, line: str) -> Edit:
    """Write a switch where a training is set up: behind the line that chooses the device, or before the optimizer."""
    statement = file.tree.statement(optimizer)
    device = _device_line(file, file.tree.function(optimizer), optimizer)
    if device is not None:
        return insert_after_statement(file.source, device, line)
    return insert_before_statement(file.source, statement, line)


def _device_line(
    file: FileFacts, function: cst.FunctionDef | None, before: cst.CSTNode
) -> cst.BaseSmallStatement | None:
    """The last line of a function's own block, or of the module's, that chooses the device above something."""
    body = file.source.module if function is None else function.body
    start = file.source.span(before)[0]
    found = None
    for line in body.body if isinstance(body, (cst.Module, cst.IndentedBlock)) else ():
        for statement in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            if file.source.span(statement)[0] >= start:
                return found
            is_device = isinstance(statement, cst.Assign) and file.value(statement.value).kind is Kind.DEVICE
            found = statement if is_device else found
    return found
