"""Copies to the device that an `if` decides about, `if args.cuda: x = x.cuda()`, and the reads behind that see both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition

_SIMPLE = (cst.SimpleStatementLine, cst.SimpleStatementSuite)


@frozen
class OptionalCopy:
    """A copy `x = x.cuda()` in an `if` without `else`.

    Attributes:
        call: the copy.
        moved: the read of the variable that it copies.
        statement: the `if`.
        behind: the reads of the variable in the statements that follow, each of which sees the images on the device or,
            where the `if` did not copy them, on the host.
    """

    call: cst.Call
    moved: cst.Name
    statement: cst.If
    behind: frozenset[cst.CSTNode]


def optional_copies(file: FileFacts, nodes: Iterable[cst.CSTNode], methods: frozenset[str]) -> Iterator[OptionalCopy]:
    """The optional copies among some nodes, by one of `methods`; only where nobody sees but reads behind the `if`."""
    for node in nodes:
        if isinstance(node, cst.If) and node.orelse is None and not isinstance(file.tree.parent(node), cst.If):
            for target, call in _copied(node, methods):
                found = _examined(file, node, target, call)
                if found is not None:
                    yield found


def _copied(statement: cst.If, methods: frozenset[str]) -> Iterator[tuple[cst.Name, cst.Call]]:
    """The assignments of an `if` that give a variable its own copy, alone or in a tuple."""
    body = statement.body
    lines = [body] if isinstance(body, cst.SimpleStatementSuite) else body.body
    small = [part for line in lines if isinstance(line, _SIMPLE) for part in line.body]
    for assignment in (part for part in small if isinstance(part, cst.Assign) and len(part.targets) == 1):
        target, value = assignment.targets[0].target, assignment.value
        pairs: list[tuple[cst.BaseExpression, cst.BaseExpression]] = [(target, value)]
        if (
            isinstance(target, cst.Tuple)
            and isinstance(value, cst.Tuple)
            and len(target.elements) == len(value.elements)
        ):
            pairs = [(t.value, v.value) for t, v in zip(target.elements, value.elements, strict=True)]
        for one, copy in pairs:
            if isinstance(one, cst.Name) and isinstance(copy, cst.Call) and isinstance(copy.func, cst.Attribute):
                of = copy.func.value
                if copy.func.attr.value in methods and isinstance(of, cst.Name) and of.value == one.value:
                    yield one, copy


def _examined(file: FileFacts, statement: cst.If, target: cst.Name, call: cst.Call) -> OptionalCopy | None:
    assert isinstance(call.func, cst.Attribute)
    moved = call.func.value
    definition = next((d for d in file.flow.defined(target) if d.node is target), None)
    if definition is None or not isinstance(moved, cst.Name):
        return None
    either: set[Definition] = {definition, *file.flow.definitions(moved)}
    block = file.tree.block(statement)
    following = block[block.index(statement) + 1 :]
    function = file.tree.function(statement)
    uses = file.flow.uses(definition)
    # Control reaches what follows in the block only by way of the `if`; other reads might see another round's images.
    is_behind = all(
        file.tree.function(use) is function
        and set(file.flow.definitions(use)) == either
        and any(file.tree.is_within(use, other) for other in following)
        for use in uses
    )
    if not uses or not is_behind:
        return None
    return OptionalCopy(call, moved, statement, frozenset(uses))
