"""Predictions that are copied to the CPU in every step, only to be counted there.

`(pred.cpu() == target.cpu()).sum().item()` copies two whole tensors, waits for each of them, and compares them on the
CPU. The device can compare and count as well, and then only the count is copied:

    correct += (pred.cpu() == target.cpu()).sum().item()

    correct += (pred == target).sum().item()

Comparisons are exact, and so are counts: the value is the same. A mean is divided in another order of operations, and
may differ in its last digit.

Everything else that a step copies to the CPU is reported with what uses it there. What NumPy counts with
`(pred.cpu().numpy() == target.cpu().numpy()).mean()` is `(pred == target).double().mean()` on the device. To collect
predictions for a metric at the end of an epoch, keep `pred.detach()` in the list, and copy it once after the loop.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.rule import Family, Finding, Numerics, Rule, Safety, Status
from perfmod.transforms.syncs._conditions import shown
from perfmod.transforms.syncs._gain import why_no_gain
from perfmod.transforms.syncs._host_copies import Counts, HostCopy
from perfmod.transforms.writing import replace

_COLLECTS = frozenset({"append", "extend", "add", "update", "insert"})


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
        """One finding for every count, and refusals for all other copies of a step."""
        found = Counts.of(file)
        for copy, reason in found.refused.items():
            yield self.refused(file, copy.node, reason or _use(file, copy))
        for count in found.counts:
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


def _use(file: FileFacts, copy: HostCopy) -> str:
    """What the host does with a copy, in one line."""
    statement = file.tree.parent(copy.node)
    targets = [target.target for target in statement.targets] if isinstance(statement, cst.Assign) else []
    uses: list[cst.CSTNode] = [copy.node]
    if len(targets) == 1 and isinstance(targets[0], cst.Name):
        uses = [use for definition in file.flow.defined(targets[0]) for use in file.flow.uses(definition)]
        if not uses:
            return f"`{targets[0].value}` is never used: delete it"
    for use in uses:
        found = _one_use(file, use)
        if found is not None:
            return found
    return f"{shown(file, _whole(file, uses[0]))} on line {file.line(uses[0])} is computed with it on the CPU"


def _whole(file: FileFacts, node: cst.CSTNode) -> cst.CSTNode:
    """The largest expression that a node is a part of."""
    for ancestor in file.tree.ancestors(node):
        if isinstance(ancestor, cst.BaseExpression):
            node = ancestor
        elif not isinstance(
            ancestor, (cst.ComparisonTarget, cst.Arg, cst.BaseElement, cst.SubscriptElement, cst.Index)
        ):
            break
    return node


def _one_use(file: FileFacts, node: cst.CSTNode) -> str | None:
    child = node
    for ancestor in file.tree.ancestors(node):
        if isinstance(ancestor, cst.Call) and child is not ancestor.func:
            code, line = file.code(ancestor.func), file.line(ancestor)
            if isinstance(ancestor.func, cst.Attribute) and ancestor.func.attr.value in _COLLECTS:
                return f"`{code}` on line {line} collects it: collect tensors and copy them once after the loop"
            return f"it is passed to `{code}` on line {line}, which may need it on the CPU"
        if isinstance(ancestor, (cst.For, cst.CompFor)) and child is ancestor.iter:
            return f"the loop on line {file.line(ancestor)} iterates over it on the CPU"
        if isinstance(ancestor, cst.Return):
            return f"it is returned on line {file.line(ancestor)}, and callers may need it on the CPU"
        if isinstance(ancestor, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
            return None
        child = ancestor
    return None
