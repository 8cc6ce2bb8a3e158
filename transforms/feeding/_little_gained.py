"""Tensors whose copy to the device is worth little, or that something else makes unnecessary."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.old_torch import in_variable
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.feeding._births import Birth
from perfmod.transforms.feeding._born_types import why_filled


def why_of_low_impact(file: FileFacts, move: cst.Call, birth: Birth) -> str:
    """Why it hardly pays to make on the device what `move` copies there, in one line; empty where it does."""
    if in_variable(file, birth.call):
        return "`Variable` does nothing since torch 0.4: remove it first"
    packed = _packed(file, move)
    if packed is not None:
        return f"`pack_padded_sequence` on line {file.line(packed)} needs its lengths on the CPU: drop the copy"
    choice = _made_either_way(file, birth.call)
    if choice is not None:
        return f"both sides of the `if` on line {file.line(choice)} make it: make it once, on the device it is for"
    return why_filled(file, move, birth)


def _packed(file: FileFacts, move: cst.Call) -> cst.Call | None:
    """The call of `pack_padded_sequence` that takes a tensor for its lengths."""
    for use in file.handing.uses(move):
        arg = file.tree.parent(use.node)
        call = file.tree.parent(arg) if isinstance(arg, cst.Arg) else None
        if isinstance(call, cst.Call) and (file.qualified(call) or "").endswith(".pack_padded_sequence"):
            return call if argument(call, "lengths", 1) is use.node else None
    return None


def _made_either_way(file: FileFacts, made: cst.Call) -> cst.IfExp | None:
    """The choice around a call whose other side makes the same: `torch.ones(n).cuda() if gpu else torch.ones(n)`."""
    child: cst.CSTNode = made
    for ancestor in file.tree.ancestors(made):
        if isinstance(ancestor, cst.IfExp) and child is not ancestor.test:
            other = ancestor.orelse if child is ancestor.body else ancestor.body
            if any(file.code(call) == file.code(made) for call in find_all(other, cst.Call)):
                return ancestor
        child = ancestor
    return None
