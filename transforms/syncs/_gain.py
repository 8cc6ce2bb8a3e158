"""Whether a rewrite that takes waits away saves any: not where nothing waits, or where each step waits anyway.

The rules count jointly: what one of them takes away is no wait that stays for the others.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.accelerators import batch_on_cpu, uses_accelerator
from perfmod.transforms.facts.anomaly import is_checked
from perfmod.transforms.facts.clocks import why_timed
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.rounds import is_repeated, round_loop, unshown_loop
from perfmod.transforms.facts.steps import makes_step
from perfmod.transforms.facts.tree import find_any
from perfmod.transforms.syncs._host_copies import Counts
from perfmod.transforms.syncs._moves import Move, Moves
from perfmod.transforms.waits import Waits


def why_no_gain(
    file: FileFacts,
    waits: Sequence[tuple[cst.CSTNode, cst.BaseExpression]],
    *,
    of: Move | None = None,
) -> str | None:
    """Why it saves nothing to take some waits away, each with the tensor that it is for; `None` where it does.

    `of` is the move that takes them away: a doubtful one is only made where others are, too.
    """
    if not uses_accelerator(file):
        return "nothing in the files given uses a GPU, and on the CPU nothing waits"
    rounds = [round_loop(file, node) for node, _ in waits]
    copies = [batch_on_cpu(file, loop) if loop is not None else None for loop in rounds]
    if copies and copies[-1] is not None and None not in copies:
        return f"line {file.line(copies[-1])} moves the batch to the CPU, where nothing waits"
    loops = [unshown_loop(file, node) for node, _ in waits]
    if loops and loops[-1] is not None and None not in loops:
        return f"nothing in the files read here shows that training steps run the loop on line {file.line(loops[-1])}"
    if rounds and all(loop is not None and file.steps.trains(loop) for loop in rounds) and is_checked(file):
        return "`torch.autograd.set_detect_anomaly(True)` waits in every backward pass"
    # First without what others keep, for the message to name the wait that is the cause.
    for kept in ((), file.once(_kept)):
        if of in kept:
            break  # it stays for a reason of its own
        gone = _Gone(file, of is not None and bool(of.doubts), kept)
        stay = [file.once(Waits).remaining(node, tensor, gone) for node, tensor in waits]
        if stay and stay[-1] is not None and None not in stay:
            return f"line {file.line(stay[-1])} waits for the device in every step anyway"
    return None


def no_gain_of(file: FileFacts, move: Move) -> str | None:
    """The same of what moves to the device, and becomes a number behind a loop; or why the gain is not worth it."""
    if move.inner is not None:
        return f"the read after the loop on line {file.line(move.inner)} would wait in every step"
    for use in move.uses:
        choice = next(
            filter(None, (_stays(file, use, read.call, is_sum=bool(move.labels)) for read in move.reads)), None
        )
        if choice is not None:
            return f"line {file.line(use)} reads it in every step all the same where `{file.code(choice.test)}` holds"
    waits = [(read.call, read.tensor) for read in move.reads]
    return _why_timed(file, move) or why_no_gain(file, waits, of=move)


def _stays(file: FileFacts, use: cst.CSTNode, read: cst.CSTNode, *, is_sum: bool) -> cst.If | None:
    """The `if` under which each round that comes by `read` uses what was read, so that its wait stays.

    It asks for an option, which holds for the whole loop, and the rounds show a sum that is kept on the device;
    or for the rounds in which the optimizer makes its step, and uses the value of one round.
    """
    loop = round_loop(file, read)
    if loop is None or not is_repeated(file, use, loop):
        return None
    choices = [(each, each.body) for each in file.tree.ancestors(use) if isinstance(each, cst.If)]
    inside = [each for each, body in choices if file.tree.is_within(each, loop) and file.tree.is_within(use, body)]
    asked = [each for each in inside if not _is_option(file, each.test, loop)]
    if not asked:
        return inside[-1] if inside and is_sum else None
    return asked[0] if len(asked) == 1 and not is_sum and makes_step(asked[0].body) else None


def _is_option(file: FileFacts, test: cst.BaseExpression, loop: cst.For | cst.While) -> bool:
    """Whether a test has one answer for all rounds of a loop: it reads what none of them sets, and calls nothing."""
    parts = list(find_any(test, cst.Name, cst.Call, cst.Attribute))
    set_there = {
        file.code(target.target)
        for target in find_any(loop.body, cst.AssignTarget, cst.AugAssign)
        if isinstance(target, (cst.AssignTarget, cst.AugAssign))
    }
    return not any(
        isinstance(part, cst.Call)
        or file.code(part) in set_there
        or (
            isinstance(part, cst.Name)
            and file.flow.is_read(part)
            and any(file.tree.is_within(each.node, loop) for each in file.flow.definitions(part))
        )
        for part in parts
    )


def _why_timed(file: FileFacts, move: Move) -> str | None:
    """Why a time that the rounds take would no longer be right; none of them reads what moves."""
    for read in move.reads:
        loop = round_loop(file, read.call)
        if loop is not None and not any(file.tree.is_within(use, loop) for use in move.uses):
            why = why_timed(file, loop, read.call)
            if why is not None:
                return why
    return None


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
        # What is read stays to be computed, with the waits in it, such as that of a mask.
        return any(
            file.tree.is_within(node, read.call) and not file.tree.is_within(node, read.tensor)
            for move in moves
            for read in move.reads
        ) or any(file.tree.is_within(node, count.node) for count in Counts.of(file).counts)


def _kept(file: FileFacts) -> tuple[Move, ...]:
    """What gains nothing even if all others go; what these wait for then stays for the others."""
    waits, gone = file.once(Waits), _Gone(file, with_doubts=True)
    return tuple(
        move
        for each in file.world.files.values()
        for move in Moves.of(each).moves
        if _why_timed(each, move) is not None
        or (move.reads and all(waits.remaining(read.call, read.tensor, gone) is not None for read in move.reads))
    )
