"""Taking a call out of the code with the `if` or `with` that is there for it only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import walk
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.writing import Statement

_LOOKS = frozenset(
    {"torch.cuda.is_available", "torch.cuda.device_count", "torch.cuda.is_initialized", "torch.device", "builtins.str",
     "builtins.isinstance", "builtins.hasattr", "torch.cuda.current_device", "torch.accelerator.is_available",
     "torch.backends.mps.is_available", "torch.distributed.is_initialized", "torch.distributed.is_available",
     "torch.distributed.get_rank", "torch.distributed.get_world_size", "builtins.len", "builtins.getattr"}
)  # fmt: skip
# Words of conditions that ask what there is to wait for, and are no option of the training.
_OF_DEVICE = ("cuda", "gpu", "device", "available", "mps", "distributed", "rank", "world")
_TEXT_METHODS = frozenset({"startswith", "lower", "get"})
_HOLDS = frozenset({"torch.cuda.device", "torch.no_grad", "torch.inference_mode", "torch.enable_grad", "torch.device"})
_PLAIN = (
    cst.Name, cst.Attribute, cst.Subscript, cst.SubscriptElement, cst.Index, cst.BaseNumber, cst.BaseString,
    cst.Comparison, cst.ComparisonTarget, cst.BooleanOperation, cst.UnaryOperation, cst.BaseCompOp, cst.BaseBooleanOp,
    cst.BaseUnaryOp, cst.Arg, cst.Tuple, cst.List, cst.Set, cst.Element, cst.BinaryOperation, cst.BaseBinaryOp,
)  # fmt: skip


def is_plain(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether an expression only looks at settings: nothing happens when it is not evaluated any more."""
    for part in walk(node):
        if isinstance(part, cst.Call):
            is_text = isinstance(part.func, cst.Attribute) and part.func.attr.value in _TEXT_METHODS
            if file.qualified(part) not in _LOOKS and not is_text:
                return False
        elif not isinstance(part, _PLAIN):
            return False
    return file.value(node).kind is not Kind.TENSOR


def statement_of(file: FileFacts, call: cst.Call) -> Statement | None:
    """The statement that is nothing but the call, perhaps under a condition; `None` where its result is used."""
    node: cst.CSTNode = call
    parent = file.tree.parent(node)
    if isinstance(parent, cst.IfExp) and parent.test is not node and is_plain(file, parent.test):
        other = parent.orelse if parent.body is node else parent.body
        if is_plain(file, other):
            node, parent = parent, file.tree.parent(parent)
    elif isinstance(parent, cst.BooleanOperation) and parent.right is node and is_plain(file, parent.left):
        node, parent = parent, file.tree.parent(parent)
    return parent if isinstance(parent, cst.Expr) else None


def by_block(file: FileFacts, statements: Iterable[Statement]) -> list[list[Statement]]:
    """The statements in groups that stand in one block; an `if` or `with` that would be empty goes instead of its body.

    All of a group have to be removed at once, because a block must not lose its last statement unseen.
    """
    groups: dict[cst.CSTNode, list[Statement]] = {}
    for statement in statements:
        groups.setdefault(_suite(file, statement), []).append(statement)
    while True:
        emptied = next((suite for suite, found in groups.items() if _is_header_empty(file, suite, found)), None)
        if emptied is None:
            return list(groups.values())
        del groups[emptied]
        header = file.tree.parent(emptied)
        assert isinstance(header, (cst.If, cst.With))
        groups.setdefault(_suite(file, header), []).append(header)


def empties_block(file: FileFacts, group: Sequence[Statement]) -> bool:
    """Whether nothing is left in the block of a group without it."""
    suite = _suite(file, group[0])
    return isinstance(suite, (cst.IndentedBlock, cst.SimpleStatementSuite)) and _is_gone(suite, group)


def adjacent(file: FileFacts, group: Sequence[Statement], kinds: Mapping[Statement, bool]) -> Iterator[list[Statement]]:
    """The statements of a group in runs that follow each other directly and are of one kind."""
    run: list[Statement] = []
    for statement in sorted(group, key=lambda node: file.source.span(node)):
        if run and not (_follows(file, statement, run[-1]) and kinds[statement] == kinds[run[-1]]):
            yield run
            run = []
        run.append(statement)
    yield run


def _follows(file: FileFacts, statement: Statement, earlier: Statement) -> bool:
    between = file.source.text[file.source.span(earlier)[1] : file.source.span(statement)[0]]
    return not between.strip(" \t\r\n;")


def _suite(file: FileFacts, statement: Statement) -> cst.CSTNode:
    parent = file.tree.parent(statement)
    if isinstance(parent, cst.SimpleStatementLine):
        parent = file.tree.parent(parent)
    return parent if parent is not None else file.tree.module


def _is_header_empty(file: FileFacts, suite: cst.CSTNode, found: Sequence[cst.CSTNode]) -> bool:
    if not isinstance(suite, (cst.IndentedBlock, cst.SimpleStatementSuite)):
        return False
    return _is_gone(suite, found) and _may_go(file, file.tree.parent(suite))


def _is_gone(suite: cst.IndentedBlock | cst.SimpleStatementSuite, found: Sequence[cst.CSTNode]) -> bool:
    """Whether all statements of a block are among those found."""
    for item in suite.body:
        smalls = item.body if isinstance(item, cst.SimpleStatementLine) else [item]
        if not all(any(small is gone for gone in found) for small in smalls):
            return False
    return True


def _may_go(file: FileFacts, header: cst.CSTNode | None) -> bool:
    if isinstance(header, cst.If):
        above = file.tree.parent(header)
        is_elif = isinstance(above, cst.If) and above.orelse is header
        test = file.code(header.test).lower()
        is_of_device = any(word in test for word in _OF_DEVICE)
        return header.orelse is None and not is_elif and is_of_device and is_plain(file, header.test)
    if isinstance(header, cst.With):
        return header.asynchronous is None and all(
            item.asname is None
            and file.qualified(item.item) in _HOLDS
            and (not isinstance(item.item, cst.Call) or all(is_plain(file, arg.value) for arg in item.item.args))
            for item in header.items
        )
    return False
