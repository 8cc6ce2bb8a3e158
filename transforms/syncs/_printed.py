"""Where a tensor itself is printed, not something computed from it: its text names the operation that made it,
`grad_fn=<MseLossBackward0>`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from perfmod.transforms.facts.escapes import Fate, first_of
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.gradients import may_carry_gradient
from perfmod.transforms.facts.handing import Held


def printed_itself(file: FileFacts, given: Iterable[cst.BaseExpression]) -> cst.CSTNode | None:
    """The first place that prints a tensor with a graph that expressions hold, there or wherever it is handed to."""
    held = [each for each in given if may_carry_gradient(file, each)]
    uses = [use.node for use in _uses(file, held) if may_carry_gradient(file, use.node)]
    escapes = file.escapes.of(uses) if uses else []
    found = first_of(file, (each for each in escapes if each.fate is Fate.PRINTED and each.node in uses))
    return found.node if found is not None else None


def _uses(file: FileFacts, given: Iterable[cst.BaseExpression]) -> Iterator[Held]:
    """The uses of what expressions give, also behind functions that others may call as well."""
    seen: set[Held] = set()
    stack = [Held(each) for each in given]
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
