"""The lines of a training loop that can become a function of tensors, and what goes in and out of it."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import libcst as cst

from perfmod.transforms.compute._brought import brought_by, obstacle_to_bringing
from perfmod.transforms.compute._recordable import Obstacle, Round, obstacle
from perfmod.transforms.compute._step_calls import NotRecorded, calls_method, owner
from perfmod.transforms.compute._step_names import Parts, named_parts
from perfmod.transforms.compute._step_reports import computes, report_places
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all, walk, walk_scope


def parts(file: FileFacts, loop: Round, core: Sequence[int], branch: cst.If | None = None) -> Parts:
    """The lines of a loop, or of an `if` in it, that make a step; `core` are the places of those that it cannot do
    without.

    Raises:
        NotRecorded: nothing is a step, or something in it keeps it from being recorded.
    """
    within = branch or loop
    lines = list(cst.ensure_type(within.body, cst.IndentedBlock).body)
    first = next(i for i in core if any(calls_method(each, "backward") for each in walk_scope(lines[i])))
    start, why = first, None
    brought = brought_by(file, loop)
    reports = report_places(file, lines, core, brought)
    late: list[cst.BaseStatement] = []
    for index in reversed(range(first)):
        if index in reports:
            late.insert(0, lines[index])
            continue
        # Where no model has run yet, a batch can be moved in front of the step.
        is_within = any(computes(file, each) for each in lines[: index + 1])
        why = obstacle(file, lines[index], brought if is_within else ())
        if why is not None:
            break
        start = index
    while start < first and _only_unpacks(lines[start]):
        start += 1
    late = [line for line in late if lines.index(line) > start]
    early = [lines[i] for i in core if i < start]
    for line in lines[:start]:
        if line not in early and computes(file, line):
            raise NotRecorded.of(obstacle(file, line, brought) or why or Obstacle(line, "computes apart from the step"))
    for line in early:
        if not _only_zeroes(line):
            raise NotRecorded.of(why) if why is not None else NotRecorded(line, "stands apart from the step")
    moved = [line for line in lines[start:first] if line not in late]
    for index in range(first, core[-1] + 1):
        found = obstacle(file, lines[index], brought)
        if index in reports:
            late.append(lines[index])
        elif found is not None:
            raise NotRecorded.of(found)
        else:
            moved.append(lines[index])
    brought = {call: name for call, name in brought.items() if any(file.tree.is_within(call, each) for each in moved)}
    made = attrs.evolve(named_parts(file, loop, within, early, [*early, *moved], late), brought=tuple(brought))
    apart = obstacle_to_bringing(file, brought, made.moved, made.given)
    if apart is not None:
        raise NotRecorded.of(apart)
    for line in made.moved:
        for call in (each for each in find_all(line, cst.Call) if calls_method(each, "backward")):
            if any(name.value in made.given for name in find_all(owner(call), cst.Name)):
                raise NotRecorded.of(
                    why or Obstacle(call, f"`{file.code(owner(call))}` is computed apart from the step")
                )
    return made


def _only_unpacks(line: cst.BaseStatement) -> bool:
    """Whether a line only gives names to parts of a batch: `x, y = batch`, `ids = batch["input_ids"]`."""
    if not isinstance(line, cst.SimpleStatementLine) or not isinstance(line.body[0], cst.Assign):
        return False
    plain = (
        cst.Name,
        cst.Tuple,
        cst.Element,
        cst.Subscript,
        cst.SubscriptElement,
        cst.Index,
        cst.SimpleString,
        cst.Integer,
    )
    nodes = (node for node in walk(line.body[0].value) if isinstance(node, (cst.BaseExpression, cst.BaseSlice)))
    return all(isinstance(node, plain) for node in nodes)


def _only_zeroes(line: cst.BaseStatement) -> bool:
    calls = list(find_all(line, cst.Call))
    return (
        isinstance(line, cst.SimpleStatementLine)
        and len(line.body) == 1
        and all(calls_method(c, "zero_grad") for c in calls)
    )
