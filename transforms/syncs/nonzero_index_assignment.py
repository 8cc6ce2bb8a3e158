"""An index made by `nonzero` makes the CPU wait: it must know the number of elements before it goes on.

Where the index only selects which elements are written, the condition itself can do that:

    void = torch.nonzero(labels == 0, as_tuple=True)          void = labels == 0
    labels[void] = 255                                        labels[void] = 255

PyTorch fills a number in under a boolean mask without waiting. The mask is created in the same place, so that it sees
the same values. A value from the device (`t[i] = w[i]`, `t[i] += 1`) would be gathered under the mask as well; there,
`torch.where(mask, w, t)` computes the result for all elements and selects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Device, Kind
from perfmod.transforms.finding import Family, Finding, Numerics, Safety, Status
from perfmod.transforms.rule import Rule
from perfmod.transforms.syncs._asked import why_asked
from perfmod.transforms.syncs._mask_for_index import MaskForIndex
from perfmod.transforms.syncs._masked_statements import why_waited_again
from perfmod.transforms.syncs._masked_writes import CannotWrite
from perfmod.transforms.syncs._nonzero import Bound, NonzeroIndex, Write, bound, nonzero_index, writes


class NonzeroIndexAssignment(Rule):
    code: ClassVar[str] = "PM101"
    name: ClassVar[str] = "nonzero-index-assignment"
    family: ClassVar[Family] = Family.SYNCS
    summary: ClassVar[str] = "Turning a mask into indices with nonzero makes the CPU wait for the number of elements"
    fix_title: ClassVar[str] = "Assign through the mask itself"
    numerics: ClassVar[Numerics] = Numerics.BITWISE
    safety: ClassVar[Safety] = Safety.SAFE
    min_torch: ClassVar[str] = "1.2"
    status: ClassVar[Status] = Status.STABLE
    triggers: ClassVar[frozenset[str]] = frozenset({"nonzero", "where", "argwhere"})
    references: ClassVar[tuple[str, ...]] = (
        "https://docs.pytorch.org/docs/stable/generated/torch.nonzero.html",
        "https://docs.pytorch.org/docs/stable/generated/torch.where.html",
    )
    changes_results: ClassVar[str] = (
        "Never where the condition is known to have the shape of the tensor it indexes. An index only has to stay "
        "inside the tensor, while a mask has to match its shape: elsewhere it is an open question, because a shorter "
        "condition raises an IndexError as a mask."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        for call in find_all(file.source.module, cst.Call):
            index = nonzero_index(file, call)
            if index is None or not file.steps.reaches(call):
                continue
            condition = file.value(index.condition)
            if condition.kind is Kind.ARRAY or condition.device is Device.CPU:
                continue
            names = bound(file, index)
            found = writes(file, names.uses if names is not None else (index.node,))
            targets = [file.value(write.target.value) for write in found]
            if not found or any(t.kind is Kind.ARRAY or t.device is Device.CPU for t in targets):
                continue
            try:
                yield self._rewritten(file, index, names, found)
            except CannotWrite as reason:
                yield self.refused(file, index.node, str(reason))

    def _rewritten(self, file: FileFacts, index: NonzeroIndex, names: Bound | None, found: Sequence[Write]) -> Finding:
        for use in names.uses if names is not None else ():
            is_deleted = isinstance(file.tree.parent(use), cst.Del)
            if not is_deleted and not any(file.tree.is_within(use, write.statement) for write in found):
                raise CannotWrite(f"the index is used again on line {file.line(use)}")
        rewriting = MaskForIndex(file, index, names)
        for write in found:
            rewriting.write(write)
        if names is not None:
            rewriting.bind(names, found)
        doubt, asked = rewriting.doubt, why_asked(file, [(index.node, index.condition)])
        asked = asked or why_waited_again(file, index.node, index.condition)
        return self.found(
            file,
            index.node,
            doubt or asked or "the index is only used in assignments, and the mask selects the same elements",
            rewriting.edits,
            safety=Safety.UNSAFE if doubt else Safety.LOW_IMPACT if asked else None,
            imports=dict.fromkeys(rewriting.imports),
        )
