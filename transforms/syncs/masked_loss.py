"""A loss over `logits[mask]` and `target[mask]` makes the host wait: the device must count the mask before it can say how large
the selection is, and nothing more is queued until the host has that number.

The loss does not need the selection. A class-index loss (cross entropy, NLL) skips targets that hold its `ignore_index`, so the
mask moves into the target: `torch.where(mask, target, ignore_index)`. An element-wise loss is computed over everything, with both
sides cleaned where the mask is false, and divided by the mask's count. Where the mask is the same in every step, as
`data.train_mask` of a full-batch graph, its index is computed once, in front of the loop, and the selection stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import argument, has_star
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.ranks import positional
from perfmod.transforms.facts.torch_api import LOSS_FUNCTIONS, LOSS_MODULES
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.values import Device, DType
from perfmod.transforms.rule import Edit, Family, Finding, Numerics, Rule, Safety, Status
from perfmod.transforms.syncs._constant_masks import ConstantMask, constant_mask, hoisted
from perfmod.transforms.syncs._gathers import (
    Gather,
    Shared,
    gather,
    is_mask,
    is_mask_name,
    postfix,
    same_mask,
    selects_all_of,
)
from perfmod.transforms.syncs._logits import class_second, is_raw_output
from perfmod.transforms.writing import delete_statement

_FUNCTION_OF_MODULE = {
    "torch.nn.CrossEntropyLoss": "cross_entropy",
    "torch.nn.NLLLoss": "nll_loss",
    "torch.nn.MSELoss": "mse_loss",
    "torch.nn.L1Loss": "l1_loss",
    "torch.nn.SmoothL1Loss": "smooth_l1_loss",
    "torch.nn.HuberLoss": "huber_loss",
    "torch.nn.BCELoss": "binary_cross_entropy",
    "torch.nn.BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
}
_CLASS_INDEX = frozenset({"cross_entropy", "nll_loss"})
_ZERO_AT_ZERO = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy"})
_ELEMENTWISE = _ZERO_AT_ZERO | {"binary_cross_entropy_with_logits"}
_KNOWN_OPTIONS = {
    "cross_entropy": {"weight", "ignore_index", "reduction"},
    "nll_loss": {"weight", "ignore_index", "reduction"},
    "smooth_l1_loss": {"beta", "reduction"},
    "huber_loss": {"delta", "reduction"},
}


@frozen
class _Loss:
    """A call of a loss: its function's short name, its options, and the module's constructor where it is a module."""

    short: str
    options: dict[str, cst.BaseExpression]
    is_module: bool

    @property
    def reduction(self) -> str | None:
        """`mean` or `sum`; `None` for anything else."""
        given = self.options.get("reduction")
        if given is None:
            return "mean"
        text = given.evaluated_value if isinstance(given, cst.SimpleString) else None
        return text if text in ("mean", "sum") else None


class _Refused(Exception):
    """A masked loss that stays as it is, with the reason."""


class MaskedLoss(Rule):
    code: ClassVar[str] = "PM104"
    name: ClassVar[str] = "masked-loss"
    family: ClassVar[Family] = Family.SYNCS
    summary: ClassVar[str] = "a loss over a boolean selection makes the host wait for the mask's count"
    fix_title: ClassVar[str] = "Mask inside the loss instead of selecting"
    numerics: ClassVar[Numerics] = Numerics.ROUNDING
    safety: ClassVar[Safety] = Safety.SAFE
    min_torch: ClassVar[str] = "1.12"
    status: ClassVar[Status] = Status.STABLE
    triggers: ClassVar[frozenset[str]] = frozenset(
        {name for name in LOSS_FUNCTIONS} | {n.rpartition(".")[2] for n in LOSS_MODULES}
    )
    references: ClassVar[tuple[str, ...]] = (
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html",
        "https://docs.pytorch.org/docs/stable/generated/torch.where.html",
    )
    changes_results: ClassVar[str] = (
        "The sum runs over all elements instead of the selected ones, in another order, so losses and gradients move within the "
        "rounding of their type; a hoisted index changes nothing. Logits that come straight from a layer are passed on unselected: "
        "if such a layer puts out inf or NaN at a masked position, its gradient there becomes NaN where it was zero. Logits of any "
        "other source are cleaned first, so that theirs stay zero."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        for call in find_all(file.source.module, cst.Call):
            try:
                yield from self._reduction(file, call)
            except _Refused as refused:
                yield self.refused(file, call, str(refused))
            loss = _loss(file, call)
            if loss is None or len(call.args) < 2 or not file.steps.reaches(call):
                continue
            sides = (argument(call, "input", 0), argument(call, "target", 1))
            if sides[0] is None or sides[1] is None:
                continue
            found = gather(file, sides[0]), gather(file, sides[1])
            if found == (None, None):
                continue
            try:
                yield self._rewritten(file, call, loss, *found)
            except _Refused as refused:
                yield self.refused(file, call, str(refused))

    def _reduction(self, file: FileFacts, call: cst.Call) -> Iterator[Finding]:
        """`losses[mask].mean()` and `.sum()`: the same over everything, with the rest set to zero."""
        found = _reduced(file, call)
        if found is None or not file.steps.reaches(call):
            return
        side, short = found
        if isinstance(side, Shared):
            yield self.refused(
                file, call, f"`{side.name}`, the selected elements, is used again on line {side.line}"
            )
            return
        constant = constant_mask(file, side.mask)
        if constant is not None:
            yield self._hoisted(file, call, constant)
        elif side.by_rows:
            yield self.refused(file, call, "the mask selects rows of several elements")
        elif file.values.uses_half():
            yield self.refused(file, call, "a sum in half precision may overflow where the mean does not")
        else:
            torch, imports = file.names.spelled("torch", call)
            mask = file.source.code(side.mask)
            text = f"{torch}.where({mask}, {postfix(file, side.base)}{side.casts}, 0)"
            edits = list(self._replaced(file, side, text)) if side.statements else []
            whole = f"{file.source.code(_subject(call))}.sum()" if side.statements else f"{text}.sum()"
            if short == "mean":
                whole += f" / {postfix(file, side.mask)}.sum()"
                if isinstance(
                    file.tree.parent(call), (cst.BinaryOperation, cst.UnaryOperation, cst.Attribute)
                ):
                    whole = f"({whole})"
            edits.append(Edit(*file.source.span(call), whole))
            yield self._judged(
                file, call, side, edits, "what the mask leaves out is zero in the sum", imports
            )

    def _rewritten(
        self,
        file: FileFacts,
        call: cst.Call,
        loss: _Loss,
        logits: Gather | Shared | None,
        target: Gather | Shared | None,
    ) -> Finding:
        gathers = [side for side in (logits, target) if isinstance(side, Gather)]
        on_cpu = any(file.value(side.mask).device is Device.CPU for side in gathers)
        if on_cpu:
            raise _Refused(
                "the mask lives on the CPU, so that selecting with it is another matter than a wait in the step"
            )
        constants = [found for side in gathers if (found := constant_mask(file, side.mask)) is not None]
        if gathers and len(constants) == len(gathers):
            return self._hoisted(file, call, constants[0])
        for side in (logits, target):
            if isinstance(side, Shared):
                raise _Refused(f"`{side.name}`, the selected elements, is used again on line {side.line}")
        if not isinstance(logits, Gather) or not isinstance(target, Gather):
            missing = "input" if not isinstance(logits, Gather) else "target"
            raise _Refused(
                f"the {missing} is not selected with the same mask here, so its selection cannot be undone"
            )
        if not same_mask(file, logits.mask, target.mask):
            raise _Refused(
                "input and target are selected with different masks, or the mask is written to in between"
            )
        if loss.short not in _CLASS_INDEX | _ELEMENTWISE:
            raise _Refused(f"{loss.short} has no masked form that is known to be equal")
        if loss.reduction is None:
            raise _Refused("without a reduction the result keeps the length of the selection")
        unknown = set(loss.options) - _KNOWN_OPTIONS.get(loss.short, {"reduction"})
        if unknown:
            raise _Refused(f"`{min(unknown)}=` may weigh masked elements differently")
        if loss.short in _CLASS_INDEX:
            return self._ignoring(file, call, loss, logits, target)
        return self._cleaned(file, call, loss, logits, target)

    def _hoisted(self, file: FileFacts, call: cst.Call, mask: ConstantMask) -> Finding:
        edits, name = hoisted(file, mask)
        reason = f"the mask is the same in every step, so its index `{name}` is made once"
        safety = self.safety
        if not mask.is_shown:
            safety, reason = (
                Safety.UNSAFE,
                f"could not show that `{file.source.code(mask.node)}` is a boolean mask",
            )
        return self.found(file, call, reason, edits, numerics=Numerics.BITWISE, safety=safety)

    def _ignoring(
        self, file: FileFacts, call: cst.Call, loss: _Loss, logits: Gather, target: Gather
    ) -> Finding:
        """Class-index losses: masked targets become `ignore_index`, which the loss leaves out of sum and count."""
        if file.value(target.base).dtype is DType.FLOATING and not target.casts:
            raise _Refused("the targets are class probabilities, which have no index to ignore")
        torch, imports = file.names.spelled("torch", call)
        mask = file.source.code(target.mask)
        if loss.is_module:
            ignored = f"{file.source.code(call.func)}.ignore_index"
        else:
            ignored = (
                file.source.code(loss.options["ignore_index"]) if "ignore_index" in loss.options else "-100"
            )
        new_target = f"{torch}.where({mask}, {postfix(file, target.base)}{target.casts}, {ignored})"
        second = class_second(file, logits)
        if second.flatten_target:
            new_target += ".flatten()"
        new_logits = second.code + logits.casts
        if not is_raw_output(file, logits.base):
            flat = ".flatten()" if second.flatten_target else ""
            wide = f"{postfix(file, target.mask)}{flat}.unsqueeze(1)"
            new_logits = f"{torch}.where({wide}, {new_logits}, 0)"
        edits = [
            *self._replaced(file, logits, new_logits),
            *self._replaced(file, target, new_target),
            *second.removals,
        ]
        reason = "masked targets become ignore_index, which the loss leaves out of its sum and its count"
        return self._judged(file, call, target, edits, reason, imports)

    def _cleaned(
        self, file: FileFacts, call: cst.Call, loss: _Loss, logits: Gather, target: Gather
    ) -> Finding:
        """Element-wise losses: both sides are zeroed where the mask is false, the sum is divided by the mask's count."""
        if logits.by_rows or target.by_rows:
            raise _Refused("the mask selects rows of several elements")
        if file.values.uses_half():
            raise _Refused("a sum of half-precision losses may overflow where their mean does not")
        torch, imports = file.names.spelled("torch", call)
        functional, more = file.names.spelled("torch.nn.functional", call)
        mask = file.source.code(target.mask)
        sides = [
            f"{torch}.where({mask}, {postfix(file, side.base)}{side.casts}, 0)" for side in (logits, target)
        ]
        inputs = [arg for arg in call.args[:2]]
        codes = [file.source.code(arg) for arg in inputs]
        edits: list[Edit] = []
        for index, (side, arg) in enumerate(zip((logits, target), inputs, strict=True)):
            if side.statements:
                edits.extend(self._replaced(file, side, sides[index]))
            else:
                codes[index] = codes[index].replace(file.source.code(arg.value), sides[index])
        options = {
            name: file.source.code(value) for name, value in loss.options.items() if name != "reduction"
        }
        direct = loss.short in _ZERO_AT_ZERO
        options["reduction"] = '"sum"' if direct else '"none"'
        listed = ", ".join([*codes, *(f"{name}={value}" for name, value in options.items())])
        text = f"{functional}.{loss.short}({listed})"
        if not direct:
            text = f"{torch}.where({mask}, {text}, 0).sum()"
        if loss.reduction == "mean":
            text = f"{text} / {postfix(file, target.mask)}.sum()"
            if isinstance(file.tree.parent(call), (cst.BinaryOperation, cst.UnaryOperation, cst.Attribute)):
                text = f"({text})"
        edits.append(Edit(*file.source.span(call), text))
        reason = "both sides are cleaned where the mask is false and the sum is divided by the mask's count"
        return self._judged(file, call, target, edits, reason, (*imports, *more), logits)

    def _judged(
        self,
        file: FileFacts,
        call: cst.Call,
        target: Gather,
        edits: list[Edit],
        reason: str,
        imports: tuple[str, ...],
        logits: Gather | None = None,
    ) -> Finding:
        safety = self.safety
        if not is_mask(file, target.mask) and not is_mask_name(target.mask):
            raise _Refused(
                f"could not tell whether `{file.source.code(target.mask)}` is a boolean mask or an index"
            )
        fits = selects_all_of(file, target.mask, target.base)
        if logits is not None:
            fits = fits or selects_all_of(file, logits.mask, logits.base)
        if not is_mask(file, target.mask):
            safety, reason = (
                Safety.UNSAFE,
                f"could not show that `{file.source.code(target.mask)}` is a boolean mask",
            )
        elif not fits:
            safety = Safety.UNSAFE
            reason = f"could not show that `{file.source.code(target.mask)}` has as many dimensions as what it selects from"
        return self.found(file, call, reason, edits, safety=safety, imports=imports)

    def _replaced(self, file: FileFacts, side: Gather, text: str) -> Iterator[Edit]:
        """Put `text` where the consumer reads the selection; drop the assignments that led there."""
        yield Edit(*file.source.span(side.node), text)
        for statement in side.statements[:-1]:
            yield from delete_statement(file.source, statement)


def _subject(call: cst.Call) -> cst.BaseExpression:
    """`x` of `x.mean()` and `torch.mean(x)`."""
    if call.args:
        return call.args[0].value
    assert isinstance(call.func, cst.Attribute)
    return call.func.value


def _reduced(file: FileFacts, call: cst.Call) -> tuple[Gather | Shared, str] | None:
    """The selection that a `mean` or `sum` over everything reduces."""
    name = file.qualified(call)
    if name in ("torch.mean", "torch.sum") and len(call.args) == 1:
        short = name.removeprefix("torch.")
    elif name is None and isinstance(call.func, cst.Attribute) and not call.args:
        short = call.func.attr.value
    else:
        return None
    if short not in ("mean", "sum"):
        return None
    found = gather(file, _subject(call))
    return (found, short) if found is not None else None


def _loss(file: FileFacts, call: cst.Call) -> _Loss | None:
    name = file.qualified(call)
    if has_star(call):
        return None
    if name is not None and name.startswith("torch.nn.functional."):
        short = name.rpartition(".")[2]
        if short not in LOSS_FUNCTIONS:
            return None
        named = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
        for index, value in enumerate(positional(call.args)[2:]):
            named["weight" if index == 0 else f"argument {index + 3}"] = value
        named.pop("input", None)
        named.pop("target", None)
        return _Loss(short, named, is_module=False)
    module = file.value(call.func)
    if module.name in LOSS_MODULES and module.call is not None and not has_star(module.call):
        short = _FUNCTION_OF_MODULE.get(module.name or "", (module.name or "").rpartition(".")[2])
        options = {arg.keyword.value: arg.value for arg in module.call.args if arg.keyword is not None}
        for index, value in enumerate(positional(module.call.args)):
            options["weight" if index == 0 and short in _CLASS_INDEX else f"argument {index + 1}"] = value
        return _Loss(short, options, is_module=True)
    return None
