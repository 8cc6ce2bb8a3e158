"""Copies of the weights that a script keeps beside its model, such as moving averages.

Nobody calls them while the model is trained, and no optimizer knows them: what is wrong with them shows long after. So
they are looked for where the script keeps things: in its variables, and in what these hold.
"""

from __future__ import annotations

import sys
from collections import Counter
from types import FrameType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping

import torch
from torch import Tensor, nn

from . import replays

if TYPE_CHECKING:
    from .naming import Names

_MOST = 20_000
"""Things that are looked at."""
_LONGEST = 4096
"""Members of a list that may be tensors of a model; longer ones hold data."""
_LONGEST_OF_OTHERS = 256
_DEEPEST = 6
_PARTS = ("_parameters", "_buffers", "_modules")
_NOT_ENTERED = (str, bytes, int, float, complex, type, ModuleType, FunctionType, torch.optim.Optimizer)


def copies(names: Names, root: str) -> Iterator[tuple[str, Tensor]]:
    """The tensors of all copies, by where they are kept. `root`: the folder of the script's own code."""
    known = {id(tensor) for _, tensor in (*names.parameters(), *names.buffers())}
    models = [Counter(tuple(p.shape) for p in model.parameters() if p.requires_grad) for model in names.roots()]
    search = _Search(known, [model for model in models if model])
    if not search.models:
        return
    for place, variables in _variables(root):
        for name, value in variables:
            yield from search.within(f"{place}{name}", value, 0)


def _variables(root: str) -> Iterator[tuple[str, Iterable[tuple[str, Any]]]]:
    """Those of the functions that run and of the files that they are in, from the outermost."""
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename.startswith(root):
            frames.append(frame)
        frame = frame.f_back
    entered = set()
    for each in reversed(frames):
        for place, variables in (("", each.f_globals), (f"{each.f_code.co_name}: ", each.f_locals)):
            if id(variables) not in entered:
                entered.add(id(variables))
                yield place, list(variables.items())


class _Search:
    """For what has a tensor for every parameter of a model.

    Args:
        known: ids of tensors that belong to models, or are trained.
        models: how often parameters of each shape occur in them.
    """

    def __init__(self, known: set[int], models: list[Counter[tuple[int, ...]]]) -> None:
        self.models = models
        self._known = known
        self._seen: dict[int, Any] = {}  # kept, or another might get its id

    def within(self, place: str, value: Any, depth: int) -> Iterator[tuple[str, Tensor]]:
        """Of a value that is kept there, and of what it holds."""
        if (
            isinstance(value, (Tensor, *_NOT_ENTERED, *replays.recorders))
            or depth > _DEEPEST
            or len(self._seen) > _MOST
        ):
            return
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        members = _members(value)
        tensors = _of_module(value) if isinstance(value, nn.Module) else _tensors(members)
        own = {key: tensor for key, tensor in tensors.items() if id(tensor) not in self._known}
        shapes = Counter(tuple(tensor.shape) for tensor in own.values() if tensor.is_floating_point())
        if any(not model - shapes for model in self.models):
            self._known.update(map(id, own.values()))
            for key, tensor in own.items():
                yield f"{place}.{key}", tensor.detach()
            return
        if isinstance(value, nn.Module) and not own:
            # The parts of a model are no copies; what it keeps beside them may be one.
            members = {key: member for key, member in members.items() if key not in _PARTS}
        for key, member in members.items():
            yield from self.within(f"{place}.{key}", member, depth + 1)


def _members(value: Any) -> Mapping[str, Any]:
    if isinstance(value, (Mapping, list, tuple)):
        pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
        first = next(iter(pairs), (None, None))[1]
        if len(value) > (_LONGEST if isinstance(first, Tensor) else _LONGEST_OF_OTHERS):
            return {}
        return {str(key): member for key, member in (value.items() if isinstance(value, Mapping) else enumerate(value))}
    try:
        return dict(vars(value))
    except TypeError:  # it has none
        return {}


def _of_module(module: nn.Module) -> dict[str, Tensor]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _tensors(members: Mapping[str, Any]) -> dict[str, Tensor]:
    return {key: member for key, member in members.items() if isinstance(member, Tensor)}
