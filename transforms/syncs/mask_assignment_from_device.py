"""Writing device values under a boolean mask makes the CPU wait for their number: `t[m] = w[m]` gathers.

`torch.where(m, w, t)` selects elementwise without counting. The result is assigned to the variable where no other code
holds its tensor, and copied into it otherwise, so that views, parameters and callers see the write as before. A number
(`t[m] = 0.0`) never waits: PyTorch fills it in under the mask. Where another line that stays waits for the same mask,
the rewrite is of low impact.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all, find_any
from perfmod.transforms.facts.value import Device, DType, Kind
from perfmod.transforms.finding import Family, Finding, Numerics, Safety, Status
from perfmod.transforms.rule import Rule
from perfmod.transforms.syncs._asked import why_asked
from perfmod.transforms.syncs._masked_statements import indexes_with, mask_of, why_waited_again, written
from perfmod.transforms.syncs._masked_writes import CannotWrite
from perfmod.transforms.writing import comments, replace


class MaskAssignmentFromDevice(Rule):
    code: ClassVar[str] = "PM102"
    name: ClassVar[str] = "mask-assignment-from-device"
    family: ClassVar[Family] = Family.SYNCS
    summary: ClassVar[str] = (
        "Assigning device values through a boolean mask makes the CPU wait for the number of selected elements"
    )
    fix_title: ClassVar[str] = "Select with torch.where"
    numerics: ClassVar[Numerics] = Numerics.BITWISE
    safety: ClassVar[Safety] = Safety.SAFE
    min_torch: ClassVar[str] = "1.2"
    status: ClassVar[Status] = Status.STABLE
    triggers: ClassVar[frozenset[str]] = frozenset({"torch"})
    references: ClassVar[tuple[str, ...]] = (
        "https://docs.pytorch.org/docs/stable/generated/torch.where.html",
        "https://docs.pytorch.org/docs/stable/generated/torch.Tensor.masked_fill_.html",
    )
    changes_results: ClassVar[str] = (
        "Never: values are selected, shifted by a constant or scaled by a number. Other functions are computed for all "
        "elements instead of the selected ones. Their values are the same, but an inf or NaN at an element that is not "
        "selected would make gradients NaN, so they are only rewritten where no gradient flows."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        for statement in find_any(file.source.module, cst.Assign, cst.AugAssign):
            if isinstance(statement, cst.Assign):
                targets = [target.target for target in statement.targets]
            elif isinstance(statement, cst.AugAssign):
                targets = [statement.target]
            else:
                continue
            for target in targets:
                if isinstance(target, cst.Subscript) and file.steps.reaches(statement):
                    yield from self._examine(file, statement, target)

    def _examine(
        self, file: FileFacts, statement: cst.Assign | cst.AugAssign, target: cst.Subscript
    ) -> Iterator[Finding]:
        mask = mask_of(file, target)
        subject = file.value(target.value)
        if mask is None or file.value(mask).device is Device.CPU or subject.device is Device.CPU:
            return
        if subject.kind is Kind.ARRAY or not _waits(file, statement, mask):
            return
        if file.value(mask).dtype is not DType.BOOL:
            return
        try:
            yield self._rewritten(file, statement, target, mask)
        except CannotWrite as reason:
            yield self.refused(file, statement, str(reason))

    def _rewritten(
        self,
        file: FileFacts,
        statement: cst.Assign | cst.AugAssign,
        target: cst.Subscript,
        mask: cst.BaseExpression,
    ) -> Finding:
        found = written(file, statement, target, mask)
        start, end = file.source.span(statement)
        lost = any(start <= at < end and text not in found.text for at, text in comments(file.source, statement))
        reason, safety = "torch.where selects the same values elementwise, without counting them", self.safety
        asked = why_asked(file, [(statement, mask)]) or why_waited_again(file, statement, mask)
        if lost:
            reason, safety = "a comment inside the statement would be lost", Safety.UNSAFE
        elif asked is not None:
            reason, safety = asked, Safety.LOW_IMPACT
        return self.found(
            file,
            statement,
            reason,
            [replace(file.source, statement, found.text)],
            safety=safety,
            imports=found.imports,
        )


def _waits(file: FileFacts, statement: cst.Assign | cst.AugAssign, mask: cst.BaseExpression) -> bool:
    """Whether the value may come from the device; `op=` gathers whatever its value is."""
    if isinstance(statement, cst.AugAssign):
        return True
    value = file.value(statement.value)
    if value.is_tensor:
        return not (value.rank == 0 and value.device is Device.CPU)
    return value.kind is Kind.UNKNOWN and _gathers(file, statement, mask)


def _gathers(file: FileFacts, statement: cst.Assign | cst.AugAssign, mask: cst.BaseExpression) -> bool:
    return any(indexes_with(file, node, mask) for node in find_all(statement.value, cst.Subscript))
