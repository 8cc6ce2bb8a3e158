"""A pipeline that ends in `ToTensor(), Normalize(mean, std)` turns bytes into floats on the CPU: four times the memory
to collate, to hand from worker to process, to pin and to copy, and three passes over every pixel by the slower
processor.

The dataset hands on the bytes (`PILToTensor()`), and the batch is converted where it arrives: the same division,
subtraction and division in the same order, by tensors that are made once. Dividing by a tensor matters: CUDA multiplies
by the reciprocal of a Python number, which gives other bits for half of all byte values. Pipelines of
`torchvision.transforms.v2` multiply by the rounded reciprocal themselves (`ToDtype(torch.float32, scale=True)`), so the
device does that too. A dataset that writes `(image.float() / 255 - mean) / std` out in its `__getitem__` is treated in
the same way.

All loops over all loaders of such a dataset are rewritten together or not at all, because each of them would otherwise
see bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import libcst as cst
from attrs import evolve, frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.feeding._device_arithmetic import common, free_names
from perfmod.transforms.feeding._image_copies import Copy, copies
from perfmod.transforms.feeding._image_feeds import feeds
from perfmod.transforms.feeding._pipeline_edits import as_bytes, imported, unread
from perfmod.transforms.feeding._pipelines import Pipeline, Unmovable, pipelines
from perfmod.transforms.feeding._written_out import WrittenOut, written_out
from perfmod.transforms.rule import Change, Edit, Family, Finding, Numerics, Rule, Safety, Status
from perfmod.transforms.writing import insert_after_statement, insert_before_statement

Movable = Pipeline | WrittenOut

_DEFAULT_TYPES = ("torch.set_default_dtype", "torch.set_default_tensor_type")


class CpuNormalisation(Rule):
    code: ClassVar[str] = "PM205"
    name: ClassVar[str] = "cpu-normalisation"
    family: ClassVar[Family] = Family.FEEDING
    summary: ClassVar[str] = "images are converted to floats and normalised on the CPU"
    fix_title: ClassVar[str] = "Feed bytes and normalise on the device"
    numerics: ClassVar[Numerics] = Numerics.BITWISE
    safety: ClassVar[Safety] = Safety.SAFE
    min_torch: ClassVar[str] = "1.8"
    status: ClassVar[Status] = Status.STABLE
    triggers: ClassVar[frozenset[str]] = frozenset({"Normalize", "normalize", "255"})
    references: ClassVar[tuple[str, ...]] = (
        "https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.PILToTensor.html",
        "https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.Normalize.html",
    )
    changes_results: ClassVar[str] = (
        "It does not, for pictures of eight bits a channel: every value passes the same float32 operations in the "
        "same order. Pictures of other modes, which ToTensor does not scale, are refused, as are float arrays and "
        "transforms behind Normalize."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        if not file.steps.found or not any(True for _ in file.loaders.everywhere):
            return
        for found in file.once(_judged):
            if not file.is_own(found.node):
                continue
            if isinstance(found, _Stays):
                yield self.refused(file, found.node, found.reason)
            else:
                yield self.found(file, found.node, found.reason, found.edits, elsewhere=found.needs)


@frozen
class _Moves:
    """Normalisations that go to the device together; `node` is the first of them."""

    node: cst.BaseExpression
    reason: str
    edits: tuple[Edit, ...]
    needs: tuple[Change, ...]


@frozen
class _Stays:
    """A normalisation that has to stay."""

    node: cst.BaseExpression
    reason: str


def _judged(file: FileFacts) -> list[_Moves | _Stays]:
    """What becomes of the normalisations of all files: those of a file move together, or with those of other files."""
    found: list[_Moves | _Stays] = []
    left: list[list[Movable]] = []
    for own in file.world.files.values():
        movable: list[Movable] = []
        for one in (*pipelines(own), *written_out(own)):
            if isinstance(one, tuple):
                found.append(_Stays(*one))
            else:
                movable.append(one)
        moved = _best(own, movable) if movable else []
        if movable and not any(isinstance(one, _Moves) for one in moved):
            left.append(movable)
        found += moved
    if len(left) > 1:
        whole = [one for movable in left for one in movable]
        joined = _try(file.world.files[file.source_of(whole[0].node)], whole)
        if isinstance(joined, _Moves):
            nodes = {one.node for one in whole}
            found = [one for one in found if one.node not in nodes]
            found.append(joined)
    return found


def _best(file: FileFacts, movable: list[Movable]) -> list[_Moves | _Stays]:
    """Move all, or all but one that stands in the way of the others."""
    found = _try(file, movable)
    if isinstance(found, _Moves):
        return [found]
    for left_out in movable if len(movable) > 1 else ():
        partial = _try(file, [one for one in movable if one is not left_out])
        if isinstance(partial, _Moves):
            return [partial, _Stays(left_out.node, found.reason)]
    return [found]


def _try(file: FileFacts, movable: list[Movable]) -> _Moves | _Stays:
    """The move of all of these, or why they have to stay."""
    try:
        return _moved(file, movable)
    except Unmovable as reason:
        return _Stays(movable[0].node, str(reason))


def _moved(file: FileFacts, movable: list[Movable]) -> _Moves:
    """The move of all of these.

    Raises:
        Unmovable: something else sees the images, or they could not be made the same on the device.
    """
    split = [one for one in movable if isinstance(one, Pipeline)]
    by_hand = [one for one in movable if isinstance(one, WrittenOut)]
    found = feeds(file, split, [one.applied for one in by_hand])
    if not any(feed.loader.trains for feed in found):
        raise Unmovable("no training step in sight is fed with these images")
    moves = copies(file, found)
    for call in file.tree.all(cst.Call):
        if file.qualified(call) in _DEFAULT_TYPES:
            raise Unmovable(f"line {file.line(call)} changes torch's default type")
    arithmetic = common(file, movable)
    _check_scopes(file, moves)
    names = free_names({file.source_of(move.call) for move in moves})
    edits = [edit for pipeline in split for edit in as_bytes(file, pipeline)]
    edits += imported(file, split)
    edits += unread(file, split)
    edits += [edit for one in by_hand for edit in one.edits]
    edits += _conversions(file, [move.call for move in moves], arithmetic.operations(names))
    needs: list[Change] = []
    for move in _first_of_each(file, moves):
        source = file.source_of(move.anchor)
        torch, imports = file.names.spelled("torch", move.call)
        needs.append(Change(source.path, imports=imports))
        lines = arithmetic.definitions(file, torch, names, move)
        insert = insert_before_statement if move.is_before else insert_after_statement
        edits.append(insert(source, move.anchor, lines))
    where = file.lines([move.call for move in moves]).removeprefix("lines ").removeprefix("line ")
    reason = f"the loader hands on bytes; the copies on line {where} convert and normalise them on the device"
    return _Moves(movable[0].node, reason, tuple(_merged(edits)), tuple(needs))


def _home(file: FileFacts, node: cst.CSTNode) -> cst.FunctionDef | cst.Module:
    """The function or the module whose names a node sees first."""
    return file.tree.function(node) or file.tree.module_of(node)


def _check_scopes(file: FileFacts, moves: list[Copy]) -> None:
    """Raises `Unmovable` where a copy would read constants that a function around it binds later."""
    binding = {_home(file, move.anchor) for move in moves}
    for move in moves:
        home = _home(file, move.call)
        while home not in binding and not isinstance(home, cst.Module):
            home = _home(file, home)
        if home is not _home(file, move.anchor):
            line = file.line(move.call)
            raise Unmovable(f"the constants of the copy on line {line} would be hidden by those of another copy")
    devices: dict[cst.CSTNode, str] = {}
    for move in moves:
        if devices.setdefault(_home(file, move.anchor), move.device) != move.device:
            line = file.line(move.call)
            raise Unmovable(f"the copy on line {line} goes to another device than others for the same constants")


def _first_of_each(file: FileFacts, moves: list[Copy]) -> list[Copy]:
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


def _conversions(file: FileFacts, calls: list[cst.Call], operations: str) -> Iterator[Edit]:
    """The conversion behind each copy: on a line of its own where the copy goes to a variable, else behind the call."""
    lines: dict[cst.Assign, list[str]] = {}
    for call in calls:
        statement, target = file.tree.statement(call), _target(file, call)
        if target is None or not isinstance(statement, cst.Assign):
            source = file.source_of(call)
            end = source.span(call)[1]
            yield Edit(end, end, operations, source.path)
        else:
            lines.setdefault(statement, []).append(f"{target} = {target}{operations}")
    for statement, added in lines.items():
        yield insert_after_statement(file.source_of(statement), statement, "\n".join(added))


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


def _merged(edits: list[Edit]) -> list[Edit]:
    """Insertions joined with what is replaced at the same place, such as constants above a line that goes."""
    joined: dict[tuple[str, int], Edit] = {}
    for edit in sorted(edits):
        before = joined.get((edit.path, edit.start))
        text = edit.replacement if before is None else before.replacement + edit.replacement
        joined[edit.path, edit.start] = evolve(edit, replacement=text)
    return list(joined.values())
