"""Predictions that are copied to the CPU in every step, only to be counted there.

`(pred.cpu() == target.cpu()).sum().item()` copies two whole tensors, waits for each of them, and compares them on the
CPU. The device can compare and count as well, and then only the count is copied:

    correct += (pred.cpu() == target.cpu()).sum().item()

    correct += (pred == target).sum().item()

Comparisons are exact, and so are counts: the value is the same. A mean is divided in another order of operations, and
may differ in its last digit.

Everything else that a step copies to the CPU is left as it is. What NumPy counts with
`(pred.cpu().numpy() == target.cpu().numpy()).mean()` is `(pred == target).double().mean()` on the device. To collect
predictions for a metric at the end of an epoch, keep `pred.detach()` in the list, and copy it once after the loop.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.finding import Family, Finding, Numerics, Safety, Status
from perfmod.transforms.rule import Rule
from perfmod.transforms.syncs._gain import why_no_gain
from perfmod.transforms.syncs._host_copies import counts_of
from perfmod.transforms.writing import replace


class ReadBack(Rule):
    """PM112."""

    code = "PM112"
    name = "read-back"
    family = Family.SYNCS
    summary = "A whole tensor is copied to the CPU in every step"
    fix_title = "Count on the device, and copy the count"
    numerics = Numerics.ROUNDING
    safety = Safety.SAFE
    min_torch = "1.0"
    status = Status.PREVIEW
    triggers = frozenset({"cpu", "numpy", "tolist"})
    references = ("https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",)
    changes_results = (
        "Counts are the same. Means of comparisons are divided on the device and may differ in the last digit."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        """One finding for every count."""
        for count in counts_of(file):
            edits = []
            for copy in count.copies:
                is_primary = isinstance(copy.tensor, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
                code = file.code(copy.tensor)
                edits.append(replace(file.source, copy.node, code if is_primary else f"({code})"))
            no_gain = why_no_gain(file, [copy.node for copy in count.copies])
            yield self.found(
                file,
                count.node,
                no_gain or "comparing and counting give the same result on the device",
                edits,
                safety=Safety.LOW_IMPACT if no_gain is not None else None,
                numerics=Numerics.ROUNDING if count.is_rounded else Numerics.BITWISE,
            )
