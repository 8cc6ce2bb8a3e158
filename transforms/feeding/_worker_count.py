"""How many workers a loader gets: as many as this process may use, up to eight; and the name that holds the number."""

from __future__ import annotations

import itertools

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all

_EXPRESSION = 'min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)'


def count(file: FileFacts) -> tuple[str, str]:
    """A module-level name that is free in the file, or that holds just this number of workers, and its
    line.
    """
    written = {node.value for node in find_all(file.source.module, cst.Name)}
    candidates = itertools.chain(("NUM_WORKERS",), (f"LOADER_WORKERS_{n}" for n in itertools.count(1)))
    name = next(n for n in candidates if n not in written or _holds_count(file, n))
    return name, f"{name} = {_EXPRESSION}"


def _holds_count(file: FileFacts, name: str) -> bool:
    """Whether every binding of a name in the file is the line that this rule adds."""
    bound = list(file.flow.bound(file.source.module, name))
    for function in find_all(file.source.module, cst.FunctionDef):
        bound += file.flow.bound(function, name)
    return bool(bound) and all(d.value is not None and file.code(d.value) == _EXPRESSION for d in bound)
