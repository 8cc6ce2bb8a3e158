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
from attrs import frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.feeding._device_arithmetic import common, free_names
from perfmod.transforms.feeding._image_conversions import check_scopes, conversions, first_of_each, merged
from perfmod.transforms.feeding._image_copies import copies
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
    check_scopes(file, moves)
    names = free_names({file.source_of(move.call) for move in moves})
    edits = [edit for pipeline in split for edit in as_bytes(file, pipeline)]
    edits += imported(file, split)
    edits += unread(file, split)
    edits += [edit for one in by_hand for edit in one.edits]
    edits += conversions(file, [move.call for move in moves], arithmetic.operations(names))
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
    return _Moves(movable[0].node, reason, tuple(merged(edits)), tuple(needs))
