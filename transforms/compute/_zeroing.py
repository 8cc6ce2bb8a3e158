"""Places that set gradients to zero, and what could tell zeros from no gradient at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import argument, has_star
from perfmod.transforms.facts.differentiated import is_pass
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import find_all, is_false, walk
from perfmod.transforms.facts.value import Kind, Value

_UTILITIES = ("torch.nn.utils.clip_grad", "torch.nn.utils.get_total_norm")


@frozen
class Zeroing:
    """One place that zeroes gradients.

    Attributes:
        node: the `zero_grad` call, or the gradient (`p.grad`) that is zeroed by hand.
        statement: the statement that does it.
        given: the `False` of `set_to_none=False`.
        owner: what the gradient belongs to, where it is zeroed by hand.
    """

    node: cst.BaseExpression
    statement: cst.BaseSmallStatement
    given: cst.BaseExpression | None = None
    owner: cst.BaseExpression | None = None


def zeroings(file: FileFacts) -> Iterator[Zeroing]:
    """Every place that zeroes gradients where it could drop them."""
    for call in find_all(file.tree.module, cst.Call):
        if not isinstance(call.func, cst.Attribute) or file.qualified(call) is not None:
            continue
        statement = file.tree.statement(call)
        if call.func.attr.value == "zero_grad" and not has_star(call):
            given = argument(call, "set_to_none", 0)
            if is_false(given) and isinstance(statement, cst.BaseSmallStatement):
                yield Zeroing(call, statement, given=given)
        elif isinstance(statement, cst.Expr) and statement.value is call and _writes_zeros(call):
            grad = _gradient(call.func.value)
            if grad is not None:
                yield Zeroing(grad, statement, owner=grad.value)


def _writes_zeros(call: cst.Call) -> bool:
    assert isinstance(call.func, cst.Attribute)
    if call.func.attr.value == "zero_":
        return not call.args
    if call.func.attr.value != "fill_" or len(call.args) != 1:
        return False
    value = call.args[0].value
    return isinstance(value, (cst.Integer, cst.Float)) and value.evaluated_value == 0


def _gradient(node: cst.BaseExpression) -> cst.Attribute | None:
    """`p.grad` of `p.grad` and `p.grad.data`."""
    if isinstance(node, cst.Attribute) and node.attr.value == "data":
        node = node.value
    return node if isinstance(node, cst.Attribute) and node.attr.value == "grad" else None


def parameter_loop(file: FileFacts, zeroing: Zeroing) -> cst.For | None:
    """`for p in ...:` that zeroes `p.grad` and does nothing else, where `zeroing` stands in one."""
    if not isinstance(zeroing.owner, cst.Name):
        return None
    loop = next(iter(file.tree.loops(zeroing.node)), None)
    if not isinstance(loop, cst.For) or not isinstance(loop.target, cst.Name) or loop.orelse is not None:
        return None
    if loop.target.value != zeroing.owner.value:
        return None
    body = _only_statements(loop.body)
    if (
        len(body) == 1
        and isinstance(body[0], cst.If)
        and body[0].orelse is None
        and _is_guard(body[0].test, loop.target)
    ):
        body = _only_statements(body[0].body)
    if zeroing.statement not in body:
        return None
    others = [item for item in body if item is not zeroing.statement]
    return loop if all(_detaches(item) for item in others) else None


def _only_statements(block: cst.BaseSuite) -> list[cst.CSTNode]:
    found: list[cst.CSTNode] = []
    for line in block.body:
        found += line.body if isinstance(line, cst.SimpleStatementLine) else [line]
    return found


def _is_guard(test: cst.BaseExpression, name: cst.Name) -> bool:
    """`p.grad is not None`, or its truth for those who are sure of what they do."""
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return False
    target = test.comparisons[0]
    return (
        dotted(test.left) == f"{name.value}.grad"
        and isinstance(target.operator, (cst.IsNot, cst.NotEqual))
        and isinstance(target.comparator, cst.Name)
        and target.comparator.value == "None"
    )


def _detaches(item: cst.CSTNode) -> bool:
    if not isinstance(item, cst.Expr) or not isinstance(item.value, cst.Call):
        return False
    return dotted(item.value.func).endswith((".grad.detach_", ".grad.requires_grad_"))


def detaching(file: FileFacts, zeroing: Zeroing) -> list[cst.BaseSmallStatement]:
    """`p.grad.detach_()` above a zeroing by hand, which drops with it."""
    line = file.tree.line(zeroing.statement)
    block = file.tree.block(line)
    above = block[block.index(line) - 1] if line in block and block.index(line) else None
    body = above.body if isinstance(above, cst.SimpleStatementLine) else ()
    wanted = f"{file.code(zeroing.node)}.detach_"
    return [
        item
        for item in body
        if isinstance(item, cst.Expr) and isinstance(item.value, cst.Call) and dotted(item.value.func) == wanted
    ]


# What could tell the difference


def other_use(file: FileFacts, zeroing: Zeroing, every: Sequence[Zeroing]) -> cst.CSTNode | None:
    """What is given gradients where zeros and None may not be the same: anything but arithmetic, clipping and the
    optimizer's step behind the backward pass that follows.
    """
    zeroed = {each.node for each in every}
    for node in file.tree.all(cst.Attribute):
        if node.attr.value != "grad" or node in zeroed or file.qualified(node) is not None:
            continue
        parent = file.tree.parent(node)
        if isinstance(parent, cst.Attribute) and parent.attr.value in ("data", "norm"):
            parent = file.tree.parent(parent)
        is_computed_with = isinstance(parent, (cst.BinaryOperation, cst.AugAssign, cst.Call))
        is_behind = is_computed_with and _is_behind_backward(file, zeroing, node)
        if not is_behind and not _is_asked_or_dropped(file, node):
            return node
    scope = file.tree.scope(zeroing.node)
    calls = [call for call in file.tree.all(cst.Call) if file.tree.scope(call) is scope and _goes_over_all(file, call)]
    early = (call for call in calls if not _is_behind_backward(file, zeroing, call))
    return next(early, None) if backward_passes(file, zeroing) else None


def backward_passes(file: FileFacts, zeroing: Zeroing) -> list[cst.Call]:
    """The backward passes that run in the function of a zeroing."""
    scope = file.tree.scope(zeroing.node)
    return [call for call in file.tree.all(cst.Call) if file.tree.scope(call) is scope and _trains(file, call)]


def _trains(file: FileFacts, call: cst.Call) -> bool:
    function = file.values.calls.resolve(call)
    return is_pass(file, call) or (function is not None and file.steps.trains(function.body))


def _is_behind_backward(file: FileFacts, zeroing: Zeroing, node: cst.CSTNode) -> bool:
    """Whether a backward pass runs between a zeroing and what stands in the same function, perhaps a round later."""
    place = file.tree.place
    zero, use = place(zeroing.node), place(node)
    if file.tree.scope(node) is not file.tree.scope(zeroing.node):
        return False
    passes = [place(call) for call in backward_passes(file, zeroing)]
    return any(zero < at < use or at < use < zero or use < zero < at for at in passes)


def _goes_over_all(file: FileFacts, call: cst.Call) -> bool:
    """Whether a call clips gradients, or steps with them."""
    func = call.func
    if not isinstance(func, cst.Attribute) or (file.qualified(call) or "").startswith(_UTILITIES):
        return (file.qualified(call) or "").startswith(_UTILITIES)
    owner = dotted(func.value).lower()
    is_optimizer = file.value(func.value).kind is Kind.OPTIMIZER or "opt" in owner or "scaler" in owner
    return func.attr.value in ("step", "unscale_") and is_optimizer


def _is_asked_or_dropped(file: FileFacts, node: cst.Attribute) -> bool:
    """`p.grad is None`, `p.grad = None`, `p.grad.detach_()`."""
    parent = file.tree.parent(node)
    if isinstance(parent, cst.AssignTarget):
        statement = file.tree.parent(parent)
        return isinstance(statement, cst.Assign) and file.value(statement.value).kind is Kind.NONE
    is_detached = isinstance(parent, cst.Attribute) and parent.attr.value in ("detach_", "requires_grad_")
    return is_detached or isinstance(parent, cst.Comparison)


def is_plain_sgd(file: FileFacts, value: Value) -> bool:
    """Whether an optimizer leaves parameters alone whose gradient is zero: SGD without momentum and decay."""
    call = value.call
    if call is None or file.qualified(call) != "torch.optim.SGD" or has_star(call):
        return False
    given = {arg.keyword.value for arg in call.args if arg.keyword is not None}
    positional = [arg for arg in call.args if arg.keyword is None]
    groups = call.args[0].value if positional else argument(call, "params")
    simple = groups is not None and not any(isinstance(node, (cst.Dict, cst.ListComp)) for node in walk(groups))
    return simple and given <= {"params", "lr", "foreach", "fused", "maximize"} and len(positional) <= 2
