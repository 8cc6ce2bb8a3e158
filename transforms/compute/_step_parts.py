"""The lines of a training loop that can become a function of tensors, and what goes in and out of it."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence

import attrs
import libcst as cst
from attrs import frozen

from perfmod.transforms.compute._brought import brought_by, obstacle_to_bringing
from perfmod.transforms.compute._recordable import (
    OF_TENSORS,
    Obstacle,
    Round,
    is_fixed,
    obstacle,
    outputs_of,
    reached,
    targets_of,
)
from perfmod.transforms.compute._scaled_steps import is_scaler_call, stepping
from perfmod.transforms.facts.classes import ClassFacts
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition, dotted, parameters
from perfmod.transforms.facts.tree import find_all, walk, walk_scope
from perfmod.transforms.facts.value import Kind

_BRANCHES = (cst.If, cst.For, cst.While, cst.Try)
STILL = (Kind.MODULE, Kind.OPTIMIZER, Kind.LOADER)
"""What changes in place, and is the same object from round to round."""
_MOVES = frozenset({"to", "cuda", "type", "float", "double", "half", "bfloat16", "long", "int", "detach"})
_MAYBE_TENSORS = (Kind.TENSOR, Kind.UNKNOWN, Kind.OBJECT, Kind.SEQUENCE)
_MODES = frozenset({"train", "eval", "zero_grad", "parameters"})
_MAKES = (cst.BinaryOperation, cst.Call)
_UNPACKING = (cst.Name, cst.Tuple, cst.Subscript, cst.Index, cst.SimpleString, cst.Integer)
_REPORTS = frozenset({"item", "detach", "append", "update", "size", "mean", "sum", "add_scalar"})
_REPORTS_OF_TENSORS = _REPORTS - {"append", "update", "add_scalar", "size"}
_CONTAINERS = frozenset(f"builtins.{name}" for name in ("dict", "list", "tuple", "set"))
_OF_CONTAINERS = frozenset({"items", "keys", "get", "append", "extend", "update", "pop"})
"""Methods that no tensor has."""
ASKED = frozenset({"item", "size", "dim", "numel", "shape", "dtype", "device", "tolist", "cpu"})


class NotRecorded(Exception):
    """Why a step stays as it is."""

    def __init__(self, node: cst.CSTNode, why: str) -> None:
        super().__init__(why)
        self.node, self.why = node, why

    @classmethod
    def of(cls, found: Obstacle) -> NotRecorded:
        return cls(found.node, found.why)


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
    reports = _reports(file, lines, core, brought)
    late: list[cst.BaseStatement] = []
    for index in reversed(range(first)):
        if index in reports:
            late.insert(0, lines[index])
            continue
        # Where no model has run yet, a batch can be moved in front of the step.
        is_within = any(_computes(file, each) for each in lines[: index + 1])
        why = obstacle(file, lines[index], brought if is_within else ())
        if why is not None:
            break
        start = index
    while start < first and _only_unpacks(lines[start]):
        start += 1
    late = [line for line in late if lines.index(line) > start]
    early = [lines[i] for i in core if i < start]
    for line in lines[:start]:
        if line not in early and _computes(file, line):
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
    made = attrs.evolve(_named(file, loop, within, early, [*early, *moved], late), brought=tuple(brought))
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


def _reports(
    file: FileFacts, lines: Sequence[cst.BaseStatement], core: Sequence[int], brought: Container[cst.CSTNode]
) -> set[int]:
    """The places of the lines that can stay behind the step, in their order."""
    found: set[int] = set()
    for index in reversed([i for i in range(core[-1]) if i not in core]):
        behind = [lines[i] for i in range(index + 1, core[-1] + 1) if i not in found]
        if _stays_behind(file, lines[: index + 1], behind, brought):
            found.add(index)
    return found


def _stays_behind(
    file: FileFacts,
    above: Sequence[cst.BaseStatement],
    behind: Sequence[cst.BaseStatement],
    brought: Container[cst.CSTNode],
) -> bool:
    """Whether the last of some lines waits for a figure or adds one up, and can do so behind those of the step."""
    line = above[-1]
    is_sum = isinstance(line, cst.SimpleStatementLine) and isinstance(line.body[0], cst.AugAssign)
    if not is_sum and obstacle(file, line, brought) is None:
        return False
    is_among = any(_computes(file, each) for each in above[:-1])
    return is_among and _only_reports(file, line, above[:-1], behind)


def _computes(file: FileFacts, line: cst.BaseStatement) -> bool:
    """Whether a line runs a model with a history that a backward pass needs."""
    if isinstance(line, cst.With) and any("no_grad" in file.code(item.item) for item in line.items):
        return False
    read = [*find_all(line, cst.Name), *find_all(line, cst.Attribute)]
    models = (each for each in read if file.value(each).when_used.kind is Kind.MODULE and _is_run(file, each))
    return any(not _is_without_weights(file.value(each).when_used.cls) for each in models)


def _is_without_weights(cls: ClassFacts | None) -> bool:
    """Whether a module in sight holds nothing but buffers, as one that normalises images: its results have no history.

    The recorder looks at each tensor it is given, and does not record a step that is given one with a history.
    """
    if cls is None or cls.bases != ("torch.nn.Module",) or cls.parents or cls.children:
        return False
    calls = [call for call in find_all(cls.node, cst.Call) if dotted(call.func).startswith("self.")]
    own = [target for node in walk(cls.node) for target in targets_of(node) if isinstance(target, cst.Attribute)]
    return bool(calls) and not own and all(calls_method(call, "register_buffer") for call in calls)


def _is_run(file: FileFacts, model: cst.CSTNode) -> bool:
    """Whether a model is called, or given to something; its attributes and its mode are not looked at."""
    parent = file.tree.parent(model)
    if not isinstance(parent, cst.Attribute):
        return isinstance(parent, (cst.Call, cst.Arg))
    around = file.tree.parent(parent)
    return isinstance(around, cst.Call) and around.func is parent and parent.attr.value not in _MODES


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


def _only_reports(
    file: FileFacts,
    line: cst.BaseStatement,
    above: Sequence[cst.BaseStatement],
    behind: Sequence[cst.BaseStatement],
) -> bool:
    """Whether a line can as well run behind some others: it reads tensors that they leave alone, for a report."""
    if not isinstance(line, cst.SimpleStatementLine):
        return False
    read = [name for name in find_all(line, cst.Name) if file.flow.is_read(name)]
    if any(file.value(name).kind in STILL for name in read) or not all(map(_is_report(file), find_all(line, cst.Call))):
        return False
    own, later = _bound(file, [line]), _bound(file, behind)
    if any(each.attr.value == "grad" for each in find_all(line, cst.Attribute)):
        return False
    if not all(name.value in own or _is_of_round(file, name, above) for name in read):
        return False
    used = {name.value for each in behind for name in find_all(each, cst.Name)}
    objects = [name for name in read if file.value(name).kind is Kind.INSTANCE]
    if not all(_is_left_alone(file, name, behind) for name in objects):
        return False
    others = [name for name in read if name not in objects]
    changes = [use for name in others for d in file.flow.definitions(name) for use in file.aliasing.mutations(d)]
    return (
        own.isdisjoint(used)
        and later.isdisjoint(name.value for name in read)
        and not any(file.tree.is_within(change, each) for change in changes for each in behind)
    )


def _is_of_round(file: FileFacts, name: cst.Name, above: Sequence[cst.BaseStatement]) -> bool:
    """Whether a name, or the attribute that is read of it, is no tensor that the lines behind may know otherwise.

    A parameter, a statistic of a layer or a running average has more names than one: only what the lines above have
    computed is left alone by all that do not name it.
    """
    read: cst.BaseExpression = name
    parent = file.tree.parent(name)
    if file.value(name).kind is Kind.INSTANCE and isinstance(parent, cst.Attribute):
        read, parent = parent, file.tree.parent(parent)
    is_asked = isinstance(parent, cst.Attribute) and parent.attr.value in _REPORTS_OF_TENSORS
    is_size = isinstance(parent, cst.Attribute) and parent.attr.value in ASKED - {"item", "tolist", "cpu"}
    if is_size or (not file.value(read).is_tensor and not is_asked):
        return True
    if isinstance(read, cst.Attribute):
        return any(file.code(each) == file.code(read) for line in above for each in outputs_of(file, line))
    return all(_is_computed(file, each, above) for each in file.flow.definitions(name))


def _is_computed(file: FileFacts, made: Definition, above: Sequence[cst.BaseStatement]) -> bool:
    """Whether lines compute what a name stands for, in their own code or in functions that they run."""
    if made.binding is Binding.LOOPED:
        return True  # a batch, which nothing but its own lines know
    if made.value is None or not any(file.tree.is_within(made.node, line) for line in above):
        return False
    moved = owner(made.value) if isinstance(made.value, cst.Call) and calls_method(made.value, *_MOVES) else None
    if isinstance(moved, cst.Name):
        return all(_is_computed(file, each, above) for each in file.flow.definitions(moved) if each is not made)
    run = {function for line in above for function in reached(file, line)}
    waiting = list(file.tracing.ends(made.value, tuple(None if step == -1 else step for step in made.path)))
    for end in waiting:
        if isinstance(end.node, cst.Call) and calls_method(end.node, *_MOVES):
            waiting += file.tracing.ends(owner(end.node), end.path)
        elif end.path[:1] == (None,):
            continue
        elif not isinstance(end.node, _MAKES) or not (
            any(file.tree.is_within(end.node, line) for line in above) or file.tree.function(end.node) in run
        ):
            return False
    return True


def _is_left_alone(file: FileFacts, name: cst.Name, behind: Sequence[cst.BaseStatement]) -> bool:
    """Whether lines, and what they call, do not mention the attribute of an object that is read: `self.losses`."""
    read = file.tree.parent(name)
    if not isinstance(read, cst.Attribute):
        return False
    code = [*behind, *(function for line in behind for function in reached(file, line))]
    return not any(each.attr.value == read.attr.value for part in code for each in find_all(part, cst.Attribute))


def _is_report(file: FileFacts) -> Callable[[cst.Call], bool]:
    def is_report(call: cst.Call) -> bool:
        is_of_tensor = calls_method(call, *OF_TENSORS) and file.value(owner(call)).is_tensor
        return is_of_tensor or calls_method(call, *_REPORTS) or (file.qualified(call) or "").startswith("builtins.")

    return is_report


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


def _bound(file: FileFacts, lines: Sequence[cst.CSTNode]) -> set[str]:
    """The names that lines bind."""
    return {name.value for line in lines for name in find_all(line, cst.Name) if file.flow.defined(name)}


def _named(
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
            in_round = [d for d in outer if d in is_own and file.tree.is_within(d.node, loop)]
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
    return {*_bound(file, [line]), *outputs}


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
            if is_named and calls_method(call, *_MOVES) and made in file.flow.of_name(owner(call)):
                for name in find_all(file.tree.statement(call), cst.Name):
                    yield from file.flow.defined(name)


def _is_anew(file: FileFacts, made: Definition, line: cst.BaseStatement) -> bool:
    """Whether each round makes a tensor anew for its lines: a batch of a loader, or what is computed from one."""
    if made.value is None:
        return False
    around = next(each for each in file.tree.ancestors(line) if isinstance(each, (cst.For, cst.While, cst.FunctionDef)))
    steps = tuple(None if step == -1 else step for step in made.path)
    waiting = list(file.tracing.ends(made.value, (None, *steps) if made.binding is Binding.LOOPED else steps))
    for end in waiting:
        if isinstance(end.node, cst.Call) and calls_method(end.node, *_MOVES):
            waiting += file.tracing.ends(owner(end.node), end.path)  # the same, where it lies on the device already
        elif end.path[:1] == (None,) and file.value(end.node).kind is Kind.LOADER:
            continue
        elif end.path or not (isinstance(end.node, _MAKES) and file.tree.is_within(end.node, around)):
            return False
    return True


def _require_no_history(file: FileFacts, made: Definition) -> None:
    """What a round makes for its step must not be computed from weights: their gradients would need both recorded.

    A function that is not in sight may be a model where it is given tensors.
    """
    calls = find_all(made.value, cst.Call) if made.value is not None else ()
    for call in calls:
        if (
            calls_method(call, *_MOVES)
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
    return name in _bound(file, [*head, *plain])


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
    if not kinds.isdisjoint((Kind.NUMBER, Kind.TEXT, Kind.ARRAY, Kind.SEQUENCE, Kind.INSTANCE, *STILL)):
        raise NotRecorded(name, f"`{name.value}` is no tensor and changes from round to round")
