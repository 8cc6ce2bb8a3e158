"""Where the very tensor that a call gives is printed: its text names the operation, `grad_fn=<MseLossBackward0>`."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.escapes import Fate, first_of
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.gradients import may_carry_gradient
from perfmod.transforms.facts.handing import Held


def printed_itself(file: FileFacts, call: cst.Call) -> cst.CSTNode | None:
    """The first place that prints the tensor that a call gives, there or wherever it is handed to."""
    if not may_carry_gradient(file, call):
        return None
    uses = [use.node for use in _uses(file, call) if may_carry_gradient(file, use.node)]
    printed = (each for each in file.escapes.of(uses) if each.fate is Fate.PRINTED and each.node in uses)
    found = first_of(file, printed)
    return found.node if found is not None else None


def _uses(file: FileFacts, call: cst.Call) -> Iterator[Held]:
    """The uses of what a call gives, also behind functions that others may call as well."""
    seen: set[Held] = set()
    stack = [Held(call)]
    while stack:
        held = stack.pop()
        for use in file.handing.uses(held.node, held.path):
            if use in seen:
                continue
            seen.add(use)
            yield use
            around = file.tree.parent(use.node)
            function = file.tree.function(use.node) if isinstance(around, cst.Return) else None
            if function is not None:
                stack += [Held(caller, use.path) for caller in file.values.calls.callers(function)]
