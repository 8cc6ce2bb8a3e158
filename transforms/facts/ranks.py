"""How many dimensions the result of a tensor operation has, from those of its subject and the arguments as written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import libcst as cst

from perfmod.transforms.facts import torch_api

RankOf = Callable[[cst.CSTNode], "int | None"]
_SAME = frozenset(
    {
        "transpose",
        "swapaxes",
        "roll",
        "flip",
        "gather",
        "sort",
        "argsort",
        "masked_fill_",
        "copy_",
        "T",
        "narrow",
    }
)


def keyword(arguments: Sequence[cst.Arg], *names: str) -> cst.BaseExpression | None:
    """The argument passed by one of these keywords."""
    return next((arg.value for arg in arguments if arg.keyword is not None and arg.keyword.value in names), None)


def positional(arguments: Sequence[cst.Arg]) -> list[cst.BaseExpression]:
    """The arguments passed by position, as far as no `*` comes among them."""
    found = []
    for arg in arguments:
        if arg.star:
            break
        if arg.keyword is None:
            found.append(arg.value)
    return found


def has_dim(arguments: Sequence[cst.Arg]) -> bool:
    """Whether a reduction is told a dimension; `arguments` are those behind the tensor."""
    return keyword(arguments, "dim", "axis") is not None or bool(positional(arguments))


def sizes_rank(sizes: Sequence[cst.BaseExpression], is_number: Callable[[cst.CSTNode], bool]) -> int | None:
    """Number of dimensions that sizes as in `view(-1, n)` or `zeros((a, b))` give."""
    if len(sizes) == 1 and isinstance(sizes[0], (cst.Tuple, cst.List)):
        elements = sizes[0].elements
        return None if any(isinstance(element, cst.StarredElement) for element in elements) else len(elements)
    if len(sizes) > 1 or (sizes and (is_number(sizes[0]) or is_minus_one(sizes[0]))):
        return len(sizes)
    return None


def operation_rank(
    short: str,
    subject: int | None,
    arguments: Sequence[cst.Arg],
    is_number: Callable[[cst.CSTNode], bool],
) -> int | None:
    """Number of dimensions of `subject.short(*arguments)`; `None` where it is not known."""
    given = positional(arguments)
    if short in torch_api.ELEMENTWISE or short in _SAME:
        return subject
    if short in torch_api.LOSS_FUNCTIONS:
        return 0 if keyword(arguments, "reduction", "reduce") is None else None
    if short in torch_api.REDUCTIONS:
        if not has_dim(arguments):
            return 0
        kept = keyword(arguments, "keepdim")
        one = keyword(arguments, "dim", "axis") or given[0]
        if kept is not None or len(given) > 1 or isinstance(one, (cst.Tuple, cst.List)):
            return None
        return subject - 1 if subject is not None else None
    if short in ("view", "reshape", "expand", "repeat"):
        return sizes_rank(given, is_number)
    if short in ("flatten", "ravel", "masked_select", "bincount", "unique"):
        return 1 if not arguments else (1 if short == "masked_select" else None)
    if short == "permute":
        return sizes_rank(given, is_number)
    if short == "unsqueeze":
        return subject + 1 if subject is not None else None
    if short == "one_hot":
        return subject + 1 if subject is not None else None
    return None


def is_minus_one(node: cst.CSTNode) -> bool:
    """Whether an expression is the literal `-1`."""
    return (
        isinstance(node, cst.UnaryOperation)
        and isinstance(node.operator, cst.Minus)
        and isinstance(node.expression, cst.Integer)
        and node.expression.value == "1"
    )
