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

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
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
    may_be_mask,
    postfix,
    same_mask,
    selects_all_of,
    sole_index,
)
from perfmod.transforms.syncs._logits import class_second, is_raw_output
from perfmod.transforms.syncs._loss_calls import (
    CLASS_INDEX,
    ELEMENTWISE,
    KNOWN_OPTIONS,
    ZERO_AT_ZERO,
    Loss,
    loss_call,
    subject,
)
from perfmod.transforms.writing import delete_statement, replace


_LINE_LENGTH = 110


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
        findings = list(self._consumers(file))
        yield from findings
        for subscript in find_all(file.source.module, cst.Subscript):
            if _waits(file, subscript) and not _is_part_of(file, subscript, findings):
                index = sole_index(subscript)
                assert index is not None
                reason = (
                    "the selection is used for more than a loss: what becomes of it depends on which elements it holds"
                )
                if not is_mask(file, index):
                    reason = f"could not tell whether `{file.source.code(index)}` is a boolean mask or an index"
                yield self.refused(file, subscript, reason)

    def _consumers(self, file: FileFacts) -> Iterator[Finding]:
        """Losses and reductions whose arguments are boolean selections."""
        for call in find_all(file.source.module, cst.Call):
            try:
                yield from self._reduction(file, call)
            except _Refused as refused:
                yield self.refused(file, call, str(refused))
            loss = loss_call(file, call)
            if loss is None or len(call.args) < 2 or not file.steps.reaches(call):
                continue
            logits, target = argument(call, "input", 0), argument(call, "target", 1)
            if logits is None or target is None:
                continue
            found = gather(file, logits), gather(file, target)
            if found == (None, None):
                continue
            try:
                yield self._rewritten(file, call, loss, (logits, target), *found)
            except _Refused as refused:
                yield self.refused(file, call, str(refused))

    def _reduction(self, file: FileFacts, call: cst.Call) -> Iterator[Finding]:
        """`losses[mask].mean()` and `.sum()`: the same over everything, with the rest set to zero."""
        found = reduced(file, call)
        if found is None or not file.steps.reaches(call):
            return
        side, short = found
        if isinstance(side, Shared):
            yield self.refused(file, call, f"`{side.name}`, the selected elements, is used again on line {side.line}")
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
            whole = f"{file.source.code(subject(call))}.sum()" if side.statements else f"{text}.sum()"
            if short == "mean":
                whole += f" / {postfix(file, side.mask)}.sum()"
                if isinstance(file.tree.parent(call), (cst.BinaryOperation, cst.UnaryOperation, cst.Attribute)):
                    whole = f"({whole})"
            edits.append(Edit(*file.source.span(call), whole))
            yield self._judged(file, call, side, edits, "what the mask leaves out is zero in the sum", imports)

    def _rewritten(
        self,
        file: FileFacts,
        call: cst.Call,
        loss: Loss,
        sides: tuple[cst.BaseExpression, cst.BaseExpression],
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
            raise _Refused(f"the {missing} is not selected with the same mask here, so its selection cannot be undone")
        if not same_mask(file, logits.mask, target.mask):
            raise _Refused("input and target are selected with different masks, or the mask is written to in between")
        if loss.short not in CLASS_INDEX | ELEMENTWISE:
            raise _Refused(f"{loss.short} has no masked form that is known to be equal")
        if loss.reduction is None:
            raise _Refused("without a reduction the result keeps the length of the selection")
        unknown = set(loss.options) - KNOWN_OPTIONS.get(loss.short, {"reduction"})
        if unknown:
            raise _Refused(f"`{min(unknown)}=` may weigh masked elements differently")
        if loss.short in CLASS_INDEX:
            return self._ignoring(file, call, loss, logits, target)
        return self._cleaned(file, call, loss, logits, target, sides)

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

    def _ignoring(self, file: FileFacts, call: cst.Call, loss: Loss, logits: Gather, target: Gather) -> Finding:
        """Class-index losses: masked targets become `ignore_index`, which the loss leaves out of sum and count."""
        if file.value(target.base).dtype is DType.FLOATING and not target.casts:
            raise _Refused("the targets are class probabilities, which have no index to ignore")
        torch, imports = file.names.spelled("torch", call)
        mask = file.source.code(target.mask)
        if loss.is_module:
            ignored = f"{file.source.code(call.func)}.ignore_index"
        else:
            ignored = file.source.code(loss.options["ignore_index"]) if "ignore_index" in loss.options else "-100"
        new_target = f"{torch}.where({mask}, {postfix(file, target.base)}{target.casts}, {ignored})"
        second = class_second(file, logits)
        if second.flatten_target:
            new_target += ".flatten()"
        new_logits = second.code + logits.casts
        if not is_raw_output(file, logits.base):
            flat = ".flatten()" if second.flatten_target else ""
            wide = f"{postfix(file, target.mask)}{flat}.unsqueeze(1)"
            new_logits = f"{torch}.where({wide}, {new_logits}, 0)"
        edits = [*second.removals]
        if logits.statements or target.statements:
            edits += [*self._replaced(file, logits, new_logits), *self._replaced(file, target, new_target)]
        else:
            others = [file.source.code(arg) for arg in call.args if arg.value not in (logits.node, target.node)]
            text = laid_out(file, call, file.source.code(call.func), [new_logits, new_target, *others])
            edits.append(replace(file.source, call, text))
        reason = "masked targets become ignore_index, which the loss leaves out of its sum and its count"
        return self._judged(file, call, target, edits, reason, imports, is_class_index=True)

    def _cleaned(
        self,
        file: FileFacts,
        call: cst.Call,
        loss: Loss,
        logits: Gather,
        target: Gather,
        sides: tuple[cst.BaseExpression, cst.BaseExpression],
    ) -> Finding:
        """Element-wise losses: both sides are zeroed where the mask is false, the sum is divided by the mask's count."""
        if logits.by_rows or target.by_rows:
            raise _Refused("the mask selects rows of several elements")
        if file.values.uses_half():
            raise _Refused("a sum of half-precision losses may overflow where their mean does not")
        torch, imports = file.names.spelled("torch", call)
        functional, more = file.names.spelled("torch.nn.functional", call)
        mask = file.source.code(target.mask)
        arguments: list[str] = []
        edits: list[Edit] = []
        for side, given in zip((logits, target), sides, strict=True):
            cleaned = f"{torch}.where({mask}, {postfix(file, side.base)}{side.casts}, 0)"
            if side.statements:
                edits += self._replaced(file, side, cleaned)
            arguments.append(file.source.code(given) if side.statements else cleaned)
        for name in sorted(set(loss.options) - {"reduction"}):
            arguments.append(f"{name}={file.source.code(loss.options[name])}")
        if loss.short not in ZERO_AT_ZERO:
            arguments.append(f"weight={mask}")
        text = laid_out(file, call, f"{functional}.{loss.short}", [*arguments, 'reduction="sum"'])
        if loss.reduction == "mean":
            text = _divided(file, call, text, target.mask)
        edits.append(replace(file.source, call, text))
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
        is_class_index: bool = False,
    ) -> Finding:
        safety = self.safety
        mask = file.source.code(target.mask)
        if not is_mask(file, target.mask) and not is_mask_name(target.mask):
            raise _Refused(f"could not tell whether `{mask}` is a boolean mask or an index")
        fits = selects_all_of(file, target.mask, target.base)
        if logits is not None:
            fits = fits or selects_all_of(file, logits.mask, logits.base)
        if not is_mask(file, target.mask):
            safety, reason = Safety.UNSAFE, f"could not show that `{mask}` is a boolean mask"
        elif not fits:
            safety = Safety.UNSAFE
            reason = f"could not show that `{mask}` has as many dimensions as what it selects from"
            if not is_class_index:
                raise _Refused(reason)
        return self.found(file, call, reason, edits, safety=safety, imports=imports)

    def _replaced(self, file: FileFacts, side: Gather, text: str) -> Iterator[Edit]:
        """Put `text` where the consumer reads the selection; drop the assignments that led there."""
        yield replace(file.source, side.node, text)
        for statement in side.statements[:-1]:
            yield from delete_statement(file.source, statement)


def reduced(file: FileFacts, call: cst.Call) -> tuple[Gather | Shared, str] | None:
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
    found = gather(file, subject(call))
    return (found, short) if found is not None else None


def _divided(file: FileFacts, call: cst.Call, total: str, mask: cst.BaseExpression) -> str:
    """A sum divided by a mask's count, in parentheses where it stands inside of another expression."""
    text = f"{total} / {postfix(file, mask)}.sum()"
    inside = isinstance(file.tree.parent(call), (cst.BinaryOperation, cst.UnaryOperation, cst.Attribute))
    return f"({text})" if inside and not call.lpar else text


def laid_out(file: FileFacts, call: cst.Call, function: str, arguments: list[str]) -> str:
    """A call on one line where it fits behind what stands before `call`; else with one argument to a line."""
    start = file.source.span(call)[0]
    text = f"{function}({', '.join(arguments)})"
    if start - file.source.line_start(start) + len(text) <= _LINE_LENGTH:
        return text
    outer = file.source.indentation(start)
    inner = f"\n{outer}{file.source.module.default_indent}"
    return f"{function}({inner}{f',{inner}'.join(arguments)},\n{outer})"


def _waits(file: FileFacts, subscript: cst.Subscript) -> bool:
    """Whether `x[i]` selects from a tensor of the device with what may be a mask, in a step."""
    index, base = sole_index(subscript), file.value(subscript.value)
    if index is None or not base.is_tensor or not may_be_mask(file, index) or not file.steps.reaches(subscript):
        return False
    return Device.CPU not in (base.device, file.value(index).device) and _is_read(file, subscript)


def _is_part_of(file: FileFacts, node: cst.CSTNode, findings: list[Finding]) -> bool:
    """Whether one of the findings shows or rewrites a node."""
    start, end = file.source.span(node)
    return any(
        (found.start <= start and end <= found.end)
        or any(edit.start < end and start < edit.end for edit in found.edits)
        for found in findings
    )


def _is_read(file: FileFacts, subscript: cst.Subscript) -> bool:
    """Whether a selection is read, and not by a masked assignment, which is another rule's."""
    if isinstance(file.tree.parent(subscript), (cst.AssignTarget, cst.AugAssign, cst.Del)):
        return False
    statement = file.tree.statement(subscript)
    targets: list[cst.BaseExpression] = []
    if isinstance(statement, cst.Assign):
        targets = [target.target for target in statement.targets]
    elif isinstance(statement, cst.AugAssign):
        targets = [statement.target]
    return not any(isinstance(target, cst.Subscript) for target in targets)
