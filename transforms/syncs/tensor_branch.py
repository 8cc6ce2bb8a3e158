"""`if loss > limit:` makes the CPU wait: Python must know the value of a tensor on the device before it can go on, and
meanwhile nothing is queued.

Where the branch only selects a value, the device can select it: `loss = torch.where(loss > limit, loss * 0.5, loss)`.
Where it guards an assignment under a mask (`if bad.any(): x[bad] = 0`), the assignment changes nothing under an empty
mask, and the guard can be removed.

A branch that raises, returns, leaves a loop, prints or counts needs its answer in Python, and stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import ClassVar

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_any
from perfmod.transforms.rule import Family, Finding, Numerics, Rule, Safety, Status
from perfmod.transforms.syncs._asked import questions, why_asked
from perfmod.transforms.syncs._branches import Rewrite, chosen_by, rebinds_as_where
from perfmod.transforms.syncs._conditions import CannotSelect, shown, tests_device
from perfmod.transforms.syncs._guards import without_guard

_ASKS = frozenset(
    {"builtins.bool", "math.isnan", "math.isinf", "math.isfinite", "torch.equal", "torch.allclose", "torch.is_nonzero"}
)


class TensorBranch(Rule):
    """Branches that a tensor of the device decides."""

    code: ClassVar[str] = "PM105"
    name: ClassVar[str] = "tensor-branch"
    family: ClassVar[Family] = Family.SYNCS
    summary: ClassVar[str] = "The CPU waits for a value on the device to decide a branch"
    fix_title: ClassVar[str] = "Select the value on the device with torch.where"
    numerics: ClassVar[Numerics] = Numerics.BITWISE
    safety: ClassVar[Safety] = Safety.SAFE
    min_torch: ClassVar[str] = "1.12"
    status: ClassVar[Status] = Status.PREVIEW
    triggers: ClassVar[frozenset[str]] = frozenset({"if", "while", "assert"}) | {
        name.rpartition(".")[2] for name in _ASKS
    }
    references: ClassVar[tuple[str, ...]] = (
        "https://docs.pytorch.org/docs/stable/generated/torch.where.html",
        "https://docs.pytorch.org/docs/stable/generated/torch.cuda.set_sync_debug_mode.html",
    )
    changes_results: ClassVar[str] = (
        "Never for what is applied by default: both values have the same shape and dtype, evaluating the one that is "
        "not selected raises nothing and draws no random numbers, and its gradient is zero in the same tensors, none "
        "of which can become NaN by it. Open questions differ in which tensors share memory: where the branch is not "
        "taken, `where` copies a tensor that the caller passed in, and a write under an empty mask counts as a write "
        "for autograd. A printed tensor shows another `grad_fn`."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        """Every `if`, `while`, `assert` and conditional expression whose test waits in a step."""
        for node in find_any(file.tree.module, cst.If, cst.IfExp, cst.While, cst.Assert):
            if isinstance(node, cst.If) and not _is_elif(file, node) and _decides(file, node.test):
                yield self._attempt(file, node, partial(_without_branch, file, node))
            elif isinstance(node, cst.IfExp) and _decides(file, node.test):
                yield self._attempt(file, node, partial(chosen_by, file, node))
            elif isinstance(node, cst.While) and _decides(file, node.test):
                yield self.refused(file, node.test, "it is the condition of a `while` loop, which Python has to know")
            elif isinstance(node, cst.Assert) and _decides(file, node.test):
                yield self.refused(file, node.test, "it is an assertion, which needs the value in Python")
        for answer, tensor in _answers(file):
            if file.steps.runs_every_step(answer) and not _is_tested(file, answer):
                reason = f"{shown(file, tensor)} is needed as a Python bool"
                yield self.refused(file, answer, reason)

    def _attempt(self, file: FileFacts, node: cst.If | cst.IfExp, rewrite: Callable[[], Rewrite]) -> Finding:
        try:
            found = rewrite()
        except CannotSelect as reason:
            return self.refused(file, node.test, str(reason))
        masks = questions(file, node.test) if found.safety is Safety.SAFE else ()
        asked = why_asked(file, ((node, mask) for mask in masks))
        safety = Safety.LOW_IMPACT if asked is not None else found.safety
        return self.found(file, node.test, asked or found.reason, found.edits, safety=safety, imports=found.imports)


def _without_branch(file: FileFacts, node: cst.If) -> Rewrite:
    return without_guard(file, node) or rebinds_as_where(file, node)


def _is_elif(file: FileFacts, node: cst.If) -> bool:
    parent = file.tree.parent(node)
    return isinstance(parent, cst.If) and parent.orelse is node


def _answers(file: FileFacts) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """What gives Python a truth about a tensor of the device, and that tensor: `bool(t)`, `math.isnan(t)`, `1 in t`."""
    for node in find_any(file.tree.module, cst.Call, cst.Comparison):
        tensor: cst.BaseExpression | None = None
        if isinstance(node, cst.Comparison) and isinstance(node.comparisons[-1].operator, (cst.In, cst.NotIn)):
            tensor = node.comparisons[-1].comparator
        elif isinstance(node, cst.Call) and node.args:
            is_method = file.qualified(node) is None and isinstance(node.func, cst.Attribute)
            if isinstance(node.func, cst.Attribute) and is_method and node.func.attr.value in ("equal", "allclose"):
                tensor = node.func.value
            elif file.qualified(node) in _ASKS:
                tensor = node.args[0].value
        if isinstance(node, cst.BaseExpression) and tensor is not None and tests_device(file, tensor):
            yield node, tensor


def _is_tested(file: FileFacts, answer: cst.CSTNode) -> bool:
    """Whether an answer is a part of a test that is reported as a whole."""
    for ancestor in file.tree.ancestors(answer):
        if isinstance(ancestor, (cst.If, cst.IfExp, cst.While, cst.Assert)):
            return file.tree.is_within(answer, ancestor.test) and tests_device(file, ancestor.test)
        if isinstance(ancestor, cst.BaseStatement):
            return False
    return False


def _decides(file: FileFacts, test: cst.BaseExpression) -> bool:
    """Whether a step waits at `test` every time."""
    return tests_device(file, test) and file.steps.runs_every_step(test)
