"""Where the host waits for the device in one round of a loop, in the order in which the round comes by.

A wait that stays makes the removal of another one worth nothing where no work is queued between the two: a model, a
backward pass, a step of an optimizer. Then both wait for the same, and the step has as many waits as before. What runs
under a condition counts for the code under the same condition only. A tensor of the host that is written into one of
the device waits as well: `bank[i:j] = index`. So does the `step` of an enabled `GradScaler`, which asks for `inf`.
Copies of batches to the device do not count: they wait no more once their memory is pinned.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

import libcst as cst
from attrs import define, evolve, field, frozen

from perfmod.transforms import implicit_reads, operations
from perfmod.transforms.facts.calls import argument, passed
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import parameters
from perfmod.transforms.facts.masks import same_mask
from perfmod.transforms.facts.rounds import round_loop, runs_model
from perfmod.transforms.facts.scalers import is_on, scaler_of_step
from perfmod.transforms.facts.solver import Questions
from perfmod.transforms.facts.tree import children, find_all, is_none, is_true
from perfmod.transforms.facts.value import Device, Kind
from perfmod.transforms.implicit_reads import filled, implicit_read
from perfmod.transforms.operations import Operation, goes_on, operation

_NODES = (*operations.NODES, *implicit_reads.NODES)
_SCOPES = (cst.FunctionDef, cst.Lambda, cst.ClassDef)
_STATEMENTS = (cst.BaseSmallStatement, cst.BaseCompoundStatement)
_REDUCTIONS = frozenset({"sum", "mean", "max", "min", "norm", "std", "var"})

_Path = frozenset[int]
"""The branches that code stands in, by the ids of their blocks."""


@frozen
class _Wait:
    """One wait.

    Attributes:
        node: what waits.
        order: of the statement that it stands in, or that calls the function where it stands.
        tensor: what is waited for; None for a wait of a function that is called, and for an explicit one.
        path: the branches around it.
    """

    node: cst.CSTNode
    order: int
    tensor: cst.BaseExpression | None
    path: _Path


@define
class _Round:
    """The statements of one round by their order, the last of the waits at each node, where work is queued, and the
    choices between two branches.
    """

    orders: dict[int, int] = field(factory=dict)
    waits: dict[tuple[int, _Path], _Wait] = field(factory=dict)
    launches: set[int] = field(factory=set)
    choices: list[tuple[cst.If, _Path]] = field(factory=list)

    def join(self) -> None:
        """What waits in both branches of a choice waits whichever runs; inner choices come first."""
        for choice, path in self.choices[::-1]:
            sides = [path | {id(part)} for part in (choice.body, choice.orelse)]
            waits = sorted(self.waits.values(), key=lambda wait: wait.order)
            first, other = (next((wait for wait in waits if wait.path == side), None) for side in sides)
            if first is not None and other is not None:
                self.waits[id(first.node), path] = evolve(first, tensor=None, path=path)


class Waits:
    """The waits of loops and functions; made once for all files."""

    def __init__(self, file: FileFacts) -> None:
        self._file = file
        self._round = Questions(file.values.solver, self._find_round, _Round())

    def remaining(self, read: cst.CSTNode, gone: Container[cst.CSTNode]) -> cst.CSTNode | None:
        """A wait of every round that comes by `read` and is for the same tensor, or so close that nothing is queued
        between the two and one of them costs nothing.

        `gone` are the waits that rewrites take away, `read` among them.
        """
        file = self._file
        around = round_loop(file, read) or file.tree.function(read)
        if around is None:
            return None
        found, path = self._round(around), _path(file, read, around)
        here = found.orders.get(id(file.tree.statement(read)), 0)
        tensor = next((wait.tensor for wait in found.waits.values() if wait.node is read), None)
        for wait in found.waits.values():
            first, last = sorted((here, wait.order))
            is_close = not any(first < launch <= last for launch in found.launches) or self._is_same(tensor, wait)
            if is_close and wait.path <= path and wait.node not in gone:
                return wait.node
        return None

    def _is_same(self, tensor: cst.BaseExpression | None, wait: _Wait) -> bool:
        """Whether a wait is for the same variable as another, with nothing assigned in between."""
        if not isinstance(tensor, cst.Name) or not isinstance(wait.tensor, cst.Name):
            return False
        definitions = self._file.flow.definitions
        return tensor.value == wait.tensor.value and definitions(tensor) == definitions(wait.tensor)

    def is_queued_between(self, first: cst.CSTNode, last: cst.CSTNode) -> bool:
        """Whether a round queues work behind one statement and before another one, or in it."""
        around = round_loop(self._file, first)
        if around is None:
            return False
        found = self._round(around)
        start, end = (found.orders.get(id(self._file.tree.statement(each)), 0) for each in (first, last))
        return any(start < launch <= end for launch in found.launches)

    def again(
        self, node: cst.CSTNode, mask: cst.BaseExpression, goes: Callable[[cst.CSTNode], bool]
    ) -> cst.CSTNode | None:
        """Another wait for the same mask that stays wherever `node` runs: it selects by it, or reads what comes of it.

        What `goes` is rewritten as well, and no wait behind that.
        """
        file = self._file
        around = round_loop(file, node) or file.tree.function(node)
        if around is None:
            return None
        own, path = file.tree.statement(node), _path(file, node, around)
        for wait in self._round(around).waits.values():
            is_other = file.tree.is_within(wait.node, around) and file.tree.statement(wait.node) is not own
            if wait.tensor is None or not is_other or not wait.path <= path:
                continue
            parts = find_all(wait.tensor, type(mask))
            if any(same_mask(file, part, mask) for part in parts) and not goes(wait.node):
                return wait.node
        return None

    def _find_round(self, around: cst.CSTNode) -> _Round:
        found = _Round()
        tests = [around.test] if isinstance(around, cst.While) else []
        body = around.body if isinstance(around, (cst.For, cst.While, cst.FunctionDef)) else around
        for part in (*tests, body):
            self._walk(part, found)
        found.join()
        return found

    def _walk(self, start: cst.CSTNode, found: _Round) -> None:
        """Note the waits at and below a node in the order of evaluation; a branch's test comes before what it holds."""
        file = self._file
        stack: list[tuple[cst.CSTNode, _Path, bool]] = [(start, frozenset(), False)]
        while stack:
            node, path, is_done = stack.pop()
            if isinstance(node, _SCOPES) and not self._is_called_here(node):
                continue
            if isinstance(node, _STATEMENTS) and not is_done:
                found.orders[id(node)] = len(found.orders) + 1
            if isinstance(node, cst.If) and node.orelse is not None and not is_done:
                found.choices.append((node, path))
            is_head = isinstance(node, cst.BaseCompoundStatement)
            if isinstance(node, _NODES) and is_done is not is_head:
                self._note(node, path, found)
            if not is_done:
                stack.append((node, path, True))
                parts = list(children(node))
                stack += [
                    (part, path | {id(part)} if _is_branch(file, node, part) else path, False) for part in parts[::-1]
                ]

    def _note(self, node: cst.CSTNode, path: _Path, found: _Round) -> None:
        file, order = self._file, len(found.orders)
        asked = _waiting(file, node)
        if asked is not None:
            # `few and tensor > 3` asks for the tensor only sometimes.
            inner = path | (_path(file, asked.tensor, node) if asked.tensor is not None else frozenset())
            found.waits[id(node), inner] = _Wait(node, order, asked.tensor, inner)
        elif (isinstance(node, cst.Assign) and _fills_device(file, node)) or _steps_scaled(file, node):
            found.waits[id(node), path] = _Wait(node, order, None, path)
        if not isinstance(node, cst.Call):
            return
        if self._queues(node):
            found.launches.add(order)
        for function in self._called(node):
            found.launches |= {order} if self._round(function).launches else set()
            certain = _left_out(node, function)
            always = [wait for wait in self._round(function).waits.values() if wait.path <= certain]
            found.waits.update(
                {(id(each.node), path): evolve(each, order=order, tensor=None, path=path) for each in always}
            )

    def _queues(self, call: cst.Call) -> bool:
        """Whether a call runs a model, a backward pass or an optimizer."""
        file, method = self._file, call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        return method == "step" or runs_model(file, call) or file.steps.trains(call)

    def _is_called_here(self, node: cst.CSTNode) -> bool:
        """Whether a lambda runs where it stands: `map(lambda word: names[word], words)`."""
        parent = self._file.tree.parent(node) if isinstance(node, cst.Lambda) else None
        around = self._file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
        return around is not None and self._file.qualified(around) in ("builtins.map", "builtins.filter")

    def _called(self, call: cst.Call) -> Iterator[cst.FunctionDef]:
        yield from self._file.values.calls.reached(call)
        yield from self._file.values.calls.handed(call)


def is_wait(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether a node is an operation that waits for the device, whatever is around it."""
    fills = isinstance(node, cst.Assign) and _fills_device(file, node)
    return fills or _waiting(file, node) is not None or _steps_scaled(file, node)


def _waiting(file: FileFacts, node: cst.CSTNode) -> Operation | None:
    """The operation that a node is, where that waits."""
    asked = operation(file, node) or implicit_read(file, node)
    # `x.cpu()` of `x.cpu().numpy()` is a part of it; what an index copies is copied there.
    is_part = isinstance(node, cst.Call) and goes_on(file, node)
    return asked if asked is not None and not is_part and _waits(file, asked) else None


def _steps_scaled(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether a node is the `step` of an enabled `GradScaler`, which reads whether a gradient is infinite.

    A fused optimizer looks for itself, on the device.
    """
    made = scaler_of_step(file, node)
    if not made or not all(map(is_on, made)):
        return False
    optimizer = file.value(cst.ensure_type(node, cst.Call).args[0].value).when_used.call
    return optimizer is None or not is_true(argument(optimizer, "fused"))


def _fills_device(file: FileFacts, statement: cst.Assign) -> bool:
    """Whether a tensor of the host is written into one of the device; what has no dimension is filled in unwaited."""
    value = file.value(statement.value)
    if not value.is_tensor or value.device is not Device.CPU or value.rank == 0:
        return False
    made = [file.value(end.node) for owner in filled(statement) for end in file.tracing.ends(owner) if not end.path]
    return any(owner.is_tensor and owner.device is Device.ACCELERATOR for owner in made)


def _is_branch(file: FileFacts, node: cst.CSTNode, part: cst.CSTNode) -> bool:
    """Whether a part of a node runs only sometimes when the node does; what asks for a tensor is given one."""
    if isinstance(node, cst.IfExp) and _guards_division(file, node):
        return False
    if isinstance(node, (cst.If, cst.IfExp)):
        asks = (_asks_for_tensor, _asks_for_own, _asks_for_gpu)
        is_usual = any(asked(file, node.test) for asked in asks)
        return part is not node.test and not (part is node.body and is_usual)
    if isinstance(node, cst.BooleanOperation):
        return part is node.right
    return isinstance(node, (cst.ExceptHandler, cst.ExceptStarHandler))


def _asks_for_tensor(file: FileFacts, test: cst.BaseExpression) -> bool:
    """Whether a test is `torch.is_tensor(x)` or `isinstance(x, torch.Tensor)`."""
    if not isinstance(test, cst.Call):
        return False
    name, kinds = file.qualified(test), [file.qualified(arg.value) for arg in test.args[1:]]
    return name == "torch.is_tensor" or (name == "builtins.isinstance" and kinds == ["torch.Tensor"])


def _guards_division(file: FileFacts, node: cst.IfExp) -> bool:
    """Whether a choice only keeps from a division by zero: `total / n if n > 0 else 0`."""
    body, test = node.body, node.test
    if not isinstance(body, cst.BinaryOperation) or not isinstance(body.operator, cst.Divide):
        return False
    asked = test.left if isinstance(test, cst.Comparison) else test
    return file.code(asked) == file.code(body.right)


def _asks_for_own(file: FileFacts, test: cst.BaseExpression) -> bool:
    """Whether a test is `self.centres is not None`: an object's part that may be missing in the first rounds only."""
    return (
        isinstance(test, cst.Comparison)
        and _none_test(test) is False
        and file.classes.self_attribute(test.left) is not None
    )


def _asks_for_gpu(file: FileFacts, test: cst.BaseExpression) -> bool:
    """Whether a test is `torch.cuda.is_available()`, itself, through a variable or with other conditions."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        return _asks_for_gpu(file, test.left) or _asks_for_gpu(file, test.right)
    if isinstance(test, cst.Call):
        return file.qualified(test) == "torch.cuda.is_available"
    held = file.values.assigned_to(test)
    return bool(held) and all(part is not test and _asks_for_gpu(file, part) for part in held)


def _none_test(test: cst.BaseExpression) -> bool | None:
    """Whether `x is None` or `x is not None` is asked; `None` where neither is."""
    if not isinstance(test, cst.Comparison) or not is_none(test.comparisons[0].comparator):
        return None
    operator = test.comparisons[0].operator
    return isinstance(operator, cst.Is) if isinstance(operator, (cst.Is, cst.IsNot)) else None


def _asked(test: cst.BaseExpression) -> str:
    """The variable that is on the left of a comparison."""
    return test.left.value if isinstance(test, cst.Comparison) and isinstance(test.left, cst.Name) else ""


def _left_out(call: cst.Call, function: cst.FunctionDef) -> _Path:
    """The branches that run where a call leaves out an argument whose default is `None`."""
    if any(arg.star for arg in call.args):
        return frozenset()
    params = [param for param in parameters(function) if is_none(param.default)]
    is_bound = next((param.name.value for param in parameters(function)), "") == "self"
    left_out = {param.name.value for param in params if passed(call, function, param, bound=is_bound) is None}
    found = set()
    for choice in find_all(function, cst.If) if left_out else ():
        asks_for_none = _none_test(choice.test)
        if asks_for_none is not None and _asked(choice.test) in left_out:
            found.add(id(choice.body if asks_for_none else choice.orelse))
    return frozenset(found)


def _path(file: FileFacts, node: cst.CSTNode, around: cst.CSTNode) -> _Path:
    """The branches around a node inside of a loop or function."""
    found, child = set(), node
    for ancestor in file.tree.ancestors(node):
        if ancestor is around:
            break
        if _is_branch(file, ancestor, child):
            found.add(id(child))
        child = ancestor
    return frozenset(found)


def _waits(file: FileFacts, asked: Operation) -> bool:
    """Whether an operation is shown to wait for the device, or may do so and is named so that it can do nothing else.

    That is `x.cpu()` for any `x`, `float(x.sum())`, and `scores[i] = metric(out)` with an array and outputs of a model.
    """
    if asked.tensor is None:
        return True
    value = file.value(asked.tensor)
    value = value.when_used
    if value.kind is Kind.UNKNOWN:
        is_written = asked.code == "PM112" and value.device is Device.ACCELERATOR
        return asked.is_named or is_written or (asked.code == "PM106" and _is_reduced(file, asked.tensor))
    return value.is_tensor and value.device is not Device.CPU


def _is_reduced(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether a value is a method's figure of many, as tensors have it: `nll.sum()`, `loss.detach().mean()`."""
    method = node.func.attr.value if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) else ""
    return method in _REDUCTIONS and file.qualified(node) is None
