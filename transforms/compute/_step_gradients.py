"""Gradients between a recorded step and the lines of its loop that stay as they are.

A loop that trains a second model in every fifth round only has lines whose every run is the same, and behind them an
`if` with a backward pass of its own. Those lines become a step, and what the `if` trains another one, or it stays. No
Python of a step runs in a replay, and its graph always writes gradients to the same memory, as if there had been none
before. So all gradients that an optimizer uses are the same as before where

- the step sets those of its own optimizers to zero before its first backward pass: what the `if` has added is gone,
- those of an optimizer that steps in the `if` are set to zero behind the step, and before the next backward pass: what
  the step has added is gone, and
- nobody else looks at them.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import libcst as cst
from attrs import frozen

from perfmod.transforms.compute import _optimizers
from perfmod.transforms.compute._reached import reached, targets_of
from perfmod.transforms.compute._recordable import RECORDER, Round, is_fixed
from perfmod.transforms.compute._scaled_steps import stepping
from perfmod.transforms.compute._step_calls import (
    ASKED,
    NotRecorded,
    calls_method,
    core_calls,
    is_every_round,
    optimizer_calls,
    owner,
    zeroing,
)
from perfmod.transforms.compute._step_names import Parts
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition, dotted
from perfmod.transforms.facts.gradients import may_carry_gradient
from perfmod.transforms.facts.tree import find_all, walk, walk_scope
from perfmod.transforms.facts.value import Kind

_WITHOUT_HISTORY = ASKED | {"detach", "data"}


@frozen
class Border:
    """Where the lines of a loop that train in every round end, and others begin.

    Attributes:
        core: the places of the lines that a step cannot do without.
        zeroed: the calls that set gradients to zero behind the step, in every round.
        steps: the calls of the step's own optimizers.
        apart: the calls of others, in some rounds only.
        branches: the lines that train in some rounds only.
    """

    core: tuple[int, ...]
    zeroed: tuple[cst.Call, ...]
    steps: tuple[cst.Call, ...]
    apart: tuple[cst.Call, ...]
    branches: tuple[cst.If, ...]


def border_of(file: FileFacts, loop: Round) -> Border | None:
    """The border in a loop's body; `None` where it trains all in every round, or what it does so is no step."""
    lines = list(cst.ensure_type(loop.body, cst.IndentedBlock).body)
    placed = {
        call: next(i for i, line in enumerate(lines) if file.tree.is_within(call, line))
        for call in core_calls(file, loop)
    }
    training = [lines[i] for i in sorted(set(placed.values()))]
    branches = [line for line in training if isinstance(line, cst.If) and not is_fixed(file, line)]
    if not branches or any(not file.tree.is_within(call, each.body) for call, each in _branch_of(lines, placed)):
        return None
    first = lines.index(branches[0])
    main = {call: at for call, at in placed.items() if at < first}
    behind = {call for call, at in placed.items() if at >= first}
    working = [at for call, at in main.items() if not calls_method(call, "zero_grad")]
    own = set(optimizer_calls(file, loop, "step"))
    steps = [call for call in main if call in own]
    if not steps or not any(calls_method(call, "backward") for call in main):
        return None
    if not all(is_every_round(file, loop, call) for call in main) or any(
        lines[placed[c]] not in branches for c in behind
    ):
        return None
    return Border(
        tuple(sorted({at for at in main.values() if at <= max(working)})),
        tuple(call for call, at in main.items() if at > max(working)),
        tuple(steps),
        tuple(call for call in behind if call in own),
        tuple(branches),
    )


def _branch_of(lines: Sequence[cst.BaseStatement], placed: dict[cst.Call, int]) -> list[tuple[cst.Call, cst.If]]:
    return [(call, line) for call, at in placed.items() if isinstance(line := lines[at], cst.If)]


def beyond(file: FileFacts, found: Parts, border: Border) -> Parts:
    """The parts of a step whose recorder knows the optimizers behind the border as well.

    Raises:
        NotRecorded: a gradient that an optimizer uses would be another, or what the step computes is trained behind it.
    """
    _require_zeroed_in_front(file, found, border)
    for call in zeroing(found.loop):
        if call.args:
            raise NotRecorded(call, f"`{file.code(call)}` may leave zeros where a replay leaves nothing")
    for step in border.apart:
        _require_zeroed_behind(file, found, border, step)
    _require_unread(file, border)
    _require_no_switches(file, found)
    _require_cut_off(file, found, border)
    return attrs.evolve(found, closed=(*found.closed, *_optimizers_behind(file, found, border)))


def require_zeroed(file: FileFacts, loop: Round, steps: Sequence[cst.Call]) -> None:
    """Gradients of one round must not reach the next: they are replaced while the step is recorded."""
    passes = (each for each in file.tree.all(cst.Call) if calls_method(each, "backward"))
    elsewhere = next((each for each in passes if not file.tree.is_within(each, loop)), None)
    is_only = len({file.code(stepping(file, each)) for each in steps}) == 1
    for step in steps:
        name = file.code(stepping(file, step))
        made = file.value(stepping(file, step)).when_used.call
        names = {name, *(dotted(model) for model in (_optimizers.models(made) if made is not None else ()))}
        zeroed = [call for call in zeroing(loop) if is_only or file.code(owner(call)) in names]
        zeroed = [call for call in zeroed if _is_wherever(file, call, step)]
        if not zeroed:
            raise NotRecorded(step, f"no `zero_grad()` for `{name}` stands in the loop")
        if elsewhere is not None and not any(file.comes_before(call, step) for call in zeroed):
            why = f"its gradients are zeroed behind it, and line {file.line(elsewhere)} may add to them"
            raise NotRecorded(step, f"`{file.code(step)}` steps with what is there: {why}")


def _is_wherever(file: FileFacts, zeroing: cst.CSTNode, step: cst.Call) -> bool:
    """Whether gradients are set to zero under no condition that the step is not under as well."""
    return all(file.tree.is_within(step, each) for each in file.tree.ancestors(zeroing) if _is_branch(file, each))


def _is_branch(file: FileFacts, block: cst.CSTNode) -> bool:
    return isinstance(block, cst.BaseSuite) and isinstance(file.tree.parent(block), (cst.If, cst.Else))


def require_nothing_trained_elsewhere(file: FileFacts, found: Parts) -> None:
    """A function that the other lines of a loop call must not train: what its gradients are is not in sight there."""
    lines = cst.ensure_type(found.loop.body, cst.IndentedBlock).body
    for line in (each for each in lines if each not in found.moved):
        for function in reached(file, line):
            for node in walk_scope(function.body):
                if isinstance(node, cst.Call) and (calls_method(node, "backward") or _is_replay(file, node)):
                    raise NotRecorded(line, f"`{function.name.value}` trains apart from the step")


def require_apart(file: FileFacts, found: Parts) -> None:
    """A model that the code around a loop trains must not be trained through what the last step in it has returned."""
    inside = {id(node) for line in found.moved for node in walk(line)}
    around = file.tree.loops(found.loop)
    if not around or not any(
        calls_method(each, "backward") and id(each) not in inside for each in find_all(around[0], cst.Call)
    ):
        return
    for line in found.moved:
        for target in find_all(line, cst.Name):
            for definition in file.flow.defined(target) if target.value in found.returned else ():
                for use in file.flow.uses(definition):
                    is_behind = not file.tree.is_within(use, found.loop) and file.tree.is_within(use, around[0])
                    if is_behind and not _is_number(file, use):
                        raise NotRecorded(use, f"`{definition.name}` may be trained through behind the step")


def require_no_steps_of_others(file: FileFacts, found: Parts, steps: Sequence[cst.Call]) -> None:
    """What a step adds to the gradients of an optimizer that steps apart from its loop must be gone when that does."""
    for other in (each for each in file.tree.all(cst.Call) if calls_method(each, "step")):
        if file.tree.is_within(other, found.loop) or file.value(owner(other)).when_used.kind is not Kind.OPTIMIZER:
            continue
        if any(_is_same_optimizer(file, each, other) for each in steps):
            continue
        around = file.tree.loops(other)[:1]
        if not any(
            _zeroes(file, each, other)
            and file.tree.loops(each)[:1] == around
            and file.tree.function(each) is file.tree.function(other)
            and file.comes_before(each, other)
            and not (file.comes_before(each, found.loop) and file.comes_before(found.loop, other))
            for each in file.tree.all(cst.Call)
            if calls_method(each, "zero_grad")
        ):
            why = "steps apart from the loop, with gradients that the step may leave"
            raise NotRecorded(other, f"`{file.code(other.func)}` {why}")


def _is_replay(file: FileFacts, call: cst.Call) -> bool:
    """Whether a call runs a step that is recorded already."""
    made = [each.value for each in file.flow.definitions(call.func)] if isinstance(call.func, cst.Name) else []
    return any(isinstance(each, cst.Call) and dotted(each.func) == RECORDER for each in made)


def _require_zeroed_in_front(file: FileFacts, found: Parts, border: Border) -> None:
    """What is added to the gradients of the step's own optimizers behind it must be gone when it begins."""
    lines = list(cst.ensure_type(found.loop.body, cst.IndentedBlock).body)
    passes = [i for i in border.core if any(calls_method(each, "backward") for each in walk_scope(lines[i]))]
    calls = [each for line in lines[: passes[0]] for each in walk_scope(line) if calls_method(each, "zero_grad")]
    for step in border.steps:
        if not any(_zeroes(file, each, step) and _is_wherever(file, each, step) for each in calls):
            name = file.code(stepping(file, step))
            raise NotRecorded(step, f"no `zero_grad()` for `{name}` stands in front of the backward pass")


def _require_zeroed_behind(file: FileFacts, found: Parts, border: Border, step: cst.Call) -> None:
    """What the step adds to the gradients of another's parameters must be gone when that other one uses them."""
    name = file.code(stepping(file, step))
    if any(_is_same_optimizer(file, step, each) for each in border.steps):
        raise NotRecorded(step, f"`{name}` steps once more, in some rounds only")
    branch = next(each for each in border.branches if file.tree.is_within(step, each))
    lines = list(branch.body.body)
    first = next((i for i, line in enumerate(lines) if any(calls_method(c, "backward") for c in walk_scope(line))), 0)
    plain = [line for line in lines[:first] if isinstance(line, cst.SimpleStatementLine)]
    calls = [each for line in plain for each in find_all(line, cst.Call) if calls_method(each, "zero_grad")]
    if not any(_zeroes(file, each, step) for each in (*border.zeroed, *calls)):
        raise NotRecorded(step, f"no `zero_grad()` for `{name}` stands between the step and the next backward pass")
    for other in file.tree.all(cst.Call):
        is_apart = calls_method(other, "step") and not file.tree.is_within(other, found.loop)
        if is_apart and _is_same_optimizer(file, step, other):
            raise NotRecorded(other, f"`{name}` steps here as well, with gradients that the step may leave")


def _is_same_optimizer(file: FileFacts, one: cst.Call, other: cst.Call) -> bool:
    first, second = stepping(file, one), stepping(file, other)
    made = file.value(first).when_used.call
    return file.code(first) == file.code(second) or (made is not None and made is file.value(second).when_used.call)


def _zeroes(file: FileFacts, call: cst.CSTNode, step: cst.Call) -> bool:
    """Whether a call sets all gradients of an optimizer to zero: by itself, or by the model that it was given whole."""
    assert isinstance(call, cst.Call)
    zeroed = owner(call)
    if file.code(zeroed) == file.code(stepping(file, step)):
        return True
    made = file.value(stepping(file, step)).when_used.call
    given = argument(made, "params", 0) if made is not None else None
    if not isinstance(given, cst.Call) or not calls_method(given, "parameters") or given.args or not dotted(zeroed):
        return False
    return dotted(owner(given)) == dotted(zeroed)


def _require_unread(file: FileFacts, border: Border) -> None:
    """Gradients lie in the graph's memory, where only the step's own optimizers find them for sure."""
    for node in file.tree.all(cst.Attribute):
        if node.attr.value == "grad" and not (file.qualified(node) or "").startswith("torch."):
            raise NotRecorded(node, f"`{file.code(node)}` reads a gradient, which a replay may leave elsewhere")
    for branch in border.branches:
        for call in find_all(branch, cst.Call):
            if "clip_grad" in dotted(call.func):
                raise NotRecorded(call, f"`{file.code(call.func)}` reads gradients, which a replay may leave elsewhere")


def _require_no_switches(file: FileFacts, found: Parts) -> None:
    """Whether a parameter needs a gradient is said in Python, which other lines may say otherwise."""
    for line in found.moved:
        for part in (line, *(function.body for function in reached(file, line))):
            for node in walk(part):
                is_set = any(isinstance(t, cst.Attribute) and t.attr.value == "requires_grad" for t in targets_of(node))
                if is_set or (isinstance(node, cst.Call) and _switches(file, node, within=line)):
                    raise NotRecorded(node, f"`{file.code(node)}` says in Python which parameters need gradients")


def _switches(file: FileFacts, call: cst.Call, within: cst.BaseStatement) -> bool:
    """Whether a call of `requires_grad_` may be for parameters: not where it is for a tensor that is computed there."""
    if not calls_method(call, "requires_grad_"):
        return False
    subject = owner(call)
    made = [each.value for each in file.flow.definitions(subject)] if isinstance(subject, cst.Name) else [subject]
    return isinstance(within, cst.For) or not made or not all(isinstance(each, cst.BinaryOperation) for each in made)


def _require_cut_off(file: FileFacts, found: Parts, border: Border) -> None:
    """A replay returns numbers without their history, through which the lines behind it could train no model."""
    inside = {id(node) for line in found.moved for node in walk(line)}
    for line in found.moved:
        for target in find_all(line, cst.Name):
            for definition in file.flow.defined(target):
                for use in file.flow.uses(definition):
                    if id(use) not in inside and definition.name in found.returned and not _is_number(file, use):
                        raise NotRecorded(use, f"`{definition.name}` may be trained through behind the step")
    names = {each.rpartition(".")[2] for each in found.returned if "." in each}
    for branch in border.branches:
        for part in (branch, *(function.body for function in reached(file, branch))):
            for read in find_all(part, cst.Attribute):
                if read.attr.value in names and not _is_number(file, read):
                    raise NotRecorded(read, f"`{file.code(read)}` may be trained through behind the step")


def _is_number(file: FileFacts, use: cst.CSTNode) -> bool:
    """Whether a use of a tensor leaves its history alone: it is read, shown, or cut off."""
    parent = file.tree.parent(use)
    if isinstance(parent, cst.Attribute):
        return parent.value is use and parent.attr.value in _WITHOUT_HISTORY
    if isinstance(parent, cst.FormattedStringExpression) or not may_carry_gradient(file, use):
        return True
    call = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
    return isinstance(call, cst.Call) and file.qualified(call) in ("builtins.print", "builtins.float")


def _optimizers_behind(file: FileFacts, found: Parts, border: Border) -> list[Definition]:
    """Where the optimizers that step behind the border are bound; the recorder is told of them."""
    bound: list[Definition] = []
    for step in border.apart:
        root: cst.BaseExpression = stepping(file, step)
        while isinstance(root, cst.Attribute):
            root = root.value
        definitions = file.flow.definitions(root) if isinstance(root, cst.Name) else ()
        if not definitions or any(file.tree.is_within(each.node, found.loop) for each in definitions):
            raise NotRecorded(step, f"how `{file.code(stepping(file, step))}` is made is not in sight")
        if file.value(stepping(file, step)).when_used.kind is not Kind.OPTIMIZER:
            raise NotRecorded(step, f"how `{file.code(stepping(file, step))}` is made is not in sight")
        bound += definitions
    return bound
