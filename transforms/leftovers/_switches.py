"""Debugging that is switched on for good, and how a block or statement that only does that is taken out."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from perfmod.transforms.facts.entry import is_main_test
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.finding import Edit
from perfmod.transforms.writing import dedent_block, delete_statement

_CATCHES = frozenset({"RuntimeError", "Exception", "BaseException", "ValueError", "FloatingPointError"})


def is_optional(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether a condition decides about `node`, so that somebody can switch it off."""
    child = node
    for ancestor in file.tree.ancestors(node):
        if isinstance(ancestor, cst.If) and child is not ancestor.test and not is_main_test(ancestor.test):
            return True
        if isinstance(ancestor, cst.IfExp) and child is not ancestor.test:
            return True
        if isinstance(ancestor, cst.FunctionDef):
            return False
        child = ancestor
    return False


def boolean(node: cst.BaseExpression | None, default: bool | None) -> bool | None:
    """The value of a literal `True` or `False`; `default` where nothing is given, None for anything else."""
    if node is None:
        return default
    return {"True": True, "False": False}.get(node.value) if isinstance(node, cst.Name) else None


def with_item(file: FileFacts, call: cst.Call) -> tuple[cst.With, cst.WithItem] | None:
    """The `with` statement that a call opens."""
    item = file.tree.parent(call)
    around = file.tree.parent(item) if isinstance(item, cst.WithItem) else None
    return (around, item) if isinstance(around, cst.With) and isinstance(item, cst.WithItem) else None


def without_item(file: FileFacts, block: cst.With, item: cst.WithItem) -> Sequence[Edit]:
    """Takes a context manager out of a `with`; the whole header where there is no other."""
    items = list(block.items)
    if len(items) == 1:
        return dedent_block(file.source, block)
    index = items.index(item)
    if index == 0:
        return [Edit(_start(file, items[0]), _start(file, items[1]), "")]
    return [Edit(_end(file, items[index - 1]), _end(file, item), "")]


def _start(file: FileFacts, item: cst.WithItem) -> int:
    start = file.source.span(item)[0]
    return min(start, file.source.span(item.item.lpar[0])[0]) if item.item.lpar else start


def _end(file: FileFacts, item: cst.WithItem) -> int:
    last = item.asname.name if item.asname is not None else item.item
    return file.source.span(last.rpar[-1])[1] if getattr(last, "rpar", ()) else file.source.span(last)[1]


def without_statement(file: FileFacts, node: cst.BaseExpression) -> Sequence[Edit] | None:
    """Deletes the statement that only evaluates `node`; None where its value is used."""
    statement = file.tree.parent(node)
    if isinstance(statement, cst.Expr):
        return delete_statement(file.source, statement)
    return None


def catching(file: FileFacts, node: cst.CSTNode) -> cst.CSTNode | None:
    """A handler around `node` that may catch what a check raises."""
    child = node
    for ancestor in file.tree.ancestors(node):
        if isinstance(ancestor, cst.Try) and child is ancestor.body:
            for handler in ancestor.handlers:
                kinds = (
                    {name.value for name in find_all(handler.type, cst.Name)} if handler.type is not None else _CATCHES
                )
                if kinds & _CATCHES:
                    return handler
        child = ancestor
    return None
