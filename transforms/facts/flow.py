"""Which assignments a name may read: reaching definitions of every scope, and their uses.

Each scope (module, class, function, lambda) is walked once in the order of execution with an environment `name
-> definitions`; branches are merged, loops are walked until the environment is stable. A name that is not bound
in its own scope sees every definition of the enclosing scope, because a function may be called at any time.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterable, Iterator, Sequence

import libcst as cst
from attrs import define, frozen

from perfmod.transforms.facts.tree import Scope, Tree, children, walk, walk_scope


class Binding(enum.Enum):
    """How a name came to its value."""

    ASSIGNED = "assigned"
    AUGMENTED = "augmented"
    PARAMETER = "parameter"
    LOOPED = "looped"
    MANAGED = "managed"
    IMPORTED = "imported"
    DEFINED = "defined"
    OTHER = "other"


@frozen(eq=False, repr=False)
class Definition:
    """One place that binds a name.

    Attributes:
        name: the name.
        node: the node that binds it: the `Name` of a target, the `Param`, `FunctionDef`, `ClassDef` or `ImportAlias`.
        binding: how.
        value: the expression that the value is taken from: the right side, the iterable of a loop, the default of a
            parameter; `None` where there is none.
        path: the way from that expression's value (or a loop's element) to the name: `(1, 0)` for `b` in
            `a, (b, c) = value`. A starred target ends its path with -1.
        scope: where the name lives.
        module: for `from module import name`, that module with its leading dots; else `None`.
        order: its place in the walk; definitions are reported in this order.
    """

    name: str
    node: cst.CSTNode
    binding: Binding
    value: cst.BaseExpression | None
    path: tuple[int, ...]
    scope: Scope
    module: str | None
    order: int

    def __repr__(self) -> str:
        return f"<Definition {self.order} of {self.name}>"


_Defs = frozenset[Definition]
_Env = dict[str, _Defs]


@define
class _Loop:
    breaks: list[_Env]
    continues: list[_Env]


class Flow:
    """Reaching definitions of a module."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._reaching: dict[cst.Name, set[Definition]] = {}
        self._bound: dict[Scope, dict[str, list[Definition]]] = {}
        self._definitions: dict[cst.Name, tuple[Definition, ...]] = {}
        self._uses: dict[Definition, list[cst.Name]] | None = None
        self._count = itertools.count()
        self.has_star_import = False
        for node in walk(tree.module):
            if isinstance(node, (cst.Module, cst.ClassDef, cst.FunctionDef, cst.Lambda)):
                _ScopeWalk(self, tree, node).run()

    def definitions(self, name: cst.Name) -> tuple[Definition, ...]:
        """Every definition that a read of `name` may see, in order of the file; empty for builtins."""
        known = self._definitions.get(name)
        if known is None:
            known = self._definitions[name] = self._find_definitions(name)
        return known

    def _find_definitions(self, name: cst.Name) -> tuple[Definition, ...]:
        local = self._reaching.get(name)
        if local is not None:
            return tuple(sorted(local, key=lambda definition: definition.order))
        scope = self._tree.scope(name)
        while not isinstance(scope, cst.Module):
            scope = self._tree.scope(scope)
            found = () if isinstance(scope, cst.ClassDef) else self._bound[scope].get(name.value, ())
            if found:
                return tuple(found)
        return tuple(self._bound[scope].get(name.value, ()))

    def bound(self, scope: Scope, name: str) -> Sequence[Definition]:
        """Every definition of `name` in `scope`, in order of the file."""
        return self._bound[scope].get(name, ())

    def names(self, scope: Scope) -> list[str]:
        """Every name that `scope` binds, in order of the file."""
        return list(self._bound[scope])

    def uses(self, definition: Definition) -> Sequence[cst.Name]:
        """Every read of a name that may see `definition`, in order of the file."""
        if self._uses is None:
            self._uses = {}
            for node in walk(self._tree.module):
                if isinstance(node, cst.Name) and self.is_read(node):
                    for seen in self.definitions(node):
                        self._uses.setdefault(seen, []).append(node)
        return self._uses.get(definition, ())

    def is_read(self, name: cst.Name) -> bool:
        """Whether `name` reads a variable: no attribute, keyword, parameter, import or plain assignment target."""
        parent = self._tree.parent(name)
        if isinstance(parent, cst.Attribute):
            return parent.value is name
        if isinstance(parent, cst.Arg):
            return parent.value is name
        if isinstance(parent, (cst.Param, cst.FunctionDef, cst.ClassDef, cst.ImportAlias, cst.AsName, cst.NameItem)):
            return isinstance(parent, cst.Param) and parent.default is name
        if isinstance(parent, cst.MatchPattern):
            return isinstance(parent, (cst.MatchValue, cst.MatchClass))
        return name in self._reaching or not self._is_target(name)

    def _is_target(self, name: cst.Name) -> bool:
        child: cst.CSTNode = name
        for parent in self._tree.ancestors(name):
            if isinstance(parent, (cst.AssignTarget, cst.CompFor, cst.For)):
                return parent.target is child
            if isinstance(parent, (cst.AnnAssign, cst.NamedExpr)):
                return parent.target is child
            if isinstance(parent, cst.AsName):
                return True
            if not isinstance(parent, (cst.Tuple, cst.List, cst.Element, cst.StarredElement)):
                return False
            child = parent
        return False


class _ScopeWalk:
    """Walks one scope in the order of execution. `env is None` means that this point is never reached."""

    def __init__(self, flow: Flow, tree: Tree, scope: Scope) -> None:
        self.flow = flow
        self.tree = tree
        self.scope = scope
        self.env: _Env | None = {}
        self.loops: list[_Loop] = []
        self.guards: list[list[_Env]] = []
        self.definitions: dict[tuple[cst.CSTNode, str], Definition] = {}
        self.outer: set[str] = set()
        self.comprehended: list[set[str]] = []
        flow._bound.setdefault(scope, {})

    def run(self) -> None:
        scope = self.scope
        if isinstance(scope, (cst.FunctionDef, cst.Lambda)):
            for node in walk_scope(scope.body):
                if isinstance(node, (cst.Global, cst.Nonlocal)):
                    self.outer.update(item.name.value for item in node.names)
            for param in parameters(scope):
                self.bind(param.name.value, param, Binding.PARAMETER, param.default)
        if isinstance(scope, cst.Lambda):
            self.expression(scope.body)
        elif isinstance(scope, cst.Module):
            self.statements(scope.body)
        else:
            self.suite(scope.body)

    # Statements

    def suite(self, body: cst.BaseSuite) -> None:
        self.statements(body.body)

    def statements(self, body: Iterable[cst.CSTNode]) -> None:
        for statement in body:
            if isinstance(statement, cst.SimpleStatementLine):
                self.statements(statement.body)
            else:
                self.statement(statement)
                if self.env is not None:
                    for seen in self.guards:
                        seen.append(dict(self.env))

    def statement(self, node: cst.CSTNode) -> None:
        if isinstance(node, cst.Assign):
            self.expression(node.value)
            for target in node.targets:
                self.target(target.target, Binding.ASSIGNED, node.value)
        elif isinstance(node, cst.AnnAssign):
            if node.value is not None:
                self.expression(node.value)
                self.target(node.target, Binding.ASSIGNED, node.value)
            elif isinstance(node.target, cst.Name):
                return
        elif isinstance(node, cst.AugAssign):
            self.expression(node.target)
            self.expression(node.value)
            self.target(node.target, Binding.AUGMENTED, node.value)
        elif isinstance(node, (cst.Import, cst.ImportFrom)):
            self.imports(node)
        elif isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            for decorator in node.decorators:
                self.expression(decorator.decorator)
            if isinstance(node, cst.FunctionDef):
                for param in parameters(node):
                    if param.default is not None:
                        self.expression(param.default)
            else:
                for arg in (*node.bases, *node.keywords):
                    self.expression(arg.value)
            self.bind(node.name.value, node, Binding.DEFINED, None)
        elif isinstance(node, cst.If):
            self.branch(node)
        elif isinstance(node, (cst.For, cst.While)):
            self.loop(node)
        elif isinstance(node, (cst.Try, cst.TryStar)):
            self.guarded(node)
        elif isinstance(node, cst.With):
            for item in node.items:
                self.expression(item.item)
                if item.asname is not None:
                    self.target(item.asname.name, Binding.MANAGED, item.item)
            self.suite(node.body)
        elif isinstance(node, cst.Match):
            self.match(node)
        elif isinstance(node, (cst.Return, cst.Raise)):
            for child in children(node):
                self.expression(child)
            self.env = None
        elif isinstance(node, (cst.Break, cst.Continue)):
            if self.loops and self.env is not None:
                ends = self.loops[-1].breaks if isinstance(node, cst.Break) else self.loops[-1].continues
                ends.append(self.env)
            self.env = None
        elif isinstance(node, cst.Del):
            self.expression(node.target)
        else:
            for child in children(node):
                self.expression(child)

    def branch(self, node: cst.If) -> None:
        self.expression(node.test)
        before = self.copy()
        self.suite(node.body)
        after_body, self.env = self.env, before
        if isinstance(node.orelse, cst.If):
            self.branch(node.orelse)
        elif node.orelse is not None:
            self.suite(node.orelse.body)
        self.env = merge([after_body, self.env])

    def loop(self, node: cst.For | cst.While) -> None:
        if isinstance(node, cst.For):
            self.expression(node.iter)
        before = self.copy()
        entry = before
        while True:
            loop = _Loop([], [])
            self.loops.append(loop)
            self.env = dict(entry) if entry is not None else None
            if isinstance(node, cst.For):
                self.target(node.target, Binding.LOOPED, node.iter)
            else:
                self.expression(node.test)
            self.suite(node.body)
            self.loops.pop()
            again = merge([before, self.env, *loop.continues])
            if again == entry:
                break
            entry = again
        self.env = dict(entry) if entry is not None else None
        if isinstance(node, cst.While):
            self.expression(node.test)
        if node.orelse is not None:
            self.suite(node.orelse.body)
        self.env = merge([self.env, *loop.breaks])

    def guarded(self, node: cst.Try | cst.TryStar) -> None:
        seen: list[_Env] = [dict(self.env)] if self.env is not None else []
        self.guards.append(seen)
        self.suite(node.body)
        self.guards.pop()
        if node.orelse is not None:
            self.suite(node.orelse.body)
        ends = [self.env]
        for handler in node.handlers:
            self.env = merge(list(seen))
            if handler.type is not None:
                self.expression(handler.type)
            if handler.name is not None:
                self.target(handler.name.name, Binding.OTHER, None)
            self.suite(handler.body)
            ends.append(self.env)
        self.env = merge(ends)
        if node.finalbody is not None:
            reached = self.env is not None
            self.env = self.env if reached else merge(list(seen))
            self.suite(node.finalbody.body)
            if not reached:
                self.env = None

    def match(self, node: cst.Match) -> None:
        self.expression(node.subject)
        before = self.copy()
        ends = [self.copy()]
        for case in node.cases:
            self.env = dict(before) if before is not None else None
            for part in walk(case.pattern):
                if isinstance(part, (cst.MatchAs, cst.MatchStar)) and part.name is not None:
                    self.target(part.name, Binding.OTHER, None)
                elif isinstance(part, cst.MatchMapping) and part.rest is not None:
                    self.target(part.rest, Binding.OTHER, None)
                elif isinstance(part, cst.MatchValue):
                    self.expression(part.value)
            if case.guard is not None:
                self.expression(case.guard)
            self.suite(case.body)
            ends.append(self.env)
        self.env = merge(ends)

    def imports(self, node: cst.Import | cst.ImportFrom) -> None:
        if isinstance(node.names, cst.ImportStar):
            self.flow.has_star_import = True
            return
        module = None
        if isinstance(node, cst.ImportFrom):
            module = "." * len(node.relative) + (dotted(node.module) if node.module is not None else "")
        for alias in node.names:
            bound = dotted(alias.asname.name) if alias.asname is not None else dotted(alias.name).partition(".")[0]
            self.bind(bound, alias, Binding.IMPORTED, None, module=module)

    # Expressions

    def expression(self, node: cst.CSTNode) -> None:
        """Record every read of a name in the order of evaluation."""
        if isinstance(node, cst.Name):
            self.read(node)
        elif isinstance(node, (cst.Attribute, cst.Arg)):
            self.expression(node.value)
        elif isinstance(node, cst.NamedExpr):
            self.expression(node.value)
            self.target(node.target, Binding.ASSIGNED, node.value)
        elif isinstance(node, cst.Lambda):
            for param in parameters(node):
                if param.default is not None:
                    self.expression(param.default)
        elif isinstance(node, cst.BaseComp):
            self.comprehension(node)
        elif isinstance(node, cst.IfExp):
            self.expression(node.test)
            self.expression(node.body)
            self.expression(node.orelse)
        else:
            for child in children(node):
                self.expression(child)

    def comprehension(self, node: cst.BaseComp) -> None:
        before = self.copy()
        loop: cst.CompFor | None = node.for_in
        names: set[str] = set()
        self.comprehended.append(names)
        while loop is not None:
            self.expression(loop.iter)
            names.update(part.value for part in target_names(loop.target))
            self.target(loop.target, Binding.LOOPED, loop.iter)
            for condition in loop.ifs:
                self.expression(condition.test)
            loop = loop.inner_for_in
        if isinstance(node, cst.DictComp):
            self.expression(node.key)
            self.expression(node.value)
        elif isinstance(node, (cst.ListComp, cst.SetComp, cst.GeneratorExp)):
            self.expression(node.elt)
        self.comprehended.pop()
        if before is not None and self.env is not None:
            for name in names:
                if name in before:
                    self.env[name] = before[name]
                else:
                    self.env.pop(name, None)

    def read(self, name: cst.Name) -> None:
        if self.env is None or name.value in self.outer:
            return
        seen = self.env.get(name.value)
        if seen is not None:
            self.flow._reaching.setdefault(name, set()).update(seen)

    # Bindings

    def target(
        self,
        node: cst.CSTNode,
        binding: Binding,
        value: cst.BaseExpression | None,
        path: tuple[int, ...] = (),
    ) -> None:
        if isinstance(node, cst.Name):
            self.bind(node.value, node, binding, value, path)
        elif isinstance(node, (cst.Tuple, cst.List)):
            for index, element in enumerate(node.elements):
                step = -1 if isinstance(element, cst.StarredElement) else index
                self.target(element.value, binding, value, (*path, step))
        elif binding is not Binding.AUGMENTED:
            self.expression(node)

    def bind(
        self,
        name: str,
        node: cst.CSTNode,
        binding: Binding,
        value: cst.BaseExpression | None,
        path: tuple[int, ...] = (),
        module: str | None = None,
    ) -> None:
        definition = self.definitions.get((node, name))
        if definition is None:
            scope: Scope = self.scope
            comprehended = any(name in names for names in self.comprehended)
            if name in self.outer:
                scope = self.tree.module
            definition = Definition(name, node, binding, value, path, scope, module, next(self.flow._count))
            self.definitions[(node, name)] = definition
            if not comprehended:
                self.flow._bound.setdefault(scope, {}).setdefault(name, []).append(definition)
        if self.env is not None and name not in self.outer:
            self.env[name] = frozenset((definition,))

    def copy(self) -> _Env | None:
        return dict(self.env) if self.env is not None else None


def merge(environments: Sequence[_Env | None]) -> _Env | None:
    """What may be seen where several ways meet; `None` where none of them arrives."""
    arriving = [env for env in environments if env is not None]
    if not arriving:
        return None
    merged = dict(arriving[0])
    for env in arriving[1:]:
        for name, defs in env.items():
            known = merged.get(name)
            merged[name] = defs if known is None or known is defs else known | defs
    return merged


def parameters(function: cst.FunctionDef | cst.Lambda) -> Iterator[cst.Param]:
    """All parameters of a function in order: positional, `*args`, keyword-only, `**kwargs`."""
    params = function.params
    yield from params.posonly_params
    yield from params.params
    if isinstance(params.star_arg, cst.Param):
        yield params.star_arg
    yield from params.kwonly_params
    if params.star_kwarg is not None:
        yield params.star_kwarg


def dotted(node: cst.CSTNode) -> str:
    """`a.b.c` of a chain of attributes that starts at a name; empty for other expressions."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr.value}" if base else ""
    return ""


def target_names(target: cst.CSTNode) -> Iterator[cst.Name]:
    """The names that an assignment target binds."""
    if isinstance(target, cst.Name):
        yield target
    elif isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from target_names(element.value)
