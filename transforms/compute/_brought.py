"""Batches that a step moves to the device where it uses them, `model(x.to(device))`: its call moves them instead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import libcst as cst

from perfmod.transforms.compute._recordable import Obstacle, Round
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import find_all, walk_scope

_MOVES = ("to", "cuda")
_SAME_ANYWHERE = frozenset({"size", "dim", "numel", "shape", "dtype"})
"""What a tensor says of itself, wherever it lies."""
_BRANCHES = (cst.If, cst.For, cst.While, cst.Try, cst.IfExp, cst.BooleanOperation, cst.Lambda, cst.CompFor)


def brought_by(file: FileFacts, loop: Round) -> dict[cst.Call, str]:
    """The calls in the lines of a loop that move a batch where it is used, with its name."""
    found = {}
    for call in walk_scope(loop.body):
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
            continue
        moved = call.func.value
        is_used = isinstance(file.tree.parent(call), cst.Arg)
        if not is_used or call.func.attr.value not in _MOVES or not isinstance(moved, cst.Name):
            continue
        around = next(each for each in file.tree.ancestors(call) if each is loop or isinstance(each, _BRANCHES))
        if around is loop and not _reads_round(file, loop, call.args) and _is_bound_above(file, loop, moved):
            found[call] = moved.value
    return found


def _is_bound_above(file: FileFacts, loop: Round, name: cst.Name) -> bool:
    """Whether a round binds a name above the line that reads it only: `x = f(x.to(device))` prepares a batch."""
    line = file.tree.line(name)
    scope = loop if isinstance(loop, cst.FunctionDef) else file.tree.scope(loop)
    own = [each.node for each in file.flow.bound(scope, name.value) if file.tree.is_within(each.node, loop)]
    return all(file.comes_before(each, line) and not file.tree.is_within(each, line) for each in own)


def _reads_round(file: FileFacts, loop: Round, args: Sequence[cst.Arg]) -> bool:
    """Whether arguments read what a round binds."""
    names = [name for arg in args for name in find_all(arg.value, cst.Name)]
    return any(file.tree.is_within(each.node, loop) for name in names for each in file.flow.definitions(name))


def obstacle_to_bringing(
    file: FileFacts, brought: dict[cst.Call, str], moved: Iterable[cst.BaseStatement], given: Iterable[str]
) -> Obstacle | None:
    """Why the call of a step cannot move what its lines move: they use it otherwise as well, or bind it themselves."""
    names = [name for line in moved for name in find_all(line, cst.Name)]
    for call, moved_name in brought.items():
        others = [name for name in names if name.value == moved_name and not _is_moved_alike(file, brought, name, call)]
        if moved_name not in given or any(file.flow.defined(name) or not _is_alike(file, name) for name in others):
            return Obstacle(call, f"`{file.code(call)}` copies from the host")
    return None


def _is_moved_alike(file: FileFacts, brought: dict[cst.Call, str], name: cst.Name, call: cst.Call) -> bool:
    func = file.tree.parent(name)
    other = file.tree.parent(func) if isinstance(func, cst.Attribute) and func.value is name else None
    return isinstance(other, cst.Call) and other in brought and file.code(other) == file.code(call)


def _is_alike(file: FileFacts, name: cst.Name) -> bool:
    """Whether a use of a batch gives the same wherever it lies."""
    parent = file.tree.parent(name)
    if isinstance(parent, cst.Attribute):
        return parent.value is name and parent.attr.value in _SAME_ANYWHERE
    call = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
    return isinstance(call, cst.Call) and dotted(call.func) == "len"
