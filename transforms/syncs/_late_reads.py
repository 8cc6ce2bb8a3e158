"""Scalars that every step reads into a variable, and that are only used now and then, or behind the loop.

`d_x = output.mean().item()` waits in every step, and `if step % 50 == 0: print(d_x)` shows one in fifty. The tensor is
kept instead, detached and never written to, so that what is read of it later is the same number.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition
from perfmod.transforms.facts.rounds import is_late
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.rule import Edit
from perfmod.transforms.syncs._by_name import require_unread_by_name
from perfmod.transforms.syncs._figures import as_number
from perfmod.transforms.syncs._host_reads import (
    CannotRewrite,
    HostRead,
    has_no_dimensions,
    own_copy,
    tensor_doubts,
    without_read,
)
from perfmod.transforms.syncs._sums import require_unshared


@frozen
class LateRead:
    """Edits that read a scalar where it is used, the imports they need, and what was taken for granted."""

    edits: Sequence[Edit]
    imports: Sequence[str]
    doubts: Sequence[str]


def is_used_late(file: FileFacts, definition: Definition) -> bool:
    """Whether a variable is used, and only now and then or behind the loop."""
    uses = file.flow.uses(definition)
    return bool(uses) and all(is_late(file, use, definition.node) for use in uses)


def read_where_used(file: FileFacts, read: HostRead, definition: Definition) -> LateRead:
    """Leave a scalar that is held in a variable on the device until it is used. Raises `CannotRewrite`."""
    name = definition.name
    require_unshared(file, name)
    require_unread_by_name(file, name, definition.scope)
    if read.dtype is None:
        raise CannotRewrite(f"whether `{name}` is an integer or a float could not be shown")
    shape = "" if has_no_dimensions(file, read) else ".reshape(())"
    edits = [without_read(file, read, own_copy(file, read) + shape)]
    imports: list[str] = []
    for use in file.flow.uses(definition):
        line = file.line(use)
        if not file.is_own(use) or file.tree.scope(use) is not definition.scope:
            raise CannotRewrite(f"`{name}` is read by another function on line {line}")
        others = [other for other in file.flow.definitions(use) if other is not definition]
        if not all(file.values.of_definition(other).kind is Kind.NUMBER for other in others):
            raise CannotRewrite(f"`{name}` may be no number on line {line}")
        starts = [file.values.of_definition(other).dtype for other in others]
        written, needed = as_number(file, use, read.dtype, starts)
        edits += written
        imports += needed
    return LateRead(edits, tuple(dict.fromkeys(imports)), tensor_doubts(file, read))
