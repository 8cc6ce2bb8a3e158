"""Scalers of gradients: where `GradScaler` objects are made, and whether they scale."""

from __future__ import annotations

import re

import libcst as cst

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import is_false, is_none, is_true

_NAME = re.compile(r"torch\.(?:\w+\.)*amp\.(?:\w+\.)*GradScaler")


def scalers(file: FileFacts, owner: cst.BaseExpression) -> list[cst.Call]:
    """The calls that make a scaler, `GradScaler() if args.amp else None`; none where it may be something else."""
    ends = [end for end in file.tracing.ends(owner) if not is_none(end.node)]
    made = [end.node for end in ends if not end.path and isinstance(end.node, cst.Call)]
    is_known = len(made) == len(ends) and all(_NAME.fullmatch(file.qualified(each) or "") for each in made)
    return made if is_known else []


def scaler_of_step(file: FileFacts, node: cst.CSTNode) -> list[cst.Call]:
    """The calls that make the scaler by which a node steps, `scaler.step(optimizer)`; none if it is no such step."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute) or node.func.attr.value != "step":
        return []
    return scalers(file, node.func.value) if node.args else []


def is_on(made: cst.Call) -> bool:
    """Whether a scaler scales, whatever the options of a run."""
    enabled = argument(made, "enabled")
    return enabled is None or is_true(enabled)


def is_off(made: cst.Call) -> bool:
    """Whether a scaler leaves gradients as they are, whatever the options of a run."""
    enabled = argument(made, "enabled")
    return enabled is not None and is_false(enabled)
