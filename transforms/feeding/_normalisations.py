"""Which normalisations move to the device, each with those that it cannot move without, and what that changes."""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.feeding._device_arithmetic import Arithmetic, common, free_name
from perfmod.transforms.feeding._device_modules import below_constants, calls, homes, makers, merged, modules
from perfmod.transforms.feeding._image_copies import copies
from perfmod.transforms.feeding._image_feeds import feeds
from perfmod.transforms.feeding._pipeline_edits import as_bytes, imported, unread
from perfmod.transforms.feeding._pipelines import Pipeline, Unmovable, by_hand, pipelines
from perfmod.transforms.finding import Change, Edit
from perfmod.transforms.source import Source

_DEFAULT_TYPES = ("torch.set_default_dtype", "torch.set_default_tensor_type")
_COLOURS = 3
_IDLE = "perfmod found no loop over these images"


@frozen
class Moves:
    """Normalisations that go to the device together.

    Attributes:
        pipelines: all of them.
        burden: why the module is more than most would want for these images, in one line; else empty.
        trains: whether a training step is fed with their images.
        name: what the module is called, in these files.
    """

    pipelines: tuple[Pipeline, ...]
    reason: str
    edits: tuple[Edit, ...]
    needs: tuple[Change, ...]
    burden: str
    trains: bool
    name: str
    sources: tuple[Source, ...]

    @property
    def node(self) -> cst.BaseExpression:
        """Where the first of them stands."""
        return self.pipelines[0].node


@frozen
class Stays:
    """A normalisation that has to stay."""

    node: cst.BaseExpression
    reason: str


def judged(file: FileFacts) -> list[Moves | Stays]:
    """What becomes of the normalisations of all files: each moves with those that it cannot move without."""
    stays: list[Stays] = []
    movable: list[Pipeline] = []
    for own in file.world.files.values():
        for one in (*pipelines(own), *by_hand(own)):
            if isinstance(one, tuple):
                stays.append(Stays(*one))
            else:
                movable.append(one)
    groups: list[list[Pipeline]] = []
    for one in movable:
        if any(one in group for group in groups):
            continue
        group = _grown(file, one, movable)
        if isinstance(group, Stays):
            stays.append(group)
        else:
            groups = [other for other in groups if not any(member in group for member in other)]
            groups.append(group)
    found: list[Moves] = []
    for joined in _joined(file, groups):
        moved = _moved(file, joined, found)
        if moved.trains:
            found.append(moved)
        else:
            stays += [Stays(one.node, _IDLE) for one in joined]
    return [*stays, *(one for moved in found for one in _together(file, moved, stays))]


def _together(file: FileFacts, moved: Moves, stays: list[Stays]) -> list[Moves | Stays]:
    """What moves, unless a pipeline stays whose data come from a dataset of the same class: training and evaluation of
    one data set see the same.
    """
    own = {name for one in moved.pipelines for name in _readers(file, one.node)}
    for other in stays:
        if own & _readers(file, other.node):
            reason = (
                f"the transform on line {file.line(other.node)}, of a dataset of the same class, has to stay: "
                f"{other.reason}"
            )
            return [Stays(one.node, reason) for one in moved.pipelines]
    return [moved]


def _readers(file: FileFacts, normalize: cst.BaseExpression) -> set[str]:
    """The datasets that are given the pipeline around a `Normalize`, by the names of their classes."""
    compose = next((node for node in file.tree.ancestors(normalize) if isinstance(node, cst.Call)), None)
    given = [file.tree.parent(use.node) for use in file.handing.uses(compose)] if compose is not None else []
    made = [file.tree.parent(arg) for arg in given if isinstance(arg, cst.Arg)]
    return {file.code(call.func) for call in made if isinstance(call, cst.Call)}


def _grown(file: FileFacts, first: Pipeline, everything: list[Pipeline]) -> list[Pipeline] | Stays:
    """The normalisations that have to move with one, with it, or why it has to stay."""
    group = [first]
    while (stays := _obstacle(file, group)) is not None:
        others = _makers(file, stays.others, everything)
        more = [one for one in everything if one in others and one not in group]
        if not more:
            return Stays(first.node, str(stays))
        group = sorted([*group, *more], key=everything.index)
    return group


def _obstacle(file: FileFacts, movable: list[Pipeline]) -> Unmovable | None:
    """Why some normalisations cannot move; `None` where they can."""
    try:
        _moved(file, movable)
    except Unmovable as reason:
        return reason
    return None


def _makers(file: FileFacts, nodes: tuple[cst.CSTNode, ...], everything: list[Pipeline]) -> list[Pipeline]:
    """The normalisations of the images that come out of some transforms, datasets or loaders."""
    found: list[Pipeline] = []
    stack, seen = list(nodes), set[cst.CSTNode]()
    while stack:
        node = stack.pop()
        if node in seen or not isinstance(node, cst.Call):
            continue
        seen.add(node)
        found += [one for one in everything if one.compose is node]
        stack += [end.node for arg in node.args for end in file.tracing.ends(arg.value)]
    return found


def _joined(file: FileFacts, groups: list[list[Pipeline]]) -> list[list[Pipeline]]:
    """The groups, those of a file together where that can be."""
    joined: list[list[Pipeline]] = []
    for group in groups:
        files = {file.source_of(one.node) for one in group}
        for index, other in enumerate(joined):
            if files & {file.source_of(one.node) for one in other} and _obstacle(file, [*other, *group]) is None:
                joined[index] = [*other, *group]
                break
        else:
            joined.append(group)
    return joined


def _moved(file: FileFacts, movable: list[Pipeline], before: Collection[Moves] = ()) -> Moves:
    """The move of all of these, by modules of other names than those that move before.

    Raises:
        Unmovable: something else sees the images, or they could not be made the same on the device.
    """
    file = file.world.files[file.source_of(movable[0].node)]
    found = feeds(file, movable)
    arithmetic = common(file, movable)
    moves = copies(file, found)
    for call in file.tree.all(cst.Call):
        if file.qualified(call) in _DEFAULT_TYPES:
            raise Unmovable(f"line {file.line(call)} changes PyTorch's default dtype")
    sources = list(dict.fromkeys(file.source_of(move.call) for move in moves))
    name = free_name(sources, {other.name for other in before if set(sources) & set(other.sources)})
    edits = [edit for pipeline in movable for edit in as_bytes(file, pipeline)]
    edits += imported(file, movable)
    chosen = [below_constants(file, each, moves, arithmetic) for each in makers(file, moves)]
    edits += unread(file, movable, [text for each in chosen for text in arithmetic.arguments(file, each.anchor)])
    edits += calls(file, moves, name)
    edits += modules(file, chosen, movable[0], arithmetic, name)
    where = file.lines([move.call for move in moves])
    return Moves(
        pipelines=tuple(movable),
        reason=(
            f"the loader gives uint8 images, which become the same floats after their copy to the device ({where})"
        ),
        edits=tuple(merged(edits)),
        needs=(arithmetic.definition(file, movable[0]),),
        burden=_burden(arithmetic, homes(file, chosen)),
        trains=any(feed.loader.trains for feed in found),
        name=name,
        sources=tuple(sources),
    )


def _burden(arithmetic: Arithmetic, functions: int) -> str:
    """Why a module is too much for what it does on the device; empty for colours, and a module made in one place."""
    if arithmetic.channels < _COLOURS:
        return "images of one channel cost little on the CPU"
    return f"{functions} functions would have to create the module" if functions > 1 else ""
