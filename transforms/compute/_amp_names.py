"""Where a file names the deprecated AMP classes: through imports, and from `torch` on."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.compute._amp_calls import DEPRECATED, Parts, Stays, use_edits
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition, dotted
from perfmod.transforms.facts.tree import children, find_all


def uses_of(file: FileFacts, alias: cst.ImportAlias) -> list[Parts]:
    """The edits of everything that uses what an import binds. Raises `Stays` where one use has to stay."""
    (definition,) = file.flow.defined(alias)
    name = definition.name
    if any(isinstance(around, (cst.Try, cst.TryStar, cst.If)) for around in file.tree.ancestors(alias)):
        raise Stays(f"`{name}` is imported under a condition, for other versions of PyTorch")
    uses = file.flow.uses(definition)
    if not uses:
        raise Stays(f"`{name}` is not used in this file: other files may import it from here")
    if any(text.evaluated_value == name for text in find_all(file.tree.module, cst.SimpleString)):
        raise Stays(f"`{name}` appears in a string, and may be exported")
    return [_use(file, definition, _own(file, use)) for use in uses]


def _own(file: FileFacts, use: cst.BaseExpression) -> cst.Name:
    if not isinstance(use, cst.Name) or not file.is_own(use):
        raise Stays(f"`{file.code(use)}` is used by another file on line {file.line(use)}")
    return use


def _use(file: FileFacts, definition: Definition, use: cst.Name) -> Parts:
    if len(file.flow.definitions(use)) > 1:
        raise Stays(f"`{use.value}` may be something else on line {file.line(use)}")
    node: cst.BaseExpression = use
    known = DEPRECATED.get(file.qualified(node) or "")
    parent = file.tree.parent(use)
    if known is None and isinstance(parent, cst.Attribute):
        node, known = parent, DEPRECATED.get(file.qualified(parent) or "")
    if known is None:
        raise Stays(f"`{definition.name}` is used for something else on line {file.line(use)}")
    try:
        return use_edits(file, node, *known)
    except Stays as reason:
        raise Stays(f"`{file.code(node)}` {reason}") from reason


def attributes(file: FileFacts) -> list[cst.Attribute]:
    """Every dotted expression of the file, those in annotations too, in order."""
    found: list[cst.Attribute] = []
    pending: list[cst.CSTNode] = [file.tree.module]
    while pending:
        node = pending.pop()
        if isinstance(node, cst.Attribute):
            found.append(node)
        if isinstance(node, (cst.Import, cst.ImportFrom)) or (isinstance(node, cst.Attribute) and dotted(node)):
            continue
        pending += children(node)
        if isinstance(node, (cst.Param, cst.AnnAssign)) and node.annotation is not None:
            pending.append(node.annotation.annotation)
        if isinstance(node, cst.FunctionDef) and node.returns is not None:
            pending.append(node.returns.annotation)
    return sorted(found, key=lambda each: file.source.span(each)[0])


def root_of(node: cst.BaseExpression) -> cst.Name:
    while isinstance(node, cst.Attribute):
        node = node.value
    return node if isinstance(node, cst.Name) else cst.Name("_")


def bare(code: str) -> str:
    return code.rstrip(", ")
