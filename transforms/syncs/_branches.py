"""Branches that choose between values, written with `torch.where`: an `if` that binds names, and `a if c
else b`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst
from attrs import field, frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition, Read
from perfmod.transforms.facts.gradients import cuts_graph
from perfmod.transforms.facts.tree import find_all, walk_scope
from perfmod.transforms.rule import Edit, Safety
from perfmod.transforms.syncs._choices import Choices, names_read
from perfmod.transforms.syncs._conditions import CannotSelect, condition, is_total, shown, tests_device, tight
from perfmod.transforms.syncs._printed import printed_itself
from perfmod.transforms.syncs._unused import UnusedNames
from perfmod.transforms.writing import comments, dedent_block, replace

_OPERATORS: dict[type[cst.BaseAugOp], str] = {
    cst.AddAssign: "+",
    cst.SubtractAssign: "-",
    cst.MultiplyAssign: "*",
    cst.DivideAssign: "/",
}

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


@frozen
class _Case:
    """One branch: the test that chooses it (`None`: `else`), what it binds, and the host's numbers that only
    it reads.
    """

    test: cst.BaseExpression | None
    rebinds: tuple[_Rebind, ...]
    numbers: tuple[cst.Assign, ...] = field(default=())


def chosen_by(file: FileFacts, node: cst.IfExp) -> Rewrite:
    """`a if c else b` as `torch.where(c, a, b)`. Raises `CannotSelect`."""
    test = condition(file, node.test)
    arms = (node.body, node.orelse)
    Choices(file, node).check(arms)
    _check_graph(file, arms)
    torch, imports = file.names.spelled("torch", node)
    text = f"{torch}.where({test}, {', '.join(map(file.source.code, arms))})"
    edits = (replace(file.source, node, text),)
    shared = [arm for arm in arms if not file.aliasing.is_fresh(arm)]
    holder = file.tree.statement(node)
    target = holder.targets[0].target if isinstance(holder, cst.Assign) else None
    bound = _definition(file, target) if isinstance(target, cst.Name) else None
    itself = [bound] if bound is not None and isinstance(holder, cst.Assign) and holder.value is node else []
    if not shared or isinstance(file.tree.parent(node), (cst.BinaryOperation, cst.UnaryOperation, cst.Comparison)):
        return _held_if_seen(edits, (), itself, file, imports)
    _require_unidentified(file, shared)
    written = list(file.aliasing.mutations(bound)) if bound is not None else []
    if written or any(file.aliasing.is_mutated(arm) for arm in shared):
        raise CannotSelect(f"{shown(file, shared[0])} is written in place, which a copy of it would not show")
    copies = _callers_own(file, shared) if bound is not None else shared
    return _held_if_seen(edits, copies, itself, file, imports)


def _held_if_seen(
    edits: tuple[Edit, ...],
    copies: Sequence[cst.BaseExpression],
    bound: Sequence[Definition],
    file: FileFacts,
    imports: tuple[str, ...],
) -> Rewrite:
    """A rewrite that is held back where somebody else may hold the very tensor that `where` copies, or prints it."""
    if copies:
        reason = f"right unless somebody relies on the result being {shown(file, copies[0])} itself and not a copy"
        return Rewrite(edits, reason, Safety.UNSAFE, imports)
    printed = printed_itself(file, [use for definition in bound for use in file.flow.uses(definition)])
    if printed is not None:
        reason = f"a tensor is printed on line {file.line(printed)}, and `grad_fn` would be another in the text"
        return Rewrite(edits, reason, Safety.UNSAFE, imports)
    return Rewrite(edits, _CHOOSES, imports=imports)


def rebinds_as_where(file: FileFacts, node: cst.If, unused: UnusedNames) -> Rewrite:
    """An `if` whose branches only bind names to tensors, as one `torch.where` for each name.

    Raises:
        CannotSelect: a branch does more, or choosing afterwards would not be the same.
    """
    cases = list(_cases(file, node))
    choices = Choices(file, node)
    bound = [[rebind.name for rebind in case.rebinds] for case in cases]
    if any(names != bound[0] for names in bound):
        raise CannotSelect("the branches bind different names, or in another order")
    if not bound[0]:
        raise CannotSelect("the branch binds nothing")
    has_else = cases[-1].test is None
    if len(cases) > 1 and any(case.numbers for case in cases):
        raise CannotSelect("the branches hold more than one assignment")
    copies: list[cst.BaseExpression] = []
    for index, name in enumerate(bound[0]):
        if name in bound[0][:index]:
            raise CannotSelect(f"`{name}` is bound twice")
        rebinds = [case.rebinds[index] for case in cases]
        arms: list[cst.BaseExpression] = [rebind.value for rebind in rebinds]
        if not has_else:
            arms.append(_old_value(file, node, rebinds[-1]))
        _check_arms(file, choices, rebinds, arms)
        _check_graph(file, arms)
        copies += _check_aliases(file, node, rebinds, arms)
    writer = _Writer(file, node, cases, bound[0], has_else, unused)
    edits, imports = writer.edits()
    definitions = [each for case in cases for rebind in case.rebinds for each in _bound(file, rebind)]
    return _held_if_seen(edits, copies, definitions, file, imports)


# Reading the branch


def _cases(file: FileFacts, node: cst.If) -> Iterator[_Case]:
    yield _case(file, node.test, node.body, node)
    if isinstance(node.orelse, cst.If):
        test = node.orelse.test
        if not is_total(file, test):
            raise CannotSelect(f"{shown(file, test)} is evaluated only where the conditions in front of it are false")
        yield from _cases(file, node.orelse)
    elif node.orelse is not None:
        case = _case(file, None, node.orelse.body, node)
        if case.rebinds or case.numbers:
            yield case


def _case(file: FileFacts, test: cst.BaseExpression | None, body: cst.BaseSuite, around: cst.If) -> _Case:
    rebinds: list[_Rebind] = []
    numbers: list[cst.Assign] = []
    for statement in _small_statements(file, body):
        line = file.line(statement)
        if isinstance(statement, cst.Pass):
            continue
        if not isinstance(statement, (cst.Assign, cst.AugAssign)):
            raise CannotSelect(_why_not(file, statement))
        targets = [t.target for t in statement.targets] if isinstance(statement, cst.Assign) else [statement.target]
        target = targets[0]
        if len(targets) > 1 or isinstance(target, (cst.Tuple, cst.List)):
            raise CannotSelect(f"the branch binds several names at once on line {line}")
        if not isinstance(target, cst.Name):
            raise CannotSelect(f"the branch writes to {shown(file, target)} on line {line}, which others may see")
        if isinstance(statement, cst.Assign) and _is_inner_number(file, target, statement, around):
            numbers.append(statement)
            continue
        if any(isinstance(part, (cst.Yield, cst.Await, cst.NamedExpr)) for part in walk_scope(statement)):
            raise CannotSelect(f"the branch does more than to compute on line {line}")
        if not _is_local(file, target):
            raise CannotSelect(f"`{target.value}`, bound on line {line}, is read by other functions")
        rebinds.append(_Rebind(target.value, statement))
    return _Case(test, tuple(rebinds), tuple(numbers))


def _small_statements(file: FileFacts, body: cst.BaseSuite) -> Iterator[cst.BaseSmallStatement]:
    for item in body.body:
        if isinstance(item, cst.SimpleStatementLine):
            yield from item.body
        elif isinstance(item, cst.BaseSmallStatement):
            yield item
        else:
            raise CannotSelect(_why_not(file, item))


def _why_not(file: FileFacts, statement: cst.CSTNode) -> str:
    """Why a statement needs the answer on the host."""
    line = file.line(statement)
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


def _is_inner_number(file: FileFacts, target: cst.Name, statement: cst.Assign, around: cst.If) -> bool:
    """Whether a name is a Python number that nothing outside of the branch reads."""
    definition = _definition(file, target)
    if definition is None or not Choices(file, around).is_number(statement.value):
        return False
    return all(file.tree.is_within(use, around) for use in file.flow.uses(definition))


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
    raise CannotSelect(
        f"what `{rebind.name}` was before is not read in the branch, so it is not shown to be a tensor with "
        "the same gradient"
    )


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
    written = [use for rebind in rebinds for use in _writes(file, rebind)]
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


def _writes(file: FileFacts, rebind: _Rebind) -> Iterator[Read]:
    for definition in _bound(file, rebind):
        yield from file.aliasing.mutations(definition)


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


class _Writer:
    """The edits that put `torch.where` in the place of a branch whose rebinds were proven."""

    def __init__(
        self,
        file: FileFacts,
        node: cst.If,
        cases: Sequence[_Case],
        names: Sequence[str],
        has_else: bool,
        unused: UnusedNames,
    ) -> None:
        self._file = file
        self._source = file.source
        self._node = node
        self._cases = cases
        self._names = names
        self._has_else = has_else
        self._unused = unused
        self._torch, self._imports = file.names.spelled("torch", node)
        self._tests: dict[cst.BaseExpression, str] = {}

    def edits(self) -> tuple[tuple[Edit, ...], tuple[str, ...]]:
        host = self._host_part()
        before = self._conditions(skip=host)
        if len(self._cases) > 1 or self._node.orelse is not None:
            return (self._whole(before),), self._imports
        edits = list(self._values_in_place())
        if host is None:
            edits += without_header(self._file, self._node, before)
        else:
            edits.append(replace(self._source, self._node.test, self._source.code(host)))
        return tuple(edits), self._imports

    def _host_part(self) -> cst.BaseExpression | None:
        """The left side of `host and device`, which stays an `if`: it decides on the host whether to ask at
        all.
        """
        test = self._node.test
        if len(self._cases) > 1 or self._node.orelse is not None or not isinstance(test, cst.BooleanOperation):
            return None
        stays = isinstance(test.operator, cst.And) and not tests_device(self._file, test.left)
        return test.left if stays else None

    def _conditions(self, skip: cst.BaseExpression | None) -> list[str]:
        """Settles the code of every test; one that several names need gets a variable of its own, made by
        these lines.
        """
        lines: list[str] = []
        for case in self._cases:
            if case.test is None:
                continue
            test = case.test
            asked = test.right if skip is not None and isinstance(test, cst.BooleanOperation) else test
            code = condition(self._file, asked)
            if len(self._names) > 1 and (
                names_read(asked).intersection(self._names) or not isinstance(asked, cst.Name)
            ):
                if skip is not None:
                    raise CannotSelect("the condition is read again after the branch has bound a name")
                name = self._unused.take("condition")
                lines.append(f"{name} = ({code})" if "\n" in code else f"{name} = {code}")
                code = name
            self._tests[test] = code
        return lines

    def _chosen(self, index: int) -> str:
        """The nested `where` of the name at `index`."""
        last = self._cases[-1].rebinds[index] if self._has_else else None
        text = self._arm(last) if last is not None else self._names[index]
        for case in reversed(self._cases):
            if case.test is not None:
                text = f"{self._torch}.where({self._tests[case.test]}, {self._arm(case.rebinds[index])}, {text})"
        return text

    def _arm(self, rebind: _Rebind) -> str:
        code = self._source.code(rebind.value)
        if isinstance(rebind.statement, cst.AugAssign):
            return f"{rebind.name} {_OPERATORS[type(rebind.statement.operator)]} {tight(rebind.value, code)}"
        return code

    def _values_in_place(self) -> Iterator[Edit]:
        for index, rebind in enumerate(self._cases[0].rebinds):
            text = self._chosen(index)
            if isinstance(rebind.statement, cst.AugAssign):
                yield replace(self._source, rebind.statement, f"{rebind.name} = {text}")
            else:
                yield replace(self._source, rebind.value, text)

    def _whole(self, before: Sequence[str]) -> Edit:
        start, end = self._source.span(self._node)
        indentation = self._source.indentation(start)
        kept = [text for offset, text in comments(self._source, self._node) if offset < end]
        numbers = [self._source.code(number) for case in self._cases for number in case.numbers]
        bound = [f"{name} = {self._chosen(index)}" for index, name in enumerate(self._names)]
        return Edit(start, end, f"{self._source.newline}{indentation}".join([*kept, *before, *numbers, *bound]))


def without_header(file: FileFacts, node: cst.If, lines: Sequence[str]) -> tuple[Edit, ...]:
    """The body of an `if` in its place, with `lines` of code in front of it. Comments of the header stay."""
    source = file.source
    opening, *others = dedent_block(source, node)
    indentation = source.indentation(source.span(node)[0])
    if isinstance(node.body, cst.IndentedBlock):
        text = opening.replacement + "".join(f"{indentation}{line}{source.newline}" for line in lines)
    else:
        text = "".join(f"{line}{source.newline}{indentation}" for line in lines)
    return (Edit(opening.start, opening.end, text), *others)
