"""The new code of a masked loss: the mask inside of the loss, over everything, instead of a selection before it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.masks import is_repeatable, is_unchanged, selects_all_of
from perfmod.transforms.facts.value import DType
from perfmod.transforms.rule import Edit
from perfmod.transforms.source import Source
from perfmod.transforms.syncs._gathers import Gather, postfix
from perfmod.transforms.syncs._label_types import holds_negatives
from perfmod.transforms.syncs._logits import class_second
from perfmod.transforms.syncs._loss_calls import Loss, Reduced, subject
from perfmod.transforms.syncs._loss_calls import side as loss_side
from perfmod.transforms.syncs._loss_table import Inside
from perfmod.transforms.writing import delete_statement, replace

_LINE_LENGTH = 110
# A call that is to be written, by its function and arguments.
_Call: TypeAlias = "tuple[str, list[_Text]]"
_Text: TypeAlias = "str | _Call"


class NoForm(Exception):
    """A masked loss has no equal form without the selection; the message says why."""


@frozen
class Form:
    """What is written instead.

    Attributes:
        edits, imports, reason: as in a finding.
        doubt: what could not be shown, so that the rewrite is held back; empty where it is safe.
        renamed: the call that another operation computes, which its text as a tensor names: `grad_fn=<DivBackward0>`.
    """

    edits: tuple[Edit, ...]
    imports: tuple[str, ...]
    reason: str
    doubt: str = ""
    renamed: cst.Call | None = None


def ignoring(file: FileFacts, call: cst.Call, loss: Loss, sides: Sequence[Gather], reduction: Reduced) -> Form:
    """Class-index losses: masked targets become `ignore_index`, which the loss leaves out of its sum and its count.

    Cross entropy also gets its logits cleaned. Their loss is ignored, but the gradient of the softmax of an inf or
    NaN is NaN even so, where a selection gave zero; NLL has no softmax. Without a reduction of its own, the loss is 0
    for what it ignores. Bytes, which cannot hold an `ignore_index`, are made wider.

    Raises:
        NoForm: the targets are probabilities.
    """
    logits, target = sides
    is_counted = reduction.node is not call and reduction.how == "mean"
    _check_mask(file, reduction.node, sides, is_read_at_call=is_counted)
    is_soft = file.value(target.base).dtype is DType.FLOATING and not target.casts
    rank, target_rank = file.value(logits.mask).rank, file.value(target.base).rank
    is_soft |= None not in (rank, target_rank) and rank != target_rank
    if is_soft or target.by_rows or (rank is not None and rank == file.value(logits.base).rank and not logits.by_rows):
        raise NoForm("the targets are soft, class probabilities, which have no index to ignore")
    torch, imports = file.names.spelled("torch", call)
    mask, wide_mask = file.code(target.mask), postfix(file, target.mask)
    if loss.is_module and not isinstance(call.func, cst.Call):
        ignored = f"{file.code(call.func)}.ignore_index"
    else:
        ignored = file.code(loss.options["ignore_index"]) if "ignore_index" in loss.options else "-100"
    casts = target.casts if holds_negatives(file, target) else f"{target.casts}.long()"
    new_target = f"{torch}.where({mask}, {postfix(file, target.base)}{casts}, {ignored})"
    second = class_second(file, logits)
    new_logits = second.code + logits.casts
    if second.flatten_target:
        new_target, wide_mask = f"{new_target}.flatten()", f"{wide_mask}.flatten()"
    if loss.short == "cross_entropy":
        new_logits = f"{torch}.where({wide_mask}.unsqueeze(1), {new_logits}, 0)"
    edits = list(second.removals)
    if logits.statements or target.statements:
        edits += [*_replaced(file, logits, new_logits), *_replaced(file, target, new_target)]
        text = file.code(call)
    else:
        others = [file.code(arg) for arg in call.args if arg.value not in (logits.node, target.node)]
        text = _laid_out(file, reduction.node, (file.code(call.func), [new_logits, new_target, *others]))
    if reduction.node is not call:
        edits += _summed_up(file, call, reduction, text, postfix(file, target.mask))
    elif text != file.code(call):
        edits.append(replace(file.source, call, text))
    reason = "masked targets become ignore_index, which the loss leaves out of its sum and its count"
    # A mask selects rows of classes, and a loss of rows is another operation than one of images.
    is_of_rows = second.flatten_target or file.value(logits.base).rank == 2 or rank == 1
    is_same = is_of_rows if reduction.node is call else reduction.how == "sum"
    return Form(tuple(edits), imports, reason, _doubt(file, target), None if is_same else reduction.node)


def cleaned(file: FileFacts, call: cst.Call, loss: Loss, sides: Sequence[Gather], reduction: Reduced) -> Form:
    """The other losses: all sides are zeroed where the mask is false, the sum is divided by the mask's count.

    Where a loss of zeros is not zero, its elements are zeroed as well, or weighed with the mask.

    Raises:
        NoForm: the mask is not known to fit what it selects from, or a sum could overflow.
    """
    known = loss.known
    if any(side.by_rows for side in sides):
        raise NoForm("the mask selects rows of several elements")
    if file.values.uses_half():
        raise NoForm("a sum of half-precision losses may overflow where their mean does not")
    is_plain_sum = known.inside is Inside.SIDES and reduction.how == "sum" and not _weighs_with_mask(loss)
    _check_mask(file, reduction.node, sides, is_read_at_call=not is_plain_sum)
    torch, imports = file.names.spelled("torch", call)
    functional, more = file.names.spelled("torch.nn.functional", call)
    # The sizes of its sides are compared by the loss itself where it takes weights.
    cover = (
        _rows(file, loss, sides)
        if known.inside is Inside.ROWS
        else _covering(file, *sides, broadcasts=reduction.how == "mean" and not known.takes_weights)
    )
    arguments: list[_Text] = []
    edits: list[Edit] = []
    for index, (name, side) in enumerate(zip(loss.sides, sides, strict=True)):
        mask = cover.of_rows if name in known.rows else cover.mask
        base = postfix(file, side.base) + (".flatten(0, -2)" if name in known.rows else ".flatten()") * cover.is_flat
        clean = f"{torch}.where({mask}, {base}{side.casts}, 0)"
        if side.statements:
            edits += _replaced(file, side, clean)
            read = loss_side(call, loss, index)
            clean = file.code(read) if read is not None else clean
        arguments.append(f"weight={clean}" if name == "weight" else clean)
    for name in sorted(set(loss.options) - {"reduction", *loss.sides}):
        is_read = loss.is_module and not isinstance(call.func, cst.Call)
        value = f"{file.code(call.func)}.{name}" if is_read else file.code(loss.options[name])
        arguments.append(f"{name}={value}")
    if _weighs_with_mask(loss):
        arguments.append(f"weight={cover.mask}")
    function = f"{functional}.{loss.short}"
    is_apart = bool(reduction.variable)
    if known.inside is Inside.SIDES:
        text = _laid_out(file, reduction.node, (function, [*arguments, f'reduction="{"none" if is_apart else "sum"}"']))
    else:
        each = function, [*arguments, 'reduction="none"']
        text = _laid_out(file, reduction.node, (f"{torch}.where", [cover.mask, each, "0"])) + ".sum()" * (not is_apart)
    count = cover.length if reduction.how == "batchmean" else cover.count
    if is_apart:
        edits += _summed_up(file, call, reduction, text, count)
    else:
        total = text if reduction.how == "sum" else _divided(file, reduction.node, text, count)
        edits.append(replace(file.source, reduction.node, total))
    reason = "the sides are cleaned where the mask is false and the sum is divided by the mask's count"
    doubts = [
        "" if cover.is_by_rows else _doubt(file, side)
        for name, side in zip(loss.sides, sides, strict=True)
        if name not in known.rows
    ]
    weights = doubts[len(known.sides) :]
    doubt = (min if known.same_shapes else max)(doubts[: len(known.sides)], key=len, default="")
    is_same = reduction.how == "sum" and (known.inside is Inside.SIDES or is_apart)
    renamed = None if is_same else reduction.node
    return Form(tuple(edits), (*imports, *more), reason, max([doubt, *weights], key=len), renamed)


def _weighs_with_mask(loss: Loss) -> bool:
    return loss.short == "binary_cross_entropy_with_logits" and "weight" not in loss.sides


def summed(file: FileFacts, call: cst.Call, side: Gather, reduction: str) -> Form:
    """`losses[mask].mean()` and `.sum()`: everything is summed, with zeros where the mask is false.

    Raises:
        NoForm: as `cleaned`.
    """
    if side.by_rows:
        raise NoForm("the mask selects rows of several elements")
    if file.values.uses_half():
        raise NoForm("a sum in half precision may overflow where the mean does not")
    _check_mask(file, call, (side,), is_read_at_call=reduction == "mean")
    torch, imports = file.names.spelled("torch", call)
    cover = _covering(file, side)
    clean = f"{torch}.where({cover.mask}, {postfix(file, side.base)}{side.casts}, 0)"
    edits = list(_replaced(file, side, clean)) if side.statements else []
    total = f"{file.code(subject(call)) if side.statements else clean}.sum()"
    text = _divided(file, call, total, cover.count) if reduction == "mean" else total
    reason = "what the mask leaves out is zero in the sum"
    renamed = call if reduction == "mean" else None
    return Form((*edits, replace(file.source, call, text)), imports, reason, renamed=renamed)


def _check_mask(file: FileFacts, call: cst.Call, sides: Sequence[Gather], *, is_read_at_call: bool = True) -> None:
    """Raises `NoForm` unless the mask can be written once more, at `call` too where it is read there."""
    mask = file.code(sides[0].mask)
    if not is_repeatable(file, sides[0].mask):
        raise NoForm(f"`{mask}` may be another mask wherever it is written")
    if is_read_at_call and not all(is_unchanged(file, side.mask, call, besides=side.statements[:-1]) for side in sides):
        raise NoForm(f"`{mask}` is changed between the selection and its use")


@frozen
class _Cover:
    """A mask over all of what it selects from.

    Attributes:
        mask: its code for what holds one element where the mask does.
        of_rows: its code for rows.
        count: the code in front of `.sum()` that counts what the mean of the selection is taken over.
        length: the same for the first dimension of the selection.
        is_flat: whether everything is flattened first, rows but for their last dimension.
        is_by_rows: whether the mask was shown to select rows of all that it selects from.
    """

    mask: str
    of_rows: str
    count: str
    length: str
    is_flat: bool = False
    is_by_rows: bool = False


def _covering(file: FileFacts, *sides: Gather, broadcasts: bool = False) -> _Cover:
    """The mask over all elements of what it selects from; `broadcasts` where the mean is over what comes out of that.

    Raises:
        NoForm: their numbers of dimensions are not known, or not the same.
    """
    mask = sides[0].mask
    code = file.code(mask)
    if any(_fits(file, side) for side in sides):
        _require_equal_ranks(file, mask, sides)
        return _Cover(code, code, postfix(file, mask), postfix(file, mask))
    # Rows of one element are broadcast with rows of several.
    is_counted_together = broadcasts and not all(file.shapes.same(sides[0].base, side.base) for side in sides[1:])
    bases = [side.base for side in (sides if is_counted_together else sides[:1])]
    is_named = all(
        isinstance(base, (cst.Name, cst.Attribute)) and all(is_unchanged(file, base, side.node) for side in sides)
        for base in bases
    )
    if is_named and _selects_rows(file, sides):
        rows = f"{postfix(file, mask)}.unsqueeze(-1)"
        size = f"expand_as({file.code(bases[0])})"
        if is_counted_together:
            torch, _ = file.names.spelled("torch", mask)
            size = f"expand({torch}.broadcast_shapes({', '.join(f'{file.code(base)}.shape' for base in bases)}))"
        return _Cover(rows, rows, f"{rows}.{size}", postfix(file, mask), is_by_rows=True)
    raise NoForm(f"could not show that `{code}` has as many dimensions as what it selects from")


def _require_equal_ranks(file: FileFacts, mask: cst.BaseExpression, sides: Sequence[Gather]) -> None:
    """Raise `NoForm` where a side has other dimensions than the mask, so that its rows broadcast with all elements."""
    rank = file.value(mask).rank
    for side in sides:
        ranks = {rank, file.value(side.base).rank}
        if None not in ranks and len(ranks) > 1:
            raise NoForm(f"`{file.code(side.base)}` has other dimensions than `{file.code(mask)}`, and is broadcast")


def _rows(file: FileFacts, loss: Loss, sides: Sequence[Gather]) -> _Cover:
    """The mask over rows, for losses that give one number for each.

    Raises:
        NoForm: what it selects is not known to be rows.
    """
    mask, rows = sides[0].mask, set(loss.known.rows)
    code, count = file.code(mask), postfix(file, mask)
    of_rows = [side for name, side in zip(loss.sides, sides, strict=True) if name in rows]
    if _selects_rows(file, of_rows):
        is_flat = len(of_rows) < len(sides) and file.value(mask).rank != 1
    elif len(of_rows) < len(sides) and all(isinstance(side.selection, cst.Subscript) for side in sides):
        # What the loss compares with one number for each row has to be rows, in two dimensions.
        is_flat = file.value(mask).rank != 1
    else:
        raise NoForm(f"could not show that `{code}` selects rows, of which {loss.short} takes one number each")
    if is_flat:
        return _Cover(f"{count}.flatten()", f"{count}.flatten().unsqueeze(1)", count, count, is_flat)
    return _Cover(code, f"{count}.unsqueeze(-1)", count, count)


def _selects_rows(file: FileFacts, sides: Sequence[Gather]) -> bool:
    """Whether a mask has one dimension less than all that it selects from; `masked_select` would broadcast it."""
    rank, ranks = file.value(sides[0].mask).rank, {file.value(side.base).rank for side in sides}
    is_indexing = all(isinstance(side.selection, cst.Subscript) for side in sides)
    return is_indexing and rank is not None and ranks == {rank + 1}


def _fits(file: FileFacts, side: Gather) -> bool:
    """Whether the mask has the shape of what it selects from.

    A mask in brackets has that of the leading dimensions, so that an equal number of dimensions is enough.
    """
    if isinstance(side.selection, cst.Subscript):
        return selects_all_of(file, side.mask, side.base)
    return file.shapes.same(side.mask, side.base)


def _doubt(file: FileFacts, side: Gather) -> str:
    """What could not be shown of a side; empty where the mask fits it."""
    if _fits(file, side):
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


def _summed_up(file: FileFacts, call: cst.Call, reduction: Reduced, text: str, count: str) -> Iterator[Edit]:
    """Edits that write `text` for a loss that does not reduce, and its sum, or that by `count`, for its reduction."""
    if reduction.variable and text != file.code(call):
        yield replace(file.source, call, text)
    total = f"{reduction.variable or text}.sum()"
    if reduction.how == "mean":
        total = _divided(file, reduction.node, total, count)
    yield replace(file.source, reduction.node, total)


def _laid_out(file: FileFacts, at: cst.CSTNode, call: _Call) -> str:
    """A call on one line where it fits behind what stands before `at`; else with one argument to a line."""
    start = file.source.span(at)[0]
    return _written(call, file.source.indentation(start), file.source, start - file.source.line_start(start))


def _written(call: _Text, outer: str, source: Source, column: int) -> str:
    if isinstance(call, str):
        return call
    function, arguments = call
    text = f"{function}({', '.join(_written(each, '', source, -sys.maxsize) for each in arguments)})"
    if column + len(text) <= _LINE_LENGTH:
        return text
    inner = outer + source.module.default_indent
    lines = [inner + _written(each, inner, source, len(inner)) for each in arguments]
    return f"{function}(\n" + ",\n".join(lines) + f",\n{outer})"
