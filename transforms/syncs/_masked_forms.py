"""The new code of a masked loss: the mask inside of the loss, over everything, instead of a selection before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.masks import is_repeatable, is_unchanged, rank_of_mask, selects_all_of
from perfmod.transforms.facts.names import canonical
from perfmod.transforms.facts.ranks import is_minus_one, positional
from perfmod.transforms.facts.value import DType
from perfmod.transforms.finding import Edit
from perfmod.transforms.keywords import add_keyword
from perfmod.transforms.syncs._gathers import Gather, assignment_of, postfix, sole_definition
from perfmod.transforms.syncs._loss_calls import Loss, subject
from perfmod.transforms.writing import call_text, delete_statement, delete_with_comment, quoted, replace

_RANGES = frozenset(
    {"torch.profiler.record_function", "torch.autograd.profiler.record_function", "torch.cuda.nvtx.range"}
)
_HALF = "the code uses half precision, where the sum can overflow although the mean does not"
_UNSEEN = "a sum in float16 can overflow where the mean does not, and perfmod did not find the training that uses this"


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


def ignoring(file: FileFacts, loss: Loss, sides: Mapping[str, Gather]) -> Form:
    """Class-index losses: masked targets become `ignore_index`, which the loss leaves out of its sum and its count.

    Cross entropy also gets its logits cleaned. Their loss is ignored, but the gradient of the softmax of an inf or
    NaN is NaN even so, where a selection gave zero; NLL has no softmax.

    Raises:
        NoForm: the targets are probabilities, or may be bytes.
    """
    logits, target = sides["input"], sides["target"]
    _check_mask(file, loss.call, sides, is_read_at_call=False)
    is_soft = file.value(target.base).dtype is DType.FLOATING and not target.casts
    rank, target_rank = rank_of_mask(file, logits.mask), file.value(target.base).rank
    is_soft |= None not in (rank, target_rank) and rank != target_rank
    if is_soft or target.by_rows or (rank is not None and rank == file.value(logits.base).rank and not logits.by_rows):
        raise NoForm("the targets are class probabilities, to which `ignore_index` does not apply")
    if file.values.uses_bytes() and not target.casts.endswith(".long()"):
        raise NoForm(f"`{file.code(target.base)}` may be uint8, which cannot hold an ignore_index")
    torch, imports = file.names.spelled("torch", loss.call)
    ignored = file.code(loss.options["ignore_index"]) if "ignore_index" in loss.options else "-100"
    if loss.made is not None and not isinstance(loss.call.func, cst.Call):
        ignored = f"{file.code(loss.call.func)}.ignore_index"
    mask = file.code(target.mask)
    new_target = f"{torch}.where({mask}, {file.code(target.base)}{target.casts}, {ignored})"
    moved, removals = _classes_second(file, logits)
    is_flat = moved is None and rank != 1 and file.value(logits.base).rank != 2
    new_logits = (postfix(file, moved) if moved is not None else file.code(logits.base)) + logits.casts
    if loss.short == "cross_entropy":
        dim = "1" if moved is not None else "-1"
        new_logits = f"{torch}.where({postfix(file, target.mask)}.unsqueeze({dim}), {new_logits}, 0)"
    if is_flat:
        new_logits, new_target = f"{new_logits}.flatten(0, -2)", f"{new_target}.flatten()"
    edits = (*removals, *_replaced(file, loss, sides, {"input": new_logits, "target": new_target}))
    reason = "masked targets become ignore_index, which the loss leaves out of both its sum and its count"
    return Form(edits, imports, reason, _doubt(file, target))


def cleaned(file: FileFacts, loss: Loss, sides: Mapping[str, Gather]) -> Form:
    """The other losses: all sides are zeroed where the mask is false, the sum is divided by the mask's count.

    Raises:
        NoForm: the mask is not known to fit what it selects from, or a sum could overflow.
    """
    is_mean = loss.reduction != "sum"
    is_weighed = loss.short == "binary_cross_entropy_with_logits" and "weight" not in sides
    _check_sums(file, sides, is_mean=is_mean)
    _check_mask(file, loss.call, sides, is_read_at_call=is_mean or is_weighed)
    if is_weighed and loss.made is not None:
        raise NoForm("a loss on logits is not 0 where both inputs are 0, and the module takes no weight in its call")
    torch, imports = file.names.spelled("torch", loss.call)
    mask, count, doubt = _covering(file, sides, is_counted=loss.reduction == "mean")
    new = {name: f"{torch}.where({mask}, {_inner(file, side)}{side.casts}, 0)" for name, side in sides.items()}
    added = [f"weight={mask}"] * is_weighed
    sum_up = f"reduction={quoted(file.source, 'sum')}"
    edits: list[Edit] = []
    if loss.made is None:
        added += [sum_up] * ("reduction" not in loss.options)
    elif is_mean:
        uses = file.handing.module_uses(loss.made)
        other = next((use for use in uses if file.tree.parent(use) is not loss.call), None)
        if other is not None:
            raise NoForm(f"line {file.line(other)} uses the same loss, and its mean would become a sum")
        edits += _summing(file, loss) if "reduction" in loss.options else add_keyword(file.source, loss.made, sum_up)
    divisor = f"{postfix(file, next(iter(sides.values())).mask)}.sum()" if loss.reduction == "batchmean" else count
    edits += _replaced(file, loss, sides, new, added, f" / {divisor}" if is_mean else "")
    reason = "both inputs are zero where the mask is False, and the sum is divided by the mask's count"
    return Form(tuple(edits), imports, reason, doubt or _unseen(file, is_mean=is_mean))


def _summing(file: FileFacts, loss: Loss) -> list[Edit]:
    """Ask for a sum where a loss is told how to reduce."""
    given = loss.options.get("reduction")
    return [replace(file.source, given, quoted(file.source, "sum"))] if given is not None else []


def summed(file: FileFacts, call: cst.Call, side: Gather, reduction: str) -> Form:
    """`losses[mask].mean()` and `.sum()`: everything is summed, with zeros where the mask is false.

    Raises:
        NoForm: as `cleaned`.
    """
    sides, is_mean = {"tensor": side}, reduction == "mean"
    _check_sums(file, sides, is_mean=is_mean)
    _check_mask(file, call, sides, is_read_at_call=is_mean)
    torch, imports = file.names.spelled("torch", call)
    mask, count, doubt = _covering(file, sides, is_counted=True)
    clean = f"{torch}.where({mask}, {_inner(file, side)}{side.casts}, 0)"
    edits = [*_assigned(file, side, clean)] if side.statements else []
    total = f"{file.code(subject(call)) if side.statements else clean}.sum()"
    text = total + (f" / {count}" if is_mean else "")
    edits.append(replace(file.source, call, _closed(file, call, text) if is_mean else text))
    reason = "the elements outside of the mask add zero to the sum"
    return Form(tuple(edits), imports, reason, doubt or _unseen(file, is_mean=is_mean))


def _check_sums(file: FileFacts, sides: Mapping[str, Gather], *, is_mean: bool) -> None:
    """Raises `NoForm` where a sum is not what a selection's mean is made of, or may overflow."""
    if any(side.by_rows for side in sides.values()):
        raise NoForm("the mask selects whole rows, not single elements")
    if is_mean and file.values.uses_half():
        raise NoForm(_HALF)


def _unseen(file: FileFacts, *, is_mean: bool) -> str:
    return _UNSEEN if is_mean and not file.steps.found else ""


def _check_mask(file: FileFacts, call: cst.Call, sides: Mapping[str, Gather], *, is_read_at_call: bool) -> None:
    """Raises `NoForm` unless the mask can be written once more, at `call` too where it is read there."""
    every = list(sides.values())
    mask = file.code(every[0].mask)
    if not is_repeatable(file, every[0].mask):
        raise NoForm(f"`{mask}` may give another mask each time it is evaluated")
    if is_read_at_call and not all(is_unchanged(file, side.mask, call, besides=side.statements[:-1]) for side in every):
        raise NoForm(f"`{mask}` is changed between the selection and its use")


def _covering(file: FileFacts, sides: Mapping[str, Gather], *, is_counted: bool) -> tuple[str, str, str]:
    """The mask over all elements of what it selects from, the code of how many it selects, and what is not shown.

    Raises:
        NoForm: their numbers of dimensions are not known, or not the same.
    """
    every = list(sides.values())
    mask, rank = every[0].mask, rank_of_mask(file, every[0].mask)
    code, count = file.code(mask), f"{postfix(file, mask)}.sum()"
    ranks = {file.value(side.base).rank for side in every}
    if any(_fits(file, side) for side in every):
        if rank is not None and ranks - {rank, None}:
            raise NoForm(f"`{code}` has fewer dimensions than the tensor it selects from")
        return code, count, next(filter(None, (_doubt(file, side) for side in every)), "")
    first = every[0]
    is_of_rows = all(isinstance(side.selection, cst.Subscript) for side in every) and rank is not None
    if not is_of_rows or ranks != {(rank or 0) + 1}:
        raise NoForm(f"`{code}` is not known to have as many dimensions as the tensor it selects from")
    if is_counted:
        if not all(file.shapes.same(first.base, side.base) for side in every) or not isinstance(first.base, cst.Name):
            raise NoForm(f"the length of the rows that `{code}` selects could not be determined")
        count = f"({count} * {file.code(first.base)}.size(-1))"
    return f"{postfix(file, mask)}.unsqueeze(-1)", count, ""


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
    return f"`{mask}` is not known to have as many dimensions as `{base}`"


def _inner(file: FileFacts, side: Gather) -> str:
    return postfix(file, side.base) if side.casts else file.code(side.base)


def _replaced(
    file: FileFacts,
    loss: Loss,
    sides: Mapping[str, Gather],
    new: Mapping[str, str],
    added: Sequence[str] = (),
    behind: str = "",
) -> Iterator[Edit]:
    """Put the new sides where they are assigned, or into the call, which gets further arguments and a divisor."""
    call, source = loss.call, file.source
    inline = {sides[name].node: text for name, text in new.items() if not sides[name].statements}
    for name, text in new.items():
        if sides[name].statements:
            yield from _assigned(file, sides[name], text)
    if behind and loss.made is None and "reduction" in loss.options:
        inline[loss.options["reduction"]] = quoted(source, "sum")
    if not (inline or added or behind):
        return
    start, end = source.span(call)
    is_apart = all(source.line(first) < source.line(second) for first, second in pairwise((call, *call.args)))
    if is_apart or "#" in source.text[start:end] or (behind and loss.made is call.func):
        for node, text in inline.items():
            yield replace(source, node, text)
        for text in added:
            yield from add_keyword(source, call, text)
        closed = _closed(file, call, behind) if behind else ""
        if closed != behind:
            yield Edit(start, start, "(", source.path)
        yield Edit(end, end, behind + ")" * (closed != behind), source.path)
        return
    arguments = [
        (f"{arg.keyword.value}=" if arg.keyword is not None else "") + inline.get(arg.value, file.whole_code(arg.value))
        for arg in call.args
    ]
    text = call_text(source, start, file.code(call.func), [*arguments, *added], behind)
    yield replace(source, call, _closed(file, call, text) if behind else text)


def _assigned(file: FileFacts, side: Gather, text: str) -> Iterator[Edit]:
    """Put `text` where a variable is assigned the selection; drop the assignments that led there."""
    yield replace(file.source, side.node, text)
    for statement in side.statements[:-1]:
        yield from delete_statement(file.source, statement)


def _closed(file: FileFacts, call: cst.Call, text: str) -> str:
    """A quotient in parentheses where it stands inside of another expression."""
    around = (cst.BinaryOperation, cst.UnaryOperation, cst.Attribute, cst.Subscript, cst.Await)
    return f"({text})" if isinstance(file.tree.parent(call), around) and not call.lpar else text


# Logits as a class-index loss wants them, without the selection: with the classes in dimension 1


def _classes_second(file: FileFacts, logits: Gather) -> tuple[cst.BaseExpression | None, tuple[Edit, ...]]:
    """The logits before a permutation of the classes to the end, and edits that drop an assignment of it."""
    base = logits.base
    moved = _classes_moved_last(file, base)
    if moved is not None or not isinstance(base, cst.Name):
        return moved, ()
    definition = sole_definition(file, base)
    if definition is None or definition.value is None or definition.path:
        return None, ()
    moved = _classes_moved_last(file, definition.value)
    if not isinstance(moved, (cst.Name, cst.Attribute)) or not is_unchanged(file, moved, base):
        return None, ()
    is_unread = len(file.flow.uses(definition)) == 1 and assignment_of(file, definition) is not None
    return moved, _without(file, definition.node) if is_unread else ()


def _classes_moved_last(file: FileFacts, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """`x` of `x.permute(0, 2, 3, 1)` and its other spellings, with or without `.contiguous()`."""
    if not isinstance(node, cst.Call):
        return None
    name = file.qualified(node)
    if name is not None and name.startswith("torch.") and node.args:
        short, moved, arguments = name.removeprefix("torch."), node.args[0].value, positional(node.args[1:])
    elif name is None and isinstance(node.func, cst.Attribute):
        short, moved, arguments = node.func.attr.value, node.func.value, positional(node.args)
    else:
        return None
    if short == "contiguous" and not arguments:
        return _classes_moved_last(file, moved)
    if len(arguments) == 1 and isinstance(arguments[0], (cst.Tuple, cst.List)):
        arguments = [element.value for element in arguments[0].elements]
    if short == "permute":
        dims = [int(dim.value) if isinstance(dim, cst.Integer) else None for dim in arguments]
        return moved if dims == [0, *range(2, len(dims)), 1] else None
    if short == "movedim" and len(arguments) == 2:
        first, last = arguments
        return moved if isinstance(first, cst.Integer) and first.value == "1" and is_minus_one(last) else None
    return None


def _without(file: FileFacts, target: cst.CSTNode) -> tuple[Edit, ...]:
    """Drop an assignment, a `with record_function(...)` that held nothing else, and the comment on just that."""
    source, statement = file.source, file.tree.statement(target)
    line = file.tree.line(statement)
    if len(getattr(line, "body", ())) != 1:
        return delete_statement(source, statement)
    block = file.tree.parent(line)
    around = file.tree.parent(block) if block is not None else None
    ranges = around.items if isinstance(around, cst.With) and len(file.tree.block(line)) == 1 else ()
    if isinstance(around, cst.With) and ranges:
        names = {canonical(file.qualified(item.item) or "") for item in ranges}
        line = around if names <= _RANGES else line
    return delete_with_comment(source, (line,))
