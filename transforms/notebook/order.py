"""Whether a rewrite still holds when cells are run twice, or in another order than from top to bottom.

Facts are those of a run from top to bottom. In a notebook somebody may run the cell of a loop again without the cell
that emptied the list which the loop fills. What rewritten code then finds in its variables has to be something that
it can go on with.
"""

from __future__ import annotations

import ast
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from attrs import frozen

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_BRANCHES = (ast.If, ast.Match)


def doubt(before: Mapping[int, str], after: Mapping[int, str], changed: Sequence[int]) -> str:
    """Why a rewrite may be wrong unless all cells run once and in their order; empty where it holds in any case.

    Args:
        before: the Python of the cells by number, in their order.
        after: that of the `changed` cells.
        changed: the numbers of these.
    """
    old = {number: _Cell.of(code) for number, code in before.items()}
    new = {number: _Cell.of(after[number]) for number in changed}
    known = {name for cell in old.values() for name in cell.mentions}
    for number in changed:
        added = new[number].simple - old[number].simple
        removed = old[number].simple - new[number].simple
        stored = Counter(name for text in added.elements() for name in _stored(text))
        stored -= Counter(name for text in removed.elements() for name in _stored(text))
        settled = {name for name in stored if any(f"{name} = {kind}({name})" in added for kind in ("float", "int"))}
        for name in set(stored) - settled:
            if name in known and not old[number].resets(name):
                return (
                    f"cell {number} may be run again without the cell that sets {name}, and leaves another value in it"
                )
            if name not in known and not all(new[other].resets(name) for other in changed if other != number):
                return (
                    f"{name} would be set in cell {number} and read in another cell, which may be run again without it"
                )
        for name in {name for text in added for name in _added_to(text)} - set(stored):
            for other in [one for one in old if one <= number]:
                kept = new.get(other, old[other]).simple & old[other].simple
                if name in old[other].read_in(kept) and not old[other].resets(name):
                    return (
                        f"cell {other} reads {name} and may be run again after cell {number}, when {name} is a tensor"
                    )
    return ""


@frozen
class _Cell:
    """The module-level code of a cell.

    Attributes:
        statements: its simple statements in their order, each with whether a condition leads to it.
        mentions: the names in them and in the headers of others.
    """

    statements: tuple[tuple[ast.stmt, bool], ...]
    mentions: frozenset[str]

    @classmethod
    @lru_cache(maxsize=1000)
    def of(cls, code: str) -> _Cell:
        """The cell of that code."""
        statements = tuple(_simple(_parsed(code), conditional=False))
        return cls(statements, frozenset(name for statement, _ in statements for name in _names(statement)))

    @property
    def simple(self) -> Counter[str]:
        """Its statements as they are spelled without comments and white space, each with how often it is there."""
        return Counter(ast.unparse(ast.fix_missing_locations(statement)) for statement, _ in self.statements)

    def resets(self, name: str) -> bool:
        """Whether it begins with a value of its own for a variable that it has."""
        for statement, conditional in self.statements:
            if name in _names(statement):
                value = getattr(statement, "value", None)
                sets = isinstance(statement, (ast.Assign, ast.AnnAssign)) and name in _stored_by(statement)
                return sets and not conditional and value is not None and name not in _names(value)
        return True

    def read_in(self, texts: Iterable[str]) -> set[str]:
        """The names that some of its statements read."""
        wanted = set(texts)
        return {
            node.id
            for statement, _ in self.statements
            if ast.unparse(ast.fix_missing_locations(statement)) in wanted
            for node in ast.walk(statement)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        }


def _parsed(code: str) -> list[ast.stmt]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(code).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return []  # newer than the Python that runs perfmod


def _simple(body: Iterable[ast.stmt], *, conditional: bool) -> Iterator[tuple[ast.stmt, bool]]:
    """The simple statements of a suite and of the blocks in it, without functions and classes; headers as such, too."""
    for statement in body:
        if isinstance(statement, _SCOPES):
            continue
        yield from ((header, conditional) for header in _header(statement))
        blocks: list[list[ast.stmt]] = [
            block for name in ("body", "orelse", "finalbody") if (block := getattr(statement, name, None))
        ]
        blocks += [handler.body for handler in getattr(statement, "handlers", ())]
        blocks += [case.body for case in getattr(statement, "cases", ())]
        if not blocks:
            yield statement, conditional
        for block in blocks:
            yield from _simple(block, conditional=conditional or isinstance(statement, _BRANCHES))


def _header(statement: ast.stmt) -> Iterator[ast.stmt]:
    """The assignments and expressions that the header of a compound statement amounts to."""
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        yield ast.Assign(targets=[statement.target], value=statement.iter)
    elif isinstance(statement, (ast.With, ast.AsyncWith)):
        for item in statement.items:
            targets = [item.optional_vars] if item.optional_vars is not None else []
            yield ast.Assign(targets=targets, value=item.context_expr)
    elif isinstance(statement, (ast.If, ast.While)):
        yield ast.Expr(statement.test)
    elif isinstance(statement, ast.Match):
        yield ast.Expr(statement.subject)


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _stored(text: str) -> set[str]:
    return {name for statement in _parsed(text) for name in _stored_by(statement)}


def _added_to(text: str) -> set[str]:
    """The variables that statements add something to, which may be a tensor after a rewrite."""
    return {
        name
        for statement in _parsed(text)
        if isinstance(getattr(statement, "value", None), ast.BinOp) or isinstance(statement, ast.AugAssign)
        for name in _stored_by(statement)
        if isinstance(statement, ast.AugAssign) or name in _names(statement.value)  # type: ignore[attr-defined]
    }


def _stored_by(statement: ast.stmt) -> set[str]:
    """The variables that a statement sets, also where it sets an item or an attribute of them."""
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, (ast.AugAssign, ast.AnnAssign)):
        targets = [statement.target]
    return {_base(node) for target in targets for node in _parts(target)} - {""}


def _parts(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            yield from _parts(element)
    else:
        yield target.value if isinstance(target, ast.Starred) else target


def _base(node: ast.expr) -> str:
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
