"""`torch.unique` makes the host wait: how many values there are decides how large its result is, so the
device must finish before anything else is queued. Counting the values is no reason to wait.

Most code only asks whether there are fewer than two. That is so exactly when every element equals its
neighbour, without a sort: `(flat[1:] == flat[:-1]).all()`, a tensor that stays on the device. Any other
number comes from the sorted elements: one more than there are unequal neighbours. Both count as
`torch.unique` does: every NaN is a value of its own, -0.0 is 0.0, and an empty tensor has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition
from perfmod.transforms.facts.tree import find_all, walk
from perfmod.transforms.rule import Edit, Family, Finding, Numerics, Rule, Safety, Status
from perfmod.transforms.syncs._conditions import shown
from perfmod.transforms.syncs._counting import Counting, Distinct, NeedsNumber, distinct_values
from perfmod.transforms.syncs._unused import UnusedNames
from perfmod.transforms.writing import insert_before_statement, replace

_COUNT = "({0}[1:] != {0}[:-1]).count_nonzero() + min({0}.numel(), 1)"
_FLAT_METHODS = frozenset({"flatten", "ravel"})


class UniqueCount(Rule):
    """Distinct values that are only counted."""

    code: ClassVar[str] = "PM103"
    name: ClassVar[str] = "unique-count"
    family: ClassVar[Family] = Family.SYNCS
    summary: ClassVar[str] = (
        "the distinct values of a tensor are gathered only to be counted, and the host waits for them"
    )
    fix_title: ClassVar[str] = "Count on the device by comparing neighbours"
    numerics: ClassVar[Numerics] = Numerics.BITWISE
    safety: ClassVar[Safety] = Safety.SAFE
    min_torch: ClassVar[str] = "1.8"
    status: ClassVar[Status] = Status.PREVIEW
    triggers: ClassVar[frozenset[str]] = frozenset({"unique", "tolist"})
    references: ClassVar[tuple[str, ...]] = (
        "https://docs.pytorch.org/docs/stable/generated/torch.unique.html",
        "https://docs.pytorch.org/docs/stable/generated/torch.cuda.set_sync_debug_mode.html",
    )
    changes_results: ClassVar[str] = (
        "Never: the comparison has the same truth for every tensor, empty ones and those with NaN included. "
        "It becomes a boolean tensor of the device, so code that needs a Python number or prints it is left "
        "as it is. A test such as `if few:` still waits for the one boolean until PM105 makes a "
        "`torch.where` of it."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        """Every `unique` or `set` of a tensor that a step runs and that something counts."""
        names = UnusedNames(file)
        for call in find_all(file.tree.module, cst.Call):
            distinct = distinct_values(file, call)
            if distinct is None or not file.steps.runs_every_step(call):
                continue
            try:
                edits = _edits(file, distinct, names)
            except NeedsNumber as reason:
                yield self.refused(file, call, str(reason))
            else:
                if edits:
                    yield self.found(
                        file, call, "only the number of values is asked for, and the device can answer", edits
                    )


def _edits(file: FileFacts, distinct: Distinct, names: UnusedNames) -> list[Edit]:
    """What to write where the values are counted; nothing where nobody counts them. Raises `NeedsNumber`."""
    counting = Counting.of(file, distinct)
    return list(_Writer(file, distinct, counting, names).edits()) if counting.counts else []


class _Writer:
    """The edits that count on the device."""

    def __init__(self, file: FileFacts, distinct: Distinct, counting: Counting, names: UnusedNames) -> None:
        self._file = file
        self._distinct = distinct
        self._counting = counting
        self._names = names

    def edits(self) -> Iterator[Edit]:
        """The flattened or sorted tensor in a variable, and what is asked of it. Raises `NeedsNumber`."""
        variable = self._counting.variable
        statement = None if variable is not None else self._early_statement()
        name = self._names.take("ordered" if self._counting.counted else "flat")
        yield from self._make(variable, statement, name)
        yield from self._ask(name)

    def _make(
        self,
        variable: Definition | None,
        statement: cst.BaseStatement | cst.BaseSmallStatement | None,
        name: str,
    ) -> Iterator[Edit]:
        """The flattened, or sorted, tensor under `name`: instead of the values, or before `statement`."""
        source = self._file.source
        tensor = self._distinct.tensor
        sort = bool(self._counting.counted)
        text = _postfix(source.code(tensor), tensor)
        if not (isinstance(tensor, cst.Call) and _is_flattened(tensor)):
            text += ".flatten()"
        if sort:
            text += ".sort().values"
        if variable is not None:
            if not sort and any(self._may_be_written_before(count) for count in self._counting.counts):
                text += ".clone()"
            yield replace(source, variable.node, name)
            yield replace(source, self._distinct.call, text)
        elif statement is not None:
            yield insert_before_statement(source, statement, f"{name} = {text}")

    def _ask(self, name: str) -> Iterator[Edit]:
        source = self._file.source
        merged = list(self._counting.joined())
        for comparison, question in self._counting.asked.items():
            text = question.format(name)
            joined = self._file.tree.parent(comparison) in merged
            yield replace(source, comparison, f"({text})" if joined else text)
        for count in self._counting.counted:
            yield replace(source, count, _COUNT.format(name))
        for operation in merged:
            yield replace(source, operation.operator, "&" if isinstance(operation.operator, cst.And) else "|")
            for side in (operation.left, operation.right):
                if side in self._counting.compared and not side.lpar:
                    start, end = source.span(side)
                    yield Edit(start, start, "(")
                    yield Edit(end, end, ")")

    def _early_statement(self) -> cst.BaseStatement | cst.BaseSmallStatement:
        """The statement that evaluates the values, when they may as well be made in front of it."""
        call, tree, source = self._distinct.call, self._file.tree, self._file.source
        statement = tree.statement(call)
        line = source.line(call)
        around = []
        for ancestor in tree.ancestors(call):
            if ancestor is statement:
                break
            around.append(ancestor)
        if any(isinstance(ancestor, (cst.Lambda, cst.BaseComp)) for ancestor in around):
            raise NeedsNumber(
                f"it is evaluated inside another expression on line {line}, and needs a statement of its own"
            )
        if isinstance(statement, cst.If):
            above = tree.parent(statement)
            if isinstance(above, cst.If) and above.orelse is statement:
                raise NeedsNumber(f"the `elif` on line {line} has no place in front of it for another statement")
        elif not isinstance(statement, (cst.Assign, cst.AugAssign, cst.Return, cst.Expr)):
            raise NeedsNumber(f"it is evaluated by a statement on line {line} that has no place in front of it")
        start, _ = source.span(call)
        for other in walk(statement):
            if other in around or tree.is_within(other, call) or isinstance(other, cst.BaseSuite):
                continue
            if (
                isinstance(other, (cst.Call, cst.NamedExpr))
                and source.span(other)[0] < start
                and not self._is_harmless(other)
            ):
                raise NeedsNumber(
                    f"{shown(self._file, other)} on line {line} comes first and may write into the tensor"
                )
        sometimes = any(isinstance(ancestor, (cst.BooleanOperation, cst.IfExp)) for ancestor in around)
        if sometimes and not all(self._is_harmless(part) for part in find_all(self._distinct.tensor, cst.Call)):
            raise NeedsNumber(f"{shown(self._file, call)} is evaluated only sometimes on line {line}")
        return statement

    def _may_be_written_before(self, count: cst.BaseExpression) -> bool:
        """Whether the tensor may be written in place after its values were taken and before `count`."""
        tree, source = self._file.tree, self._file.source
        taken = tree.statement(self._distinct.call)
        if tree.loops(count) != tree.loops(taken):
            return True
        first, last = source.span(taken)[1], source.span(count)[0]
        around: cst.CSTNode = tree.function(taken) or self._file.tree.module
        for node in walk(around):
            if isinstance(node, (cst.Call, cst.AugAssign, cst.AssignTarget, cst.Del, cst.NamedExpr)):
                if not first <= source.span(node)[0] < last or tree.is_within(count, node):
                    continue
                if isinstance(node, cst.AssignTarget) and isinstance(node.target, cst.Name):
                    continue
                if not (isinstance(node, cst.Call) and self._is_harmless(node)):
                    return True
        return False

    def _is_harmless(self, node: cst.CSTNode) -> bool:
        """Whether a call writes into no tensor and has no other effect that the tensor could show."""
        if not isinstance(node, cst.Call):
            return False
        if any(arg.keyword is not None and arg.keyword.value in ("out", "inplace") for arg in node.args):
            return False
        name = self._file.qualified(node)
        if name is not None:
            return name.startswith(("torch.", "builtins.")) and not name.endswith("_")
        return (
            isinstance(node.func, cst.Attribute)
            and self._file.value(node.func.value).is_tensor
            and not node.func.attr.value.endswith("_")
        )


def _is_flattened(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in _FLAT_METHODS and not call.args


def _postfix(code: str, node: cst.BaseExpression) -> str:
    """`code`, which stands for `node`, so that `.method()` can follow it."""
    return code if isinstance(node, (cst.Name, cst.Attribute, cst.Subscript, cst.Call)) else f"({code})"
