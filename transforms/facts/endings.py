"""Code behind which a step or the training ends, and code that goes on behind what has failed."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.file import FileFacts

EXITS = frozenset({"sys.exit", "builtins.exit", "builtins.quit", "os._exit", "os.abort"})

Catching = cst.Try | cst.TryStar | cst.With


def ends_step(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether code stands under a condition behind which the step or the training ends: a failure, no usual step."""
    region = file.steps.region(node)
    child: cst.CSTNode = node
    for ancestor in file.tree.ancestors(node):
        if ancestor is region or isinstance(ancestor, cst.FunctionDef):
            return False
        if isinstance(ancestor, (cst.If, cst.Else)) and child is ancestor.body:
            last = child.body[-1] if isinstance(child, cst.IndentedBlock) and child.body else None
            small = last.body[-1] if isinstance(last, cst.SimpleStatementLine) else None
            if isinstance(small, (cst.Raise, cst.Return, cst.Break, cst.Continue)):
                return True
            if isinstance(small, cst.Expr) and file.qualified(small.value) in EXITS:
                return True
        child = ancestor
    return False


def catching(file: FileFacts, node: cst.CSTNode) -> Iterator[Catching]:
    """The statements around a node, in its function, behind which or in which code goes on if it raises."""
    child: cst.CSTNode = node
    for ancestor in file.tree.ancestors(node):
        if isinstance(ancestor, (cst.FunctionDef, cst.Lambda, cst.ClassDef)):
            return
        if isinstance(ancestor, (cst.Try, cst.TryStar)):
            is_caught = child is ancestor.body and not all(_only_ends(file, each) for each in ancestor.handlers)
            if is_caught or ancestor.finalbody is not None:
                yield ancestor
        elif isinstance(ancestor, cst.With) and any(
            file.qualified(item.item) == "contextlib.suppress" for item in ancestor.items
        ):
            yield ancestor
        child = ancestor


def caught_by_callers(file: FileFacts, function: cst.FunctionDef | None) -> Iterator[Catching]:
    """The same around the calls of a function in sight, and around those of the functions that call it."""
    waiting, seen = [function], {function}
    while waiting:
        current = waiting.pop()
        for call in file.values.calls.callers(current) if current is not None else ():
            yield from catching(file, call)
            caller = file.tree.function(call)
            if caller not in seen:
                seen.add(caller)
                waiting.append(caller)


def _only_ends(file: FileFacts, handler: cst.ExceptHandler | cst.ExceptStarHandler) -> bool:
    """Whether a handler does nothing but to raise again, or to end the program."""
    lines = [line for line in handler.body.body if isinstance(line, cst.SimpleStatementLine)]
    statements = [small for line in lines for small in line.body]
    last = statements[0] if len(statements) == len(handler.body.body) == 1 else None
    return isinstance(last, cst.Raise) or (isinstance(last, cst.Expr) and file.qualified(last.value) in EXITS)
