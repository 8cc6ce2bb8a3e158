"""Names for the variables that a rewrite brings along."""

from __future__ import annotations

import itertools

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all


class UnusedNames:
    """Names that no code of a file uses, in any scope and for anything; each is given away once."""

    def __init__(self, file: FileFacts) -> None:
        self._taken = {name.value for name in find_all(file.tree.module, cst.Name)}

    def take(self, wanted: str) -> str:
        """`wanted`, or `wanted_2` and so on, whichever is still free."""
        candidates = itertools.chain((wanted,), (f"{wanted}_{number}" for number in itertools.count(2)))
        name = next(name for name in candidates if name not in self._taken)
        self._taken.add(name)
        return name
