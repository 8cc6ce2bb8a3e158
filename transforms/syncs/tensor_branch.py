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
from perfmod.transforms.finding import Family, Finding, Numerics, Safety, Status
from perfmod.transforms.rule import Rule
from perfmod.transforms.syncs._asked import questions, why_asked
from perfmod.transforms.syncs._branches import Rewrite, chosen_by, rebinds_as_where
from perfmod.transforms.syncs._conditions import CannotSelect, tests_device
from perfmod.transforms.syncs._guards import without_guard


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
    triggers: ClassVar[frozenset[str]] = frozenset({"if"})
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
        """Every `if` and conditional expression whose test waits in a step."""
        for node in find_any(file.tree.module, cst.If, cst.IfExp):
            if isinstance(node, cst.If) and not _is_elif(file, node) and _decides(file, node.test):
                yield self._attempt(file, node, partial(_without_branch, file, node))
            elif isinstance(node, cst.IfExp) and _decides(file, node.test):
                yield self._attempt(file, node, partial(chosen_by, file, node))

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


def _decides(file: FileFacts, test: cst.BaseExpression) -> bool:
    """Whether a step waits at `test` every time."""
    return tests_device(file, test) and file.steps.runs_every_step(test)
