"""Where the distinct values of a tensor are made, and whether the tensor is still the same where they are counted."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all, walk
from perfmod.transforms.syncs._conditions import shown
from perfmod.transforms.syncs._counting import Distinct, NeedsNumber


def early_statement(file: FileFacts, distinct: Distinct) -> cst.BaseStatement | cst.BaseSmallStatement:
    """The statement that evaluates the values, which may as well be made in front of it.

    Raises:
        NeedsNumber: there is no such place, or something that runs before might write into the tensor.
    """
    call, tree, source = distinct.call, file.tree, file.source
    statement = tree.statement(call)
    line = source.line(call)
    around = []
    for ancestor in tree.ancestors(call):
        if ancestor is statement:
            break
        around.append(ancestor)
    if any(isinstance(ancestor, (cst.Lambda, cst.BaseComp)) for ancestor in around):
        raise NeedsNumber(f"it is evaluated inside another expression on line {line}, and needs a statement of its own")
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
            and not _is_harmless(file, other)
        ):
            raise NeedsNumber(f"{shown(file, other)} on line {line} comes first and may write into the tensor")
    sometimes = any(isinstance(ancestor, (cst.BooleanOperation, cst.IfExp)) for ancestor in around)
    if sometimes and not all(_is_harmless(file, part) for part in find_all(distinct.tensor, cst.Call)):
        raise NeedsNumber(f"{shown(file, call)} is evaluated only sometimes on line {line}")
    return statement


def may_be_written_before(file: FileFacts, distinct: Distinct, count: cst.BaseExpression) -> bool:
    """Whether the tensor may be written in place after its values were taken and before `count`."""
    tree, source = file.tree, file.source
    taken = tree.statement(distinct.call)
    if tree.loops(count) != tree.loops(taken):
        return True
    first, last = source.span(taken)[1], source.span(count)[0]
    around: cst.CSTNode = tree.function(taken) or file.tree.module
    for node in walk(around):
        if isinstance(node, (cst.Call, cst.AugAssign, cst.AssignTarget, cst.Del, cst.NamedExpr)):
            if not first <= source.span(node)[0] < last or tree.is_within(count, node):
                continue
            if isinstance(node, cst.AssignTarget) and isinstance(node.target, cst.Name):
                continue
            if not (isinstance(node, cst.Call) and _is_harmless(file, node)):
                return True
    return False


def _is_harmless(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether a call writes into no tensor and has no other effect that the tensor could show."""
    if not isinstance(node, cst.Call):
        return False
    if any(arg.keyword is not None and arg.keyword.value in ("out", "inplace") for arg in node.args):
        return False
    name = file.qualified(node)
    if name is not None:
        return name.startswith(("torch.", "builtins.")) and not name.endswith("_")
    return (
        isinstance(node.func, cst.Attribute)
        and file.value(node.func.value).is_tensor
        and not node.func.attr.value.endswith("_")
    )
