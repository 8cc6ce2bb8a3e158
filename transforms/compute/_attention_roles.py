"""Which factors of attention's products are queries, keys and values, and how their axes have to stand."""

from __future__ import annotations

import libcst as cst
from attrs import frozen

from perfmod.transforms.compute._attention import Attention, leads_on
from perfmod.transforms.compute._attention_masks import Mask
from perfmod.transforms.compute._attention_products import (
    REST,
    Axes,
    Other,
    Stays,
    is_transposed,
    permutation,
    untransposed,
)
from perfmod.transforms.facts.file import FileFacts

Order = tuple[Axes, Axes]
"""The axes of a tensor as they stand, and as SDPA wants them."""


@frozen
class Roles:
    """The tensors of an attention.

    Attributes:
        query: the queries, as they stand in the product.
        key: the keys.
        value: the values.
        query_axes: the order of their axes; likewise for the others.
        output_change: what brings the axes of SDPA's result into the order of the product with the values.
        is_single: whether the tensors have three axes, for which there is no fused kernel, and no mask has.
        is_masked_plainly: whether the axes of the scores stand as a mask's have to.
    """

    query: cst.BaseExpression
    key: cst.BaseExpression
    value: cst.BaseExpression
    query_axes: Order
    key_axes: Order
    value_axes: Order
    output_change: str
    is_single: bool
    is_masked_plainly: bool

    @property
    def is_turned(self) -> bool:
        """Whether the last axis of the queries is not their features."""
        return self.query_axes[0][-1] != self.query_axes[1][-1]

    def key_as_written(self, file: FileFacts) -> cst.BaseExpression:
        """The keys before they were transposed for the product."""
        return untransposed(file, self.key, None) or self.key

    def require_plain(self, file: FileFacts, mask: Mask) -> None:
        """Raises `Stays` where a mask would need its axes in another order."""
        if not self.is_masked_plainly:
            raise Stays(f"the axes of the mask on line {file.line(mask.node)} stand in another order than SDPA's")


def roles(file: FileFacts, whole: Attention) -> Roles:
    """Tells the factors apart. Raises `Other`, and `Stays` where heads are missing in one of them."""
    scores, output, key = whole.scores, whole.output, whole.key
    holding = [index for index in (0, 1) if key in scores.axes[index]]
    if len(holding) != 1:
        raise Other
    keys, queries = scores.axes[holding[0]], scores.axes[1 - holding[0]]
    values = output.axes[1 - whole.weights]
    if key in output.result and leads_on(file, output.node):
        raise Stays(f"`{file.code(output.node)}` on line {file.line(output.node)} changes the weights")
    if len((set(queries) - set(keys)) & set(scores.result)) > 1:
        raise Stays(f"heads or samples are shared in the product on line {file.line(scores.node)}")
    row = _only(set(queries) - set(keys), set(scores.result))
    summed = _only((set(queries) & set(keys)) - set(scores.result), set(keys))
    feature = _only(set(values) - set(scores.result), set(output.result))
    if key not in values or key in output.result or row not in output.result:
        raise Other
    batch = tuple(axis for axis in scores.result if axis not in (row, key))
    for axes, extra in ((queries, (row, summed)), (keys, (key, summed)), (values, (key, feature))):
        if set(axes) != {*batch, *extra}:
            raise Stays(f"heads or samples are shared in the product on line {file.line(scores.node)}")
    if not batch:
        raise Stays("the tensors have two dimensions, for which there is no fused kernel")
    query, key_node = scores.factors[1 - holding[0]], scores.factors[holding[0]]
    if not isinstance(scores.node, cst.Call) or "einsum" not in file.code(scores.node.func):
        turned = key_node if keys[-1] == key else query
        if not is_transposed(file, turned):
            raise Other
    value = output.factors[1 - whole.weights]
    if len({_cast(each) for each in (query, key_node, value)}) > 1:
        raise Stays(f"one of the tensors is cast where it is multiplied, on line {file.line(output.node)}")
    change = permutation((*batch, row, feature), output.result)
    if change is None:
        raise Stays(f"the result on line {file.line(output.node)} has its axes in another order")
    return Roles(
        query,
        key_node,
        value,
        (queries, (*batch, row, summed)),
        (keys, (*batch, key, summed)),
        (values, (*batch, key, feature)),
        change,
        is_single=len(batch) == 1 and REST not in batch and not whole.masks,
        is_masked_plainly=scores.result == (*batch, row, key),
    )


def _only(names: set[str], among: set[str]) -> str:
    if len(names) != 1 or not names <= among:
        raise Other
    return next(iter(names))


def _cast(node: cst.BaseExpression) -> str:
    """The method by which a tensor is cast at the very place: all three have to be of one type."""
    method = node.func.attr.value if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) else ""
    return method if method in ("float", "half", "bfloat16", "to", "type", "type_as") else ""
