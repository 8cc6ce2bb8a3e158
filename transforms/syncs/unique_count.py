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
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.rule import Edit, Family, Finding, Numerics, Rule, Safety, Status
from perfmod.transforms.syncs._counting import Counting, Distinct, NeedsNumber, distinct_values
from perfmod.transforms.syncs._placing import early_statement, may_be_written_before
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
    triggers: ClassVar[frozenset[str]] = frozenset({"unique", "unique_consecutive", "tolist"})
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
        statement = None if variable is not None else early_statement(self._file, self._distinct)
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
            if not sort and any(
                may_be_written_before(self._file, self._distinct, count) for count in self._counting.counts
            ):
                text += ".clone()"
            yield replace(source, variable.node, name)
            yield replace(source, self._distinct.call, text)
        elif statement is not None:
            yield insert_before_statement(source, statement, f"{name} = {text}", below_comments=True)

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


def _is_flattened(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in _FLAT_METHODS and not call.args


def _postfix(code: str, node: cst.BaseExpression) -> str:
    """`code`, which stands for `node`, so that `.method()` can follow it."""
    return code if isinstance(node, (cst.Name, cst.Attribute, cst.Subscript, cst.Call)) else f"({code})"
