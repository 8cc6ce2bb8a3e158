"""Branches that choose between values as `torch.where`: an `if` that binds a name, and `a if c else b`."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding
from perfmod.transforms.facts.gradients import cuts_graph
from perfmod.transforms.facts.tree import find_all, walk_scope
from perfmod.transforms.finding import Edit, Safety
from perfmod.transforms.syncs._choices import Choices
from perfmod.transforms.syncs._conditions import CannotSelect, condition, shown, tests_device, tight
from perfmod.transforms.writing import call_text, comments, dedent_block, replace

_OPERATORS: dict[type[cst.BaseAugOp], str] = {
    cst.AddAssign: "+",
    cst.SubtractAssign: "-",
    cst.MultiplyAssign: "*",
    cst.DivideAssign: "/",
}


@frozen
class Rewrite:
    """What to write instead of a branch, why that is right, and what may be done with it."""

    edits: tuple[Edit, ...]
    reason: str
    safety: Safety = Safety.SAFE
    imports: tuple[str, ...] = ()


@frozen
class _Rebind:
    """`name = value`, or `name op= value`, in a branch."""

    target: cst.Name
    statement: cst.Assign | cst.AugAssign

    @property
    def name(self) -> str:
        return self.target.value

    @property
    def value(self) -> cst.BaseExpression:
        return self.statement.value


def chosen_by(file: FileFacts, node: cst.IfExp) -> Rewrite:
    """`a if c else b` as `torch.where(c, a, b)`. Raises `CannotSelect`."""
    test = condition(file, node.test)
    arms = (node.body, node.orelse)
    Choices(file, node).check(arms)
    is_computed_with = isinstance(file.tree.parent(node), (cst.BinaryOperation, cst.UnaryOperation, cst.Comparison))
    holder = file.tree.statement(node)
    targets = [each.target for each in holder.targets] if isinstance(holder, cst.Assign) else []
    copied = None if is_computed_with else _copied(file, arms, targets)
    torch, imports = file.names.spelled("torch", node)
    source = file.source
    start, end = source.span(node)
    if node.lpar:
        start, end = source.span(node.lpar[0])[0], source.span(node.rpar[-1])[1]
    text = call_text(source, start, f"{torch}.where", [test, *map(file.whole_code, arms)])
    return _rewrite(file, (Edit(start, end, text, source.path),), imports, copied)


def rebinds_as_where(file: FileFacts, node: cst.If, test: str = "") -> Rewrite:
    """An `if` whose branches only bind a name to a tensor, as `name = torch.where(...)`.

    `test` is the code of its condition, where that is no tensor yet.

    Raises:
        CannotSelect: a branch does more, or choosing afterwards would not be the same.
    """
    if isinstance(node.orelse, cst.If):
        raise CannotSelect("the chain of `elif` would need nested `torch.where` calls, which are hard to read")
    rebinds = [_rebind(file, branch.body) for branch in (node, node.orelse) if branch is not None]
    if any(rebind.name != rebinds[0].name for rebind in rebinds):
        raise CannotSelect("the branches assign different variables")
    choices, copied = Choices(file, node), None
    if isinstance(rebinds[0].statement, cst.AugAssign) and len(rebinds) == 1:
        _check_in_place(file, choices, rebinds[0].statement)
    else:
        for rebind in rebinds:
            if isinstance(rebind.statement, cst.AugAssign):
                raise CannotSelect(f"the branch writes {shown(file, rebind.statement)} in place")
        arms = [rebind.value for rebind in rebinds]
        if len(rebinds) == 1:
            arms.append(_old_value(file, node, rebinds[0]))
        choices.check(arms)
        copied = _copied(file, arms, [rebind.target for rebind in rebinds])
    edits, imports = _edits(file, node, rebinds, test)
    return _rewrite(file, edits, imports, copied)


def _rewrite(
    file: FileFacts, edits: tuple[Edit, ...], imports: tuple[str, ...], copied: cst.BaseExpression | None
) -> Rewrite:
    """A rewrite that is held back where somebody else may hold the very tensor that `where` copies."""
    if copied is not None:
        reason = (
            f"right unless other code relies on the result being {shown(file, copied)} itself: `torch.where` "
            "returns a copy"
        )
        return Rewrite(edits, reason, Safety.UNSAFE, imports)
    return Rewrite(edits, "the branch only selects a value, which torch.where does on the device", imports=imports)


# Reading the branch


def _rebind(file: FileFacts, body: cst.BaseSuite) -> _Rebind:
    statements = _statements(file, body)
    for statement in statements:
        if not isinstance(statement, (cst.Assign, cst.AugAssign)):
            raise CannotSelect(_why_not(file, statement))
    if len(statements) != 1:
        raise CannotSelect(
            "the branch assigns nothing" if not statements else "the branch contains more than one assignment"
        )
    (statement,) = statements
    assert isinstance(statement, (cst.Assign, cst.AugAssign))
    targets = [t.target for t in statement.targets] if isinstance(statement, cst.Assign) else [statement.target]
    target = targets[0]
    runs_code = any(isinstance(part, (cst.Yield, cst.Await, cst.NamedExpr)) for part in walk_scope(statement))
    if len(targets) > 1 or not isinstance(target, cst.Name) or runs_code:
        raise CannotSelect(_why_not(file, statement))
    if not _is_local(file, target):
        raise CannotSelect(
            f"`{target.value}`, assigned on line {file.line(statement)}, is also used by other functions"
        )
    return _Rebind(target, statement)


def _statements(file: FileFacts, body: cst.BaseSuite) -> list[cst.BaseSmallStatement]:
    found: list[cst.BaseSmallStatement] = []
    for item in body.body:
        if isinstance(item, cst.SimpleStatementLine):
            found += item.body
        elif isinstance(item, cst.BaseSmallStatement):
            found.append(item)
        else:
            raise CannotSelect(_why_not(file, item))
    return [statement for statement in found if not isinstance(statement, cst.Pass)]


def _why_not(file: FileFacts, statement: cst.CSTNode) -> str:
    """Why a statement needs the answer on the host."""
    if any(part.attr.value == "grad" for part in find_all(statement, cst.Attribute)):
        return "gradients are clipped by hand: `torch.nn.utils.clip_grad_norm_` does it without waiting"
    code = file.code(statement).strip().splitlines()[0]
    return f"the branch does more than assign one variable: `{code}` on line {file.line(statement)}"


def _is_local(file: FileFacts, target: cst.Name) -> bool:
    own = file.flow.defined(target)
    return bool(own) and all(file.tree.scope(use) is d.scope for d in own for use in file.flow.uses(d))


# Proofs


def _old_value(file: FileFacts, node: cst.If, rebind: _Rebind) -> cst.Name:
    """A place that reads what `rebind` replaces, as it is in front of the branch."""
    for part in find_all(node, cst.Name):
        if part.value == rebind.name and file.flow.is_read(part):
            definitions = file.flow.definitions(part)
            if definitions and not any(file.tree.is_within(d.node, node) for d in definitions):
                return part
    raise CannotSelect(
        f"the value of `{rebind.name}` before the branch is not known to be a tensor with the same gradient"
    )


def _check_in_place(file: FileFacts, choices: Choices, statement: cst.AugAssign) -> None:
    """Raises `CannotSelect` unless `name op= value` may be `name = torch.where(test, name op value, name)`."""
    target = statement.target
    assert isinstance(target, cst.Name)
    code = shown(file, statement)
    if type(statement.operator) not in _OPERATORS:
        raise CannotSelect(f"the branch writes {code} in place")
    if not file.value(target).is_tensor:
        raise CannotSelect(f"`{target.value}` is not known to be a tensor")
    if not file.aliasing.rebinding_is_unobservable(target):
        raise CannotSelect(f"{code} writes in place, and other code may hold the same tensor")
    old = choices.arm(target)
    new = choices.operation(statement.operator, target, statement.value, statement)
    if file.value(target).rank != 0 and not (
        choices.is_number(statement.value)
        or file.value(statement.value).rank == 0
        or file.shapes.same(target, statement.value)
    ):
        raise CannotSelect(f"{code} may change the shape")
    if old != new:
        raise CannotSelect(f"{code} may change the dtype or which tensors get a gradient")
    _check_graph(file, [target])


def _check_graph(file: FileFacts, arms: Sequence[cst.BaseExpression]) -> None:
    """Raises `CannotSelect` where a tensor would lose its graph, because `torch.where` runs without one."""
    for arm in arms:
        if isinstance(arm, cst.Name) and cuts_graph(file, arm):
            raise CannotSelect(
                f"{shown(file, arm)} keeps its autograd graph, and the copy that `torch.where` makes here "
                "would have none"
            )


def _copied(
    file: FileFacts, arms: Sequence[cst.BaseExpression], targets: Sequence[cst.BaseExpression]
) -> cst.BaseExpression | None:
    """An arm that is the caller's own tensor, of which `where` makes a copy for the targets.

    Raises:
        CannotSelect: a write in place, or a question which tensor it is, would tell the copy from the tensor.
    """
    _check_graph(file, arms)
    shared = [arm for arm in arms if not file.aliasing.is_fresh(arm)]
    is_written = any(file.aliasing.mutations(bound) for target in targets for bound in file.flow.defined(target))
    for arm in shared:
        if is_written or file.aliasing.is_mutated(arm):
            raise CannotSelect(
                f"{shown(file, arm)} is written in place, and `torch.where` returns a copy, which would "
                "not see those writes"
            )
    _require_unidentified(file, shared)
    names = [arm for arm in shared if isinstance(arm, cst.Name)]
    is_given = (any(d.binding is Binding.PARAMETER for d in file.flow.definitions(name)) for name in names)
    return next((name for name, given in zip(names, is_given, strict=True) if given), None)


def _require_unidentified(file: FileFacts, arms: Sequence[cst.BaseExpression]) -> None:
    """Raises `CannotSelect` where somebody asks which tensor one is: `where` gives another one with the same values."""
    names = (arm for arm in arms if isinstance(arm, cst.Name))
    for use in (use for name in names for d in file.flow.definitions(name) for use in file.flow.uses(d)):
        side = file.tree.parent(use)
        around = file.tree.parent(side) if isinstance(side, cst.ComparisonTarget) else side
        if isinstance(around, cst.Comparison) and len(around.comparisons) == 1:
            target = around.comparisons[0]
            other = target.comparator if around.left is use else around.left
            is_constant = isinstance(other, cst.Name) and other.value in ("None", "True", "False")
            if isinstance(target.operator, (cst.Is, cst.IsNot)) and not is_constant:
                raise CannotSelect(
                    f"line {file.line(use)} depends on which tensor object {shown(file, use)} is, and "
                    "`torch.where` makes a new one"
                )


# Writing


def _edits(
    file: FileFacts, node: cst.If, rebinds: Sequence[_Rebind], known: str
) -> tuple[tuple[Edit, ...], tuple[str, ...]]:
    """A `torch.where` for the name; an `if` around it stays where the host decides whether to ask at all."""
    source, rebind = file.source, rebinds[0]
    torch, imports = file.names.spelled("torch", node)
    host, test = None, node.test
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And) and node.orelse is None:
        host, test = (None, test) if tests_device(file, test.left) else (test.left, test.right)
    arms = [known or condition(file, test), *(_arm(file, each) for each in rebinds)]
    arms += [rebind.name] * (len(rebinds) == 1)
    outer = source.span(node)[0] if host is None else source.span(rebind.statement)[0]
    text = call_text(source, outer, f"{rebind.name} = {torch}.where", arms)
    if any("\n" in file.code(each.statement) for each in rebinds):
        raise CannotSelect("a value spans several lines, which would be hard to read inside `torch.where`")
    if node.orelse is not None:
        start, end = source.span(node)
        kept = [comment for offset, comment in comments(source, node) if offset < end]
        text = f"{source.newline}{source.indentation(start)}".join([*kept, text])
        return (Edit(start, end, text, source.path),), imports
    edits = [replace(source, rebind.statement, text)]
    if host is not None:
        edits.append(replace(source, node.test, source.code(host)))
    return (*edits, *(dedent_block(source, node) if host is None else ())), imports


def _arm(file: FileFacts, rebind: _Rebind) -> str:
    if isinstance(rebind.statement, cst.AugAssign):
        code = file.code(rebind.value)
        return f"{rebind.name} {_OPERATORS[type(rebind.statement.operator)]} {tight(rebind.value, code)}"
    return file.whole_code(rebind.value)
