"""Whether a rewrite that takes waits away saves any: not where nothing waits, or where each step waits anyway.

The rules count jointly: what one of them takes away is no wait that stays for the others.
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.accelerators import uses_accelerator
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.syncs._host_copies import Counts
from perfmod.transforms.syncs._moves import Move, Moves
from perfmod.transforms.waits import Waits, blocking_copies


def why_no_gain(
    file: FileFacts, waits: Iterable[tuple[cst.CSTNode, cst.BaseExpression]], *, with_doubts: bool = False
) -> str | None:
    """Why it saves nothing to take some waits away, each with the tensor that it is for; `None` where it does.

    `with_doubts` says that this is only done where other doubtful rewrites are made, too.
    """
    if not uses_accelerator(file):
        return "nothing in the files given uses a GPU, and on the CPU nothing waits"
    gone, stays = _Gone(file, with_doubts), None
    for node, tensor in waits:
        stays = file.once(Waits).remaining(node, tensor, gone)
        if stays is None:
            return None
    return f"line {file.line(stays)} waits for the device in every step anyway" if stays is not None else None


def no_gain_of(file: FileFacts, move: Move) -> str | None:
    """The same of what moves to the device, and becomes a number behind a loop."""
    if move.inner is not None:
        return f"the read after the loop on line {file.line(move.inner)} would wait in every step"
    return why_no_gain(file, [(read.call, read.tensor) for read in move.reads], with_doubts=bool(move.doubts))


@frozen
class _Gone:
    """The waits that rewrites take away, in whichever file."""

    file: FileFacts
    with_doubts: bool

    def __contains__(self, node: object) -> bool:
        assert isinstance(node, cst.CSTNode)
        file = self.file.world.files[self.file.source_of(node)]
        moves = [
            move
            for move in Moves.of(file).moves
            if not move.inner and (self.with_doubts or not move.doubts) and move not in file.once(_kept_by_copies)
        ]
        return any(file.tree.is_within(node, read.call) for move in moves for read in move.reads) or any(
            file.tree.is_within(node, count.node) for count in Counts.of(file).counts
        )


@frozen
class _AllButCopies:
    """Every wait but those of batches that are copied to the device, which no rule for reads takes away."""

    file: FileFacts

    def __contains__(self, node: object) -> bool:
        return node not in self.file.once(blocking_copies)


def _kept_by_copies(file: FileFacts) -> tuple[Move, ...]:
    """What stays because a batch is copied behind it, so that the step waits there anyway; of all files."""
    waits, copied = file.once(Waits), _AllButCopies(file)
    return tuple(
        move
        for each in file.world.files.values()
        for move in Moves.of(each).moves
        if move.reads and all(waits.remaining(read.call, read.tensor, copied) is not None for read in move.reads)
    )
