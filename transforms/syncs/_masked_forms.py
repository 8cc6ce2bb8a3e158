"""The new code of a masked loss: the mask inside of the loss, over everything, instead of a selection before it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.value import DType
from perfmod.transforms.rule import Edit
from perfmod.transforms.syncs._gathers import Gather, postfix
from perfmod.transforms.syncs._logits import class_second
from perfmod.transforms.syncs._loss_calls import ZERO_AT_ZERO, Loss, subject
from perfmod.transforms.syncs._masks import selects_all_of
from perfmod.transforms.writing import delete_statement, replace

_LINE_LENGTH = 110


class NoForm(Exception):
    """A masked loss has no equal form without the selection; the message says why."""


@frozen
class Form:
    """What is written instead.

    Attributes:
        edits, imports, reason: as in a finding.
        covers: whether the mask is shown to fit all that it selects from.
    """

    edits: tuple[Edit, ...]
    imports: tuple[str, ...]
    reason: str
    covers: bool = False


def ignoring(file: FileFacts, call: cst.Call, loss: Loss, logits: Gather, target: Gather) -> Form:
    """Class-index losses: masked targets become `ignore_index`, which the loss leaves out of its sum and its count.

    Cross entropy also gets its logits cleaned. Their loss is ignored, but the gradient of the softmax of an inf or
    NaN is NaN even so, where a selection gave zero; NLL has no softmax.

    Raises:
        NoForm: the targets are probabilities.
    """
    if file.value(target.base).dtype is DType.FLOATING and not target.casts:
        raise NoForm("the targets are soft, class probabilities, which have no index to ignore")
    torch, imports = file.names.spelled("torch", call)
    mask, wide_mask = file.source.code(target.mask), postfix(file, target.mask)
    if loss.is_module:
        ignored = f"{file.source.code(call.func)}.ignore_index"
    else:
        ignored = file.source.code(loss.options["ignore_index"]) if "ignore_index" in loss.options else "-100"
    new_target = f"{torch}.where({mask}, {postfix(file, target.base)}{target.casts}, {ignored})"
    second = class_second(file, logits)
    new_logits = second.code + logits.casts
    if second.flatten_target:
        new_target, wide_mask = f"{new_target}.flatten()", f"{wide_mask}.flatten()"
    if loss.short == "cross_entropy":
        new_logits = f"{torch}.where({wide_mask}.unsqueeze(1), {new_logits}, 0)"
    edits = list(second.removals)
    if logits.statements or target.statements:
        edits += [*_replaced(file, logits, new_logits), *_replaced(file, target, new_target)]
    else:
        others = [file.source.code(arg) for arg in call.args if arg.value not in (logits.node, target.node)]
        text = _laid_out(file, call, file.source.code(call.func), [new_logits, new_target, *others])
        edits.append(replace(file.source, call, text))
    reason = "masked targets become ignore_index, which the loss leaves out of its sum and its count"
    return Form(tuple(edits), imports, reason)


def cleaned(file: FileFacts, call: cst.Call, loss: Loss, logits: Gather, target: Gather) -> Form:
    """Element-wise losses: both sides are zeroed where the mask is false, the sum is divided by the mask's count.

    Raises:
        NoForm: the mask is not known to fit what it selects from, or a sum could overflow.
    """
    sides = (logits, target)
    if any(side.by_rows for side in sides):
        raise NoForm("the mask selects rows of several elements")
    if file.values.uses_half():
        raise NoForm("a sum of half-precision losses may overflow where their mean does not")
    torch, imports = file.names.spelled("torch", call)
    functional, more = file.names.spelled("torch.nn.functional", call)
    mask, count = _covering(file, *sides)
    arguments: list[str] = []
    edits: list[Edit] = []
    given = argument(call, "input", 0), argument(call, "target", 1)
    for side, read in zip(sides, given, strict=True):
        clean = f"{torch}.where({mask}, {postfix(file, side.base)}{side.casts}, 0)"
        if side.statements:
            edits += _replaced(file, side, clean)
        arguments.append(file.source.code(read) if side.statements and read is not None else clean)
    arguments += [
        f"{name}={file.source.code(loss.options[name])}" for name in sorted(set(loss.options) - {"reduction"})
    ]
    if loss.short not in ZERO_AT_ZERO:
        arguments.append(f"weight={mask}")
    text = _laid_out(file, call, f"{functional}.{loss.short}", [*arguments, 'reduction="sum"'])
    if loss.reduction == "mean":
        text = _divided(file, call, text, count)
    edits.append(replace(file.source, call, text))
    reason = "both sides are cleaned where the mask is false and the sum is divided by the mask's count"
    return Form(tuple(edits), (*imports, *more), reason, covers=True)


def summed(file: FileFacts, call: cst.Call, side: Gather, reduction: str) -> Form:
    """`losses[mask].mean()` and `.sum()`: everything is summed, with zeros where the mask is false.

    Raises:
        NoForm: as `cleaned`.
    """
    if side.by_rows:
        raise NoForm("the mask selects rows of several elements")
    if file.values.uses_half():
        raise NoForm("a sum in half precision may overflow where the mean does not")
    torch, imports = file.names.spelled("torch", call)
    mask, count = _covering(file, side)
    clean = f"{torch}.where({mask}, {postfix(file, side.base)}{side.casts}, 0)"
    edits = list(_replaced(file, side, clean)) if side.statements else []
    total = f"{file.source.code(subject(call)) if side.statements else clean}.sum()"
    text = _divided(file, call, total, count) if reduction == "mean" else total
    reason = "what the mask leaves out is zero in the sum"
    return Form((*edits, replace(file.source, call, text)), imports, reason, covers=True)


def _covering(file: FileFacts, *sides: Gather) -> tuple[str, str]:
    """The mask over all elements of what it selects from, and the code in front of `.sum()` that counts them.

    Raises:
        NoForm: their numbers of dimensions are not known.
    """
    mask = sides[0].mask
    if any(selects_all_of(file, mask, side.base) for side in sides):
        return file.source.code(mask), postfix(file, mask)
    rank, ranks = file.value(mask).rank, {file.value(side.base).rank for side in sides}
    if rank is not None and ranks == {rank + 1}:
        rows = f"{postfix(file, mask)}.unsqueeze(-1)"
        return rows, f"{rows}.expand_as({file.source.code(sides[0].base)})"
    raise NoForm(f"could not show that `{file.source.code(mask)}` has as many dimensions as what it selects from")


def _replaced(file: FileFacts, side: Gather, text: str) -> Iterator[Edit]:
    """Put `text` where the consumer reads the selection; drop the assignments that led there."""
    yield replace(file.source, side.node, text)
    for statement in side.statements[:-1]:
        yield from delete_statement(file.source, statement)


def _divided(file: FileFacts, call: cst.Call, total: str, count: str) -> str:
    """A sum divided by a mask's count, in parentheses where it stands inside of another expression."""
    text = f"{total} / {count}.sum()"
    inside = isinstance(file.tree.parent(call), (cst.BinaryOperation, cst.UnaryOperation, cst.Attribute))
    return f"({text})" if inside and not call.lpar else text


def _laid_out(file: FileFacts, call: cst.Call, function: str, arguments: list[str]) -> str:
    """A call on one line where it fits behind what stands before `call`; else with one argument to a line."""
    start = file.source.span(call)[0]
    text = f"{function}({', '.join(arguments)})"
    if start - file.source.line_start(start) + len(text) <= _LINE_LENGTH:
        return text
    outer = file.source.indentation(start)
    inner = f"\n{outer}{file.source.module.default_indent}"
    return f"{function}({inner}{f',{inner}'.join(arguments)},\n{outer})"
