"""What a step does that a rule is about and that no rule has answered.

Rules look for shapes that they know. Here the operations of the catalogue are looked for by their syntax, in the steps
and in the rounds of evaluations, and each that no finding speaks of is refused with the reason: silence about one means
that it is not there. What is known to be done on the host, or not to be done with tensors, is no such operation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts import lightning, torch_api
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.endings import ends_step
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, dotted
from perfmod.transforms.facts.rounds import in_evaluation
from perfmod.transforms.facts.tree import children, find_any
from perfmod.transforms.facts.value import TENSOR, Device, DType, Kind
from perfmod.transforms.rule import Finding, Rule

_NUMBER = "the host goes on with the number"
_COPY = "the host goes on with the tensor"
_HOW_MANY = "the host waits for how many there are, and a shape depends on it"
_SIZE = "how large the result is depends on values of the device"
_RANGE = "without a range it asks for the smallest and the largest value"
_FROM_HOST = "the host makes it in the step, and copies it from memory that is not pinned"
_TOGETHER = "all of it comes over in one transfer already"
_PINNED = "to pin it in the step takes longer than a plain copy: pin in the loader, or not at all"
_SHOWN = "the tensor itself is shown"
_TESTED = "the host decides by it"
_CAST = "it is cast by the name of a type"
_EXPLICIT = "every step waits for it"

_READS: Mapping[str, tuple[str, str]] = {
    "item": ("PM106", _NUMBER),
    "tolist": ("PM112", _COPY),
    "numpy": ("PM112", _COPY),
    "cpu": ("PM112", _COPY),
}
"""Methods without arguments that bring a tensor to the host: the rule that is about them, and what they wait for."""

_OPERATIONS: Mapping[str, tuple[str, str]] = {
    "nonzero": ("PM101", _HOW_MANY),
    "argwhere": ("PM101", _HOW_MANY),
    "unique": ("PM103", _HOW_MANY),
    "unique_consecutive": ("PM103", _HOW_MANY),
    "masked_select": ("PM104", _HOW_MANY),
    "bincount": ("PM109", _SIZE),
    "repeat_interleave": ("PM109", _SIZE),
    "histc": ("PM109", _RANGE),
}
"""The same of methods of tensors that are functions of torch, too."""

_ON_THE_WAY = frozenset({"cpu", "detach", "numpy"})
_MAKERS = frozenset({"torch.tensor", "torch.as_tensor"}).union(torch_api.TENSOR_TYPES)
_CONVERSIONS = frozenset({"builtins.float", "builtins.int", "builtins.bool", "builtins.range"})
_WAITS = frozenset({"torch.cuda.synchronize", "torch.accelerator.synchronize", "torch.cuda.empty_cache", "gc.collect"})
_REPORTS = frozenset({"print", "format", "log", "info", "debug", "write", "add_scalar", "set_postfix"})
_COLLECTORS = frozenset({"append", "extend", "insert", "add", "update", "push"})
_TYPES_OF_HOST = frozenset(name for name in torch_api.TENSOR_TYPES if not name.startswith("torch.cuda."))
_LIBRARIES = frozenset({"numpy", "np", "math", "pandas", "pd", "cv2", "tensorflow", "tf", "jax", "scipy", "random"})
"""First names of what has operations of the same names for the host."""

_NO_TENSOR = frozenset(
    {Kind.ARRAY, Kind.NUMBER, Kind.TEXT, Kind.NONE, Kind.DEVICE, Kind.LOADER, Kind.OPTIMIZER, Kind.MODULE}
)
_RULES = frozenset({"PM105", "PM107", "PM108", "PM111", "PM202", "PM206", "PM208"}).union(
    code for code, _ in (*_READS.values(), *_OPERATIONS.values())
)
_NODES = (cst.Call, cst.Subscript, cst.If, cst.IfExp, cst.While, cst.FormattedStringExpression)


@frozen
class Operation:
    """An operation that a rule is about.

    Attributes:
        code: of the rule.
        wait: why it is there, for where nothing else speaks against it.
        tensor: what it is done with, if with anything.
        is_of_host: whether it is about tensors that are on the host.
        is_named: whether its name tells, so that what is done with an unknown value is such an operation as well.
    """

    code: str
    wait: str
    tensor: cst.BaseExpression | None
    is_of_host: bool = False
    is_named: bool = True


def unanswered(file: FileFacts, rules: Iterable[Rule], answers: Sequence[Finding]) -> Iterator[Finding]:
    """Refusals of the operations of steps that `answers`, all that was found in the file, do not speak of."""
    asked = {rule.code: rule for rule in rules if rule.code in _RULES}
    if not asked:
        return
    said: dict[str, list[Finding]] = {}
    for finding in answers:
        said.setdefault(_hundred(finding.code), []).append(finding)
    for node in find_any(file.source.module, *_NODES):
        found = _operation(file, node)
        if (
            found is None
            or found.code not in asked
            or _goes_on(file, node)
            or _is_answered(file, node, found, said.get(_hundred(found.code), ()))
        ):
            continue
        reason = _why_left(file, node, found)
        if reason is not None:
            # Of a branch only the test, so that its place is not that of what it holds.
            place = node.test if isinstance(node, (cst.If, cst.IfExp, cst.While)) else node
            yield asked[found.code].refused(file, place, reason)


def _operation(file: FileFacts, node: cst.CSTNode) -> Operation | None:
    """The operation that a node is by its syntax."""
    if isinstance(node, cst.Call):
        return _method(file, node) or _function(file, node)
    if isinstance(node, cst.Subscript):
        return _selection(file, node)
    if isinstance(node, cst.FormattedStringExpression):
        return Operation("PM107", _SHOWN, node.expression, is_named=False)
    if isinstance(node, (cst.If, cst.IfExp, cst.While)):
        return Operation("PM105", _TESTED, _tested(file, node.test), is_named=False)
    return None


def _tested(file: FileFacts, test: cst.BaseExpression) -> cst.BaseExpression:
    """What a test is about: `found` of `not found and args.strict`."""
    if isinstance(test, cst.UnaryOperation):
        return _tested(file, test.expression)
    if isinstance(test, cst.BooleanOperation):
        sides = (_tested(file, test.left), _tested(file, test.right))
        return next((side for side in sides if file.value(side).is_tensor), sides[0])
    return test


def _method(file: FileFacts, call: cst.Call) -> Operation | None:
    if not isinstance(call.func, cst.Attribute) or file.qualified(call) is not None:
        return None
    name, owner = call.func.attr.value, call.func.value
    if dotted(owner).partition(".")[0] in _LIBRARIES:
        return None
    if name in _READS and not call.args:
        return _read(file, call, name, owner)
    if name in _OPERATIONS:
        return _sized(file, call, name, owner, 0)
    given = file.qualified(call.args[0].value) if name == "type" and len(call.args) == 1 else None
    if given in _TYPES_OF_HOST:
        return Operation("PM208", _CAST, owner, is_named=False)
    if name in ("to", "cuda") and _is_method(owner, "pin_memory"):
        return Operation("PM202", _PINNED, owner, is_of_host=True)
    if _moves(file, call, name) and _is_made_here(file, owner):
        is_made = file.qualified(owner) in torch_api.TENSOR_TYPES if isinstance(owner, cst.Call) else False
        return Operation("PM206", _FROM_HOST, owner, is_of_host=True, is_named=is_made)
    return _report(file, call, name)


def _is_made_here(file: FileFacts, tensor: cst.BaseExpression) -> bool:
    """Whether a tensor is no part of a batch, and not on the device yet."""
    value = file.value(tensor)
    return value.origin is None and value.device is not Device.ACCELERATOR


def _is_method(node: cst.BaseExpression, name: str) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == name


def _read(file: FileFacts, call: cst.Call, name: str, tensor: cst.BaseExpression) -> Operation:
    """A method of `_READS`; what is called for its effect reports a scalar."""
    while isinstance(tensor, cst.Call) and isinstance(tensor.func, cst.Attribute) and not tensor.args:
        if tensor.func.attr.value not in _ON_THE_WAY:
            break
        tensor = tensor.func.value
    if file.qualified(tensor) == "torch.stack" and name == "tolist":
        return Operation("PM107", _TOGETHER, tensor)
    code, wait = _READS[name]
    statement = file.tree.statement(call)
    shows = isinstance(statement, cst.Expr) and isinstance(statement.value, cst.Call) and not _collects(statement.value)
    return Operation("PM107" if wait is _NUMBER and shows else code, wait, tensor)


def _collects(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in _COLLECTORS


def _moves(file: FileFacts, call: cst.Call, name: str) -> bool:
    """Whether a call copies a tensor to a device that is not known to be the host."""
    where = file.values.placement.destination(call) if name == "to" else None
    return name == "cuda" or (where is not None and file.values.placement.device_of(where) is not Device.CPU)


def _function(file: FileFacts, call: cst.Call) -> Operation | None:
    qualified = file.qualified(call) or ""
    if qualified in _WAITS:
        return Operation("PM111", _EXPLICIT, None)
    if not call.args:
        return None
    if qualified in _MAKERS and _is_put_on_device(file, call):
        return Operation("PM108", _FROM_HOST, None)
    package, _, name = qualified.rpartition(".")
    if qualified in _CONVERSIONS:
        return Operation("PM106", _NUMBER, call.args[-1].value, is_named=False)
    if package == "torch" and name in _OPERATIONS:
        return _sized(file, call, name, call.args[0].value, 1)
    if qualified == "torch.where" and len(call.args) == 1:
        return Operation(*_OPERATIONS["nonzero"], call.args[0].value)
    return None if package == "torch" else _report(file, call, name)


def _is_put_on_device(file: FileFacts, call: cst.Call) -> bool:
    """Whether something of the host becomes a tensor of the device: `torch.tensor(np.mean(rewards), device=device)`."""
    given = [file.value(arg.value) for arg in call.args if arg.keyword is None]
    is_sized = file.qualified(call) in torch_api.TENSOR_TYPES and all(value.kind is Kind.NUMBER for value in given)
    is_copied = not is_sized and not any(value.is_tensor for value in given)
    return is_copied and file.value(call).device is Device.ACCELERATOR


def _sized(file: FileFacts, call: cst.Call, name: str, tensor: cst.BaseExpression, first: int) -> Operation | None:
    """One of `_OPERATIONS`, unless it is told the size by a number; its own arguments begin at `first`."""
    if name == "repeat_interleave":
        repeats = argument(call, "repeats", first)
        is_told = repeats is not None and file.value(repeats).kind is Kind.NUMBER
        if is_told or argument(call, "output_size") is not None:
            return None
    if name == "histc" and argument(call, "max", first + 2) is not None:
        return None
    return Operation(*_OPERATIONS[name], tensor)


def _report(file: FileFacts, call: cst.Call, name: str) -> Operation | None:
    shown = [arg.value for arg in call.args if file.value(arg.value).is_tensor] if name in _REPORTS else []
    return Operation("PM107", _SHOWN, shown[0], is_named=False) if shown else None


def _selection(file: FileFacts, node: cst.Subscript) -> Operation | None:
    index = node.slice[0].slice if len(node.slice) == 1 else None
    value = file.value(index.value) if isinstance(index, cst.Index) else None
    if value is None or not value.is_tensor or value.dtype is not DType.BOOL or not isinstance(index, cst.Index):
        return None
    target = file.tree.parent(node)
    if not isinstance(target, (cst.AssignTarget, cst.AugAssign)) or target.target is not node:
        return Operation("PM104", _HOW_MANY, index.value)
    statement = file.tree.statement(node)
    written = statement.value if isinstance(statement, (cst.Assign, cst.AugAssign)) else None
    # A number is filled in without a wait.
    is_filled = isinstance(statement, cst.Assign) and written is not None and file.value(written).kind is Kind.NUMBER
    return None if is_filled else Operation("PM102", _HOW_MANY, index.value)


def _why_left(file: FileFacts, node: cst.CSTNode, found: Operation) -> str | None:
    """Why an operation stays as it is; `None` where it is none of a step or evaluation, or not done on the device."""
    is_of_step = file.steps.in_sight(node) or file.steps.in_forward(node) or _makes_batches(file, node)
    if not (is_of_step or _is_evaluated(file, node, frozenset())):
        return None
    value = file.value(found.tensor) if found.tensor is not None else TENSOR
    value = value.present or value
    elsewhere = Device.ACCELERATOR if found.is_of_host else Device.CPU
    is_shown = value.is_tensor and (value.device is Device.CPU or not found.is_of_host)
    if value.kind in _NO_TENSOR or value.device is elsewhere:
        return None
    if not (is_shown or found.is_named or (found.tensor is not None and _may_be_tensor(file, found.tensor))):
        return None
    gate = _gate(file, node, frozenset())
    if gate is not None:
        return f"not every step comes by, as line {file.line(gate)} has it"
    if ends_step(file, node):
        return "the step ends behind it, so it waits in no usual step"
    if not is_shown and found.tensor is not None:
        where = "host" if found.is_of_host else "device"
        return f"`{file.code(found.tensor)}` could not be shown to be a tensor of the {where}"
    taker = _taker(file, node) if found.wait in (_NUMBER, _COPY) else None
    return f"`{file.code(taker)}` is given it on the host" if taker is not None else found.wait


def _may_be_tensor(file: FileFacts, node: cst.CSTNode, seen: frozenset[cst.CSTNode] = frozenset()) -> bool:
    """Whether something of unknown kind is a tensor of the device by some way to it: `x` in a loop with `x = x / 2`."""
    value = file.value(node)
    value = value.present or value
    if value.kind is not Kind.UNKNOWN or node in seen:
        return value.is_tensor and value.device is Device.ACCELERATOR
    seen |= {node}
    if isinstance(node, cst.Name):
        return any(_may_be_tensor(file, part, seen) for part in _ways(file, node))
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        is_of_tensors = node.func.attr.value in torch_api.TENSOR_OR_ARRAY - {"size", "dim", "numpy"}
        return is_of_tensors and _may_be_tensor(file, node.func.value, seen)
    if isinstance(node, (cst.BinaryOperation, cst.UnaryOperation, cst.Comparison, cst.ComparisonTarget)):
        return any(_may_be_tensor(file, part, seen) for part in children(node))
    return False


def _ways(file: FileFacts, name: cst.Name) -> Iterator[cst.CSTNode]:
    """What may have given a name its value."""
    for definition in file.flow.definitions(name):
        if definition.part is not None:
            yield definition.part
        statement = file.tree.statement(definition.node)
        if definition.binding is Binding.AUGMENTED and isinstance(statement, cst.AugAssign):
            yield from (statement.target, statement.value)


def _is_evaluated(file: FileFacts, node: cst.CSTNode, seen: frozenset[cst.FunctionDef]) -> bool:
    """Whether the rounds of an evaluation come by: of a loop, of one that calls the function around, of Lightning's."""
    function = file.tree.function(node)
    if in_evaluation(file, node):
        return True
    if function is None or function in seen:
        return False
    cls = file.classes.of(file.tree.scope(function))
    if cls is not None and function.name.value in lightning.STEPS and lightning.is_lightning_module(cls):
        return True
    return any(_is_evaluated(file, call, seen | {function}) for call in file.values.calls.callers(function))


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


def _taker(file: FileFacts, node: cst.CSTNode) -> cst.BaseExpression | None:
    """What is called with what a node gives, in its statement."""
    child = node
    for ancestor in file.tree.ancestors(node):
        if isinstance(ancestor, cst.Call) and child is not ancestor.func:
            return ancestor.func
        if isinstance(ancestor, cst.BaseSmallStatement):
            return None
        child = ancestor
    return None


def _gate(file: FileFacts, node: cst.CSTNode, seen: frozenset[cst.FunctionDef]) -> cst.CSTNode | None:
    """What few steps come by: a gate in the step, or else in front of every call of the function around."""
    gate = file.steps.gate(node)
    function = file.tree.function(node)
    if gate is not None or function is None or function in seen or file.steps.region(node) is not None:
        return gate
    gates = [_gate(file, call, seen | {function}) for call in file.values.calls.callers(function)]
    return gates[0] if gates and None not in gates else None


def _hundred(code: str) -> str:
    """The family of a rule, by its code: what is said of workers is no answer about a wait."""
    return code[:3]


def _goes_on(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether the operation goes on in a call: `pred.cpu()` of `pred.cpu().numpy()`, or of `float(pred.cpu())`."""
    around = file.tree.parent(node)
    outer = file.tree.parent(around) if isinstance(around, (cst.Attribute, cst.Arg)) else None
    if not isinstance(outer, cst.Call):
        return False
    return _method(file, outer) is not None if outer.func is around else file.qualified(outer) in _CONVERSIONS


def _is_answered(file: FileFacts, node: cst.CSTNode, found: Operation, answers: Sequence[Finding]) -> bool:
    """Whether a finding begins in the statement of a node, or would change it.

    Of a scalar, whether one begins in a statement that uses it, or would change the use.
    """
    statement = file.tree.statement(node)
    own = _span(file, statement)
    if any(_begins_in(each, own) or _changes(each, own) for each in answers):
        return True
    if found.wait is not _NUMBER or not isinstance(statement, cst.Assign):
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
