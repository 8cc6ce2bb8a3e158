"""The new code of a masked loss: the mask inside of the loss, over everything, instead of a selection before it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.masks import is_repeatable, is_unchanged, selects_all_of
from perfmod.transforms.facts.value import DType
from perfmod.transforms.rule import Edit
from perfmod.transforms.syncs._gathers import Gather, postfix
from perfmod.transforms.syncs._logits import class_second
from perfmod.transforms.syncs._loss_calls import SAME_SHAPES, ZERO_AT_ZERO, Loss, subject
from perfmod.transforms.writing import delete_statement, replace

_LINE_LENGTH = 110


class NoForm(Exception):
    """A masked loss has no equal form without the selection; the message says why."""


@frozen
class Form:
    """What is written instead.

    Attributes:
        edits, imports, reason: as in a finding.
        doubt: what could not be shown, so that the rewrite is held back; empty where it is safe.
    """

    edits: tuple[Edit, ...]
    imports: tuple[str, ...]
    reason: str
    doubt: str = ""


def ignoring(file: FileFacts, call: cst.Call, loss: Loss, logits: Gather, target: Gather) -> Form:
    """Class-index losses: masked targets become `ignore_index`, which the loss leaves out of its sum and its count.

    Cross entropy also gets its logits cleaned. Their loss is ignored, but the gradient of the softmax of an inf or
    NaN is NaN even so, where a selection gave zero; NLL has no softmax.

    Raises:
        NoForm: the targets are probabilities.
    """
    _check_mask(file, call, (logits, target), is_read_at_call=False)
    is_soft = file.value(target.base).dtype is DType.FLOATING and not target.casts
    rank = file.value(logits.mask).rank
    if is_soft or target.by_rows or (rank is not None and rank == file.value(logits.base).rank and not logits.by_rows):
        raise NoForm("the targets are soft, class probabilities, which have no index to ignore")
    if file.values.uses_bytes() and ".long()" not in target.casts:
        raise NoForm("the targets may be bytes, which cannot hold an ignore_index; `.long()` behind them would show")
    torch, imports = file.names.spelled("torch", call)
    mask, wide_mask = file.code(target.mask), postfix(file, target.mask)
    if loss.is_module and not isinstance(call.func, cst.Call):
        ignored = f"{file.code(call.func)}.ignore_index"
    else:
        ignored = file.code(loss.options["ignore_index"]) if "ignore_index" in loss.options else "-100"
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
        others = [file.code(arg) for arg in call.args if arg.value not in (logits.node, target.node)]
        text = _laid_out(file, call, file.code(call.func), [new_logits, new_target, *others])
        edits.append(replace(file.source, call, text))
    reason = "masked targets become ignore_index, which the loss leaves out of its sum and its count"
    return Form(tuple(edits), imports, reason, _doubt(file, target))


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
    _check_mask(file, call, sides)
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
        arguments.append(file.code(read) if side.statements and read is not None else clean)
    for name in sorted(set(loss.options) - {"reduction"}):
        is_read = loss.is_module and not isinstance(call.func, cst.Call)
        value = f"{file.code(call.func)}.{name}" if is_read else file.code(loss.options[name])
        arguments.append(f"{name}={value}")
    if loss.short not in ZERO_AT_ZERO:
        arguments.append(f"weight={mask}")
    text = _laid_out(file, call, f"{functional}.{loss.short}", [*arguments, 'reduction="sum"'])
    if loss.reduction == "mean":
        text = _divided(file, call, text, count)
    edits.append(replace(file.source, call, text))
    reason = "both sides are cleaned where the mask is false and the sum is divided by the mask's count"
    doubts = [_doubt(file, side) for side in sides]
    doubt = (min if loss.short in SAME_SHAPES else max)(doubts, key=len)
    return Form(tuple(edits), (*imports, *more), reason, doubt)


def summed(file: FileFacts, call: cst.Call, side: Gather, reduction: str) -> Form:
    """`losses[mask].mean()` and `.sum()`: everything is summed, with zeros where the mask is false.

    Raises:
        NoForm: as `cleaned`.
    """
    if side.by_rows:
        raise NoForm("the mask selects rows of several elements")
    if file.values.uses_half():
        raise NoForm("a sum in half precision may overflow where the mean does not")
    _check_mask(file, call, (side,))
    torch, imports = file.names.spelled("torch", call)
    mask, count = _covering(file, side)
    clean = f"{torch}.where({mask}, {postfix(file, side.base)}{side.casts}, 0)"
    edits = list(_replaced(file, side, clean)) if side.statements else []
    total = f"{file.code(subject(call)) if side.statements else clean}.sum()"
    text = _divided(file, call, total, count) if reduction == "mean" else total
    reason = "what the mask leaves out is zero in the sum"
    return Form((*edits, replace(file.source, call, text)), imports, reason)


def _check_mask(file: FileFacts, call: cst.Call, sides: tuple[Gather, ...], *, is_read_at_call: bool = True) -> None:
    """Raises `NoForm` unless the mask can be written once more, at `call` too where it is read there."""
    mask = file.code(sides[0].mask)
    if not is_repeatable(file, sides[0].mask):
        raise NoForm(f"`{mask}` may be another mask wherever it is written")
    if is_read_at_call and not all(is_unchanged(file, side.mask, call) for side in sides if side.statements):
        raise NoForm(f"`{mask}` is changed between the selection and its use")


def _covering(file: FileFacts, *sides: Gather) -> tuple[str, str]:
    """The mask over all elements of what it selects from, and the code in front of `.sum()` that counts them.

    Raises:
        NoForm: their numbers of dimensions are not known.
    """
    mask = sides[0].mask
    if any(_fits(file, side) for side in sides):
        return file.code(mask), postfix(file, mask)
    rank, ranks = file.value(mask).rank, {file.value(side.base).rank for side in sides}
    base = sides[0].base
    is_named = isinstance(base, (cst.Name, cst.Attribute)) and all(
        is_unchanged(file, base, side.node) for side in sides
    )
    if rank is not None and ranks == {rank + 1} and is_named and _selects_rows(sides):
        rows = f"{postfix(file, mask)}.unsqueeze(-1)"
        return rows, f"{rows}.expand_as({file.code(base)})"
    raise NoForm(f"could not show that `{file.code(mask)}` has as many dimensions as what it selects from")


def _selects_rows(sides: tuple[Gather, ...]) -> bool:
    """Whether a mask with fewer dimensions selects rows, and is not broadcast, as `masked_select` does."""
    return all(isinstance(side.selection, cst.Subscript) for side in sides)


def _fits(file: FileFacts, side: Gather) -> bool:
    """Whether the mask has the shape of what it selects from.

    A mask in brackets has that of the leading dimensions, so that an equal number of dimensions is enough.
    """
    if isinstance(side.selection, cst.Subscript):
        return selects_all_of(file, side.mask, side.base)
    return file.shapes.same(side.mask, side.base)


def _doubt(file: FileFacts, side: Gather) -> str:
    """What could not be shown of a side; empty where the mask fits it."""
    rank = file.value(side.mask).rank
    is_row = rank is not None and file.value(side.base).rank == rank + 1
    if _fits(file, side) or is_row:
        return ""
    mask, base = file.code(side.mask), file.code(side.base)
    return f"could not show that `{mask}` has as many dimensions as `{base}`"


def _replaced(file: FileFacts, side: Gather, text: str) -> Iterator[Edit]:
    """Put `text` where the consumer reads the selection; drop the assignments that led there."""
    yield replace(file.source, side.node, text)
    for statement in side.statements[:-1]:
        yield from delete_statement(file.source, statement)


def _divided(file: FileFacts, call: cst.Call, total: str, count: str) -> str:
    """A sum divided by a mask's count, in parentheses where it stands inside of another expression."""
    text = f"{total} / {count}.sum()"
    around = (cst.BinaryOperation, cst.UnaryOperation, cst.Attribute, cst.Subscript, cst.Await)
    return f"({text})" if isinstance(file.tree.parent(call), around) and not call.lpar else text


def _laid_out(file: FileFacts, call: cst.Call, function: str, arguments: list[str]) -> str:
    """A call on one line where it fits behind what stands before `call`; else with one argument to a line."""
    start = file.source.span(call)[0]
    text = f"{function}({', '.join(arguments)})"
    if start - file.source.line_start(start) + len(text) <= _LINE_LENGTH:
        return text
    outer = file.source.indentation(start)
    inner = f"\n{outer}{file.source.module.default_indent}"
    return f"{function}({inner}{f',{inner}'.join(arguments)},\n{outer})"
