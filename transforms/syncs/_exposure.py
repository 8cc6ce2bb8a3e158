"""Whether files that are not in sight may use what a file defines."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.entry import is_main_test
from perfmod.transforms.facts.file import FileFacts


def is_exposed(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether files that are not in sight may import the function or class that `file` defines at `node`."""
    if file.world.is_linked or file.flow.is_open(node):
        return file.flow.is_open(node)
    return not _is_script(file)


def _is_script(file: FileFacts) -> bool:
    """Whether the file is there to be run, not to be imported: it trains, or has a `__main__` guard."""
    tests = (statement.test for statement in file.source.module.body if isinstance(statement, cst.If))
    trains = any(file.entry.runs_on_import(region) is not None for region in file.steps.regions if file.is_own(region))
    return trains or any(is_main_test(test) for test in tests)
