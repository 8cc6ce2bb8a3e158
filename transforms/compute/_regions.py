"""Statements that evaluate inside of other code, as regions that one `with torch.no_grad():` can take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from perfmod.transforms.compute._evaluations import (
    Region,
    evaluated_by,
    is_switched,
    loads_evaluation,
    model_calls,
    modes,
    names_evaluation,
    receiver,
)
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all, find_in_scope, walk_scope
from perfmod.transforms.finding import Edit
from perfmod.transforms.writing import nest_statements

_NOT_DECORATED = frozenset({"main", "run", "__init__", "forward", "__call__", "cli", "__main__"})


def evaluated_in(file: FileFacts, body: cst.CSTNode) -> set[str]:
    """The models that a scope puts into evaluation mode, as they are written."""
    return {receiver(file, call) for call, training in modes(file, body) if not training}


def only_evaluates(file: FileFacts, function: cst.FunctionDef) -> bool:
    """Whether all of a function may run without gradients, so that decorating it is the smallest change."""
    body = function.body
    if function.name.value in _NOT_DECORATED or function.asynchronous is not None:
        return False
    if file.source.text[: file.source.span(function)[0]].rpartition("\n")[2].strip():
        return False
    if any(find_in_scope(body, cst.Yield, cst.FunctionDef, cst.ClassDef)):
        return False
    if file.steps.trains(body):
        return False
    if any(is_training for call, is_training in _trains_first(file, body)):
        return False
    if any((file.qualified(c) or "").startswith("torch.optim.") for c in find_all(body, cst.Call)):
        return False
    if next(modes(file, body), None) is not None:
        return True
    loops = [node for node in find_in_scope(body, cst.For) if isinstance(node, cst.For)]
    return names_evaluation(function) and any(_draws_batches(file, loop) for loop in loops)


def _trains_first(file: FileFacts, body: cst.CSTNode) -> Iterator[tuple[cst.Call, bool]]:
    """The switches to training mode that no switch to evaluation mode precedes."""
    for call, training in modes(file, body):
        if not training:
            return
        yield call, training


def _draws_batches(file: FileFacts, loop: cst.For) -> bool:
    """Whether a loop runs over a loader, or something named like one."""
    return (
        file.values.loader_of(loop.iter) is not None
        or loads_evaluation(loop)
        or any("load" in name.value.lower() for name in find_all(loop.iter, cst.Name))
    )


def regions(file: FileFacts, scope: cst.FunctionDef | cst.Module, evaluated: set[str]) -> Iterator[Region]:
    """Neighbouring statements of a scope that evaluate with gradients on: loops, and lines behind `model.eval()`."""
    body = scope.body if isinstance(scope, cst.FunctionDef) else scope
    by_line: dict[cst.BaseStatement, list[cst.Call]] = {}
    for call in model_calls(file, body, evaluated):
        line = _evaluating_statement(file, call, scope)
        if line is not None and not is_switched(file, call):
            by_line.setdefault(line, []).append(call)
    waiting: list[cst.BaseStatement] = []
    for line in by_line:
        if waiting and not _is_next(file, waiting[-1], line):
            yield Region(waiting[0], waiting[-1], tuple(call for each in waiting for call in by_line[each]))
            waiting = []
        waiting.append(line)
    if waiting:
        yield Region(waiting[0], waiting[-1], tuple(call for each in waiting for call in by_line[each]))


def _evaluating_statement(
    file: FileFacts, call: cst.Call, scope: cst.FunctionDef | cst.Module
) -> cst.BaseStatement | None:
    """The outermost loop around a call that only evaluates, or its line where that does."""
    found: cst.BaseStatement | None = None
    for node in file.tree.ancestors(call):
        if node is scope:
            break
        if isinstance(node, cst.For) and _is_evaluation_loop(file, node, call, scope):
            found = node
    if found is not None:
        return found
    line = file.tree.line(file.tree.statement(call))
    if not isinstance(line, cst.SimpleStatementLine):
        return None
    switch = evaluated_by(file, call, line, scope)
    return line if switch is not None and file.steps.region(line) is None else None


def _is_evaluation_loop(file: FileFacts, loop: cst.For, call: cst.Call, scope: cst.FunctionDef | cst.Module) -> bool:
    if file.steps.trains(loop.body) or _switches_to_training(file, loop) or file.tree.is_within(call, loop.iter):
        return False
    return loads_evaluation(loop) or evaluated_by(file, call, loop, scope) is not None


def _switches_to_training(file: FileFacts, loop: cst.For) -> bool:
    return any(training for _, training in modes(file, loop.body))


def _is_next(file: FileFacts, first: cst.BaseStatement, second: cst.BaseStatement) -> bool:
    block = file.tree.block(first)
    return second in block and block.index(second) == block.index(first) + 1


def statements_of(file: FileFacts, region: Region) -> list[cst.BaseStatement]:
    """The statements of a region."""
    block = file.tree.block(region.first)
    return block[block.index(region.first) : block.index(region.last) + 1]


def why_not_nested(file: FileFacts, statements: Sequence[cst.BaseStatement]) -> str:
    """Why statements cannot be put under a block; empty where they can."""
    for statement in statements:
        if isinstance(statement, cst.For) and statement.asynchronous is not None:
            return "other code may run during an asynchronous loop"
        if any(isinstance(node, (cst.Yield, cst.Await)) for node in walk_scope(statement)):
            return f"other code runs at the `yield` below line {file.line(statement)}"
    return ""


def without_graph(file: FileFacts, region: Region, manager: str) -> tuple[Edit, ...]:
    """Puts a region under a context manager: that of a `with` which holds nothing else, or one of its own."""
    around = next((a for a in file.tree.ancestors(region.first) if isinstance(a, cst.BaseStatement)), None)
    is_plain = isinstance(around, cst.With) and not isinstance(around.lpar, cst.LeftParen) and not around.asynchronous
    if isinstance(around, cst.With) and is_plain and statements_of(file, region) == [*around.body.body]:
        end = file.source.span(around.items[-1])[1]
        return (Edit(end, end, f", {manager}", file.source.path),)
    return nest_statements(file.source, region.first, region.last, f"with {manager}:")


def last_line(file: FileFacts, statement: cst.BaseStatement) -> int:
    """The line on which a statement ends, from 1."""
    return file.source.position(file.source.span(statement)[1])[0]
