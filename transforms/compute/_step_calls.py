"""The calls of a training loop that make its steps: backward passes, optimizers, and what sets gradients to zero."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from perfmod.transforms.compute._recordable import Obstacle, Round, is_fixed
from perfmod.transforms.compute._scaled_steps import is_scaler_call, stepping
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition
from perfmod.transforms.facts.tracing import End
from perfmod.transforms.facts.tree import find_all, walk_scope
from perfmod.transforms.facts.value import Kind

_BRANCHES = (cst.If, cst.For, cst.While, cst.Try)
STILL = (Kind.MODULE, Kind.OPTIMIZER, Kind.LOADER)
"""What changes in place, and is the same object from round to round."""
ASKED = frozenset({"item", "size", "dim", "numel", "shape", "dtype", "device", "tolist", "cpu"})
MOVES = frozenset({"to", "cuda", "type", "float", "double", "half", "bfloat16", "long", "int", "detach"})
"""Methods that give the same tensor elsewhere, or in another format."""
MAKES = (cst.BinaryOperation, cst.Call)
"""Expressions that make a new tensor."""


class NotRecorded(Exception):
    """Why a step stays as it is."""

    def __init__(self, node: cst.CSTNode, why: str) -> None:
        super().__init__(why)
        self.node, self.why = node, why

    @classmethod
    def of(cls, found: Obstacle) -> NotRecorded:
        return cls(found.node, found.why)


def training_lines(file: FileFacts, loop: Round) -> list[cst.BaseStatement]:
    """The lines of a loop's body that run backward passes themselves."""
    if not isinstance(loop.body, cst.IndentedBlock):
        return []
    return [
        line
        for line in loop.body.body
        if not isinstance(line, (cst.FunctionDef, cst.ClassDef))
        and any(calls_method(each, "backward") and _is_direct(file, each, loop) for each in walk_scope(line))
    ]


def _is_direct(file: FileFacts, node: cst.CSTNode, loop: Round) -> bool:
    """Whether a node stands in the rounds of no other loop within a loop or function."""
    loops = file.tree.loops(node)
    return not loops if isinstance(loop, cst.FunctionDef) else loops[:1] == [loop]


def optimizer_calls(file: FileFacts, loop: Round, *methods: str) -> list[cst.Call]:
    """The calls of methods of optimizers in a loop's body."""
    calls = [call for call in walk_scope(loop.body) if isinstance(call, cst.Call) and calls_method(call, *methods)]
    return [call for call in calls if file.value(stepping(file, call)).when_used.kind is Kind.OPTIMIZER]


def owner(call: cst.Call) -> cst.BaseExpression:
    """The object of which a method is called."""
    return cst.ensure_type(call.func, cst.Attribute).value


def calls_method(node: cst.CSTNode, *methods: str) -> bool:
    """Whether a node calls one of some methods."""
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in methods


def core_lines(file: FileFacts, loop: Round) -> list[int]:
    """The places of the lines that train in a loop.

    Raises:
        NotRecorded: one of them does not run in every round.
    """
    lines = list(cst.ensure_type(loop.body, cst.IndentedBlock).body)
    found = set()
    for call in core_calls(file, loop):
        if not is_every_round(file, loop, call):
            raise NotRecorded(call, f"`{file.code(call)}` does not run once in each round")
        found.add(next(i for i, line in enumerate(lines) if file.tree.is_within(call, line)))
    return sorted(found)


def core_calls(file: FileFacts, loop: Round) -> list[cst.Call]:
    """The calls in a loop that train: backward passes, steps, what sets gradients to zero, updates of scalers."""
    calls = [each for each in walk_scope(loop.body) if isinstance(each, cst.Call)]
    passes = [each for each in calls if calls_method(each, "backward") or is_scaler_call(file, each, "update")]
    return [*optimizer_calls(file, loop, "step"), *zeroing(loop), *passes]


def is_every_round(file: FileFacts, loop: Round | cst.If, call: cst.Call) -> bool:
    """Whether a call in a loop, or in an `if`, runs whenever that does, or never."""
    for each in file.tree.ancestors(call):
        if each is loop:
            return True
        if isinstance(each, _BRANCHES) and not (isinstance(each, cst.If) and is_fixed(file, each)):
            return False
    return False


def zeroing(loop: Round) -> list[cst.Call]:
    """The calls in a loop that set gradients to zero; only optimizers and models have that method."""
    return [call for call in walk_scope(loop.body) if isinstance(call, cst.Call) and calls_method(call, "zero_grad")]


def bound_names(file: FileFacts, lines: Sequence[cst.CSTNode]) -> set[str]:
    """The names that lines bind."""
    return {name.value for line in lines for name in find_all(line, cst.Name) if file.flow.defined(name)}


def made_at(file: FileFacts, made: Definition) -> Iterator[End]:
    """Where a tensor with a name is made, before it is moved or cast: on the device already, it is the same one."""
    if made.value is None:
        return
    steps = tuple(None if step == -1 else step for step in made.path)
    waiting = list(file.tracing.ends(made.value, (None, *steps) if made.binding is Binding.LOOPED else steps))
    for end in waiting:
        if isinstance(end.node, cst.Call) and calls_method(end.node, *MOVES):
            waiting += file.tracing.ends(owner(end.node), end.path)
        else:
            yield end
