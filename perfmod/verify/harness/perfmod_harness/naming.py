"""Names for tensors that are the same on both sides of a comparison."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Iterator

from torch.nn.parallel import DataParallel, DistributedDataParallel

from .tensors import HALVES

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer

    from .by_hand import ByHand

# torch.compile and the parallel wrappers put the module that they wrap under these names.
_WRAPPED = re.compile(r"(?:(?<=\.)|^)(?:_orig_mod|module)\.")


class Names:
    """Modules, numbered by their first outermost call, and the names of what they hold."""

    def __init__(self) -> None:
        self._roots: list[Module] = []
        self._met: dict[int, Module] = {}  # kept, or another might get its id

    def meet(self, module: Module) -> bool:
        """Note a module. Returns whether it brings parameters or buffers that no other has named."""
        if id(module) in self._met:
            return False
        self._met[id(module)] = module
        known = {id(tensor) for _, tensor in (*self.parameters(), *self.buffers())}
        held = (*module.parameters(), *module.buffers())
        if all(id(tensor) in known for tensor in held):
            return False
        self._roots.append(module)
        return True

    def roots(self) -> list[Module]:
        """Those that brought something to be named."""
        return list(self._roots)

    def holds_half(self) -> bool:
        """Whether any parameter is of a half type."""
        return any(parameter.dtype in HALVES for _, parameter in self.parameters())

    def parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Of all modules, each once."""
        return self._unique(
            (n, key, tensor) for n, root in enumerate(self._roots) for key, tensor in root.named_parameters()
        )

    def buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Of all modules, each once."""
        return self._unique(
            (n, key, tensor) for n, root in enumerate(self._roots) for key, tensor in root.named_buffers()
        )

    def optimized(self, optimizer: Optimizer | ByHand, number: int) -> Iterator[tuple[str, Tensor]]:
        """The parameters of an optimizer, under the names that modules give them, or else by their places in it."""
        names = {id(tensor): name for name, tensor in self.parameters()}
        for group, options in enumerate(optimizer.param_groups):
            for index, parameter in enumerate(options["params"]):
                yield names.get(id(parameter), f"optimizer{number}.{group}.{index}"), parameter

    @staticmethod
    def _unique(tensors: Iterator[tuple[int, str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
        seen: set[int] = set()
        taken: set[str] = set()
        for number, key, tensor in tensors:
            if id(tensor) in seen:
                continue
            name = f"{number}.{_WRAPPED.sub('', key)}"
            if name in taken:  # the script's own `module`
                name = f"{number}.{key}"
            seen.add(id(tensor))
            taken.add(name)
            yield name, tensor


def class_name(module: Module) -> str:
    """The name of the script's class, not that of a wrapper."""
    while True:
        inner = getattr(module, "_orig_mod", None)
        if inner is None and isinstance(module, (DataParallel, DistributedDataParallel)):
            inner = module.module
        if inner is None:
            return type(module).__name__
        module = inner
