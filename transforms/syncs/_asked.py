"""Whether Python waits for a mask anyway: an `if` that asks for it stands around its use, or directly in front."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.masks import same_mask
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.finding import Safety
from perfmod.transforms.syncs._branches import chosen_by, rebinds_as_where
from perfmod.transforms.syncs._conditions import CannotSelect, tests_device
from perfmod.transforms.syncs._guards import without_guard

_QUESTIONS = frozenset({"any", "all", "sum", "count_nonzero"})


def why_asked(file: FileFacts, uses: Iterable[tuple[cst.CSTNode, cst.BaseExpression]]) -> str | None:
    """Why it saves nothing not to wait for masks where they are used: an `if` that stays has just waited for one."""
    for node, mask in uses:
        for test in _tests(file, node):
            is_asked = any(same_mask(file, each, mask) for each in questions(file, test.test))
            if is_asked and tests_device(file, test.test) and _stays(file, test):
                return f"the `if` on line {file.line(test)} waits for `{file.code(mask)}` anyway, so nothing is gained"
    return None


def questions(file: FileFacts, test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The masks that a test asks for: of `m.any()`, `not torch.any(m)` and `m.sum() > 0` it is `m`."""
    for call in find_all(test, cst.Call):
        name = file.qualified(call)
        if name is None and isinstance(call.func, cst.Attribute) and call.func.attr.value in _QUESTIONS:
            yield call.func.value
        elif name is not None and name.startswith("torch.") and name[6:] in _QUESTIONS and call.args:
            yield call.args[0].value


def _tests(file: FileFacts, node: cst.CSTNode) -> Iterator[cst.If | cst.IfExp]:
    """What is tested around a node of a function, and directly in front of it or of what stands around it."""
    child = node
    for ancestor in file.tree.ancestors(node):
        if isinstance(ancestor, (cst.FunctionDef, cst.Lambda)):
            break
        if isinstance(ancestor, (cst.If, cst.IfExp)) and child is not ancestor.test:
            yield ancestor
        elif isinstance(ancestor, cst.IndentedBlock):
            yield from _in_front(ancestor, child)
        child = ancestor


def _in_front(block: cst.IndentedBlock, statement: cst.CSTNode) -> Iterator[cst.If]:
    """The `if` in front of a statement, or of the lines without calls in front of that."""
    for before in reversed(block.body[: next(at for at, each in enumerate(block.body) if each is statement)]):
        if isinstance(before, cst.If):
            yield before
        if not isinstance(before, cst.SimpleStatementLine) or next(iter(find_all(before, cst.Call)), None) is not None:
            return


def _stays(file: FileFacts, test: cst.If | cst.IfExp) -> bool:
    """Whether no rewrite of the branch itself takes the wait away."""
    try:
        if isinstance(test, cst.IfExp):
            found = chosen_by(file, test)
        else:
            found = without_guard(file, test) or rebinds_as_where(file, test)
    except CannotSelect:
        return True
    return found.safety is not Safety.SAFE
