"""Places that set gradients to zero, and what could tell zeros from no gradient at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import argument, has_star
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import find_all, is_false, walk, walk_scope
from perfmod.transforms.facts.value import Kind, Value

_UTILITIES = ("torch.nn.utils.clip_grad", "torch.nn.utils.get_total_norm")
# Methods of a gradient that hand out no reference to it: they give something new, or write into it.
_MEASURES = frozenset(
    {
        "norm", "abs", "mean", "sum", "max", "min", "std", "var", "clone", "item", "square", "pow", "cpu", "tolist",
        "isnan", "isinf", "isfinite", "any", "all", "clamp_", "mul_", "div_", "add_", "sub_", "shape", "dtype", "size",
        "clip_", "copy_", "zero_", "fill_", "detach_", "numel",
    }
)  # fmt: skip


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


def why_read_as_zeros(file: FileFacts, zeroing: Zeroing, every: Sequence[Zeroing]) -> str:
    """Why the zeros may be read before a backward pass fills them; empty where they are not."""
    around = _cycle(file, zeroing)
    events = [(node, kind) for node, kind in _events(file, around, every)]
    own = [index for index, (node, _) in enumerate(events) if file.tree.is_within(zeroing.node, node)]
    if not own:
        return "where the gradients are used could not be determined"
    behind = [*events[own[-1] + 1 :], *events[: own[0]]]
    following = next(((node, kind) for node, kind in behind if kind != "zero"), None)
    if following is None:
        return "the following backward pass was not found in the files given"
    node, kind = following
    if kind != "backward":
        return f"the zeros are read on line {file.line(node)}, before a backward pass"
    is_last = not any(kind == "backward" for _, kind in events[own[-1] + 1 :])
    return _why_read_behind(file, around) if is_last else ""


def _why_read_behind(file: FileFacts, around: cst.CSTNode) -> str:
    """Why the zeros that the last round leaves may be read outside of the loop; empty where they are not."""
    scope = file.tree.scope(around)
    loops = set(file.tree.loops(around))
    inside = {function.body for function in file.steps.called_by(around)}
    for node in file.tree.all(cst.Attribute):
        if node.attr.value != "grad" or not _is_read(file, node) or file.tree.is_within(node, around):
            continue
        if file.tree.scope(node) is scope:
            if file.comes_before(around, node) or loops & set(file.tree.loops(node)):
                return f"the zeros are read on line {file.line(node)}, after the loop"
        elif not any(file.tree.is_within(node, body) for body in inside):
            return f"`{file.code(node)}` is read on line {file.line(node)}, perhaps after the loop"
    return ""


def _cycle(file: FileFacts, zeroing: Zeroing) -> cst.CSTNode:
    """The code that is run again and again around a zeroing: the innermost loop that trains, else the function."""
    for loop in file.tree.loops(zeroing.node):
        if file.steps.trains(loop.body):
            return loop.body
    function = file.tree.function(zeroing.node)
    return function.body if function is not None else file.tree.module


def _events(file: FileFacts, around: cst.CSTNode, every: Sequence[Zeroing]) -> Iterator[tuple[cst.CSTNode, str]]:
    """Zeroings, backward passes and reads of gradients, in order of the text."""
    zeroed = {each.node for each in every}
    for node in walk_scope(around):
        if node in zeroed:
            yield node, "zero"
        elif isinstance(node, cst.Call):
            if _is_backward(file, node):
                yield node, "backward"
            elif _reads_gradients(file, node) or any(
                map(partial(_reads_inside, file), file.values.calls.reached(node))
            ):
                yield node, "read"
        elif isinstance(node, cst.Attribute) and node.attr.value == "grad" and _is_read(file, node):
            yield node, "read"


def _is_backward(file: FileFacts, call: cst.Call) -> bool:
    name = dotted(call.func).rpartition(".")[2] or (
        call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    )
    if name in ("backward", "manual_backward", "optimize_parameters"):
        return True
    function = file.values.calls.resolve(call)
    return function is not None and file.steps.trains(function.body)


def _reads_gradients(file: FileFacts, call: cst.Call) -> bool:
    name = file.qualified(call) or ""
    if name.startswith(_UTILITIES):
        return True
    return (
        isinstance(call.func, cst.Attribute) and call.func.attr.value in ("step", "unscale_") and not _is_schedule(call)
    )


def _reads_inside(file: FileFacts, function: cst.FunctionDef) -> bool:
    """Whether a function reads a gradient."""
    return any(node.attr.value == "grad" and _is_read(file, node) for node in find_all(function.body, cst.Attribute))


def _is_schedule(call: cst.Call) -> bool:
    text = dotted(call.func).lower()
    return "sched" in text or "prof" in text or "bar" in text


def _is_read(file: FileFacts, node: cst.Attribute) -> bool:
    """Whether `p.grad` is read, other than to ask whether there is one or to drop it."""
    if file.qualified(node) is not None:
        return False
    parent = file.tree.parent(node)
    if isinstance(parent, (cst.Comparison, cst.AssignTarget)):
        return False
    around = file.tree.parent(parent) if parent is not None else None
    return not (isinstance(parent, cst.Attribute) and parent.attr.value == "detach_" and isinstance(around, cst.Call))


def kept_gradient(file: FileFacts, every: Sequence[Zeroing]) -> cst.Attribute | None:
    """A read of `.grad` that may keep the very tensor, which zeroing empties and dropping does not."""
    zeroed = {each.node for each in every}
    for node in find_all(file.tree.module, cst.Attribute):
        if node.attr.value != "grad" or node in zeroed or file.qualified(node) is not None or not _is_read(file, node):
            continue
        parent = file.tree.parent(node)
        while isinstance(parent, cst.Attribute) and parent.attr.value == "data":
            parent = file.tree.parent(parent)
        if isinstance(parent, cst.Attribute) and parent.attr.value in _MEASURES:
            continue
        if isinstance(parent, (cst.BinaryOperation, cst.UnaryOperation, cst.AugAssign, cst.FormattedStringExpression)):
            continue
        if isinstance(parent, cst.Assign) and _copies(file, parent):
            continue
        call = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
        name = (file.qualified(call) or "") if isinstance(call, cst.Call) else ""
        if not name.startswith(("torch.", "builtins.print", "builtins.float", "builtins.isinstance")):
            return node
    return None


def given_gradient(file: FileFacts) -> cst.Attribute | None:
    """Where a gradient is set to a tensor that others may hold, and would miss what the backward pass writes."""
    for node in file.tree.all(cst.Attribute):
        target = file.tree.parent(node)
        if node.attr.value != "grad" or not isinstance(target, cst.AssignTarget) or file.qualified(node) is not None:
            continue
        statement = file.tree.parent(target)
        value = statement.value if isinstance(statement, cst.Assign) else None
        if value is not None and file.value(value).kind is not Kind.NONE and not _is_new(file, value):
            return node
    return None


def _is_new(file: FileFacts, value: cst.BaseExpression) -> bool:
    """Whether a gradient is a tensor of its own: computed from others, or a clone."""
    if isinstance(value, cst.BinaryOperation) or file.aliasing.is_fresh(value):
        return True
    is_clone = (
        isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and value.func.attr.value == "clone"
    )
    return is_clone or (isinstance(value, cst.Call) and file.aliasing.is_computed(value))


def _copies(file: FileFacts, statement: cst.Assign) -> bool:
    """`j[:, 0] = m.grad`: the numbers are copied into another tensor."""
    targets = [target.target for target in statement.targets]
    return all(isinstance(target, cst.Subscript) and file.value(target.value).is_tensor for target in targets)


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
