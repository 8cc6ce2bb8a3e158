"""What is tried: some of the rules, and what those write that leave something to choose."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from attrs import evolve, frozen

from perfmod.transforms.policy import MOST_WORKERS, CompileMode

COMPILE = "PM303"
WORKERS = "PM201"
ON_THE_DEVICE = "PM315"
"""Its gain shows only together with the loader."""
RECORDED = "PM314"
"""Records the step as a CUDA graph, as compiled models do themselves in other modes than the default one."""
NOT_TRIED = ("PM311",)
"""Rules that are left out: it starts a script otherwise, which is no setting."""


@frozen
class Stack:
    """Rules that are applied together.

    Attributes:
        codes: of the rules.
        compile_mode: in which models are compiled; the default one where none is.
        workers: the most workers of a loader; the usual number where none gets any.
    """

    codes: frozenset[str] = frozenset()
    compile_mode: CompileMode = CompileMode.DEFAULT
    workers: int = MOST_WORKERS

    @classmethod
    def of(
        cls,
        codes: Collection[str],
        compile_mode: CompileMode = CompileMode.DEFAULT,
        workers: int = MOST_WORKERS,
    ) -> Stack:
        """The stack of some rules; what none of them writes is left at its default, so that equal code is equal.

        A step is not recorded around a model that is compiled to replay graphs of its own.
        """
        mode = compile_mode if COMPILE in codes else CompileMode.DEFAULT
        together = frozenset(codes) if mode is CompileMode.DEFAULT else frozenset(codes) - {RECORDED}
        return cls(together, mode, workers if WORKERS in codes else MOST_WORKERS)

    def under(self, codes: Collection[str]) -> Stack:
        """With other rules."""
        return Stack.of(codes, self.compile_mode, self.workers)

    @property
    def settings(self) -> tuple[tuple[str, Any], ...]:
        """Fields of `perfmod.config.Settings` that differ from their defaults."""
        usual = Stack()
        chosen = (("compile_mode", self.compile_mode), ("workers", self.workers))
        return tuple((name, value) for name, value in chosen if value != getattr(usual, name))

    @property
    def parameters(self) -> Stack:
        """What is chosen, without the rules."""
        return evolve(self, codes=frozenset())

    def __str__(self) -> str:
        told = {COMPILE: self.compile_mode.value, WORKERS: str(self.workers)}
        unusual = {COMPILE: self.compile_mode is not CompileMode.DEFAULT, WORKERS: self.workers != MOST_WORKERS}
        names = (f"{code} ({told[code]})" if unusual.get(code) else code for code in sorted(self.codes))
        return " + ".join(names) or "as written"
