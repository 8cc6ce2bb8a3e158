"""Which step of a training loop can be recorded, or why none can: around it, in it, and behind it."""

from __future__ import annotations

import libcst as cst
from attrs import frozen

from perfmod.transforms.compute._frozen_values import require_still
from perfmod.transforms.compute._recordable import RECORDER, Round, obstacle_of_files
from perfmod.transforms.compute._scaled_steps import call_elsewhere, stepping
from perfmod.transforms.compute._step_edits import step_place
from perfmod.transforms.compute._step_gradients import (
    beyond,
    border_of,
    require_apart,
    require_nothing_trained_elsewhere,
    require_zeroed,
)
from perfmod.transforms.compute._step_parts import (
    NotRecorded,
    Parts,
    core_lines,
    optimizer_calls,
    parts,
)
from perfmod.transforms.facts.accelerators import uses_accelerator
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import walk_scope
from perfmod.transforms.waits import is_wait


@frozen
class RecordableStep:
    """A step whose replays do what it does.

    Attributes:
        parts: its lines, and what goes in and out of it.
        own: the calls of `step` in it.
        optimizers: the codes of all optimizers that step in the loop, of which the recorder is told.
    """

    parts: Parts
    own: tuple[cst.Call, ...]
    optimizers: tuple[str, ...]


def is_recorded(file: FileFacts, loop: Round) -> bool:
    """Whether the code is a function that is given to a recorder already, as in a script that was rewritten."""
    name = loop.name.value if isinstance(loop, cst.FunctionDef) else None
    calls = (call for call in file.tree.all(cst.Call) if dotted(call.func) == RECORDER and call.args)
    return any(dotted(call.args[0].value) == name for call in calls)


def recordable_step(file: FileFacts, loop: Round) -> RecordableStep:
    """The step that the rounds of a loop are.

    Raises:
        NotRecorded: a replay would do something else than the step.
    """
    _require_free(file, loop)
    steps = _optimizer_steps(file, loop)
    border = border_of(file, loop)
    found = parts(file, loop, border.core if border else core_lines(file, loop))
    require_nothing_trained_elsewhere(file, found)
    require_still(file, found, step_place(file, found))
    apart = call_elsewhere(file, found.moved)
    if apart is not None:
        why = "uses the scaler of the step in Python, where a replay leaves nothing"
        raise NotRecorded(apart, f"`{file.code(apart)}` {why}")
    if border:
        found = beyond(file, found, border)
    else:
        require_zeroed(file, loop, steps)
        require_apart(file, found)
    optimizers = dict.fromkeys(file.code(stepping(file, call)) for call in steps)
    return RecordableStep(found, border.steps if border else tuple(steps), tuple(optimizers))


def _require_free(file: FileFacts, loop: Round) -> None:
    """Nothing around a loop, or elsewhere in its files, may keep all of its rounds from being recorded."""
    if isinstance(loop, cst.For) and file.steps.is_beside_parts(loop):
        why = "its rounds add up gradients for one step of the optimizer, and a single round is no step"
        raise NotRecorded(loop, why)
    whole = obstacle_of_files(file, loop)
    if whole is not None:
        raise NotRecorded.of(whole)
    if not uses_accelerator(file):
        raise NotRecorded(file.tree.module, "nothing in sight is put on an accelerator")
    if file.source.has_cells:
        raise NotRecorded(file.tree.module, "a notebook's cells run one by one")
    for around in file.tree.ancestors(loop):
        if isinstance(around, cst.With) and "autocast" in file.code(around.items[0].item):
            raise NotRecorded(around, "autocast around the loop keeps its copies of the weights")


def _optimizer_steps(file: FileFacts, loop: Round) -> list[cst.Call]:
    """The steps of optimizers in a loop, of which there must be one."""
    steps = optimizer_calls(file, loop, "step")
    if not steps:
        scaled = [each for each in walk_scope(loop.body) if is_wait(file, each) and isinstance(each, cst.Call)]
        for each in scaled:
            if dotted(each.func).endswith(".step"):
                raise NotRecorded(each, f"`{file.code(each)}` asks on the host whether a gradient is infinite")
        raise NotRecorded(loop, "no step of an optimizer is in sight in this loop")
    return steps
