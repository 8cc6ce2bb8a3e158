"""What a module does when it is run or imported: its top-level statements, its `__main__` guard, and what
they lead to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeGuard

import libcst as cst

from perfmod.transforms.facts.classes import Classes
from perfmod.transforms.facts.flow import Binding, Definition, Flow, Read
from perfmod.transforms.facts.tree import FileTree, walk
from perfmod.transforms.facts.values import Values

Top = cst.SimpleStatementLine | cst.BaseCompoundStatement


class Entry:
    """The top levels of the files, as one of them sees them.

    Attributes:
        statements: the top-level statements of that file.
    """

    def __init__(self, tree: FileTree, flow: Flow, classes: Classes, values: Values) -> None:
        self._tree = tree
        self._flow = flow
        self._classes = classes
        self._values = values
        self.statements = self.statements_of(tree.module)
        self._tops = {statement for module in tree.modules for statement in self.statements_of(module)}

    def statements_of(self, module: cst.Module) -> tuple[Top, ...]:
        """The top-level statements of a file."""
        return tuple(s for s in module.body if isinstance(s, (cst.SimpleStatementLine, cst.BaseCompoundStatement)))

    def statement(self, node: cst.CSTNode) -> Top:
        """The top-level statement that holds `node`."""
        for current in (node, *self._tree.ancestors(node)):
            if isinstance(current, (cst.SimpleStatementLine, cst.BaseCompoundStatement)) and current in self._tops:
                return current
        raise ValueError(f"{type(node).__name__} stands in no top-level statement")

    def is_guarded(self, node: cst.CSTNode) -> bool:
        """Whether `node` stands in the body of a top-level `if __name__ == "__main__":`."""
        statement = self.statement(node)
        return is_guard(statement) and self._tree.is_within(node, statement.body)

    def runs_on_import(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Unguarded code of a top level that leads to `node`: itself, or a use of the function around it."""
        return next(self.runs_unguarded(node), None)

    def runs_unguarded(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """All unguarded code of the top levels of files that leads to `node`."""
        return (place for place in self.runs(node) if not self.is_guarded(place))

    def runs(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """All code of the top levels of files that leads to `node`."""
        seen: set[cst.CSTNode] = set()
        stack = [node]
        while stack:
            current = stack.pop()
            function = self._tree.function(current)
            if function is None:
                yield current
            elif function not in seen:
                seen.add(function)
                stack.extend(self._sites(function))

    def _sites(self, function: cst.FunctionDef) -> Iterator[cst.CSTNode]:
        """Where a function may be run from: calls of it, and places that hand it on."""
        yield from self._values.calls.callers(function)
        scope = self._tree.scope(function)
        for definition in self._flow.bound(scope, function.name.value):
            if definition.node is function:
                yield from self._flow.uses(definition)
        cls = self._classes.of(scope)
        if cls is not None:
            yield from self._values.calls.constructions(cls)
        elif isinstance(scope, cst.FunctionDef):
            yield scope.body

    def needed(self, code: Iterable[cst.CSTNode]) -> dict[Definition, Read]:
        """The definitions of modules and of functions around it that `code` reads, with those that they read in turn,
        and one use of each.
        """
        found: dict[Definition, Read] = {}
        stack = list(code)
        while stack:
            part = stack.pop()
            for node in walk(part):
                for definition in self._from_outside(node, part):
                    if definition not in found and isinstance(node, (cst.Name, cst.Attribute)):
                        found[definition] = node
                        if definition.binding is Binding.DEFINED:
                            stack.append(definition.node)
        return found

    def _from_outside(self, node: cst.CSTNode, part: cst.CSTNode) -> Iterator[Definition]:
        """What a read in some code may see of what stands around that, with the imports through which it sees it."""
        if isinstance(node, cst.Name) and not self._flow.is_read(node):
            return
        if self._flow.is_variable(node):
            seen = self._flow.seen(node) if isinstance(node, cst.Name) else ()
            for definition in dict.fromkeys((*seen, *self._flow.definitions(node))):
                is_around = definition.scope is not part and self._tree.is_within(part, definition.scope)
                if isinstance(definition.scope, cst.Module) or is_around:
                    yield definition

    def importers(self, module: cst.Module) -> list[cst.CSTNode]:
        """The imports by which other files in sight run the top level of `module`."""
        return [
            node for node in self._tree.all_of(cst.ImportAlias, cst.ImportStar) if module in self._flow.imported(node)
        ]


def is_guard(statement: Top) -> TypeGuard[cst.If]:
    """Whether a statement is `if __name__ == "__main__":`."""
    return isinstance(statement, cst.If) and is_main_test(statement.test)


def is_main_test(test: cst.BaseExpression) -> bool:
    """Whether an expression is `__name__ == "__main__"`, either way round."""
    if not (isinstance(test, cst.Comparison) and len(test.comparisons) == 1):
        return False
    target = test.comparisons[0]
    sides = (test.left, target.comparator)
    names = [side.value for side in sides if isinstance(side, cst.Name)]
    texts = [side.evaluated_value for side in sides if isinstance(side, cst.SimpleString)]
    return isinstance(target.operator, cst.Equal) and names == ["__name__"] and texts == ["__main__"]
