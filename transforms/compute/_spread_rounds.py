"""Epochs that all processes must run alike: none ends alone, skips an epoch alone, or goes on with another rate."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.compute._spread_program import NotSpread
from perfmod.transforms.facts.endings import EXITS
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all, find_any

_DIGITS = "the learning rate follows a figure, which may differ in its last digits"
_ALONE = "a process that ends alone would let the others wait for ever"


def require_together(file: FileFacts, epochs: cst.For, function: cst.FunctionDef | None) -> None:
    """No process leaves the others, or trains otherwise; `function` holds the loop. Raises `NotSpread`."""
    for call in find_all(file.tree.module, cst.Call):
        is_inside = file.tree.is_within(call, epochs) or file.tree.function(call) not in (function, None)
        if is_inside and file.qualified(call) in EXITS:
            raise NotSpread(call, _ALONE)
        receiver = call.func.value if isinstance(call.func, cst.Attribute) and call.func.attr.value == "step" else None
        if receiver is not None and (file.value(receiver).name or "").endswith("ReduceLROnPlateau"):
            raise NotSpread(call, _DIGITS)
    for node in find_any(epochs.body, cst.Continue, cst.AssignTarget, cst.AugAssign):
        place = node.target if isinstance(node, (cst.AssignTarget, cst.AugAssign)) else None
        is_rate = isinstance(place, cst.Subscript) and file.code(place).endswith(("['lr']", '["lr"]'))
        is_skip = isinstance(node, cst.Continue) and file.tree.loops(node)[0] is epochs
        if (is_rate or is_skip) and any(True for _ in _figures(file, epochs, node)):
            raise NotSpread(node, _DIGITS if is_rate else _ALONE)


def _figures(file: FileFacts, epochs: cst.For, node: cst.CSTNode) -> Iterator[cst.Name]:
    """What decides whether a statement runs, and is computed in the epochs themselves."""
    for around in file.tree.ancestors(node):
        if around is epochs:
            return
        for name in find_all(around.test, cst.Name) if isinstance(around, cst.If) else ():
            made = file.flow.definitions(name) if file.flow.is_variable(name) else ()
            if any(file.tree.is_within(each.node, epochs.body) and each.value is not None for each in made):
                yield name
