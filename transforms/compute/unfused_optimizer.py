"""Optimizers whose step is many kernels, where one would do.

`Adam`, `AdamW` and `SGD` have three implementations of the same formula: one that goes over the parameters, one that
makes each operation one kernel for a list of them (`foreach`, the default on CUDA), and one that does all operations in
one kernel (`fused`), which reads and writes every parameter, gradient and moment only once. Nobody gets the last one
without asking for it:

    optimizer = optim.Adam(model.parameters(), lr=lr)

    optimizer = optim.Adam(model.parameters(), lr=lr, fused=True)

The formula is computed in float32, in another order. On the CPU, fused implementations exist from PyTorch 2.4 on, so a
script that may run there as well needs that version. `Adagrad` has one for CUDA from 2.12 on.

Optimizers that are told how to compute (`foreach=`, `capturable=`, `differentiable=`), that get sparse gradients or
gradients that are set by hand, and classes that derive from these or are chosen by name stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.compute import _optimizers
from perfmod.transforms.facts.accelerators import other_device, shows_half_types, uses_accelerator
from perfmod.transforms.facts.calls import argument, has_star
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all, is_true
from perfmod.transforms.finding import Family, Finding, Numerics, Safety, Status
from perfmod.transforms.keywords import add_keyword
from perfmod.transforms.rule import Rule

_SETTINGS = ("foreach", "fused", "capturable", "differentiable")


class UnfusedOptimizer(Rule):
    code = "PM304"
    name = "unfused-optimizer"
    family = Family.COMPUTE
    summary = "The optimizer's step is many kernels, and one kernel could do all of it"
    fix_title = "Use the optimizer's fused implementation"
    numerics = Numerics.ROUNDING
    safety = Safety.OPT_IN
    min_torch = "2.4"
    status = Status.PREVIEW
    triggers = frozenset({"Adam", "AdamW", "SGD", "Adagrad", "optim"})
    references = (
        "https://docs.pytorch.org/docs/stable/optim.html",
        "https://docs.pytorch.org/docs/stable/generated/torch.optim.Adam.html",
    )
    changes_results = (
        "By rounding: the same formula in another order of operations. Parameters of half precision are updated in "
        "float32 before they are rounded, which differs by more. A checkpoint keeps the setting it was saved with: "
        "`load_state_dict` of an older one switches the optimizer back to the implementation that it had, and training "
        "goes on as before; a new checkpoint brings `fused=True` along."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        for call in find_all(file.tree.module, cst.Call):
            if _optimizers.is_chosen_by_name(file, call):
                yield self.refused(file, call, "the class is chosen by name, and not all have a fused implementation")
            made = _optimizers.fusible(file, call)
            if made is None or is_true(argument(call, "fused")):
                continue
            obstacle = _set_already(file, call) or _optimizers.obstacle(file, call)
            if obstacle:
                yield self.refused(file, call, obstacle)
            elif not uses_accelerator(file):
                yield self.refused(file, call, "nothing in sight is put on an accelerator")
            else:
                yield self._fused(file, call, made)

    def _fused(self, file: FileFacts, call: cst.Call, made: str) -> Finding:
        doubt = other_device(file)
        on_cuda = _optimizers.is_on_cuda(file, call)
        needed = _optimizers.VERSIONS[made][0 if on_cuda else 1]
        reason = "its parameters are on CUDA" if on_cuda else f"on the CPU, too, from PyTorch {needed} on"
        return self.found(
            file,
            call,
            doubt or f"{made} computes the same formula in one kernel; {reason}",
            add_keyword(file.source, call, "fused=True"),
            safety=Safety.UNSAFE if doubt else None,
            numerics=Numerics.PRECISION if shows_half_types(file) else None,
            min_torch=needed,
        )


def _set_already(file: FileFacts, call: cst.Call) -> str:
    """What an optimizer is told already that a fused implementation is not combined with; empty where nothing."""
    if has_star(call):
        return "its arguments are not written out, and may choose the implementation already"
    given = {name: argument(call, name) for name in _SETTINGS}
    name, value = next(((name, value) for name, value in given.items() if value is not None), ("", None))
    if value is not None:
        return f"`{name}={file.code(value)}` chooses the implementation already"
    rate = argument(call, "lr", 1)
    if rate is not None and file.value(rate).is_tensor:
        return f"the learning rate `{file.code(rate)}` is a tensor"
    return ""
