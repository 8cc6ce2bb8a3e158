"""Signs that a program minds its memory: it catches running out, sets limits, or collects garbage by a plan."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import walk
from perfmod.transforms.syncs._waiting import other_libraries
from perfmod.transforms.writing import Statement, comments

_SHORT = re.compile(r"\b(?:oom|memory|leaks?|vram)\b", re.IGNORECASE)

_LIMITS = frozenset({"set_per_process_memory_fraction", "OutOfMemoryError", "PYTORCH_CUDA_ALLOC_CONF"})
_PLANS = frozenset({"gc.disable", "gc.freeze", "gc.set_threshold", "gc.callbacks", "gc.set_debug", "gc.get_objects"})
# What the cache holds is shown by these, and what is in use by all figures of the memory.
_OF_CACHE = re.compile(r"memory_(?:reserved|cached|stats|summary|snapshot)|mem_get_info|max_memory_(?:reserved|cached)")
_OF_MEMORY = re.compile(r"\bmemory_|_memory_|mem_get_info")
_FINALIZERS = frozenset({"weakref.finalize", "weakref.ref", "weakref.WeakValueDictionary", "weakref.WeakKeyDictionary"})


def why_noted(file: FileFacts, statement: Statement) -> str | None:
    """What a comment says about memory: in the function around a statement, or else on it or directly above it."""
    source = file.source
    function = file.tree.function(statement)
    line = statement if isinstance(statement, cst.BaseStatement) else file.tree.line(statement)
    start = source.line_start(source.span(line)[0])
    found = [at for at, text in comments(source, function or statement) if _SHORT.search(text)]
    while function is None and start > 0 and source.text[source.line_start(start - 1) : start].lstrip().startswith("#"):
        above = source.line_start(start - 1)
        found += [above] if _SHORT.search(source.text[above:start]) else []
        start = above
    return f"a comment says that memory matters on line {source.position(found[0])[0]}" if found else None


def why_tight(file: FileFacts) -> str | None:
    """Why it is not shown that the memory suffices when less is given back; `None` where nothing says so."""
    for node in _everything(file):
        text = node.value if isinstance(node, (cst.Name, cst.SimpleString)) else ""
        if text.strip("\"'") in _LIMITS or "out of memory" in text:
            return f"the file reckons with too little memory on line {file.line(node)}"
    library = other_libraries(file)
    return f"{library} may need the memory that PyTorch would keep" if library is not None else None


def why_shown(file: FileFacts, *, cache_only: bool) -> str | None:
    """Where a figure of the memory is asked for that changes with what is given back; `None`: nowhere."""
    pattern = _OF_CACHE if cache_only else _OF_MEMORY
    for node in _everything(file):
        name = file.qualified(node) if isinstance(node, cst.Attribute) else None
        if name is not None and name.startswith("torch.cuda.") and pattern.search(name):
            return f"`{file.code(node)}` on line {file.line(node)} shows the memory, which would be another figure"
    return None


def why_collected_by_hand(file: FileFacts) -> str | None:
    """Why `gc.collect()` does what nothing else would do; `None`: Python collects by itself as well."""
    for node in _everything(file):
        if isinstance(node, cst.Attribute) and file.qualified(node) in _PLANS | _FINALIZERS:
            code = file.code(node)
            return f"`{code}` on line {file.line(node)} shows that it matters when garbage is collected"
        if isinstance(node, cst.FunctionDef) and node.name.value == "__del__":
            return f"`__del__` on line {file.line(node)} would run at another time"
    return None


def _everything(file: FileFacts) -> Iterator[cst.CSTNode]:
    """The nodes of all files in sight, this one's first."""
    yield from walk(file.source.module)
    for source in file.world.files:
        if source is not file.source:
            yield from walk(source.module)
