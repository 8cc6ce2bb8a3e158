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


def all_positional(arguments: Sequence[cst.Arg]) -> list[cst.BaseExpression] | None:
    """The arguments passed by position; `None` where `*` hides how many there are."""
    return None if any(arg.star == "*" for arg in arguments) else positional(arguments)


def has_dim(arguments: Sequence[cst.Arg]) -> bool:
    """Whether a reduction is told a dimension; `arguments` are those behind the tensor."""
    return keyword(arguments, "dim", "axis") is not None or bool(positional(arguments))


def sizes_rank(arguments: Sequence[cst.Arg], is_number: Callable[[cst.CSTNode], bool]) -> int | None:
    """Number of dimensions that sizes as in `view(-1, n)` or `zeros((a, b))` give."""
    sizes = all_positional(arguments) or ()
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
    if short in torch_api.LOSS_FUNCTIONS:
        is_mean = is_reduced(arguments) and len(positional(arguments)) <= 2
        return 0 if is_mean else None
    if short in torch_api.REDUCTIONS:
        return _reduced_rank(short, subject, arguments, is_number)
    if short in ("view", "reshape", "expand", "repeat", "permute"):
        return sizes_rank(arguments, is_number)
    if short == "masked_select" or (short in ("flatten", "ravel", "bincount", "unique") and not arguments):
        return 1
    if short in ("unsqueeze", "one_hot"):
        return subject + 1 if subject is not None else None
    return subject if short in torch_api.ELEMENTWISE or short in _SAME else None


def _reduced_rank(
    short: str, subject: int | None, arguments: Sequence[cst.Arg], is_number: Callable[[cst.CSTNode], bool]
) -> int | None:
    given = positional(arguments)
    if not has_dim(arguments):
        return 0 if all_positional(arguments) is not None else None
    one = keyword(arguments, "dim", "axis")
    if one is None:
        # What `norm` is given first is an order, and what `std` is given may be a flag.
        one = None if short == "norm" or len(given) > 1 else given[0]
    is_one = one is not None and (is_minus_one(one) or is_number(one))
    is_flag = isinstance(one, cst.Name) and one.value in ("True", "False")
    if not is_one or is_flag or not subject:
        return None
    keepdim = keyword(arguments, "keepdim")
    if keepdim is not None and not (isinstance(keepdim, cst.Name) and keepdim.value in ("True", "False")):
        return None
    return subject if isinstance(keepdim, cst.Name) and keepdim.value == "True" else subject - 1


def is_reduced(arguments: Sequence[cst.Arg]) -> bool:
    """Whether a loss is told no reduction by keyword, or one to a single element."""
    reduction = keyword(arguments, "reduction")
    is_one = isinstance(reduction, cst.SimpleString) and reduction.evaluated_value in ("mean", "sum")
    return keyword(arguments, "reduce", "size_average") is None and (reduction is None or is_one)


def is_minus_one(node: cst.CSTNode) -> bool:
    """Whether an expression is the literal `-1`."""
    return (
        isinstance(node, cst.UnaryOperation)
        and isinstance(node.operator, cst.Minus)
        and isinstance(node.expression, cst.Integer)
        and node.expression.value == "1"
    )
