"""Logits as a class-index loss wants them, without the selection: with the classes in dimension 1."""

from __future__ import annotations

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.masks import is_unchanged
from perfmod.transforms.facts.names import canonical
from perfmod.transforms.facts.ranks import is_minus_one, positional
from perfmod.transforms.rule import Edit
from perfmod.transforms.syncs._gathers import Gather, assignment_of, postfix, sole_definition
from perfmod.transforms.writing import delete_statement


@frozen
class ClassSecond:
    """Code of logits with the classes in dimension 1.

    Attributes:
        code: the expression.
        flatten_target: whether all other dimensions were flattened into dimension 0, so that the target must be too.
        removals: edits that drop an assignment which nothing reads any more.
    """

    code: str
    flatten_target: bool = False
    removals: tuple[Edit, ...] = ()


def class_second(file: FileFacts, logits: Gather) -> ClassSecond:
    """Undo what was done to select rows: take back a permutation of the classes to the end, or flatten the rest."""
    base = logits.base
    moved = _classes_moved_last(file, base)
    if moved is None and isinstance(base, cst.Name):
        definition = sole_definition(file, base)
        if definition is not None and definition.value is not None and not definition.path:
            moved = _classes_moved_last(file, definition.value)
            if isinstance(moved, (cst.Name, cst.Attribute)) and is_unchanged(file, moved, base):
                unread = len(file.flow.uses(definition)) == 1 and assignment_of(file, definition) is not None
                return ClassSecond(postfix(file, moved), removals=_without(file, definition.node) if unread else ())
            moved = None
    if moved is not None:
        return ClassSecond(postfix(file, moved))
    if file.value(base).rank == 2 or file.value(logits.mask).rank == 1:
        return ClassSecond(file.code(base))
    return ClassSecond(f"{postfix(file, base)}.flatten(0, -2)", flatten_target=True)


def _classes_moved_last(file: FileFacts, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """`x` of `x.permute(0, 2, 3, 1)` and its other spellings, with or without `.contiguous()`."""
    if not isinstance(node, cst.Call):
        return None
    name = file.qualified(node)
    if name is not None and name.startswith("torch.") and node.args:
        short, subject, arguments = name.removeprefix("torch."), node.args[0].value, positional(node.args[1:])
    elif name is None and isinstance(node.func, cst.Attribute):
        short, subject, arguments = node.func.attr.value, node.func.value, positional(node.args)
    else:
        return None
    if short == "contiguous" and not arguments:
        return _classes_moved_last(file, subject)
    if len(arguments) == 1 and isinstance(arguments[0], (cst.Tuple, cst.List)):
        arguments = [element.value for element in arguments[0].elements]
    if short == "permute":
        dims = [int(dim.value) if isinstance(dim, cst.Integer) else None for dim in arguments]
        return subject if dims == [0, *range(2, len(dims)), 1] else None
    if short == "movedim" and len(arguments) == 2:
        first, last = arguments
        return subject if isinstance(first, cst.Integer) and first.value == "1" and is_minus_one(last) else None
    return None


def _without(file: FileFacts, target: cst.CSTNode) -> tuple[Edit, ...]:
    """Drop an assignment; with it a `with record_function(...)` that held nothing else, and the comment above that."""
    statement = file.tree.statement(target)
    line = file.tree.line(statement)
    if len(getattr(line, "body", ())) != 1:
        return delete_statement(file.source, statement)
    block = file.tree.parent(line)
    around = file.tree.parent(block) if block is not None else None
    ranges = (
        "torch.profiler.record_function",
        "torch.autograd.profiler.record_function",
        "torch.cuda.nvtx.range",
    )
    if not (
        isinstance(around, cst.With)
        and len(file.tree.block(line)) == 1
        and all(canonical(file.qualified(item.item) or "") in ranges for item in around.items)
    ):
        return delete_statement(file.source, statement)
    source = file.source
    (edit,) = delete_statement(source, around)
    start = edit.start
    while start > 0 and source.text[source.line_start(start - 1) : start].lstrip().startswith("#"):
        start = source.line_start(start - 1)
    end = edit.end
    above, below = source.text[source.line_start(start - 1) : start], source.text[end : source.line_end(end)]
    if start and not above.strip() and not below.strip():
        end = source.line_end(end)
    return (Edit(start, end, edit.replacement),)
