"""Where the conversion of images, and the constants that it reads, are put into the code."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from attrs import evolve

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.feeding._constant_places import Copy
from perfmod.transforms.feeding._pipelines import Unmovable
from perfmod.transforms.rule import Edit
from perfmod.transforms.writing import insert_after_statement


def _home(file: FileFacts, node: cst.CSTNode) -> cst.FunctionDef | cst.Module:
    """The function or the module whose names a node sees first."""
    return file.tree.function(node) or file.tree.module_of(node)


def check_scopes(file: FileFacts, moves: list[Copy]) -> None:
    """Raises `Unmovable` where a copy would read constants that a function around it binds later."""
    binding = {_home(file, move.anchor) for move in moves}
    for move in moves:
        home = _home(file, move.call)
        while home not in binding and not isinstance(home, cst.Module):
            home = _home(file, home)
        if home is not _home(file, move.anchor):
            line = file.line(move.call)
            raise Unmovable(f"the constants of the copy on line {line} would be hidden by those of another copy")
    devices: dict[cst.CSTNode, tuple[str, str]] = {}
    for move in moves:
        test = file.code(move.optional.statement.test) if move.optional is not None else ""
        if devices.setdefault(_home(file, move.anchor), (move.to.method, test)) != (move.to.method, test):
            line = file.line(move.call)
            raise Unmovable(f"the copy on line {line} goes to another device than others for the same constants")


def first_of_each(file: FileFacts, moves: list[Copy]) -> list[Copy]:
    """One copy for each place where constants are made; none where an earlier place in the same block serves."""
    chosen: list[Copy] = []
    for move in sorted(moves, key=lambda move: file.tree.places[move.anchor]):
        block = file.tree.block(move.anchor)
        if not any(
            move.anchor is other.anchor or (bool(move.source) and move.source == other.source and other.anchor in block)
            for other in chosen
        ):
            chosen.append(move)
    return chosen


def conversions(file: FileFacts, moves: list[Copy], operations: str, scale: str) -> Iterator[Edit]:
    """The conversion behind each copy: on a line of its own where the copy goes to a variable, else behind the call.

    A copy that casts too, on the host, becomes one of the bytes to where the constant `scale` is.
    """
    lines: dict[cst.BaseStatement | cst.Assign, list[str]] = {}
    for move in moves:
        call, source = move.call, file.source_of(move.call)
        assert isinstance(call.func, cst.Attribute)
        statement, target = file.tree.statement(call), _target(file, call)
        if move.optional is not None:
            target = move.optional.moved.value
            lines.setdefault(move.optional.statement, []).append(f"{target} = {target}{operations}")
        elif move.unpacked:
            for unpacking, target in move.unpacked:
                lines.setdefault(unpacking, []).append(f"{target} = {target}{operations}")
        elif target is not None and isinstance(statement, cst.Assign):
            lines.setdefault(statement, []).append(f"{target} = {target}{operations}")
        start, end = source.span(call.func.attr)[0], source.span(call)[1]
        added = operations if target is None else ""
        if move.is_cast:
            blocking = argument(call, "non_blocking")
            kept = f", non_blocking={source.code(blocking)}" if blocking is not None else ""
            yield Edit(start, end, f"to({scale}.device{kept}){added}", source.path)
        elif added:
            yield Edit(end, end, added, source.path)
    for line, added_lines in lines.items():
        yield insert_after_statement(file.source_of(line), line, "\n".join(added_lines))


def _target(file: FileFacts, copy: cst.Call) -> str | None:
    """The variable that an assignment, also one of several at once, gives the copied images."""
    statement = file.tree.statement(copy)
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return None
    target: cst.BaseExpression = statement.targets[0].target
    value = statement.value
    if isinstance(target, cst.Tuple) and isinstance(value, cst.Tuple) and len(target.elements) == len(value.elements):
        pairs = zip(target.elements, value.elements, strict=True)
        target, value = next(((t.value, v.value) for t, v in pairs if v.value is copy), (target, value))
    return target.value if value is copy and isinstance(target, cst.Name) else None


def merged(edits: list[Edit]) -> list[Edit]:
    """Insertions joined with what is replaced at the same place, such as constants above a line that goes."""
    joined: dict[tuple[str, int], Edit] = {}
    for edit in sorted(edits):
        before = joined.get((edit.path, edit.start))
        text = edit.replacement if before is None else before.replacement + edit.replacement
        joined[edit.path, edit.start] = evolve(edit, replacement=text)
    return list(joined.values())
