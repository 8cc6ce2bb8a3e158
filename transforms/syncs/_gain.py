"""Whether a rewrite that takes waits away saves any: not where nothing waits, or where a step waits as often anyway.

Steps are judged as a whole, with everything that can be rewritten together: what a rule takes away, with or without
an open question, is no wait that stays for the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from perfmod.transforms.facts.accelerators import batch_on_cpu, uses_accelerator
from perfmod.transforms.facts.anomaly import is_checked
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.rounds import is_repeated, round_loop, unshown_loop
from perfmod.transforms.facts.steps import makes_step
from perfmod.transforms.facts.tree import find_any
from perfmod.transforms.finding import Finding, Safety
from perfmod.transforms.implicit_reads import implicit_read
from perfmod.transforms.operations import operation
from perfmod.transforms.syncs._around import parameter_loop
from perfmod.transforms.syncs._host_copies import counts_of
from perfmod.transforms.syncs._moves import Move, Moves
from perfmod.transforms.syncs.data_dependent_size import DataDependentSize
from perfmod.transforms.syncs.explicit_sync import ExplicitSync
from perfmod.transforms.syncs.mask_assignment_from_device import MaskAssignmentFromDevice
from perfmod.transforms.syncs.masked_loss import MaskedLoss
from perfmod.transforms.syncs.nonzero_index_assignment import NonzeroIndexAssignment
from perfmod.transforms.syncs.tensor_branch import TensorBranch
from perfmod.transforms.syncs.unique_count import UniqueCount
from perfmod.transforms.waits import Waits

_RULES = {
    rule.code: rule
    for rule in (
        NonzeroIndexAssignment(), MaskAssignmentFromDevice(), UniqueCount(), MaskedLoss(), TensorBranch(),
        DataDependentSize(), ExplicitSync(),
    )
}  # fmt: skip
"""The rules that have rewrites for other waits."""


def why_no_gain(
    file: FileFacts, waits: Sequence[cst.CSTNode], *, are_many: bool = False, in_doubt: bool = False
) -> str | None:
    """Why it saves nothing to take some waits away, `are_many` in each step; `None` where it does.

    What is `in_doubt` is only rewritten where other open questions are answered with yes as well.
    """
    if not uses_accelerator(file):
        return "this script never uses the GPU"
    rounds = [round_loop(file, node) for node in waits]
    copies = [batch_on_cpu(file, loop) if loop is not None else None for loop in rounds]
    if copies and copies[-1] is not None and None not in copies:
        return f"line {file.line(copies[-1])} moves the batch to the CPU, where nothing waits"
    loops = [unshown_loop(file, node) for node in waits]
    if loops and loops[-1] is not None and None not in loops:
        return f"no training step runs the loop on line {file.line(loops[-1])}"
    if rounds and all(loop is not None and file.steps.trains(loop) for loop in rounds) and is_checked(file):
        return "`torch.autograd.set_detect_anomaly(True)` waits in every backward pass"
    gone = file.once(_gone_in_doubt if in_doubt else _Gone)
    stay = [] if are_many else [file.once(Waits).remaining(node, gone) for node in waits]
    if stay and stay[-1] is not None and None not in stay:
        return f"line {file.line(stay[-1])} waits for the device in every step anyway"
    return None


def no_gain_of(file: FileFacts, move: Move) -> str | None:
    """The same of what moves to the device, and becomes a number behind a loop; or why the gain is not worth it."""
    reads = [read.call for read in move.reads]
    # One wait behind the loop takes the place of one for each parameter.
    are_many = move.inner is not None and _is_over_parameters(file, move.inner)
    return _why_kept(file, move) or why_no_gain(file, reads, are_many=are_many, in_doubt=bool(move.doubts))


def _is_over_parameters(file: FileFacts, loop: cst.For | cst.While) -> bool:
    return parameter_loop(file, loop.body) is loop


def _why_kept(file: FileFacts, move: Move) -> str | None:
    """Why a step would wait for what moves all the same, or a time would no longer be right."""
    if move.inner is not None and not _is_over_parameters(file, move.inner):
        return f"the read after the loop on line {file.line(move.inner)} would wait in every step"
    for use in move.uses:
        choice = next(
            filter(None, (_stays(file, use, read.call, is_sum=bool(move.labels)) for read in move.reads)), None
        )
        if choice is not None:
            return f"line {file.line(use)} still reads it in every step where `{file.code(choice.test)}` holds"
    return None


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
    asked = [each for each in inside if not is_option(file, each.test, loop)]
    if not asked:
        return inside[-1] if inside and is_sum else None
    return asked[0] if len(asked) == 1 and not is_sum and makes_step(asked[0].body) else None


def is_option(file: FileFacts, test: cst.BaseExpression, loop: cst.For | cst.While) -> bool:
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


class _Gone:
    """The waits that all rewrites together take away, in whichever file; made once for all files."""

    def __init__(self, file: FileFacts, *, in_doubt: bool = False) -> None:
        self._file = file
        self._in_doubt = in_doubt
        self._known: dict[tuple[str, str], list[Finding]] = {}

    def __contains__(self, node: object) -> bool:
        assert isinstance(node, cst.CSTNode)
        file = self._file.world.files[self._file.source_of(node)]
        # What is read stays to be computed, with the waits in it, such as that of a mask.
        return (
            any(
                file.tree.is_within(node, read.call) and not file.tree.is_within(node, read.tensor)
                for move in Moves.of(file).moves
                if _why_kept(file, move) is None and (self._in_doubt or not move.doubts)
                for read in move.reads
            )
            or any(file.tree.is_within(node, count.node) for count in counts_of(file))
            or self._is_rewritten(file, node)
        )

    def _is_rewritten(self, file: FileFacts, node: cst.CSTNode) -> bool:
        """Whether the rule that a wait belongs to has a rewrite for it."""
        asked = operation(file, node) or implicit_read(file, node)
        rule = _RULES.get(asked.code) if asked is not None else None
        if rule is None:
            return False
        key = file.source.path, rule.code
        if key not in self._known:
            made = (Safety.SAFE, Safety.UNSAFE) if self._in_doubt else (Safety.SAFE,)
            self._known[key] = [each for each in rule.check(file) if each.edits and each.safety in made]
        start, end = file.source.span(node)
        return any(start < found.end and found.start < end for found in self._known[key])


def _gone_in_doubt(file: FileFacts) -> _Gone:
    return _Gone(file, in_doubt=True)
