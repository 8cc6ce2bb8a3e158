"""What is inside of batches, inputs and outputs: tensors in lists, mappings, and objects of graph libraries."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import FunctionType, MethodType, ModuleType
from typing import Any, Callable, Iterator

import torch

_DEEPEST = 12
_NEITHER = (type, FunctionType, MethodType, ModuleType, torch.Generator)


def leaves(value: Any, depth: int = 0) -> Iterator[Any]:
    """Tensors, arrays, numbers and texts in an order that does not depend on how mappings were filled."""
    if value is None or isinstance(value, _NEITHER) or depth > _DEEPEST:
        return
    if is_leaf(value):
        yield value
        return
    for part in _parts(value):
        yield from leaves(part, depth + 1)


def is_leaf(value: Any) -> bool:
    """Whether it is looked at as a whole."""
    return isinstance(value, (torch.Tensor, bool, int, float, complex, str, bytes)) or is_array(value)


def is_array(value: Any) -> bool:
    """Whether it is an array or a number of NumPy's, which need not be installed."""
    return hasattr(value, "dtype") and hasattr(value, "tobytes")


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield value[key]
    elif isinstance(value, AbstractSet):
        yield from sorted(value, key=str)
    elif isinstance(value, Sequence):
        yield from value
    elif callable(getattr(value, "to_dict", None)):
        yield value.to_dict()
    else:
        attributes = getattr(value, "__dict__", {})
        for name in sorted(attributes):
            yield attributes[name]


def rows(batch: Any) -> int:
    """How many samples a batch holds: graphs in a batch of graphs, else the length of the first thing that has one."""
    graphs = getattr(batch, "num_graphs", None)
    if isinstance(graphs, int):
        return graphs
    if isinstance(batch, Mapping):
        batch = list(batch.values())
    first = batch[0] if isinstance(batch, (list, tuple)) and batch else batch
    if isinstance(first, torch.Tensor):
        return int(first.shape[0]) if first.dim() else 1
    return len(first) if isinstance(first, (list, tuple)) or (is_array(first) and first.ndim) else 1


def mapped(value: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The same structure with other tensors; what holds none comes back as it is."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, tuple):
        parts = [mapped(part, function) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, list):
        return [mapped(part, function) for part in value]
    if isinstance(value, Mapping) and hasattr(value, "__setitem__"):
        filled = copy.copy(value)
        for key in list(value):
            filled[key] = mapped(value[key], function)
        return filled
    if callable(getattr(value, "to_dict", None)) and callable(getattr(value, "apply", None)):  # a graph
        return copy.copy(value).apply(function)
    return value
