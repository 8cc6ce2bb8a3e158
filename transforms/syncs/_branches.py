"""Branches that choose between values as `torch.where`: an `if` that binds a name or two, and `a if c else b`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition, Read
from perfmod.transforms.facts.gradients import cuts_graph
from perfmod.transforms.facts.tree import find_all, walk_scope
from perfmod.transforms.rule import Edit, Safety
from perfmod.transforms.syncs._choices import Choices, names_read
from perfmod.transforms.syncs._conditions import CannotSelect, condition, shown, tests_device, tight
from perfmod.transforms.writing import call_text, comments, dedent_block, replace

_OPERATORS: dict[type[cst.BaseAugOp], str] = {
    cst.AddAssign: "+",
    cst.SubtractAssign: "-",
    cst.MultiplyAssign: "*",
    cst.DivideAssign: "/",
}
_MOST_NAMES = 2

_CHOOSES = "the branch only chooses a value, and the device can choose"


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

    name: str
    statement: cst.Assign | cst.AugAssign

    @property
    def value(self) -> cst.BaseExpression:
        return self.statement.value


def chosen_by(file: FileFacts, node: cst.IfExp) -> Rewrite:
    """`a if c else b` as `torch.where(c, a, b)`. Raises `CannotSelect`."""
    test = condition(file, node.test)
    arms = (node.body, node.orelse)
    Choices(file, node).check(arms)
    _check_graph(file, arms)
    torch, imports = file.names.spelled("torch", node)
    source = file.source
    start, end = source.span(node)
    if node.lpar:
        start, end = source.span(node.lpar[0])[0], source.span(node.rpar[-1])[1]
    text = call_text(source, start, f"{torch}.where", [test, *map(file.whole_code, arms)])
    edits = (Edit(start, end, text, source.path),)
    shared = [arm for arm in arms if not file.aliasing.is_fresh(arm)]
    if not shared or isinstance(file.tree.parent(node), (cst.BinaryOperation, cst.UnaryOperation, cst.Comparison)):
        return Rewrite(edits, _CHOOSES, imports=imports)
    holder = file.tree.statement(node)
    target = holder.targets[0].target if isinstance(holder, cst.Assign) else None
    bound = _definition(file, target) if isinstance(target, cst.Name) else None
    _require_unidentified(file, shared)
    written = list(file.aliasing.mutations(bound)) if bound is not None else []
    if written or any(file.aliasing.is_mutated(arm) for arm in shared):
        raise CannotSelect(f"{shown(file, shared[0])} is written in place, which a copy of it would not show")
    return _held_if_copied(edits, _callers_own(file, shared) if bound is not None else shared, file, imports)


def _held_if_copied(
    edits: tuple[Edit, ...], copies: Sequence[cst.BaseExpression], file: FileFacts, imports: tuple[str, ...]
) -> Rewrite:
    """A rewrite that is held back where somebody else may hold the very tensor that `where` copies."""
    if copies:
        reason = f"right unless somebody relies on the result being {shown(file, copies[0])} itself and not a copy"
        return Rewrite(edits, reason, Safety.UNSAFE, imports)
    return Rewrite(edits, _CHOOSES, imports=imports)


def rebinds_as_where(file: FileFacts, node: cst.If, test: str = "") -> Rewrite:
    """An `if` whose branches only bind a name or two to tensors, as one `torch.where` for each.

    `test` is the code of its condition, where that is no tensor yet.

    Raises:
        CannotSelect: a branch does more, or choosing afterwards would not be the same.
    """
    branches = [list(_rebinds(file, node.body))]
    if isinstance(node.orelse, cst.If):
        raise CannotSelect("there are more than two ways, which a `torch.where` inside of another would hide")
    if node.orelse is not None:
        branches.append(list(_rebinds(file, node.orelse.body)))
    branches = [each for each in branches if each]
    names = [rebind.name for rebind in branches[0]] if branches else []
    if not names or len(branches) < 1 + (node.orelse is not None and bool(_statements(file, node.orelse.body))):
        raise CannotSelect("the branch binds nothing")
    if any([rebind.name for rebind in each] != names for each in branches):
        raise CannotSelect("the branches bind different names, or in another order")
    if len(names) > _MOST_NAMES or len(set(names)) < len(names):
        raise CannotSelect(f"the branch binds more than {_MOST_NAMES} names, or one of them twice")
    choices = Choices(file, node)
    copies: list[cst.BaseExpression] = []
    for rebinds in zip(*branches, strict=True):
        arms: list[cst.BaseExpression] = [rebind.value for rebind in rebinds]
        if len(branches) == 1:
            arms.append(_old_value(file, node, rebinds[-1]))
        _check_arms(file, choices, rebinds, arms)
        _check_graph(file, arms)
        copies += _check_aliases(file, node, rebinds, arms)
    edits, imports = _edits(file, node, branches, test)
    return _held_if_copied(edits, copies, file, imports)


# Reading the branch


def _rebinds(file: FileFacts, body: cst.BaseSuite) -> Iterator[_Rebind]:
    for statement in _statements(file, body):
        line = file.line(statement)
        if not isinstance(statement, (cst.Assign, cst.AugAssign)):
            raise CannotSelect(_why_not(file, statement))
        targets = [t.target for t in statement.targets] if isinstance(statement, cst.Assign) else [statement.target]
        target = targets[0]
        if len(targets) > 1 or isinstance(target, (cst.Tuple, cst.List)):
            raise CannotSelect(f"the branch binds several names at once on line {line}")
        if not isinstance(target, cst.Name):
            raise CannotSelect(f"the branch writes to {shown(file, target)} on line {line}, which others may see")
        if any(isinstance(part, (cst.Yield, cst.Await, cst.NamedExpr)) for part in walk_scope(statement)):
            raise CannotSelect(f"the branch does more than to compute on line {line}")
        if not _is_local(file, target):
            raise CannotSelect(f"`{target.value}`, bound on line {line}, is read by other functions")
        yield _Rebind(target.value, statement)


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
    line = file.line(statement)
    if any(part.attr.value == "grad" for part in find_all(statement, cst.Attribute)):
        return "gradients are scaled by hand, which `torch.nn.utils.clip_grad_norm_` does without a wait"
    for part in walk_scope(statement):
        if isinstance(part, cst.Raise):
            return f"the branch raises on line {file.line(part)}: the wait is a check"
        if isinstance(part, cst.Return):
            return f"the branch returns on line {file.line(part)}"
        if isinstance(part, cst.Break):
            return f"the branch ends a loop with `break` on line {file.line(part)}"
        if isinstance(part, cst.Continue):
            return f"the branch ends a turn of the loop with `continue` on line {file.line(part)}"
    if isinstance(statement, cst.BaseCompoundStatement):
        return f"the branch holds another compound statement on line {line}"
    for part in walk_scope(statement):
        if isinstance(part, cst.Call):
            if file.qualified(part) == "builtins.print":
                return f"the branch prints on line {line}"
            callee = shown(file, part.func)
            return f"the branch calls {callee} on line {line}, which may have effects of its own"
    return f"the branch does more than to bind names on line {line}"


def _is_local(file: FileFacts, target: cst.Name) -> bool:
    definition = _definition(file, target)
    return definition is not None and all(
        file.tree.scope(use) is definition.scope for use in file.flow.uses(definition)
    )


def _definition(file: FileFacts, target: cst.Name) -> Definition | None:
    bound = file.flow.bound(file.tree.scope(target), target.value)
    return next((definition for definition in bound if definition.node is target), None)


# Proofs


def _old_value(file: FileFacts, node: cst.If, rebind: _Rebind) -> cst.Name:
    """A place that reads what `rebind` replaces, as it is in front of the branch."""
    if isinstance(rebind.statement, cst.AugAssign):
        target = rebind.statement.target
        assert isinstance(target, cst.Name)
        return target
    for part in find_all(node, cst.Name):
        if part.value == rebind.name and file.flow.is_read(part):
            definitions = file.flow.definitions(part)
            if definitions and not any(file.tree.is_within(d.node, node) for d in definitions):
                return part
    raise CannotSelect(f"what `{rebind.name}` was before the branch is not shown to be a tensor with the same gradient")


def _check_arms(
    file: FileFacts, choices: Choices, rebinds: Sequence[_Rebind], arms: Sequence[cst.BaseExpression]
) -> None:
    augmented = [rebind.statement for rebind in rebinds if isinstance(rebind.statement, cst.AugAssign)]
    if not augmented:
        choices.check(arms)
        return
    statement = augmented[0]
    target = statement.target
    assert isinstance(target, cst.Name)
    code = shown(file, statement)
    if len(rebinds) > 1 or type(statement.operator) not in _OPERATORS:
        raise CannotSelect(f"the branch writes {code} in place")
    if not file.value(target).is_tensor:
        raise CannotSelect(f"`{target.value}` is not shown to be a tensor")
    if not file.aliasing.rebinding_is_unobservable(target):
        raise CannotSelect(f"{code} writes in place, and others may hold the tensor")
    old = choices.arm(target)
    new = choices.operation(statement.operator, target, statement.value, statement)
    if file.value(target).rank != 0 and not (
        choices.is_number(statement.value)
        or file.value(statement.value).rank == 0
        or file.shapes.same(target, statement.value)
    ):
        raise CannotSelect(f"{code} is not shown to keep the shape")
    if old != new:
        raise CannotSelect(f"{code} is not shown to keep the type, and the tensors that get a gradient")


def _check_graph(file: FileFacts, arms: Sequence[cst.BaseExpression]) -> None:
    """Raises `CannotSelect` where a tensor would lose its graph, because `torch.where` runs without one."""
    for arm in arms:
        if isinstance(arm, cst.Name) and cuts_graph(file, arm):
            raise CannotSelect(f"{shown(file, arm)} keeps its graph, and `torch.where` would make a copy without one")


def _check_aliases(
    file: FileFacts, node: cst.If, rebinds: Sequence[_Rebind], arms: Sequence[cst.BaseExpression]
) -> list[cst.BaseExpression]:
    """The arms that are the caller's own tensors, of which `where` makes copies.

    Raises:
        CannotSelect: a write in place behind the branch would tell the copy from the tensor.
    """
    name = rebinds[0].name
    shared = [arm for arm in arms if not file.aliasing.is_fresh(arm)]
    _require_unidentified(file, shared)
    bound = [definition for rebind in rebinds for definition in _bound(file, rebind)]
    written = [use for definition in bound for use in file.aliasing.mutations(definition)]
    held = [arm for arm in shared if not (isinstance(arm, cst.Name) and file.aliasing.rebinding_is_unobservable(arm))]
    if held and written:
        raise CannotSelect(
            f"`{name}` is written in place on line {file.line(written[0])}, which other holders of it would see"
        )
    for arm in shared:
        for definition in file.flow.definitions(arm) if isinstance(arm, cst.Name) else ():
            for use in file.flow.uses(definition):
                _check_other_name(file, node, use)
    return _callers_own(file, shared)


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
                raise CannotSelect(f"which tensor {shown(file, use)} is, is asked on line {file.line(use)}")


def _callers_own(file: FileFacts, arms: Sequence[cst.BaseExpression]) -> list[cst.BaseExpression]:
    return [
        arm
        for arm in arms
        if isinstance(arm, cst.Name) and any(d.binding is Binding.PARAMETER for d in file.flow.definitions(arm))
    ]


def _bound(file: FileFacts, rebind: _Rebind) -> Iterator[Definition]:
    target = rebind.statement.targets[0].target if isinstance(rebind.statement, cst.Assign) else rebind.statement.target
    definition = _definition(file, target) if isinstance(target, cst.Name) else None
    if definition is not None:
        yield definition


def _check_other_name(file: FileFacts, node: cst.If, use: Read) -> None:
    """A second name for the tensor, or for a view of it, must not be written in place."""
    statement = file.tree.statement(use)
    if (
        not isinstance(statement, cst.Assign)
        or file.tree.is_within(statement, node)
        or not _is_view(file, statement.value, use)
    ):
        return
    for target in statement.targets:
        definition = _definition(file, target.target) if isinstance(target.target, cst.Name) else None
        for write in file.aliasing.mutations(definition) if definition is not None else ():
            name, line = file.code(write), file.line(write)
            raise CannotSelect(f"`{name}` may be the same tensor and is written in place on line {line}")


def _is_view(file: FileFacts, value: cst.BaseExpression, name: Read) -> bool:
    """Whether an expression is a variable itself, or what methods, attributes and indices make of it without
    a copy.
    """
    node: cst.BaseExpression = value
    while node is not name:
        if file.aliasing.is_fresh(node):
            return False
        if isinstance(node, cst.Call):
            node = node.func
        elif isinstance(node, (cst.Attribute, cst.Subscript)):
            node = node.value
        else:
            return False
    return True


# Writing


def _edits(
    file: FileFacts, node: cst.If, branches: Sequence[Sequence[_Rebind]], known: str
) -> tuple[tuple[Edit, ...], tuple[str, ...]]:
    """A `torch.where` for every name; an `if` around it stays where the host decides whether to ask at all."""
    source, (rebinds, *others) = file.source, branches
    torch, imports = file.names.spelled("torch", node)
    host, test = None, node.test
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And) and node.orelse is None:
        host, test = (None, test) if tests_device(file, test.left) else (test.left, test.right)
    code = known or condition(file, test)
    if len(rebinds) > 1 and (
        names_read(test).intersection(rebind.name for rebind in rebinds[:-1]) or any(find_all(test, cst.Call))
    ):
        raise CannotSelect("several names are bound, and the condition would be computed for each")
    outer = source.span(node)[0] if host is None else source.span(rebinds[0].statement)[0]
    written: list[str] = []
    for index, rebind in enumerate(rebinds):
        otherwise = _arm(file, others[0][index]) if others else rebind.name
        arguments = [code, _arm(file, rebind), otherwise]
        written.append(call_text(source, outer, f"{rebind.name} = {torch}.where", arguments))
    if any("\n" in file.code(rebind.statement) for each in branches for rebind in each):
        raise CannotSelect("a value goes over several lines, and would do so inside of `torch.where`")
    if node.orelse is not None:
        start, end = source.span(node)
        kept = [text for offset, text in comments(source, node) if offset < end]
        text = f"{source.newline}{source.indentation(start)}".join([*kept, *written])
        return (Edit(start, end, text, source.path),), imports
    edits = [replace(source, rebind.statement, text) for rebind, text in zip(rebinds, written, strict=True)]
    if host is not None:
        edits.append(replace(source, node.test, source.code(host)))
    return (*edits, *(dedent_block(source, node) if host is None else ())), imports


def _arm(file: FileFacts, rebind: _Rebind) -> str:
    if isinstance(rebind.statement, cst.AugAssign):
        code = file.code(rebind.value)
        return f"{rebind.name} {_OPERATORS[type(rebind.statement.operator)]} {tight(rebind.value, code)}"
    return file.whole_code(rebind.value)
