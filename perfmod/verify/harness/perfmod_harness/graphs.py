"""Graphs of autograd, as they stand behind what is differentiated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, Iterator

if TYPE_CHECKING:
    from torch import Tensor


def nodes(roots: Iterable[Tensor]) -> Iterator[Any]:
    """Those behind tensors, each once, in the order in which the graph has them."""
    waiting: list[Any] = [root.grad_fn for root in roots if root.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        yield node
        following = [each for each, _ in node.next_functions if each is not None and each not in seen]
        seen.update(following)
        waiting += following


def leaves(roots: Iterable[Tensor]) -> list[Tensor]:
    """The tensors in whose `grad` a backward pass from `roots` adds up."""
    variables = (getattr(node, "variable", None) for node in nodes(roots))
    return [variable for variable in variables if variable is not None]
