"""What a module does when it is run or imported: its top-level statements, its `__main__` guard, and what
they lead to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeGuard

import libcst as cst

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.classes import Classes
from perfmod.transforms.facts.flow import Binding, Definition, Flow, Read
from perfmod.transforms.facts.names import Names
from perfmod.transforms.facts.tree import FileTree, walk, walk_scope
from perfmod.transforms.facts.values import Values

Top = cst.SimpleStatementLine | cst.BaseCompoundStatement

# Calls that a process may repeat while it imports the module: they print nothing, take no time and leave
# nothing behind.
_REPEATABLE = (
    "argparse.", "torch.device", "torch.cuda.is_available", "torch.manual_seed", "torch.cuda.manual_seed",
    "torch.set_", "torch.backends.", "torch.use_deterministic_algorithms", "torch.get_", "torch.Generator",
    "torch.tensor", "torch.zeros", "torch.ones", "torch.full", "torch.arange", "torch.nn.functional.",
    "random.seed", "numpy.random.seed", "numpy.array",
    "numpy.set_printoptions", "torchvision.transforms.", "os.path.", "os.environ", "os.getenv",
    "os.cpu_count", "pathlib.", "warnings.", "logging.getLogger", "collections.", "typing.",
    "matplotlib.use", "sys.path.", "builtins.dict", "builtins.list", "builtins.tuple", "builtins.set",
    "builtins.frozenset", "builtins.len", "builtins.range", "builtins.int", "builtins.float",
    "builtins.str", "builtins.bool", "builtins.min", "builtins.max", "builtins.sorted",
    "builtins.enumerate", "builtins.zip", "builtins.getattr", "builtins.hasattr", "functools.partial",
    "re.compile", "math.", "dataclasses.", "enum.", "sys.setrecursionlimit", "numpy.seterr", "locale.setlocale",
    "csv.field_size_limit", "torchvision.set_", "torchaudio.set_audio_backend",
)  # fmt: skip
_REPEATABLE_METHODS = frozenset(
    {
        "add_argument", "add_argument_group", "add_mutually_exclusive_group", "set_defaults", "parse_args",
        "parse_known_args", "split", "join", "format", "strip", "lower", "upper", "items", "keys",
        "values", "get", "update", "append", "setdefault", "replace", "startswith", "endswith", "resolve",
        "joinpath", "absolute", "manual_seed", "exists",
    }
)  # fmt: skip


class Entry:
    """The top levels of the files, as one of them sees them.

    Attributes:
        statements: the top-level statements of that file.
    """

    def __init__(self, tree: FileTree, flow: Flow, names: Names, classes: Classes, values: Values) -> None:
        self._tree = tree
        self._flow = flow
        self._names = names
        self._classes = classes
        self._values = values
        self.statements = self.statements_of(tree.module)
        self._repeatable: dict[cst.FunctionDef, bool] = {}
        self._places = {
            statement: place for module in tree.modules for place, statement in enumerate(self.statements_of(module))
        }

    def statements_of(self, module: cst.Module) -> tuple[Top, ...]:
        """The top-level statements of a file."""
        return tuple(s for s in module.body if isinstance(s, (cst.SimpleStatementLine, cst.BaseCompoundStatement)))

    def statement(self, node: cst.CSTNode) -> Top:
        """The top-level statement that holds `node`."""
        for current in (node, *self._tree.ancestors(node)):
            if isinstance(current, (cst.SimpleStatementLine, cst.BaseCompoundStatement)) and current in self._places:
                return current
        raise ValueError(f"{type(node).__name__} stands in no top-level statement")

    def place(self, node: cst.CSTNode) -> int:
        """Which top-level statement of its file holds `node`, counted from 0."""
        return self._places[self.statement(node)]

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

    def is_plain(self, statement: Top) -> bool:
        """Whether a statement only defines: imports, functions, classes, docstrings, constants."""
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            return True
        if isinstance(statement, cst.SimpleStatementLine):
            return all(self._is_plain_small(small) for small in statement.body)
        if isinstance(statement, (cst.If, cst.Try)):
            inner = [node for node in walk_scope(statement) if isinstance(node, cst.BaseSmallStatement)]
            tests = [statement.test] if isinstance(statement, cst.If) else []
            return all(self._is_plain_small(small) for small in inner) and not any(
                isinstance(node, cst.Call) for test in tests for node in walk(test)
            )
        return False

    def _is_plain_small(self, small: cst.BaseSmallStatement) -> bool:
        if isinstance(small, (cst.Import, cst.ImportFrom, cst.Pass)):
            return True
        if isinstance(small, (cst.Assign, cst.AnnAssign)):
            return not any(isinstance(node, cst.Call) for node in walk_scope(small))
        return isinstance(small, cst.Expr) and isinstance(small.value, (cst.BaseString, cst.Ellipsis))

    def is_repeatable(self, statement: Top) -> bool:
        """Whether every process that imports the module may run a statement again without anybody
        noticing.
        """
        if self.is_plain(statement):
            return True
        if isinstance(statement, (cst.For, cst.While, cst.With)):
            return False
        return all(self._is_repeatable_call(n) for n in walk_scope(statement) if isinstance(n, cst.Call))

    def _is_repeatable_call(self, call: cst.Call) -> bool:
        name = self._names.qualified(call.func)
        if name == "os.makedirs":
            return any(arg.keyword is not None and arg.keyword.value == "exist_ok" for arg in call.args)
        if name is not None and name.startswith("torch.") and argument(call, "device") is not None:
            return False  # every worker would set up the GPU
        if name is not None:
            return name.startswith(_REPEATABLE)
        function = self._values.calls.resolve(call)
        if function is not None:
            return self._is_repeatable_function(function)
        return isinstance(call.func, cst.Attribute) and call.func.attr.value in _REPEATABLE_METHODS

    def _is_repeatable_function(self, function: cst.FunctionDef) -> bool:
        if function not in self._repeatable:
            self._repeatable[function] = False  # nobody knows when it ends calling itself
            inner = (node for node in walk(function.body) if isinstance(node, cst.Call))
            self._repeatable[function] = all(map(self._is_repeatable_call, inner))
        return self._repeatable[function]

    def needed(self, code: Iterable[cst.CSTNode]) -> dict[Definition, Read]:
        """The module-level definitions that `code` reads, with those that they read in turn, and one use of
        each.
        """
        found: dict[Definition, Read] = {}
        stack = list(code)
        while stack:
            for node in walk(stack.pop()):
                for definition in self._module_level(node):
                    if definition not in found and isinstance(node, (cst.Name, cst.Attribute)):
                        found[definition] = node
                        if definition.binding is Binding.DEFINED:
                            stack.append(definition.node)
        return found

    def _module_level(self, node: cst.CSTNode) -> Iterator[Definition]:
        """What a read may see of the top levels, with the imports through which it sees it."""
        if isinstance(node, cst.Name) and not self._flow.is_read(node):
            return
        if self._flow.is_variable(node):
            seen = self._flow.seen(node) if isinstance(node, cst.Name) else ()
            for definition in dict.fromkeys((*seen, *self._flow.definitions(node))):
                if isinstance(definition.scope, cst.Module):
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
