"""What a step does that a rule is about and that no rule has answered.

Rules look for shapes that they know. Here the operations of the catalogue are looked for by their syntax, in the steps
and in the rounds of evaluations, and each that no finding speaks of is reported with the reason why it stays: silence
about one means that it is not there. What is known to be done on the host, or not to be done with tensors, is no such
operation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import libcst as cst

from perfmod.transforms import implicit_reads, needed
from perfmod.transforms.facts import lightning, torch_api
from perfmod.transforms.facts.endings import ends_step
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding
from perfmod.transforms.facts.rounds import in_evaluation
from perfmod.transforms.facts.tree import children, find_any
from perfmod.transforms.facts.value import TENSOR, Device, Kind
from perfmod.transforms.implicit_reads import implicit_read
from perfmod.transforms.operations import COPY, NODES, NUMBER, RULES, TESTS, TOGETHER, Operation, goes_on, operation
from perfmod.transforms.rule import Finding, Rule

_Evaluated = dict[cst.FunctionDef, bool]
"""The functions that were asked about: whether the rounds of an evaluation run them."""

_NO_TENSOR = frozenset(
    {Kind.ARRAY, Kind.NUMBER, Kind.TEXT, Kind.NONE, Kind.DEVICE, Kind.LOADER, Kind.OPTIMIZER, Kind.MODULE}
)


def unanswered(file: FileFacts, rules: Iterable[Rule], answers: Sequence[Finding]) -> Iterator[Finding]:
    """Refusals of the operations of steps that `answers`, all that was found in the file, do not speak of."""
    asked = {rule.code: rule for rule in rules if rule.code in RULES}
    if not asked:
        return
    said: dict[str, list[Finding]] = {}
    evaluated: _Evaluated = {}
    for finding in answers:
        said.setdefault(_hundred(finding.code), []).append(finding)
    spoken: set[tuple[str, cst.CSTNode]] = set()
    for node in find_any(file.source.module, *NODES, *implicit_reads.NODES):
        found = operation(file, node) or implicit_read(file, node)
        if (
            found is None
            or found.code not in asked
            or goes_on(file, node)
            or _is_answered(file, node, found, said.get(_hundred(found.code), ()))
        ):
            continue
        statement = file.tree.statement(node)
        reason = _why_left(file, node, found, evaluated) if (found.code, statement) not in spoken else None
        if reason is not None:
            # One word for all that a report shows.
            spoken |= {(found.code, statement)} if needed.SHOWN in reason else set()
            # Of a branch only the test, so that its place is not that of what it holds.
            place = node.test if isinstance(node, TESTS) else node
            yield asked[found.code].refused(file, place, reason)


def _why_left(file: FileFacts, node: cst.CSTNode, found: Operation, evaluated: _Evaluated) -> str | None:
    """Why an operation stays as it is; `None` where it is none of a step or evaluation, or not done on the device."""
    value = file.value(found.tensor) if found.tensor is not None else TENSOR
    value = value.present or value
    elsewhere = Device.ACCELERATOR if found.is_of_host else Device.CPU
    is_shown = value.is_tensor and (value.device is Device.CPU or not found.is_of_host)
    if value.kind in _NO_TENSOR or value.device is elsewhere:
        return None
    if not (is_shown or found.is_named or (found.tensor is not None and _may_be_tensor(file, found.tensor))):
        return None
    is_of_step = file.steps.in_sight(node) or file.steps.in_forward(node) or _makes_batches(file, node)
    if not (is_of_step or _is_evaluated(file, node, evaluated)):
        return None
    gate = file.steps.gate_of_callers(node)
    if gate is not None:
        word = "if" if isinstance(gate, cst.If) else "except"
        return f"it runs only under the `{word}` on line {file.line(gate)}"
    if ends_step(file, node):
        return "it runs only in a branch that ends the step, not in every step"
    if not is_shown and found.tensor is not None:
        where = "CPU" if found.is_of_host else "device"
        return f"`{file.code(found.tensor)}` is not known to be a tensor on the {where}"
    why = needed.why_needed(file, node) if found.wait in (NUMBER, COPY) else None
    return why or (needed.SHOWN if found.code == "PM107" and found.wait is not TOGETHER else found.wait)


def _may_be_tensor(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether something of unknown kind is a tensor of the device by some way to it: `x` in a loop with `x = x / 2`."""
    waiting, seen = [node], {node}
    while waiting:
        value = file.value(part := waiting.pop())
        value = value.present or value
        if value.is_tensor and value.device is Device.ACCELERATOR:
            return True
        if value.kind is Kind.UNKNOWN:
            further = [way for way in _ways(file, part) if way not in seen]
            seen.update(further)
            waiting += further
    return False


def _ways(file: FileFacts, node: cst.CSTNode) -> Iterable[cst.CSTNode]:
    """What a value of unknown kind may have been made of, if that was a tensor."""
    if isinstance(node, cst.Name):
        return _given(file, node)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return [node.func.value] if node.func.attr.value in torch_api.TENSOR_OR_ARRAY - {"size", "dim", "numpy"} else []
    is_computed = isinstance(node, (cst.BinaryOperation, cst.UnaryOperation, cst.Comparison, cst.ComparisonTarget))
    return children(node) if is_computed else []


def _given(file: FileFacts, name: cst.Name) -> Iterator[cst.CSTNode]:
    """What may have given a name its value."""
    for definition in file.flow.definitions(name):
        if definition.part is not None:
            yield definition.part
        statement = file.tree.statement(definition.node)
        if definition.binding is Binding.AUGMENTED and isinstance(statement, cst.AugAssign):
            yield from (statement.target, statement.value)


def _is_evaluated(file: FileFacts, node: cst.CSTNode, known: _Evaluated) -> bool:
    """Whether the rounds of an evaluation come by: of a loop, of one that calls the function around, of Lightning's."""
    if in_evaluation(file, node):
        return True
    function = file.tree.function(node)
    if function is None:
        return False
    if function not in known:
        # What calls itself is asked about once.
        known[function] = False
        cls = file.classes.of(file.tree.scope(function))
        is_hook = function.name.value in lightning.STEPS and cls is not None and lightning.is_lightning_module(cls)
        callers = file.values.calls.callers(function)
        known[function] = is_hook or any(_is_evaluated(file, call, known) for call in callers)
    return known[function]


def _makes_batches(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether a node belongs to an iterator that the rounds of steps go over: `__next__`, and what helps it."""
    function = file.tree.function(node)
    cls = file.classes.around(function) if function is not None else None
    if cls is None or function is None or function.name.value == "__init__":
        return False
    if not any(cls.method(name) for name in ("__iter__", "__next__")):
        return False
    loops = (region for region in file.steps.regions if isinstance(region, cst.For))
    return any(file.value(part).cls is cls for loop in loops for part in _parts(loop.iter))


def _parts(iterated: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What a loop goes over, and what that is made of: `batches` of `enumerate(batches)`."""
    yield iterated
    for arg in iterated.args if isinstance(iterated, cst.Call) else ():
        yield from _parts(arg.value)


def _hundred(code: str) -> str:
    """The family of a rule, by its code: what is said of workers is no answer about a wait."""
    return code[:3]


def _is_answered(file: FileFacts, node: cst.CSTNode, found: Operation, answers: Sequence[Finding]) -> bool:
    """Whether a finding begins in the statement of a node, or would change it.

    Of a scalar, whether one begins in a statement that uses it, or would change the use.
    """
    statement = file.tree.statement(node)
    own = _span(file, statement)
    if any(_begins_in(each, own) or _changes(each, own) for each in answers):
        return True
    if found.wait is not NUMBER or not isinstance(statement, cst.Assign):
        return False
    names = [target.target for target in statement.targets]
    uses = [use for name in names for definition in file.flow.defined(name) for use in file.flow.uses(definition)]
    return any(
        _begins_in(each, _span(file, file.tree.statement(use))) or _changes(each, file.source.span(use))
        for use in filter(file.is_own, uses)
        for each in answers
    )


def _span(file: FileFacts, statement: cst.CSTNode) -> tuple[int, int]:
    """The characters of a statement; of a compound one those of its head."""
    start, end = file.source.span(statement)
    if isinstance(statement, (cst.If, cst.While, cst.For, cst.With)):
        end = file.source.span(statement.body)[0]
    return start, end


def _begins_in(finding: Finding, span: tuple[int, int]) -> bool:
    return span[0] <= finding.start < span[1]


def _changes(finding: Finding, span: tuple[int, int]) -> bool:
    return any(edit.start < span[1] and span[0] < edit.end for edit in finding.edits)
