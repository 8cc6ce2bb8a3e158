"""Which normalisations move to the device, each with those that it cannot move without, and what that changes."""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.feeding._device_arithmetic import common, free_names
from perfmod.transforms.feeding._image_conversions import check_scopes, conversions, first_of_each, merged
from perfmod.transforms.feeding._image_copies import copies
from perfmod.transforms.feeding._image_feeds import feeds
from perfmod.transforms.feeding._pipeline_edits import as_bytes, imported, unread
from perfmod.transforms.feeding._pipelines import Pipeline, Unmovable, pipelines
from perfmod.transforms.feeding._written_out import WrittenOut, written_out
from perfmod.transforms.rule import Change, Edit
from perfmod.transforms.source import Source
from perfmod.transforms.writing import insert_after_statement, insert_before_statement

Movable = Pipeline | WrittenOut

_DEFAULT_TYPES = ("torch.set_default_dtype", "torch.set_default_tensor_type")
_IDLE = "no training step in sight is fed with these images"


@frozen
class Moves:
    """Normalisations that go to the device together.

    Attributes:
        node: the first of them.
        trains: whether a training step is fed with their images.
        names: the constants' names, and the files that have them.
    """

    node: cst.BaseExpression
    reason: str
    edits: tuple[Edit, ...]
    needs: tuple[Change, ...]
    trains: bool
    names: tuple[tuple[Source, str], ...]


@frozen
class Stays:
    """A normalisation that has to stay."""

    node: cst.BaseExpression
    reason: str


def judged(file: FileFacts) -> list[Moves | Stays]:
    """What becomes of the normalisations of all files: each moves with those that it cannot move without."""
    found: list[Moves | Stays] = []
    movable: list[Movable] = []
    for own in file.world.files.values():
        for one in (*pipelines(own), *written_out(own)):
            if isinstance(one, tuple):
                found.append(Stays(*one))
            else:
                movable.append(one)
    groups: list[list[Movable]] = []
    for one in movable:
        if any(one in group for group in groups):
            continue
        group = _grown(file, one, movable)
        if isinstance(group, Stays):
            found.append(group)
        else:
            groups = [other for other in groups if not any(member in group for member in other)]
            groups.append(group)
    taken: set[tuple[Source, str]] = set()
    for joined in _joined(file, groups):
        moved = _moved(file, joined, taken)
        if moved.trains:
            taken.update(moved.names)
            found.append(moved)
        else:
            found += [Stays(one.node, _IDLE) for one in joined]
    return found


def _grown(file: FileFacts, first: Movable, everything: list[Movable]) -> list[Movable] | Stays:
    """The normalisations that have to move with one, with it, or why it has to stay."""
    group = [first]
    while (stays := _obstacle(file, group)) is not None:
        others = _makers(file, stays.others, everything)
        more = [one for one in everything if one in others and one not in group]
        if not more:
            return Stays(first.node, str(stays))
        group = sorted([*group, *more], key=everything.index)
    return group


def _obstacle(file: FileFacts, movable: list[Movable]) -> Unmovable | None:
    """Why some normalisations cannot move; `None` where they can."""
    try:
        _moved(file, movable)
    except Unmovable as reason:
        return reason
    return None


def _makers(file: FileFacts, nodes: tuple[cst.CSTNode, ...], everything: list[Movable]) -> list[Movable]:
    """The normalisations of the images that come out of some transforms, datasets or loaders."""
    found: list[Movable] = []
    stack, seen = list(nodes), set[cst.CSTNode]()
    while stack:
        node = stack.pop()
        if node in seen or not isinstance(node, cst.Call):
            continue
        seen.add(node)
        cls = file.values.calls.constructed(node)
        for one in everything:
            if isinstance(one, Pipeline):
                found += [one] if one.compose is node else []
            elif cls is not None and one.applied.cls in cls.lineage():
                found.append(one)
        stack += [end.node for arg in node.args for end in file.tracing.ends(arg.value)]
    return found


def _joined(file: FileFacts, groups: list[list[Movable]]) -> list[list[Movable]]:
    """The groups, those of a file together where that can be."""
    joined: list[list[Movable]] = []
    for group in groups:
        files = {file.source_of(one.node) for one in group}
        for index, other in enumerate(joined):
            if files & {file.source_of(one.node) for one in other} and _obstacle(file, [*other, *group]) is None:
                joined[index] = [*other, *group]
                break
        else:
            joined.append(group)
    return joined


def _moved(file: FileFacts, movable: list[Movable], taken: Collection[tuple[Source, str]] = ()) -> Moves:
    """The move of all of these, to constants of other names than those that are taken in their files.

    Raises:
        Unmovable: something else sees the images, or they could not be made the same on the device.
    """
    file = file.world.files[file.source_of(movable[0].node)]
    split = [one for one in movable if isinstance(one, Pipeline)]
    by_hand = [one for one in movable if isinstance(one, WrittenOut)]
    found = feeds(file, split, [one.applied for one in by_hand])
    arithmetic = common(file, movable)
    moves = copies(file, found, channels_differ=arithmetic.channels_differ)
    for call in file.tree.all(cst.Call):
        if file.qualified(call) in _DEFAULT_TYPES:
            raise Unmovable(f"line {file.line(call)} changes torch's default type")
    check_scopes(file, moves)
    sources = {file.source_of(move.call): None for move in moves}
    names = free_names(sources, {name for source, name in taken if source in sources})
    edits = [edit for pipeline in split for edit in as_bytes(file, pipeline)]
    edits += imported(file, split)
    edits += unread(file, split)
    edits += [edit for one in by_hand for edit in one.edits]
    edits += conversions(file, moves, arithmetic.operations(names), names[0])
    needs: list[Change] = []
    for move in first_of_each(file, moves):
        source = file.source_of(move.anchor)
        torch, imports = file.names.spelled("torch", move.call)
        needs.append(Change(source.path, imports=imports))
        lines = arithmetic.definitions(file, torch, names, move)
        insert = insert_before_statement if move.is_before else insert_after_statement
        edits.append(insert(source, move.anchor, lines))
    where = file.lines([move.call for move in moves]).removeprefix("lines ").removeprefix("line ")
    reason = f"the loader hands on bytes; the copies on line {where} convert and normalise them on the device"
    return Moves(
        node=movable[0].node,
        reason=reason,
        edits=tuple(merged(edits)),
        needs=tuple(needs),
        trains=any(feed.loader.trains for feed in found),
        names=tuple((source, name) for source in sources for name in names),
    )
