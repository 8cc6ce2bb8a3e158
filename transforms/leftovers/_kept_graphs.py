"""Tensors that are added up or collected over steps together with their graphs."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.differentiated import is_pass
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition
from perfmod.transforms.facts.gradients import may_carry_gradient, runs_without_graph
from perfmod.transforms.facts.ranks import positional
from perfmod.transforms.facts.tree import find_all, find_any
from perfmod.transforms.facts.value import Kind

_COLLECTS = frozenset({"append", "appendleft", "update", "add", "push", "extend"})
_NUMBERS = frozenset({"item", "tolist", "size", "numel", "dim", "detach", "argmax", "eq", "numpy", "data_ptr"})
_VALUES = _NUMBERS | {"data", "shape", "device"}
_MODELS = frozenset({"model", "net", "network"})
_LOSSES = frozenset({"criterion", "loss_fn", "loss_func", "loss_function", "crit"})
_SCALES = frozenset({"scale", "backward", "manual_backward"})


@frozen
class Kept:
    """One place that keeps a tensor beyond its step: the statement, the tensor, and what keeps it."""

    statement: cst.CSTNode
    tensor: cst.BaseExpression
    holder: cst.BaseExpression


def kept(file: FileFacts) -> Iterator[Kept]:
    """Every sum and container to which a round over a batch adds what a model computed, with its graph."""
    for node in find_any(file.tree.module, cst.AugAssign, cst.Assign, cst.Call):
        if isinstance(node, (cst.AugAssign, cst.Assign, cst.Call)):
            found = _kept_by(file, node)
            around = _round(file, found) if found is not None else None
            if found is None or around is None:
                continue
            if _outlives(file, found, around) and _has_graph(file, found.tensor):
                yield found


def kept_beside(file: FileFacts, found: Kept, others: Collection[cst.CSTNode]) -> cst.CSTNode | None:
    """Where a round adds up another result of the same call which the loss is computed of: `loss, part = losses(x)`
    with `loss = part + penalty` there. It keeps the same graph, and is none of `others`, which are detached as well.
    """
    loss = next((d for d in file.flow.of_name(found.tensor) if d.path and isinstance(d.value, cst.Call)), None)
    function = file.values.calls.resolve(loss.value) if loss is not None and isinstance(loss.value, cst.Call) else None
    if loss is None or not isinstance(function, cst.FunctionDef):
        return None
    for other in (each for each in file.tree.all(cst.AugAssign) if each not in others):
        beside = next((d for d in file.flow.of_name(other.value) if d.value is loss.value), None)
        if beside is not None and _is_part(file, function, loss.path, beside.path):
            return other
    return None


def _is_part(file: FileFacts, function: cst.FunctionDef, loss: tuple[int, ...], part: tuple[int, ...]) -> bool:
    """Whether one of the values that a function returns is made of another: `return loss, part`."""
    for node in find_all(function.body, cst.Return):
        if not isinstance(node.value, cst.Tuple) or len(loss) != 1 or len(part) != 1:
            continue
        returned = [element.value for element in node.value.elements]
        if not all(0 <= at < len(returned) for at in (*loss, *part)):
            continue
        whole, other = returned[loss[0]], file.code(returned[part[0]])
        sums = (d.value for d in file.flow.of_name(whole) if isinstance(d.value, cst.BinaryOperation))
        if loss != part and any(name.value == other for each in sums for name in find_all(each, cst.Name)):
            return True
    return False


def _round(file: FileFacts, found: Kept) -> cst.CSTNode | None:
    """What runs once for a batch: the loop around, or for what an object keeps the function that a step runs."""
    loop = _loop_over_batches(file, found.statement)
    function = file.tree.function(found.statement)
    is_of_object = isinstance(found.holder, cst.Attribute) and file.steps.in_sight(found.statement)
    return function.body if loop is None and function is not None and is_of_object else loop


def _loop_over_batches(file: FileFacts, node: cst.CSTNode) -> cst.For | cst.While | None:
    """The loop around a node whose rounds are steps, or that evaluates batches."""
    region = file.steps.region(node)
    if isinstance(region, (cst.For, cst.While)):
        return region
    for loop in file.tree.loops(node):
        if isinstance(loop, cst.For) and file.values.loader_of(loop.iter) is not None:
            return loop
        if isinstance(loop, cst.For) and any("load" in name.value.lower() for name in find_all(loop.iter, cst.Name)):
            return loop
    return None


def _kept_by(file: FileFacts, node: cst.AugAssign | cst.Assign | cst.Call) -> Kept | None:
    if isinstance(node, cst.AugAssign):
        is_sum = isinstance(node.operator, (cst.AddAssign, cst.SubtractAssign))
        return Kept(node, node.value, node.target) if is_sum and not _stores_number(file, node.target) else None
    if isinstance(node, cst.Assign):
        target = node.targets[0].target
        if _stores_number(file, target):
            return None
        if len(node.targets) == 1 and isinstance(target, cst.Subscript) and not file.value(target.value).is_tensor:
            return Kept(node, node.value, target)
        added = _added(file, node.value, target)
        if len(node.targets) == 1 and added is not None:
            return Kept(node, *added)
        return None
    if isinstance(node.func, cst.Attribute) and node.func.attr.value in _COLLECTS and node.args:
        is_alone = isinstance(file.tree.parent(node), cst.Expr) and not node.args[0].star
        if is_alone and node.args[0].keyword is None and file.qualified(node) is None and not _drops_graph(file, node):
            return Kept(node, node.args[0].value, node.func.value)
    return None


def _stores_number(file: FileFacts, target: cst.BaseExpression) -> bool:
    """Whether an array is filled, which takes a copy of the number and no tensor: `losses[i] = loss`."""
    if not isinstance(target, cst.Subscript) or file.value(target.value).kind is not Kind.ARRAY:
        return False
    made = [end.node for end in file.tracing.ends(target.value) if isinstance(end.node, cst.Call)]
    return not any("object" in file.code(arg.value) for call in made for arg in call.args)


def _drops_graph(file: FileFacts, call: cst.Call) -> bool:
    """Whether a method in sight, as that of a meter, takes only the value of what it is given."""
    function = file.values.calls.resolve(call)
    if function is None or len(function.params.params) < 2:
        return False
    given = function.params.params[1]
    uses = [use for definition in file.flow.defined(given) for use in file.flow.uses(definition)]
    around = [file.tree.parent(use) for use in uses]
    calls = [file.tree.parent(each) if isinstance(each, cst.Arg) else None for each in around]
    return bool(uses) and all(
        (isinstance(each, cst.Attribute) and each.attr.value in _VALUES)
        or (isinstance(call, cst.Call) and file.value(call).kind is Kind.NUMBER)
        for each, call in zip(around, calls, strict=True)
    )


def _added(
    file: FileFacts, value: cst.BaseExpression, target: cst.BaseExpression
) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """`x` of `total = total + x`, and the `total` that is read."""
    if not isinstance(value, cst.BinaryOperation) or not isinstance(value.operator, cst.Add):
        return None
    code = file.code(target)
    if file.code(value.left) == code:
        return value.right, value.left
    return (value.left, value.right) if file.code(value.right) == code else None


def _outlives(file: FileFacts, found: Kept, around: cst.CSTNode) -> bool:
    """Whether what keeps the tensor was there before the round."""
    holder = found.holder
    while isinstance(holder, (cst.Subscript, cst.Attribute, cst.Call)):
        holder = holder.func if isinstance(holder, cst.Call) else holder.value
    if not isinstance(holder, cst.Name):
        return False
    starts = [
        d for d in file.flow.definitions(holder) if d.binding is not Binding.AUGMENTED and not _adds(file, d, found)
    ]
    return bool(starts) and not any(file.tree.is_within(d.node, around) for d in starts)


def _adds(file: FileFacts, definition: Definition, found: Kept) -> bool:
    return file.tree.is_within(definition.node, found.statement)


def _has_graph(file: FileFacts, tensor: cst.BaseExpression) -> bool:
    if file.value(tensor).kind not in (Kind.TENSOR, Kind.UNKNOWN):
        return False
    if runs_without_graph(file, tensor) or not may_carry_gradient(file, tensor):
        return False
    return _is_computed(file, tensor, set())


def _is_computed(file: FileFacts, node: cst.BaseExpression, seen: set[Definition]) -> bool:
    """Whether a value is a loss that is differentiated, or the output of a model and what is computed from it."""
    if isinstance(node, cst.Name):
        if any(carriers(file, node)):
            return True
        found = [d for d in file.flow.definitions(node) if d.binding is Binding.ASSIGNED and d not in seen]
        seen.update(found)
        return any(d.part is not None and _is_computed(file, d.part, seen) for d in found)
    if isinstance(node, cst.BinaryOperation):
        return _is_computed(file, node.left, seen) or _is_computed(file, node.right, seen)
    if isinstance(node, cst.UnaryOperation):
        return _is_computed(file, node.expression, seen)
    if isinstance(node, cst.Subscript):
        # A part of a dictionary or a tuple may be a number.
        is_part = not file.value(node.value).is_tensor or next(find_all(node.slice[0], cst.SimpleString), None)
        return not is_part and _is_computed(file, node.value, seen)
    if not isinstance(node, cst.Call) or _gives_number(file, node, {}):
        return False
    name = file.qualified(node)
    if name is not None:
        return name.startswith("torch.") and any(_is_computed(file, arg.value, seen) for arg in node.args)
    known = file.value(node.func)
    if known.kind is Kind.MODULE:
        return not (known.name or "").endswith("Loss") or any(_is_computed(file, arg.value, seen) for arg in node.args)
    if isinstance(node.func, cst.Attribute) and file.value(node).kind in (Kind.TENSOR, Kind.UNKNOWN):
        if file.values.calls.resolve(node) is not None and not file.value(node).is_tensor:
            return False  # nothing shows that a method in sight returns a tensor
        return node.func.attr.value not in _NUMBERS and _is_computed(file, node.func.value, seen)
    is_model = isinstance(node.func, cst.Name) and node.func.value in _MODELS and known.kind is Kind.UNKNOWN
    is_loss = isinstance(node.func, cst.Name) and node.func.value in _LOSSES and known.kind is Kind.UNKNOWN
    return is_model or (is_loss and any(_is_computed(file, arg.value, seen) for arg in node.args))


def _gives_number(file: FileFacts, node: cst.BaseExpression, known: dict[cst.CSTNode, bool]) -> bool:
    """Whether a value is, or may be, a number or a tensor of integers: `loss.item() / n`, or what a function in sight
    makes of that. `known` are the answers so far; what leads to itself gives nothing by that.
    """
    if node not in known:
        known[node] = False
        is_number = file.value(node).kind is Kind.NUMBER or not may_carry_gradient(file, node)
        known[node] = is_number or _computes_number(file, node, known)
    return known[node]


def _computes_number(file: FileFacts, node: cst.BaseExpression, known: dict[cst.CSTNode, bool]) -> bool:
    parts: list[cst.BaseExpression | None] = []
    if isinstance(node, cst.BinaryOperation):
        sides = [(file.value(side).is_tensor, _gives_number(file, side, known)) for side in (node.left, node.right)]
        return any(number for _, number in sides) and all(number or not tensor for tensor, number in sides)
    if isinstance(node, cst.Name):
        parts = [each.part for each in file.flow.definitions(node)]
    elif isinstance(node, cst.Call):
        functions = file.values.calls.reached(node)
        ends = (end for function in functions for end in file.tree.results(function))
        parts = [end.value for end in ends if isinstance(end, cst.Return)]
    return any(part is not None and _gives_number(file, part, known) for part in parts)


def carriers(file: FileFacts, tensor: cst.BaseExpression) -> Iterator[cst.Name]:
    """The variables of an expression from which a backward pass starts, so that they hold tensors with a graph."""
    if isinstance(tensor, cst.Name):
        if any(_is_differentiated(file, use) for d in file.flow.definitions(tensor) for use in file.flow.uses(d)):
            yield tensor
    elif isinstance(tensor, cst.BinaryOperation):
        yield from carriers(file, tensor.left)
        yield from carriers(file, tensor.right)
    elif isinstance(tensor, cst.UnaryOperation):
        yield from carriers(file, tensor.expression)


def _is_differentiated(file: FileFacts, use: cst.CSTNode) -> bool:
    """`loss.backward()`, `scaler.scale(loss)`, `accelerator.backward(loss)`."""
    parent = file.tree.parent(use)
    if isinstance(parent, cst.Attribute):
        call = file.tree.parent(parent)
        # `accelerator.backward(loss)` differentiates what it is given.
        return isinstance(call, cst.Call) and is_pass(file, call) and not positional(call.args)
    call = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
    return isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.attr.value in _SCALES
