"""A family of rules as a LibCST codemod command."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import libcst as cst
from libcst.codemod import CodemodCommand

from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, Outcome
from perfmod.transforms.finding import Family, Numerics, Safety

_KEPT = (Numerics.BITWISE, Numerics.ROUNDING)


class FamilyCommand(CodemodCommand):
    """Applies the safe rewrites of one family. The runner of LibCST reads and writes the files."""

    opts_in: ClassVar[bool] = False
    """Whether who runs the command has chosen the opt-in rules too, as far as they keep the mathematics."""

    @property
    @abstractmethod
    def family(self) -> Family:
        """The rules that it runs. A command without them is none, and `libcst.tool list` does not show it."""

    def transform_module_impl(self, tree: cst.Module) -> cst.Module:
        """The rewritten module. Raises `RuntimeError` with the reason where the engine fails on the file."""
        rules = catalog.select(catalog.rules(), [self.family.value], [])
        chosen = (rule.code for rule in rules if rule.safety is Safety.OPT_IN and rule.numerics in _KEPT)
        choice = Choice(opted_in=frozenset(chosen if self.opts_in else ()))
        result = rewrite(tree.bytes, self.context.filename or "<stdin>", rules, choice)
        if result.outcome is Outcome.FAILED:
            raise RuntimeError(result.reason)
        for warning in result.warnings:
            self.warn(warning)
        return cst.parse_module(result.after) if result.outcome is Outcome.CHANGED else tree
