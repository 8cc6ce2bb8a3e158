"""The names that the lines of a step share with others: what it is given, and what it returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.compute._reached import reached, targets_of
from perfmod.transforms.compute._recordable import Round, outputs_of
from perfmod.transforms.compute._step_calls import (
    ASKED,
    MAKES,
    MOVES,
    STILL,
    NotRecorded,
    bound_names,
    calls_method,
    made_at,
    owner,
)
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition, parameters
from perfmod.transforms.facts.tree import find_all, walk
from perfmod.transforms.facts.value import Kind

_CONTAINERS = frozenset(f"builtins.{name}" for name in ("dict", "list", "tuple", "set"))
_OF_CONTAINERS = frozenset({"items", "keys", "get", "append", "extend", "update", "pop"})
"""Methods that no tensor has."""
_MAYBE_TENSORS = (Kind.TENSOR, Kind.UNKNOWN, Kind.OBJECT, Kind.SEQUENCE)


@frozen
class Parts:
    """The lines of a loop's body, and the names that they share.

    Attributes:
        loop: the loop.
        within: the loop, or the `if` in it, whose lines they are.
        early: those of `moved` that stand above a line that stays in front of the step: they set gradients to zero.
        moved: the lines that become a function, in their order.
        late: the lines between them that only report and so can stay behind the step.
        given: the names of what a round has made for the step.
        returned: the names that the step binds and other lines read.
        kept: those of `returned` that other lines keep beyond the next round.
        closed: what else the step reads.
        brought: the calls in it that move to the device what it is given; its own call does so instead.
    """

    loop: Round
    within: Round | cst.If
    early: tuple[cst.BaseStatement, ...]
    moved: tuple[cst.BaseStatement, ...]
    late: tuple[cst.BaseStatement, ...]
    given: tuple[str, ...]
    returned: tuple[str, ...]
    kept: tuple[str, ...]
    closed: tuple[Definition, ...]
    brought: tuple[cst.Call, ...] = ()


def _is_size(file: FileFacts, value: cst.BaseExpression) -> bool:
    """Whether a value is a size of a tensor: `x.size(0)`, `x.shape[0]`, `len(x)`."""
    if isinstance(value, cst.Subscript):
        sized, is_asked = value.value, isinstance(value.value, cst.Attribute) and value.value.attr.value == "shape"
        sized = sized.value if isinstance(sized, cst.Attribute) else sized
    elif isinstance(value, cst.Call) and calls_method(value, "size") and value.args:
        sized, is_asked = owner(value), True
    elif isinstance(value, cst.Call) and file.qualified(value) == "builtins.len" and len(value.args) == 1:
        sized, is_asked = value.args[0].value, True
    else:
        return False
    return is_asked and file.value(sized).is_tensor


def named_parts(
    file: FileFacts,
    loop: Round,
    within: Round | cst.If,
    early: Sequence[cst.BaseStatement],
    moved: Sequence[cst.BaseStatement],
    late: Sequence[cst.BaseStatement],
) -> Parts:
    """The parts with the names that go in and out."""
    inside = {id(node) for line in moved for node in walk(line)}
    scope = loop if isinstance(loop, cst.FunctionDef) else file.tree.scope(loop)
    is_method = file.classes.of(file.tree.scope(loop)) is not None
    itself = next(parameters(loop), None) if isinstance(loop, cst.FunctionDef) and is_method else None
    given: dict[str, None] = {}
    closed: dict[Definition, None] = {}
    for line in moved:
        for name in find_all(line, cst.Name):
            if not file.flow.is_read(name):
                continue
            outer = [d for d in file.flow.definitions(name) if id(d.node) not in inside]
            is_own = file.flow.bound(scope, name.value)
            if not outer:
                continue
            in_round = [d for d in outer if d in is_own and d.node is not itself and file.tree.is_within(d.node, loop)]
            also_bound = any(id(d.node) in inside for d in is_own)
            if in_round or also_bound:
                _require_tensor(file, name)
                for definition in in_round:
                    _require_no_history(file, definition)
                    _require_unchanged(file, definition, moved)
                given[name.value] = None
            else:
                closed.update(dict.fromkeys(outer))
    returned, kept = [], []
    for line in moved:
        for target in find_all(line, cst.Name):
            for definition in file.flow.defined(target):
                if (
                    definition.scope in (file.tree.module, *file.tree.ancestors(scope))
                    and scope is not definition.scope
                ):
                    raise NotRecorded(
                        target, f"`{definition.name}` is a name outside of the function that is trained in"
                    )
                if definition.scope is not scope or definition.name in returned:
                    continue
                uses = [use for use in file.flow.uses(definition) if id(use) not in inside]
                is_carried = definition.name in given and not _is_bound_in_front(file, loop, moved, definition.name)
                if uses or (is_carried and len(uses) < len(file.flow.uses(definition))):
                    returned.append(definition.name)
                if any(_keeps(file, use) for use in uses):
                    _require_kept_whole(file, target, file.flow.uses(definition))
                    kept.append(definition.name)
        for output in outputs_of(file, line):
            _require_own(file, output, moved[: moved.index(line) + 1], moved)
            if file.code(output) not in returned:
                returned.append(file.code(output))
                kept.append(file.code(output))  # whoever reads the attribute may keep it
    for each in returned:
        _require_bound(file, each, moved)
    return Parts(
        loop, within, tuple(early), tuple(moved), tuple(late), tuple(given), tuple(returned), tuple(kept), tuple(closed)
    )


def kept_beyond(file: FileFacts, found: Parts, others: Sequence[Parts]) -> tuple[str, ...]:
    """What a step returns that lines keep, other than those of further steps, which copy what they are given."""
    recorded = [line for each in (found, *others) for line in each.moved]
    kept = {name for name in found.kept if "." in name}  # whoever reads an attribute may keep it
    for definition in (d for line in found.moved for name in find_all(line, cst.Name) for d in file.flow.defined(name)):
        for use in file.flow.uses(definition) if definition.name in found.kept else ():
            if _keeps(file, use) and not any(file.tree.is_within(use, line) for line in recorded):
                kept.add(definition.name)
    return tuple(name for name in found.kept if name in kept)


def _require_bound(file: FileFacts, name: str, moved: Sequence[cst.BaseStatement]) -> None:
    """What a step returns must be there on each of its branches."""
    if not any(_binds(file, line, name) for line in moved):
        branch = next(line for line in moved if name in _all_bound(file, line))
        raise NotRecorded(branch, f"`{name}` is not there where `{_head(file, branch)}` does not bind it")


def _binds(file: FileFacts, line: cst.CSTNode | None, name: str) -> bool:
    """Whether code binds a name or an attribute on each of its branches."""
    if isinstance(line, cst.If):
        return _binds(file, line.body, name) and _binds(file, line.orelse, name)
    if isinstance(line, (cst.Else, cst.With)):
        return _binds(file, line.body, name)
    if isinstance(line, cst.BaseSuite):
        return any(_binds(file, each, name) for each in line.body)
    return isinstance(line, cst.SimpleStatementLine) and name in _all_bound(file, line)


def _all_bound(file: FileFacts, line: cst.CSTNode) -> set[str]:
    outputs = (file.code(target) for node in walk(line) for target in targets_of(node))
    return {*bound_names(file, [line]), *outputs}


def _head(file: FileFacts, line: cst.CSTNode) -> str:
    return file.code(line).strip().partition("\n")[0].rstrip(":")


def _require_unchanged(file: FileFacts, made: Definition, moved: Sequence[cst.BaseStatement]) -> None:
    """What the step is given must not be written into where lines behind it read it: a replay writes into a copy."""
    same = [made, *_moved_on(file, made, moved)]
    uses = [each for definition in same for each in file.aliasing.mutations(definition)]
    written = [each for each in uses if any(file.tree.is_within(each, line) for line in moved)]
    if written and not _is_anew(file, made, moved[0]):
        raise NotRecorded(written[0], f"`{made.name}` is changed in the step, and may be kept for another round")
    for use in file.flow.uses(made) if written else ():
        is_inside = any(file.tree.is_within(use, line) for line in moved)
        if not is_inside and not file.comes_before(use, moved[0]):
            raise NotRecorded(written[0], f"`{made.name}` is changed in the step and read behind it")


def _moved_on(file: FileFacts, made: Definition, moved: Sequence[cst.BaseStatement]) -> Iterator[Definition]:
    """The names to which a step moves a tensor that it is given; on the device already, it is the same tensor."""
    for line in moved:
        for call in find_all(line, cst.Call):
            is_named = isinstance(file.tree.parent(call), (cst.Assign, cst.Element))
            if is_named and calls_method(call, *MOVES) and made in file.flow.of_name(owner(call)):
                for name in find_all(file.tree.statement(call), cst.Name):
                    yield from file.flow.defined(name)


def _is_anew(file: FileFacts, made: Definition, line: cst.BaseStatement) -> bool:
    """Whether each round makes a tensor anew for its lines: a batch of a loader, or what is computed from one."""
    if made.value is None:
        return False
    around = next(each for each in file.tree.ancestors(line) if isinstance(each, (cst.For, cst.While, cst.FunctionDef)))
    for end in made_at(file, made):
        is_batch = end.path[:1] == (None,) and file.value(end.node).kind is Kind.LOADER
        is_made = not end.path and isinstance(end.node, MAKES) and file.tree.is_within(end.node, around)
        if not (is_batch or is_made):
            return False
    return True


def _require_no_history(file: FileFacts, made: Definition) -> None:
    """What a round makes for its step must not be computed from weights: their gradients would need both recorded.

    A function that is not in sight may be a model where it is given tensors.
    """
    calls = find_all(made.value, cst.Call) if made.value is not None else ()
    for call in calls:
        if (
            calls_method(call, *MOVES)
            or file.value(call).kind is not Kind.UNKNOWN
            or not file.callees.of(call).is_unseen
        ):
            continue
        if any(file.value(arg.value).kind in _MAYBE_TENSORS for arg in call.args):
            raise NotRecorded(call, f"what `{file.code(call)}` gives may be computed from weights")


def _is_bound_in_front(file: FileFacts, loop: Round, moved: Sequence[cst.BaseStatement], name: str) -> bool:
    """Whether each round binds a name anew before its step: the head of the loop or of the function, a line above."""
    if isinstance(loop, cst.FunctionDef) and name in {each.name.value for each in parameters(loop)}:
        return True
    above: list[cst.BaseStatement] = []
    for around in (moved[0], *(each for each in file.tree.ancestors(moved[0]) if isinstance(each, cst.If))):
        block = file.tree.block(around)
        above += block[: block.index(around)] if file.tree.is_within(around, loop) and around in block else []
    head = [loop.target] if isinstance(loop, cst.For) else []
    plain = [line for line in above if isinstance(line, cst.SimpleStatementLine)]
    return name in bound_names(file, [*head, *plain])


def _require_own(
    file: FileFacts, output: cst.Attribute, lines: Sequence[cst.BaseStatement], moved: Sequence[cst.BaseStatement]
) -> None:
    """An attribute that a step sets must not hold what the step before has left: a replay reads other memory."""
    code: list[cst.CSTNode] = [*lines, *(function.body for line in moved for function in reached(file, line))]
    sets = [each for line in moved for each in outputs_of(file, line)]
    for part in code:
        for read in find_all(part, cst.Attribute):
            if read.attr.value == output.attr.value and read not in sets:
                raise NotRecorded(read, f"`{file.code(output)}` is read before the step sets it anew")


def _keeps(file: FileFacts, use: cst.CSTNode) -> bool:
    parent = file.tree.parent(use)
    if isinstance(parent, cst.Attribute) and parent.attr.value in ASKED:
        return False
    return file.aliasing.hands_on(use)


def _require_kept_whole(file: FileFacts, name: cst.Name, uses: Sequence[cst.CSTNode]) -> None:
    """What other lines keep is cloned, so it has to be a tensor, or may be one: no dictionary, no output of a model."""
    value = file.value(name)
    if value.is_tensor or (uses and all(file.value(use).is_tensor for use in uses)):
        return
    parts = [parent for use in uses if (parent := file.tree.parent(use)) is not None]
    items = [each for each in parts if isinstance(each, cst.Subscript) and each.value in uses]
    attributes = [
        each
        for each in parts
        if isinstance(each, cst.Attribute)
        and each.attr.value not in (*ASKED, "data", "grad", "T")
        and not isinstance(file.tree.parent(each), cst.Call)
    ]
    values = [each.value for each in file.flow.defined(name) if each.value is not None and not each.path]
    made = [each for each in values if isinstance(each, cst.Call)]
    is_container = any(_is_size(file, each) for each in values) or any(
        file.qualified(each) in _CONTAINERS for each in made
    )
    filled = [each for each in parts if isinstance(each, cst.Attribute) and each.attr.value in _OF_CONTAINERS]
    if value.kind is not Kind.UNKNOWN or items or attributes or is_container or filled:
        raise NotRecorded(name, f"`{name.value}`, which other lines keep, may be no tensor")


def _require_tensor(file: FileFacts, name: cst.Name) -> None:
    """What changes from round to round has to be a tensor, or may be one, or the size of one."""
    definitions = file.flow.definitions(name)
    made = [d.value for d in definitions if d.value is not None and not d.path and d.binding is not Binding.LOOPED]
    if made and len(made) == len(definitions) and all(_is_size(file, each) for each in made):
        return
    kinds = {file.value(name).kind, *(file.value(each).kind for each in made)}
    if kinds.isdisjoint((Kind.NUMBER, Kind.TEXT, Kind.ARRAY, Kind.SEQUENCE, Kind.INSTANCE, *STILL)):
        return
    if all(each.binding is Binding.PARAMETER for each in definitions):
        raise NotRecorded(name, f"each call is given `{name.value}`, which is no tensor and may be another one")
    raise NotRecorded(name, f"`{name.value}` is no tensor and changes from round to round")
