"""Predictions that are copied to the host in every step, to be counted there.

`(pred.cpu() == target.cpu()).sum().item()` copies two whole tensors, waits for each of them, and compares them on
one processor core. The device can compare and count as well, and only the count comes over:

    correct += (pred.cpu() == target.cpu()).sum().item()

    correct += (pred == target).sum().item()

Comparisons are exact, and so are counts: the figure is the same. A mean is divided in another order of operations, and
may differ in its last digit. NumPy's `(pred.cpu().numpy() == target.cpu().numpy()).mean()` gives a number of NumPy's,
which prints and divides in its own way, so that this rewrite is only made with `--unsafe`.

The copies may wait in variables, where nothing but the comparison reads them. Whatever else a step copies to the host
is reported with what is done with it there. To collect predictions for a metric at the end of an epoch, keep
`pred.detach()` in the list, and bring the list over once behind the loop.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.endings import ends_step
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.rule import Family, Finding, Numerics, Rule, Safety, Status
from perfmod.transforms.syncs._around import in_every_step
from perfmod.transforms.syncs._conditions import shown
from perfmod.transforms.syncs._device_metrics import Metric, metric_of, on_device
from perfmod.transforms.syncs._host_copies import HostCopy, host_copies, variable_of

_COLLECTS = frozenset({"append", "extend", "add", "update", "insert"})


class ReadBack(Rule):
    """PM112."""

    code = "PM112"
    name = "read-back"
    family = Family.SYNCS
    summary = "Whole tensors are copied to the host in every step, to be counted there"
    fix_title = "Count on the device, and copy the count"
    numerics = Numerics.ROUNDING
    safety = Safety.SAFE
    min_torch = "1.0"
    status = Status.PREVIEW
    triggers = frozenset({"cpu", "numpy", "tolist"})
    references = ("https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",)
    changes_results = (
        "Counts are the same. Means of comparisons are divided on the device, and may differ in the last digit. Where "
        "NumPy counted, a number of Python takes the place of one of NumPy's; that is held back as unsafe."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        """One finding for every metric, and refusals for all other copies of a step."""
        metrics: dict[cst.CSTNode, Metric] = {}
        for copy in host_copies(file):
            if not in_every_step(file, copy.node) or ends_step(file, copy.node):
                continue
            metric = metric_of(file, copy)
            if isinstance(metric, Metric):
                metrics.setdefault(metric.comparison, metric)
            else:
                yield self.refused(file, copy.node, metric or _use(file, copy))
        for metric in metrics.values():
            edits = on_device(file, metric)
            if not edits or "#" in file.code(metric.node):
                reason = "a comment stands inside of it" if edits else "NumPy compares it in a way that is not followed"
                yield self.refused(file, metric.node, reason)
                continue
            reason = "comparing and counting give the same on the device"
            unlike = "a number of Python comes out, where NumPy gave one of its own"
            yield self.found(
                file,
                metric.node,
                unlike if metric.is_numpy else reason,
                edits,
                safety=Safety.UNSAFE if metric.is_numpy else None,
                numerics=metric.numerics,
            )


def _use(file: FileFacts, copy: HostCopy) -> str:
    """What the host does with a copy, in one line."""
    definition = variable_of(file, copy.node)
    uses: list[cst.CSTNode] = [copy.node]
    if definition is not None:
        uses = list(file.flow.uses(definition))
        if not uses:
            return f"`{definition.name}` is not used in what is in sight"
    for use in uses:
        found = _one_use(file, use)
        if found is not None:
            return found
    return f"the host computes {shown(file, _whole(file, uses[0]))} with it on line {file.line(uses[0])}"


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
                return f"`{code}` on line {line} collects it: collect tensors, and copy them once behind the loop"
            return f"`{code}` on line {line} is given it on the host"
        if isinstance(ancestor, (cst.For, cst.CompFor)) and child is ancestor.iter:
            return f"the loop on line {file.line(ancestor)} goes over it on the host"
        if isinstance(ancestor, cst.Return):
            return f"it is returned on line {file.line(ancestor)}"
        if isinstance(ancestor, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
            return None
        child = ancestor
    return None
