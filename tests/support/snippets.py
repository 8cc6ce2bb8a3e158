"""Facts of small snippets, and the marks in them: `# a` behind a definition, `use(x)` around what is asked about."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping

import libcst as cst

from perfmod.transforms.facts.file import FileFacts, Linkage, World
from perfmod.transforms.facts.flow import Definition
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.source import Source


def facts(code: str) -> FileFacts:
    """The facts of a dedented piece of code."""
    return FileFacts(Source.parse(textwrap.dedent(code).strip("\n").encode() + b"\n"))


def linked(files: Mapping[str, str]) -> dict[str, FileFacts]:
    """The facts of dedented files that are read together, by path; each may be imported by its path from the top."""
    sources = {
        Source.parse(textwrap.dedent(code).strip("\n").encode() + b"\n", path): path for path, code in files.items()
    }
    world = World({source: Linkage(dotted_names(path)) for source, path in sources.items()})
    return {path: world.files[source] for source, path in sources.items()}


def dotted_names(path: str) -> tuple[str, ...]:
    """The dotted name of a file from the top: `pkg.models` of `pkg/models.py`, `pkg` of `pkg/__init__.py`."""
    return (path.removesuffix(".py").removesuffix("/__init__").replace("/", "."),)


def used(file: FileFacts) -> list[cst.BaseExpression]:
    """The arguments of all calls of `use`, in order of the file."""
    calls = [call for call in find_all(file.source.module, cst.Call) if file.source.code(call.func) == "use"]
    return [arg.value for call in calls for arg in call.args]


def reads(code: str) -> str:
    """The marks of the definitions that the names in all `use(...)` may see."""
    file = facts(code)
    return marks(file, (definition for name in used_names(file) for definition in file.flow.definitions(name)))


def used_names(file: FileFacts) -> list[cst.Name]:
    """Those arguments of `use` that are names."""
    return [node for node in used(file) if isinstance(node, cst.Name)]


def marks(file: FileFacts, definitions: Iterable[Definition]) -> str:
    """The comments on the lines of definitions, sorted."""
    lines = file.source.text.splitlines()
    found = [re.search(r"# (\w+)$", lines[file.source.line(definition.node) - 1]) for definition in definitions]
    return " ".join(sorted({mark[1] for mark in found if mark}))
