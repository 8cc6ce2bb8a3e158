"""`if norm > limit:` in front of gradients that are scaled down: scaling by one is the same as not scaling,
to the bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all, find_any, walk
from perfmod.transforms.facts.value import DType, Kind
from perfmod.transforms.rule import Edit
from perfmod.transforms.syncs._branches import Rewrite, without_header
from perfmod.transforms.syncs._conditions import CannotSelect, condition, shown
from perfmod.transforms.syncs._unused import UnusedNames
from perfmod.transforms.writing import dedent_block, replace

_GRADIENT_VIEWS = frozenset({"data", "detach"})


def clip_without_branch(file: FileFacts, node: cst.If, unused: UnusedNames) -> Rewrite | None:
    """Gradients multiplied always, by one where they were left alone; `None` where the branch does anything
    else.

    Raises:
        CannotSelect: the branch scales gradients, but its condition or factor cannot be a device tensor.
    """
    if node.orelse is not None or not isinstance(node.body, cst.IndentedBlock):
        return None
    body: list[cst.CSTNode] = list(node.body.body)
    assigned = _assigned_factor(body[0])
    loops = body[1:] if assigned is not None else body
    factors = [factor for item in loops for factor in _factors(file, item)]
    if not loops or not factors or None in factors:
        return None
    found = [factor for factor in factors if factor is not None]
    for item in loops:
        if isinstance(item, cst.For):
            _require_gradients(file, item, node)
    first = found[0]
    if not all(factor.deep_equals(first) for factor in found):
        return None
    test = condition(file, node.test)
    torch, imports = file.names.spelled("torch", node)
    if assigned is not None:
        if not all(isinstance(factor, cst.Name) and factor.value == assigned[0].value for factor in found):
            return None
        value = assigned[1]
        if any(
            not file.tree.is_within(use, node) for d in file.flow.definitions(_name(first)) for use in file.flow.uses(d)
        ):
            raise CannotSelect(f"`{assigned[0].value}` is read behind the branch too")
        _check_factor(file, value, node)
        edits = [
            replace(file.source, value, f"{torch}.where({test}, {file.code(value)}, 1.0)"),
            *dedent_block(file.source, node),
        ]
    else:
        _check_factor(file, first, node)
        edits = _with_new_factor(file, node, found, f"{torch}.where({test}, {file.code(first)}, 1.0)", unused)
    return Rewrite(tuple(edits), "multiplying by one leaves every gradient as it is", imports=imports)


def _with_new_factor(
    file: FileFacts, node: cst.If, factors: list[cst.BaseExpression], text: str, unused: UnusedNames
) -> list[Edit]:
    """The factor in a variable of its own in front of the loop; the old variable where nothing else reads
    it.
    """
    first = factors[0]
    if isinstance(first, cst.Name) and all(
        file.tree.is_within(use, node) for d in file.flow.definitions(first) for use in file.flow.uses(d)
    ):
        return list(without_header(file, node, [f"{first.value} = {text}"]))
    name = unused.take("scale")
    return [
        *without_header(file, node, [f"{name} = {text}"]),
        *(replace(file.source, factor, name) for factor in factors),
    ]


def _assigned_factor(statement: cst.CSTNode) -> tuple[cst.Name, cst.BaseExpression] | None:
    if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        small = statement.body[0]
        if isinstance(small, cst.Assign) and len(small.targets) == 1 and isinstance(small.targets[0].target, cst.Name):
            return small.targets[0].target, small.value
    return None


def _factors(file: FileFacts, statement: cst.CSTNode) -> Iterator[cst.BaseExpression | None]:
    """What gradients are multiplied by in a loop over parameters; `None` for everything else that is done
    there.
    """
    if isinstance(statement, cst.For) and statement.orelse is None and isinstance(statement.body, cst.IndentedBlock):
        if not isinstance(statement.target, cst.Name) or not _is_repeatable(file, statement.iter):
            yield None
        for item in statement.body.body:
            yield from _factors(file, item)
    elif isinstance(statement, cst.If) and statement.orelse is None and _asks_for_gradient(statement.test):
        for guarded in statement.body.body:
            yield from _factors(file, guarded)
    elif isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        yield _factor(statement.body[0])
    else:
        yield None


def _factor(statement: cst.BaseSmallStatement) -> cst.BaseExpression | None:
    """`f` of `p.grad.mul_(f)`, `p.grad.data.mul_(f.to(p.grad.device))` and `p.grad *= f`."""
    if isinstance(statement, cst.AugAssign) and isinstance(statement.operator, cst.MultiplyAssign):
        return statement.value if _is_gradient(statement.target) else None
    call = statement.value if isinstance(statement, cst.Expr) else None
    if not isinstance(call, cst.Call) or len(call.args) != 1 or call.args[0].keyword is not None or call.args[0].star:
        return None
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "mul_" or not _is_gradient(call.func.value):
        return None
    factor = call.args[0].value
    if isinstance(factor, cst.Call) and isinstance(factor.func, cst.Attribute) and factor.func.attr.value == "to":
        return factor.func.value
    return factor


def _is_gradient(node: cst.BaseExpression) -> bool:
    """`p.grad`, `p.grad.data`, `p.grad.detach()`."""
    if isinstance(node, cst.Call) and not node.args:
        node = node.func
    if isinstance(node, cst.Attribute) and node.attr.value in _GRADIENT_VIEWS:
        node = node.value
    return isinstance(node, cst.Attribute) and node.attr.value == "grad" and isinstance(node.value, cst.Name)


def _asks_for_gradient(test: cst.BaseExpression) -> bool:
    """`p.grad is not None`, which the host knows."""
    return (
        isinstance(test, cst.Comparison)
        and isinstance(test.left, cst.Attribute)
        and test.left.attr.value == "grad"
        and len(test.comparisons) == 1
        and isinstance(test.comparisons[0].operator, cst.IsNot)
    )


def _require_gradients(file: FileFacts, loop: cst.For, node: cst.If) -> None:
    """Raise where the loop could fail, or use up an iterator, in steps that did not come by it.

    In a step that goes through the same parameters in front of the branch, and reads every gradient there, it cannot.
    """
    if any(map(partial(_reads_gradients, file, loop), _in_front(file, node))):
        return
    line = file.line(loop)
    for statement in loop.body.body:
        if isinstance(statement, cst.For):
            _require_gradients(file, statement, node)
        elif not _is_guarded(statement) and not _is_filtered(file, loop.iter):
            raise CannotSelect(f"line {line} may meet a missing gradient in steps that scale nothing now")
    if isinstance(loop.iter, cst.Name) and not _is_collection(file, loop.iter):
        raise CannotSelect(f"`{loop.iter.value}` may be an iterator, which line {line} would use up")


def _is_guarded(statement: cst.CSTNode) -> bool:
    return isinstance(statement, cst.If) and _asks_for_gradient(statement.test)


def _is_filtered(file: FileFacts, iterable: cst.BaseExpression) -> bool:
    """Whether a variable holds only what has a gradient: `[p for p in parameters if p.grad is not None]`."""
    given = file.values.assigned_to(iterable)
    return bool(given) and all(any(map(_asks_for_gradient, find_all(value, cst.Comparison))) for value in given)


def _is_collection(file: FileFacts, iterable: cst.Name) -> bool:
    """Whether a variable can be gone through again: a list that is made, not a generator, a filter or a parameter."""
    given = file.values.assigned_to(iterable)
    return bool(given) and all(
        isinstance(value, (cst.List, cst.Tuple, cst.ListComp))
        or file.qualified(value) in ("builtins.list", "builtins.tuple", "builtins.sorted")
        for value in given
    )


def _in_front(file: FileFacts, node: cst.If) -> Iterator[cst.CSTNode]:
    """What always runs before a branch, in its block."""
    block = file.tree.parent(node)
    if isinstance(block, (cst.IndentedBlock, cst.Module)):
        for statement in block.body:
            if statement is node:
                return
            if isinstance(statement, (cst.SimpleStatementLine, cst.For, cst.With)):
                yield statement


def _reads_gradients(file: FileFacts, loop: cst.For, statement: cst.CSTNode) -> bool:
    """Whether a statement looks into the gradient of everything that a loop goes through."""
    for each in find_any(statement, cst.For, cst.CompFor):
        assert isinstance(each, (cst.For, cst.CompFor))
        if not each.iter.deep_equals(loop.iter) or not isinstance(each.target, cst.Name):
            continue
        rounds = each.body if isinstance(each, cst.For) else file.tree.parent(each)
        is_partial = isinstance(each, cst.CompFor) and (each.ifs or each.inner_for_in is not None)
        if rounds is None or is_partial:
            continue
        for part in find_all(rounds, cst.Attribute):
            is_own = _is_gradient(part.value) and next(find_all(part, cst.Name)).value == each.target.value
            if is_own and not _is_conditional(file, part, each):
                return True
    return False


def _is_conditional(file: FileFacts, part: cst.CSTNode, loop: cst.CSTNode) -> bool:
    """Whether a round may pass a part by."""
    for ancestor in file.tree.ancestors(part):
        if ancestor is loop or isinstance(ancestor, cst.BaseComp):
            return False
        if isinstance(ancestor, (cst.If, cst.IfExp, cst.BooleanOperation, cst.Try, cst.While)):
            return True
    return True


def _is_repeatable(file: FileFacts, iterable: cst.BaseExpression) -> bool:
    """Whether looping over something leaves it as it was: a fresh `parameters()`, or a variable that nothing
    reads later.
    """
    if isinstance(iterable, cst.Call) and isinstance(iterable.func, cst.Attribute) and not iterable.args:
        return iterable.func.attr.value == "parameters"
    if not isinstance(iterable, cst.Name):
        return False
    return all(
        use is iterable or file.comes_before(use, iterable)
        for definition in file.flow.definitions(iterable)
        for use in file.flow.uses(definition)
    )


def _check_factor(file: FileFacts, factor: cst.BaseExpression, node: cst.If) -> None:
    """The factor is a floating point tensor of one element, computed from names and numbers that are bound
    outside the loop.
    """
    code = shown(file, factor)
    value = file.value(factor)
    if not value.is_tensor or value.dtype is not DType.FLOATING or value.rank != 0:
        raise CannotSelect(f"{code} is not shown to be a floating point tensor without dimensions")
    for part in walk(factor):
        if isinstance(part, (cst.Call, cst.Subscript, cst.NamedExpr, cst.Await, cst.IfExp)):
            raise CannotSelect(f"{code} is not shown to be computable without need")
    for name in find_all(factor, cst.Name):
        if file.value(name).kind not in (Kind.NUMBER, Kind.TENSOR, Kind.OBJECT) and file.flow.is_read(name):
            raise CannotSelect(f"`{name.value}` is not shown to be a number or a tensor")
        if any(file.tree.is_within(definition.node, node) for definition in file.flow.definitions(name)):
            raise CannotSelect(f"{code} is computed anew for every gradient")


def _name(node: cst.BaseExpression) -> cst.Name:
    assert isinstance(node, cst.Name)
    return node
