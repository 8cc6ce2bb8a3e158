"""Tensors that are printed as such: their text names the operation that made them, `grad_fn=<WhereBackward0>`."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from perfmod.transforms.facts.escapes import Fate, first_of
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition
from perfmod.transforms.facts.gradients import may_carry_gradient


def printed_with_graph(file: FileFacts, definitions: Iterable[Definition]) -> cst.CSTNode | None:
    """The first place that prints what definitions bind, not something computed from it; `None` if there is none."""
    uses = [use for definition in definitions for use in file.flow.uses(definition) if may_carry_gradient(file, use)]
    escapes = file.escapes.of(uses) if uses else []
    found = first_of(file, (each for each in escapes if each.fate is Fate.PRINTED and each.node in uses))
    return found.node if found is not None else None
