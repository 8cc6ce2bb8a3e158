"""Numbers that are made into tensors on the CPU and copied to the device in every step.

`torch.tensor(0.5, device=device)` builds a tensor on the CPU, copies it, and waits for the copy: the CPU cannot run
ahead of the GPU. So do `torch.tensor(0.5).to(device)` and `torch.FloatTensor([0.5]).cuda()`. A kernel that fills a
tensor needs no copy:

    loss = torch.tensor(0.0, device=device)                   loss = torch.zeros((), device=device)
    weight = torch.FloatTensor([2.0]).to(device)              weight = torch.full((1,), 2.0, device=device)
    start = torch.Tensor([0]).cuda()[0]                       start = torch.zeros((), device="cuda")

Values, dtype and shape are the same, and the tensor is a new one in every step as before. A list of different numbers
cannot be filled; it is created once before the loop, if nothing modifies, keeps or trains the tensor and its device
is already known there. Where the value is read back in the same step, the CPU waits anyway, and nothing is gained. A
constant inside an expression needs no tensor at all: `math.sqrt(0.5)` instead of the `sqrt` of a tensor that holds 0.5,
`x.clamp(min=1e-7)` instead of `torch.max`, `total / 8` instead of a division by a tensor, `x[mask] = 0.1` instead of a
write of a tensor. There, in a list that is repeated, and inside a `Variable`, the rewrite is of low impact.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.endings import ends_step
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.rounds import in_evaluation
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.unread import unread
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.finding import Family, Finding, Numerics, Safety, Status
from perfmod.transforms.questions import Predicate
from perfmod.transforms.rule import Rule, question
from perfmod.transforms.syncs._around import in_every_step
from perfmod.transforms.syncs._better_numbers import better_line
from perfmod.transforms.syncs._filling import (
    constant_of,
    filled,
    filling,
    is_constant_list,
    may_be_of_numpy,
    why_no_constant,
    with_element,
)
from perfmod.transforms.syncs._hoisting import hoisted
from perfmod.transforms.syncs._made_on_device import Made, NotFollowed, made_on_device

_READ_BACK = frozenset({"item", "tolist", "cpu", "numpy"})


class DeviceConstantInStep(Rule):
    """PM108."""

    code = "PM108"
    name = "device-constant-in-step"
    family = Family.SYNCS
    summary = "A constant is built on the CPU and copied to the device in every step"
    fix_title = "Create it on the device, or once before the loop"
    numerics = Numerics.BITWISE
    safety = Safety.SAFE
    min_torch = "1.8"
    status = Status.PREVIEW
    triggers = frozenset({"tensor", "as_tensor", "Tensor", "FloatTensor", "LongTensor", "new_tensor", "DoubleTensor",
                          "HalfTensor", "IntTensor", "BoolTensor", "ByteTensor", "Normalize", "normalize"})  # fmt: skip
    references = ("https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",)
    changes_results = (
        "Never: values, dtype and shape are the same. A Python number whose value is not visible in the code may be "
        "outside of the range of float32: `torch.tensor` turns it into infinity, and `torch.full` raises."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        """Every tensor that a step makes of numbers, filled, hoisted, or refused."""
        for call, made in made_on_device(file):
            if not _is_in_step(file, call):
                continue
            if isinstance(made, str):
                yield self.refused(file, call, made)
                continue
            value = file.value(made.data)
            if not (value.is_tensor or value.kind is Kind.ARRAY or value.origin is not None):
                yield self._examined(file, made)

    def _examined(self, file: FileFacts, made: Made) -> Finding:
        found = filling(file, made.data)
        imports: tuple[str, ...] = ()
        unseen: list[cst.Call] = []
        try:
            if found is not None and may_be_of_numpy(file, made, found[1]):
                reason = f"`{file.code(found[1])}` may be a NumPy number, which has a dtype of its own: pass `dtype=`"
                return self.refused(file, made.node, reason)
            if found is not None:
                made = with_element(file, made, found[0])
                edits, imports = filled(file, made, *found)
                reason = "created on the device, so nothing is copied and nothing waits"
            elif constant_of(file, made.data) is None and not is_constant_list(file, made.data):
                return self.refused(file, made.node, why_no_constant(file, made.data))
            elif made.is_trained:
                return self.refused(file, made.node, "it requires a gradient, so each step needs a new one")
            else:
                edits, unseen = hoisted(file, made.node)
                reason = "the numbers never change, and nothing modifies the tensor"
        except NotFollowed as refusal:
            return self.refused(file, made.node, str(refusal))
        if (name := unread(file, made.node)) is not None:
            return self.refused(file, made.node, f"`{name}` is never used: delete it")
        better = _why_no_gain(file, made.node) or better_line(file, made, found[1] if found is not None else None)
        asked = [question(file, Predicate.LEAVES_ARGUMENTS, call) for call in unseen]
        is_open = bool(asked) and not file.policy.answers(asked)
        safety = Safety.UNSAFE if is_open else Safety.LOW_IMPACT if better else None
        reason = file.callees.of(unseen[0]).basis if is_open else better or reason
        return self.found(file, made.node, reason, edits, safety=safety, imports=imports, questions=asked)


def _is_in_step(file: FileFacts, call: cst.Call) -> bool:
    is_of_step = file.steps.in_sight(call) or file.steps.in_forward(call) or in_evaluation(file, call)
    return (is_of_step and in_every_step(file, call)) or file.steps.may_run(call)


def _why_no_gain(file: FileFacts, made: cst.Call) -> str:
    """Why a step would wait as often without the copy; empty where it would not."""
    around = file.tree.ancestors(made)
    choice = next((node for node in around if isinstance(node, (cst.If, cst.IfExp, cst.FunctionDef))), None)
    if isinstance(choice, cst.IfExp) or (ends_step(file, made) and not _is_made_again(file, made)):
        assert choice is not None
        return f"it runs only under the `if` on line {file.line(choice)}, not in every step"
    for use in file.handing.uses(made):
        for ancestor in file.tree.ancestors(use.node):
            if isinstance(ancestor, cst.Attribute) and ancestor.attr.value in _READ_BACK:
                return f"its value is read back on line {file.line(ancestor)}, which waits for the device anyway"
            if not isinstance(ancestor, (cst.BaseExpression, cst.Arg)):
                break
    return ""


def _is_made_again(file: FileFacts, made: cst.Call) -> bool:
    """Whether a tensor is returned early that the rest of the function makes in the same words: both are filled."""
    function = file.tree.function(made)
    if function is None or not isinstance(file.tree.parent(made), cst.Return):
        return False
    others = (call for call in find_all(function, cst.Call) if call is not made and file.code(call) == file.code(made))
    return any(not ends_step(file, call) and not _why_no_gain(file, call) for call in others)
