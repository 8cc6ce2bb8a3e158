"""Assignments under a boolean mask, `t[m] = w[m]`: whether they can be written as `where`, and whether that gains."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts import torch_api
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import DType
from perfmod.transforms.operations import operation
from perfmod.transforms.syncs._loss_calls import loss_call, reduction_of
from perfmod.transforms.syncs._mask_shapes import covers
from perfmod.transforms.syncs._masked_writes import CannotWrite, MaskedWrite, Selection, masked_write
from perfmod.transforms.waits import Waits


def mask_of(file: FileFacts, target: cst.Subscript) -> cst.BaseExpression | None:
    """The tensor that an assignment's target is indexed with, the boolean one of several."""
    indices = [part.slice.value for part in target.slice if isinstance(part.slice, cst.Index)]
    masks = [index for index in indices if file.value(index).is_tensor]
    return next((m for m in masks if file.value(m).dtype is DType.BOOL), masks[0] if masks else None)


def written(
    file: FileFacts, statement: cst.Assign | cst.AugAssign, target: cst.Subscript, mask: cst.BaseExpression
) -> MaskedWrite:
    """An assignment under a boolean mask without gathering. Raises `CannotWrite`."""
    if len(target.slice) > 1:
        raise CannotWrite("the mask is combined with other indices")
    if not file.value(target.value).is_tensor:
        raise CannotWrite(f"`{file.code(target.value)}` is not known to be a tensor")
    rank = file.value(mask).rank
    selection = Selection(
        file.code(mask),
        lambda node: indexes_with(file, node, mask),
        lambda node: covers(file, mask, node),
        # What is read under a mask and written to single elements has no more dimensions than the mask.
        lambda node: None in (rank, file.value(node).rank) or rank == file.value(node).rank,
    )
    return masked_write(file, statement, target, selection)


def why_waited_again(file: FileFacts, node: cst.CSTNode, mask: cst.BaseExpression) -> str | None:
    """Why it saves nothing not to wait for a mask at a node: what stays of the same step waits for it once more."""
    stays = file.once(Waits).again(node, mask, lambda wait: _goes(file, wait))
    if stays is None:
        return None
    return f"line {file.line(stays)} waits for `{file.code(mask)}` anyway, so nothing is gained"


def _goes(file: FileFacts, wait: cst.CSTNode) -> bool:
    """Whether a wait for a mask is rewritten too: an index of `nonzero`, an assignment, a loss of what is selected."""
    asked, statement = operation(file, wait), file.tree.statement(wait)
    if asked is not None and asked.code == "PM101":
        return True
    targets = [each.target for each in statement.targets] if isinstance(statement, cst.Assign) else []
    targets = [statement.target] if isinstance(statement, cst.AugAssign) else targets
    target = targets[0] if len(targets) == 1 else None
    mask = mask_of(file, target) if isinstance(target, cst.Subscript) else None
    if isinstance(target, cst.Subscript) and mask is not None and file.value(mask).dtype is DType.BOOL:
        assert isinstance(statement, (cst.Assign, cst.AugAssign))
        try:
            found = written(file, statement, target, mask)
        except CannotWrite:
            return False
        return wait is target or wait in found.gathers
    calls = (each for each in file.tree.ancestors(wait) if isinstance(each, cst.Call))
    return any(reduction_of(file, call) is not None or loss_call(file, call) is not None for call in calls)


def indexes_with(file: FileFacts, node: cst.Subscript, mask: cst.BaseExpression) -> bool:
    """Whether the one index of a subscript is the same expression as `mask` of the same statement."""
    if len(node.slice) != 1 or not isinstance(node.slice[0].slice, cst.Index):
        return False
    index = node.slice[0].slice.value
    same = _words(file, index) == _words(file, mask)
    return same and all(_is_repeatable(file, call) for call in find_all(index, cst.Call))


def _words(file: FileFacts, node: cst.BaseExpression) -> str:
    return "".join(file.code(node).split())


def _is_repeatable(file: FileFacts, call: cst.Call) -> bool:
    """Whether a call computes a tensor from its arguments alone, so that two such calls give the same."""
    name = file.qualified(call)
    if name is None and isinstance(call.func, cst.Attribute):
        name = call.func.attr.value
    short = (name or "").removeprefix("torch.")
    return short in (torch_api.ELEMENTWISE | torch_api.REDUCTIONS) - {"dropout"}
