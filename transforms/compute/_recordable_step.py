"""Which step of a training loop can be recorded, or why none can: around it, in it, and behind it."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
import libcst as cst
from attrs import frozen

from perfmod.transforms.compute._capturable import capturable_form
from perfmod.transforms.compute._frozen_values import require_still
from perfmod.transforms.compute._recordable import RECORDER, Round
from perfmod.transforms.compute._recordable_files import obstacle_of_files
from perfmod.transforms.compute._scaled_steps import call_elsewhere, stepping
from perfmod.transforms.compute._step_calls import (
    NotRecorded,
    calls_method,
    core_calls,
    core_lines,
    is_every_round,
    optimizer_calls,
    owner,
)
from perfmod.transforms.compute._step_edits import step_place
from perfmod.transforms.compute._step_gradients import (
    Border,
    beyond,
    border_of,
    require_apart,
    require_no_steps_of_others,
    require_nothing_trained_elsewhere,
    require_zeroed,
)
from perfmod.transforms.compute._step_names import Parts, kept_beyond
from perfmod.transforms.compute._step_parts import parts
from perfmod.transforms.facts.accelerators import uses_accelerator
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import walk_scope
from perfmod.transforms.finding import Edit
from perfmod.transforms.waits import is_wait


@frozen
class RecordableStep:
    """A step whose replays do what it does.

    Attributes:
        parts: its lines, and what goes in and out of it.
        own: the calls of `step` in it.
        optimizers: the codes of all optimizers that step in the loop, of which the recorder is told.
        settings: what the optimizers of `own` have to be told.
        apart: what trains in some rounds only, behind the lines that train in every round, where it is such a step too.
    """

    parts: Parts
    own: tuple[cst.Call, ...]
    optimizers: tuple[str, ...]
    settings: tuple[Edit, ...]
    apart: tuple[RecordableStep, ...] = ()

    @property
    def all(self) -> tuple[RecordableStep, ...]:
        """The step, and those that are apart."""
        return (self, *self.apart)


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
    require_no_steps_of_others(file, found, steps)
    require_still(file, found, step_place(file, found))
    outside = call_elsewhere(file, found.moved)
    if outside is not None:
        why = "uses the scaler of the step in Python, where a replay leaves nothing"
        raise NotRecorded(outside, f"`{file.code(outside)}` {why}")
    optimizers = tuple(dict.fromkeys(file.code(stepping(file, call)) for call in steps))
    if not border:
        require_zeroed(file, loop, steps)
        require_apart(file, found)
        return RecordableStep(found, tuple(steps), optimizers, _settings(file, steps))
    found = beyond(file, found, border)
    settings = _settings(file, border.steps)
    # Of several branches, one may leave gradients for the next, which a replay would not find.
    branch = _step_of_branch(file, found, border, border.branches[0]) if len(border.branches) == 1 else None
    apart = (branch,) if branch is not None else ()
    found = attrs.evolve(found, kept=kept_beyond(file, found, [each.parts for each in apart]))
    return RecordableStep(found, border.steps, optimizers, settings, apart)


def _settings(file: FileFacts, steps: Iterable[cst.Call]) -> tuple[Edit, ...]:
    return tuple(dict.fromkeys(edit for call in steps for edit in capturable_form(file, call)))


def _step_of_branch(file: FileFacts, main: Parts, border: Border, branch: cst.If) -> RecordableStep | None:
    """What an `if` behind a step trains, as a step of its own; none where it cannot be recorded and stays as it is."""
    steps = [call for call in border.apart if file.tree.is_within(call, branch.body)]
    if not isinstance(branch.body, cst.IndentedBlock):
        return None
    lines = list(branch.body.body)
    calls = [call for call in core_calls(file, main.loop) if file.tree.is_within(call, branch)]
    if not steps or not all(is_every_round(file, branch, call) for call in calls):
        return None
    core = sorted({next(i for i, line in enumerate(lines) if file.tree.is_within(call, line)) for call in calls})
    try:
        found = parts(file, main.loop, core, branch)
        found = attrs.evolve(found, closed=(*found.closed, *main.closed))
        require_still(file, found, step_place(file, found))
        settings = _settings(file, steps)
    except NotRecorded:
        return None
    if step_place(file, found) is not step_place(file, main) or call_elsewhere(file, found.moved) is not None:
        return None
    optimizers = dict.fromkeys(file.code(stepping(file, call)) for call in (*steps, *border.steps))
    return RecordableStep(found, tuple(steps), tuple(optimizers), settings)


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
        unseen = [each for each in walk_scope(loop.body) if isinstance(each, cst.Call) and calls_method(each, "step")]
        for each in unseen:
            if is_wait(file, each):
                raise NotRecorded(each, f"`{file.code(each)}` asks on the host whether a gradient is infinite")
        for each in unseen:
            if "opt" in (code := file.code(owner(each))).lower():
                raise NotRecorded(each, f"where the optimizer `{code}` is made is not in sight")
        raise NotRecorded(loop, "no step of an optimizer is in sight in this loop")
    return steps
