"""An optimizer that launches a kernel, or several, for each group of operations of its formula.

`Adam` and `SGD` update all parameters with a dozen kernels a step, each of which reads and writes every parameter and
moment. Their fused form computes the whole formula in one kernel for many tensors at once:

    optimizer = optim.Adam(model.parameters(), lr=args.lr)
    # becomes
    optimizer = optim.Adam(model.parameters(), lr=args.lr, fused=True)

The formula is the same, in float32 and in another order of operations. With float16 and a GradScaler the fused form
also reads on the device whether a gradient is infinite, so that no step waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import libcst as cst

from perfmod.transforms.compute._device_switches import sparse_gradients
from perfmod.transforms.facts.accelerators import uses_accelerator
from perfmod.transforms.facts.calls import has_star
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.finding import Family, Finding, Numerics, Safety, Status
from perfmod.transforms.keywords import add_keyword
from perfmod.transforms.rule import Rule

_FUSED_SINCE: Mapping[str, str] = {"Adam": "2.0.1", "AdamW": "2.0.1", "SGD": "2.3", "Adagrad": "2.4"}
"""Torch versions by optimizer; what runs on the CPU as well needs 2.4 for Adam, AdamW and SGD."""
_EXCLUSIVE: Mapping[str, str] = {
    "fused": "the script chooses for itself",
    "foreach": "foreach and fused exclude each other",
    "differentiable": "a differentiable optimizer has no fused form",
}


class UnfusedOptimizer(Rule):
    code = "PM304"
    name = "unfused-optimizer"
    family = Family.COMPUTE
    summary = "The optimizer launches many kernels a step for what one can compute"
    fix_title = "Use the fused form of the optimizer"
    numerics = Numerics.ROUNDING
    safety = Safety.OPT_IN
    min_torch = "2.0.1"
    status = Status.PREVIEW
    triggers = frozenset(_FUSED_SINCE)
    references = (
        "https://docs.pytorch.org/docs/stable/optim.html",
        "https://docs.pytorch.org/docs/stable/generated/torch.optim.AdamW.html",
    )
    changes_results = (
        "By rounding: the same formula in another order of operations. On the CPU, torch has fused forms from 2.4 on, "
        "and raises before. A checkpoint of the state loads either way; one written before the rewrite also brings "
        "back its setting, so that the training goes on unfused."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        for call in find_all(file.tree.module, cst.Call):
            kind = _kind(file, call)
            if kind is None or not uses_accelerator(file):
                continue
            reason = _why_not(file, call)
            if reason:
                yield self.refused(file, call, reason)
                continue
            edits = add_keyword(file.source, call, "fused=True")
            yield self.found(file, call, "the same formula, in one kernel", edits, min_torch=_FUSED_SINCE[kind])


def _kind(file: FileFacts, call: cst.Call) -> str | None:
    """The name of the optimizer that a call makes; None for all that have no fused form."""
    name = file.qualified(call) or ""
    module, _, kind = name.rpartition(".")
    return kind if module.startswith("torch.optim") and kind in _FUSED_SINCE else None


def _why_not(file: FileFacts, call: cst.Call) -> str:
    """Why an optimizer stays as it is, in one line; empty where it need not."""
    if has_star(call):
        return "what `**` passes may choose a form already"
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value in _EXCLUSIVE:
            return f"`{file.code(arg)}` is given: {_EXCLUSIVE[arg.keyword.value]}"
    sparse = sparse_gradients(file)
    return f"line {file.line(sparse)} makes sparse gradients, which fused optimizers refuse" if sparse else ""
