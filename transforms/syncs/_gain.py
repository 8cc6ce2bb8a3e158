"""Whether a rewrite that takes waits away saves any: not where nothing waits, or where each step waits anyway.

The rules count jointly: what one of them takes away is no wait that stays for the others.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.accelerators import uses_accelerator
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.syncs._host_copies import Counts
from perfmod.transforms.syncs._moves import Move, Moves
from perfmod.transforms.waits import Waits


def why_no_gain(
    file: FileFacts, waits: Sequence[tuple[cst.CSTNode, cst.BaseExpression]], *, with_doubts: bool = False
) -> str | None:
    """Why it saves nothing to take some waits away, each with the tensor that it is for; `None` where it does.

    `with_doubts` says that this is only done where other doubtful rewrites are made, too.
    """
    if not uses_accelerator(file):
        return "nothing in the files given uses a GPU, and on the CPU nothing waits"
    # First without what others keep, for the message to name the wait that is the cause.
    for kept in ((), file.once(_kept)):
        gone = _Gone(file, with_doubts, kept)
        stay = [file.once(Waits).remaining(node, tensor, gone) for node, tensor in waits]
        if stay and stay[-1] is not None and None not in stay:
            return f"line {file.line(stay[-1])} waits for the device in every step anyway"
    return None


def no_gain_of(file: FileFacts, move: Move) -> str | None:
    """The same of what moves to the device, and becomes a number behind a loop."""
    if move.inner is not None:
        return f"the read after the loop on line {file.line(move.inner)} would wait in every step"
    return why_no_gain(file, [(read.call, read.tensor) for read in move.reads], with_doubts=bool(move.doubts))


@frozen
class _Gone:
    """The waits that rewrites take away, in whichever file.

    Attributes:
        kept: what stays where it is, so that its waits do.
    """

    file: FileFacts
    with_doubts: bool
    kept: Collection[Move] = ()

    def __contains__(self, node: object) -> bool:
        assert isinstance(node, cst.CSTNode)
        file = self.file.world.files[self.file.source_of(node)]
        moves = [
            move
            for move in Moves.of(file).moves
            if not move.inner and (self.with_doubts or not move.doubts) and move not in self.kept
        ]
        return any(file.tree.is_within(node, read.call) for move in moves for read in move.reads) or any(
            file.tree.is_within(node, count.node) for count in Counts.of(file).counts
        )


def _kept(file: FileFacts) -> tuple[Move, ...]:
    """What gains nothing even if all others are taken away; what these wait for then stays for the others."""
    waits, gone = file.once(Waits), _Gone(file, with_doubts=True)
    return tuple(
        move
        for each in file.world.files.values()
        for move in Moves.of(each).moves
        if move.reads and all(waits.remaining(read.call, read.tensor, gone) is not None for read in move.reads)
    )
