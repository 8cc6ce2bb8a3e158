"""A family of rules as a LibCST codemod command."""

from __future__ import annotations

from typing import ClassVar

import libcst as cst
from libcst.codemod import CodemodCommand

from perfmod.codemods import catalog
from perfmod.codemods.engine import Outcome, rewrite
from perfmod.transforms.rule import Family


class FamilyCommand(CodemodCommand):
    """Applies the safe rewrites of one family. The runner of LibCST reads and writes the files."""

    family: ClassVar[Family]

    def transform_module_impl(self, tree: cst.Module) -> cst.Module:
        """The rewritten module. Raises `RuntimeError` with the reason where the engine fails on the file."""
        rules = catalog.select([self.family.value], [])
        result = rewrite(tree.bytes, self.context.filename or "<stdin>", rules)
        if result.outcome is Outcome.FAILED:
            raise RuntimeError(result.reason)
        for warning in result.warnings:
            self.warn(warning)
        return cst.parse_module(result.after) if result.outcome is Outcome.CHANGED else tree
