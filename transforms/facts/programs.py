"""Which files run together."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_any


def run_with(file: FileFacts) -> Collection[cst.Module]:
    """The files of the programs that a file belongs to: those that no other imports, and all that these import."""
    imports = file.once(_imports)
    imported = set().union(*imports.values())
    own = file.source.module
    programs = [module for module in imports if module not in imported]
    reached = [found for program in programs if own in (found := _reached(imports, program))]
    return set().union(*reached) or {own}


def _reached(imports: Mapping[cst.Module, Collection[cst.Module]], program: cst.Module) -> set[cst.Module]:
    found, waiting = {program}, [program]
    while waiting:
        new = set(imports[waiting.pop()]) - found
        found |= new
        waiting += new
    return found


def _imports(file: FileFacts) -> Mapping[cst.Module, Collection[cst.Module]]:
    """What each file imports of the others."""
    return {
        module: {
            imported
            for alias in find_any(module, cst.ImportAlias, cst.ImportStar)
            for imported in file.flow.imported(alias)
            if imported is not module
        }
        for module in file.tree.modules
    }
