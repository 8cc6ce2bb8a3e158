"""A tensor that is filled on the CPU, only to be copied to the device.

`torch.zeros(n).to(device)` fills memory of the host, copies it, and the host waits for the copy. With `device=` a
kernel fills the tensor where it is needed, and nothing is copied:

    hidden = torch.zeros(layers, batch, size).to(device)
    hidden = torch.zeros(layers, batch, size, device=device)

    mask = torch.triu(torch.ones(n, n), diagonal=1).bool().cuda()
    mask = torch.triu(torch.ones(n, n, device="cuda"), diagonal=1).bool()

What stands between the two is done on the device too, as long as it gives the same bits there: views, masks of
triangles, casts of zeros and ones. Random fills (`torch.rand`, `torch.randn`, `torch.randint`) draw from the device's
stream instead of the host's, so they are other draws of the same distribution: they are rewritten only when the rule is
selected by its code or name.

Only code that training steps or forward passes run is rewritten; at the start of a program one copy does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.value import DType, Kind
from perfmod.transforms.feeding._births import Birth, Target, born, target
from perfmod.transforms.keywords import add_keyword
from perfmod.transforms.rule import Edit, Family, Finding, Numerics, Rule, Safety, Status

_ROUNDED = frozenset({"arange", "linspace", "logspace"})
_CONSTANT = frozenset({"zeros", "ones", "empty", "eye"})


class CpuBornTensor(Rule):
    """PM206."""

    code = "PM206"
    name = "cpu-born-tensor"
    family = Family.FEEDING
    summary = "a tensor is filled on the host and then copied to the device"
    fix_title = "Fill it on the device"
    numerics = Numerics.BITWISE
    safety = Safety.SAFE
    min_torch = "1.0"
    status = Status.PREVIEW
    triggers = frozenset(
        {
            "zeros",
            "ones",
            "full",
            "empty",
            "arange",
            "eye",
            "linspace",
            "logspace",
            "rand",
            "randn",
            "randint",
            "randperm",
            "normal",
        }
    )
    references = (
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#create-tensors-directly-on-the-target-device",
    )
    changes_results = (
        "Never for what is safe. Sequences of numbers that are no integers (`arange` with a fractional step, "
        "`linspace`) may differ in the last bit between host and device and are held back as unsafe, of the class "
        "rounding. Random fills are other draws and are opt-in, of the class sampling."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        """Every tensor that a step makes on the host and moves."""
        for call in _moves(file):
            birth = born(file, call)
            if birth is None or not file.steps.reaches(call):
                continue
            where = target(file, call)
            if where is None:
                continue
            reason = birth.refusal or where.refusal
            if reason:
                yield self.refused(file, call, reason)
            else:
                yield self._finding(file, call, birth, where)

    def _finding(self, file: FileFacts, call: cst.Call, birth: Birth, where: Target) -> Finding:
        safety, numerics = Safety.SAFE, Numerics.BITWISE
        reason = "the same values, type and shape, filled where they are used"
        if birth.is_random:
            safety, numerics = Safety.OPT_IN, Numerics.SAMPLING
            reason = "other random draws: from the device's stream instead of the host's"
        elif birth.name in _ROUNDED and not _is_integer(file, birth.call):
            safety, numerics = Safety.UNSAFE, Numerics.ROUNDING
            reason = "the device may round the last bit of these numbers differently"
        return self.found(file, call, reason, self._edits(file, call, birth, where), safety=safety, numerics=numerics)

    def _edits(self, file: FileFacts, call: cst.Call, birth: Birth, where: Target) -> tuple[Edit, ...]:
        assert isinstance(call.func, cst.Attribute)
        source = file.source
        end = source.span(call)[1]
        dot = source.text.rindex(".", 0, source.span(call.func.attr)[0])
        # A dot on a line of its own goes with its line.
        start = len(source.text[:dot].rstrip()) if not source.text[source.line_start(dot) : dot].strip() else dot
        text, behind = f"device={where.device}", ""
        if where.dtype is not None:
            dtype = file.code(where.dtype)
            # Zeros and ones are the same in every type; other values are cast as before.
            plain = birth.name in _CONSTANT and call.func.value is birth.call and argument(birth.call, "dtype") is None
            text, behind = (f"dtype={dtype}, {text}", "") if plain else (text, f".to({dtype})")
        return (*add_keyword(source, birth.call, text, wrap=False), Edit(start, end, behind))


def _moves(file: FileFacts) -> Iterator[cst.Call]:
    for call in file.tree.all(cst.Call):
        if file.is_own(call) and isinstance(call.func, cst.Attribute) and call.func.attr.value in ("to", "cuda"):
            yield call


def _is_integer(file: FileFacts, call: cst.Call) -> bool:
    """Whether a sequence begins with an integer and counts in integers, which are exact on either device."""
    if (file.qualified(call) or "").rpartition(".")[2] != "arange" or any(arg.star for arg in call.args):
        return False
    by_position = [arg.value for arg in call.args if arg.keyword is None]
    start = argument(call, "start") or (by_position[0] if len(by_position) > 1 else None)
    step = argument(call, "step") or (by_position[2] if len(by_position) > 2 else None)
    return all(number is None or isinstance(number, cst.Integer) or _is_count(file, number) for number in (start, step))


def _is_count(file: FileFacts, node: cst.BaseExpression) -> bool:
    value = file.value(node)
    return value.kind is Kind.NUMBER and value.dtype is DType.INTEGER
