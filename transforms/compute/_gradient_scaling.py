"""What it takes to scale gradients: in float16, small ones would be zero.

One scaler multiplies every loss of a function, makes the steps of its optimizers, which divide their gradients by the
scale and leave out a step where one is infinite, and is updated once behind the last of them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.compute._mentions import first_mention
from perfmod.transforms.compute._scaler_places import NotScaled, Scaler, reached, scaler_of
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import Scope, find_all, find_any, find_in_scope, is_none
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.finding import Edit
from perfmod.transforms.writing import insert_after_statement, insert_before_statement, replace

_PREVENTS = (
    (r"\bautograd\.(?:grad|backward)\b|\btorch\.func\b|\bfunctorch\b", "takes gradients that would have to be scaled"),
    (
        r"\bregister_(?:post_accumulate_grad_|full_backward_|backward_)?hook\b|\bwandb\.watch\b",
        "may read gradients while they are scaled",
    ),
    (r"\bFullyShardedDataParallel\b|\bfully_shard\b", "shards gradients, which takes a scaler of its own"),
    (r"\bLBFGS\b", "evaluates the loss several times in a step"),
)
_WHY = tuple((re.compile(pattern), reason) for pattern, reason in _PREVENTS)
_NO_OPTIMIZER = re.compile(r"sched|prof|env|ema|bar|warmup|timer|(?:^|_)lr(?:_|$)", re.IGNORECASE)
_OPTIMIZER = re.compile(r"opt", re.IGNORECASE)
_USUAL = frozenset({"step", "zero_grad", "param_groups", "state_dict", "load_state_dict", "add_param_group", "state"})
"""What scripts do with optimizers that a scaler does not mind."""
_GRADIENTS = re.compile(r"(?:clip|average|log|noise).*grad|grad.*(?:norm|clip)|get_total_norm", re.IGNORECASE)


@frozen
class _Step:
    """An optimizer's step.

    Attributes:
        call: the call.
        optimizer: what makes it, as code.
        line: its line.
    """

    call: cst.Call
    optimizer: str
    line: cst.BaseStatement


@frozen
class Scaling:
    """A scaler, and the edits that make a function or module use it."""

    scaler: Scaler
    uses: tuple[Edit, ...]


def scaling(file: FileFacts, scope: Scope) -> Scaling | str:
    """What scales the gradients in the code of a function or module that trains, or why nothing can."""
    try:
        return _scaling(file, scope)
    except NotScaled as reason:
        return str(reason)


def _scaling(file: FileFacts, scope: Scope) -> Scaling:
    for pattern, reason in _WHY:
        found = first_mention(file, pattern)
        if found is not None:
            raise NotScaled(f"{found[1]} {reason}")
    for call in file.tree.all(cst.Call):
        if _method(call) == "step" and scope in file.values.calls.handed(call):
            raise NotScaled(f"the step on line {file.line(call)} is given the function that evaluates the loss")
    backwards = [call for call in _calls(scope) if _method(call) == "backward"]
    for call in backwards:
        if file.values.calls.resolve(call) is not None:
            raise NotScaled(
                f"what `{file.code(call.func)}` on line {file.line(call)} does is more than a backward pass"
            )
    steps = list(_steps(file, scope))
    _check(file, scope, backwards, steps)
    first = min((*backwards, *(step.call for step in steps)), key=file.tree.place)
    receivers = [cst.ensure_type(step.call.func, cst.Attribute).value for step in steps]
    scaler = scaler_of(file, scope, receivers, first)
    edits = []
    for call in backwards:
        loss = cst.ensure_type(call.func, cst.Attribute).value
        start, end = file.source.span(call.func)
        text = f"{scaler.name}.scale({file.source.code(loss)}).backward"
        edits.append(Edit(start, end, text, file.source.path))
    edits += [replace(file.source, step.call, f"{scaler.name}.step({step.optimizer})") for step in steps]
    for line, optimizers in _unscaled(file, scope, backwards, steps).items():
        text = "\n".join(f"{scaler.name}.unscale_({optimizer})" for optimizer in optimizers)
        edits.append(insert_before_statement(file.source, line, text, below_comments=True))
    ends = _updated(file, backwards, steps, [step.line for step in steps])
    edits += [insert_after_statement(file.source, line, f"{scaler.name}.update()") for line in ends]
    return Scaling(scaler, tuple(edits))


def _body(scope: cst.CSTNode) -> cst.CSTNode:
    return scope.body if isinstance(scope, cst.FunctionDef) else scope


def _calls(scope: cst.CSTNode) -> Iterator[cst.Call]:
    return (node for node in find_in_scope(_body(scope), cst.Call) if isinstance(node, cst.Call))


def _method(call: cst.Call) -> str:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""


def _steps(file: FileFacts, code: cst.CSTNode) -> Iterator[_Step]:
    """The steps of optimizers in a function or module."""
    for call in _calls(code):
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value != "step" or file.qualified(call) is not None:
            continue
        value = file.value(func.value)
        name = dotted(func.value).rpartition(".")[2]
        if value.kind is not Kind.OPTIMIZER:
            is_named = bool(_OPTIMIZER.search(name))
            is_other = bool(_NO_OPTIMIZER.search(name))
            if (value.name or "").startswith("torch.optim.lr_scheduler") or (is_other and not is_named):
                continue
            if not is_named or "sched" in name.lower() or value.kind is not Kind.UNKNOWN:
                raise NotScaled(
                    f"whether `{file.code(func.value)}` on line {file.line(call)} is an optimizer is not seen"
                )
        if call.args:
            raise NotScaled(f"the step on line {file.line(call)} is given the function that evaluates the loss")
        line = file.tree.line(file.tree.statement(call))
        if not isinstance(line, cst.SimpleStatementLine):
            raise NotScaled(f"the step on line {file.line(call)} stands in one line with its condition")
        yield _Step(call, file.code(func.value), line)


def _check(file: FileFacts, scope: Scope, backwards: Sequence[cst.Call], steps: Sequence[_Step]) -> None:
    """Look for what a scaler would be wrong with."""
    if not steps:
        raise NotScaled(f"the optimizer's step after the backward pass on line {file.line(backwards[0])} is elsewhere")
    for step in steps:
        loop = next(iter(file.tree.loops(step.call)), None)
        if loop is not None and not any(file.tree.is_within(call, loop) for call in backwards):
            raise NotScaled(f"steps are made in a loop of their own (line {file.line(loop)})")
        if not any(_always_precedes(file, call, step.call) for call in backwards):
            raise NotScaled(
                f"the step on line {file.line(step.call)} may be made without gradients, which a scaler refuses"
            )
    for function in reached(file, _body(scope)):
        if function is scope:
            continue
        for call in find_all(function.body, cst.Call):
            if _method(call) == "backward" or (_method(call) == "step" and _is_optimizer(file, call)):
                raise NotScaled(
                    f"`{function.name.value}`, which is called here, trains as well (line {file.line(call)})"
                )
    for call in file.tree.all(cst.Call):
        around = file.tree.scope(call)
        if _method(call) == "backward" and around is not scope and scope in reached(file, _body(around)):
            raise NotScaled(f"the code around line {file.line(call)}, which calls this, trains as well")
    optimizers = {step.optimizer for step in steps}
    for node in find_in_scope(_body(scope), cst.Name, cst.Attribute):
        if file.code(node) not in optimizers:
            continue
        parent = file.tree.parent(node)
        if isinstance(parent, cst.Attribute) and parent.value is node and parent.attr.value not in _USUAL:
            raise NotScaled(f"what `{file.code(parent)}` on line {file.line(node)} does with gradients is not seen")
        given = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
        if isinstance(given, cst.Call) and not _is_harmless(file, given):
            raise NotScaled(
                f"what `{file.code(given.func)}` on line {file.line(given)} does with the optimizer is not seen"
            )


def _always_precedes(file: FileFacts, backward: cst.Call, step: cst.Call) -> bool:
    """Whether what leads to a step comes by a backward pass, and not under a condition of its own."""
    if not file.comes_before(backward, step):
        return False
    apart = itertools.takewhile(lambda each: not file.tree.is_within(step, each), file.tree.ancestors(backward))
    return not any(isinstance(each, (cst.If, cst.Else, cst.ExceptHandler, cst.IfExp)) for each in apart)


def _is_optimizer(file: FileFacts, call: cst.Call) -> bool:
    owner = cst.ensure_type(call.func, cst.Attribute).value
    return file.value(owner).kind is Kind.OPTIMIZER or bool(_OPTIMIZER.search(dotted(owner)))


def _is_harmless(file: FileFacts, call: cst.Call) -> bool:
    """Whether a call that is given an optimizer is of a function in sight, of a scheduler or of a print."""
    name = file.qualified(call) or dotted(call.func)
    is_scheduler = bool(re.search(r"lr_scheduler|Scheduler|LR$|^builtins\.|scheduler", name))
    return is_scheduler or bool(file.values.calls.reached(call)) or file.values.calls.constructed(call) is not None


def _reads(file: FileFacts, scope: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The places in a scope that read gradients, themselves or by way of a function in sight."""
    for node in find_in_scope(_body(scope), cst.Attribute, cst.Call):
        if isinstance(node, cst.Attribute) and node.attr.value == "grad" and not _zeroes(file, node):
            yield node
        elif isinstance(node, cst.Call):
            called = [
                function for each in file.values.calls.reached(node) for function in (each, *reached(file, each.body))
            ]
            if _GRADIENTS.search(file.code(node.func)) or any(_mentions_gradients(file, each) for each in called):
                yield node


def _mentions_gradients(file: FileFacts, function: cst.FunctionDef) -> bool:
    return any(
        (node.attr.value == "grad" and not _zeroes(file, node)) or _GRADIENTS.search(node.attr.value)
        for node in find_all(function.body, cst.Attribute)
    )


def _zeroes(file: FileFacts, node: cst.Attribute) -> bool:
    """Whether a gradient is only compared with None, or set to None or zero."""
    parent = file.tree.parent(node)
    if isinstance(parent, cst.AssignTarget):
        assign = file.tree.parent(parent)
        return isinstance(assign, cst.Assign) and is_none(assign.value)
    if isinstance(parent, cst.Comparison):
        return all(is_none(target.comparator) for target in parent.comparisons)
    return isinstance(parent, cst.Attribute) and parent.attr.value == "zero_"


def _unscaled(
    file: FileFacts, scope: Scope, backwards: Sequence[cst.Call], steps: Sequence[_Step]
) -> dict[cst.BaseStatement, list[str]]:
    """The statements that read gradients first, before which those of some optimizers are to be unscaled."""
    place = file.tree.place
    wanted: dict[cst.BaseStatement, list[str]] = {}
    reads = list(_reads(file, scope))
    seen: set[cst.CSTNode] = set()
    for step in steps:
        above = [call for call in backwards if place(call) < place(step.call)]
        own = [read for read in reads if above and place(above[-1]) < place(read) < place(step.call)]
        seen.update(own)
        block = file.tree.block(step.line)
        found = []
        for read in own:
            line = _line_below(file, read, block)
            if line is None or file.tree.is_within(above[-1], line):
                raise NotScaled(f"gradients are read on line {file.line(read)}, where no step has to follow")
            found.append(line)
        if found:
            is_together = len({file.tree.parent(line) for line in found}) == 1
            first = found[0] if is_together else _outer(file, found[0], block)
            _check_ways_out(file, scope, first, step)
            wanted.setdefault(first, []).append(step.optimizer)
    for read in reads:
        before = [each for each in (*backwards, *(step.call for step in steps)) if place(each) < place(read)]
        last = max(before, key=place, default=None)
        is_scaled = last is None or _method(last) == "backward"
        if is_scaled and read not in seen and (last is not None or _is_in_step(file, read, backwards)):
            raise NotScaled(f"gradients are read on line {file.line(read)}, where they are scaled")
    return wanted


def _is_in_step(file: FileFacts, node: cst.CSTNode, backwards: Sequence[cst.Call]) -> bool:
    loop = next(iter(file.tree.loops(node)), None)
    return loop is not None and any(file.tree.is_within(call, loop) for call in backwards)


def _line_below(file: FileFacts, node: cst.CSTNode, block: Sequence[cst.BaseStatement]) -> cst.BaseStatement | None:
    """The statement around a node in a block, or in an `if` there; None where the node stands outside of the block."""
    around = [each for each in (node, *file.tree.ancestors(node)) if isinstance(each, cst.BaseStatement)]
    at = next((at for at, each in enumerate(around) if any(each is other for other in block)), None)
    if at is None:
        return None
    found = around[at]
    for inner in reversed(around[:at]):
        if not isinstance(found, cst.If) or not file.tree.block(inner):
            break
        found = inner
    return found


def _outer(file: FileFacts, node: cst.CSTNode, block: Sequence[cst.BaseStatement]) -> cst.BaseStatement:
    """The statement of a block that a node stands in."""
    return next(each for each in block if file.tree.is_within(node, each))


def _check_ways_out(file: FileFacts, scope: Scope, first: cst.CSTNode, step: _Step) -> None:
    for node in find_in_scope(_body(scope), cst.Continue, cst.Break, cst.Return):
        if file.tree.place(first) < file.tree.place(node) < file.tree.place(step.call):
            raise NotScaled(f"line {file.line(node)} leaves out the step after gradients were read")


def _updated(
    file: FileFacts,
    backwards: Sequence[cst.Call],
    steps: Sequence[_Step],
    lines: Sequence[cst.BaseStatement],
) -> Iterator[cst.BaseStatement]:
    """The statements behind which the scale is updated: the last steps of an iteration."""
    shared = _shared_block(file, lines)
    rest: dict[cst.BaseStatement, list[cst.BaseStatement]] = {}
    rounds: dict[cst.CSTNode, list[cst.BaseStatement]] = {}
    for line in lines:
        outer = _outer(file, line, shared)
        within = [loop for loop in file.tree.loops(line) if file.tree.is_within(loop, outer)]
        if within:
            rounds.setdefault(within[-1], []).append(line)
        else:
            rest.setdefault(outer, []).append(line)
    for loop, inner in rounds.items():
        yield from _updated(file, backwards, steps, inner)
        for line in (line for each in rest.values() for line in each if file.comes_before(loop, line)):
            above = max(
                (call for call in backwards if file.comes_before(call, line)), key=file.tree.place, default=None
            )
            if above is None or file.comes_before(above, loop) or file.tree.is_within(above, loop):
                raise NotScaled(f"gradients of the step on line {file.line(line)} are from before other steps")
    if not rest:
        return
    branched = [(each, inner) for each, inner in rest.items() if each not in inner]
    if len(branched) == len(rest) == 1:
        ((branching, inner),) = branched
        for branch in _branches(file, branching, inner):
            yield from _updated(file, backwards, steps, branch)
        return
    if len(branched) == len(rest):
        raise NotScaled(f"each of the steps on {file.lines(lines)} is made under a condition of its own")
    for each, inner in branched:
        for line in inner:
            inside = [call for call in backwards if file.tree.is_within(call, each)]
            if not any(file.comes_before(call, line) for call in inside):
                raise NotScaled(
                    f"the step on line {file.line(line)} is left out in some iterations, the others are not"
                )
    made = [step.optimizer for step in steps if step.line in [line for inner in rest.values() for line in inner]]
    if len(made) > len(set(made)):
        raise NotScaled(f"an optimizer makes several steps in one iteration ({file.lines(lines)})")
    first, *_, last = [*rest, *rest]
    for node in find_any(file.tree.module, cst.Continue, cst.Break, cst.Return):
        if file.comes_before(first, node) and file.comes_before(node, last):
            raise NotScaled(f"line {file.line(node)} leaves out some of the steps")
    yield last


def _branches(
    file: FileFacts, statement: cst.BaseStatement, lines: Sequence[cst.BaseStatement]
) -> list[list[cst.BaseStatement]]:
    """Lines below a statement, by the block of it that they stand in."""
    found: dict[int, list[cst.BaseStatement]] = {}
    for line in lines:
        around = [line, *file.tree.ancestors(line)]
        below = [each for each in around[: around.index(statement)] if isinstance(each, cst.BaseSuite)]
        outermost = below[-1] if below else statement
        found.setdefault(id(outermost), []).append(line)
    return list(found.values())


def _shared_block(file: FileFacts, lines: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
    """The innermost block that holds several lines."""
    for around in (lines[0], *file.tree.ancestors(lines[0])):
        if not isinstance(around, cst.BaseStatement) or not file.tree.block(around):
            continue
        block = file.tree.block(around)
        if all(any(file.tree.is_within(line, each) for each in block) for line in lines):
            return block
    raise NotScaled(f"the steps on {file.lines(lines)} stand in no block")
