"""Which files run together."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_any


def run_with(file: FileFacts) -> Collection[cst.Module]:
    """The files of the programs that a file belongs to: those that no other imports, and all that these import."""
    known = file.once(imports)
    imported = set().union(*known.values())
    own = file.source.module
    programs = [module for module in known if module not in imported]
    together = [found for program in programs if own in (found := reached_from(program, known))]
    return set().union(*together) or {own}


def reached_from(module: cst.Module, known: Mapping[cst.Module, Collection[cst.Module]]) -> set[cst.Module]:
    """A file and all that it imports, and these do, by what is known of each."""
    found, waiting = {module}, [module]
    while waiting:
        new = set(known[waiting.pop()]) - found
        found |= new
        waiting += new
    return found


def imports(file: FileFacts) -> Mapping[cst.Module, Collection[cst.Module]]:
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
