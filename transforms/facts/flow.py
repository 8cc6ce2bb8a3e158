"""Which assignments a name may read: reaching definitions of every scope, and their uses.

Each scope (module, class, function, lambda) is walked once in the order of execution with an environment `name
-> definitions`; branches are merged, loops are walked until the environment is stable. A name that is not bound
in its own scope sees every definition of the enclosing scope, because a function may be called at any time; for the
same reason any read may see what a function binds through `global` or `nonlocal`.

A name that is imported from another module of the world sees what that module binds, and so does `module.name`.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TypeGuard

import libcst as cst
from attrs import define, field, frozen

from perfmod.transforms.facts.links import Links, Place
from perfmod.transforms.facts.tree import Scope, Tree, children, find_any, find_in_scope, walk
from perfmod.transforms.work import spend


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
        node: the node that binds it: the `Name` of a target, the `Param`, `FunctionDef`, `ClassDef`, `ImportAlias` or
            `ImportStar`; the `Attribute` where another module assigns `module.name`.
        binding: how.
        value: the expression that the value is taken from: the right side, the iterable of a loop, the default of a
            parameter; `None` where there is none.
        path: the way from that expression's value (or a loop's element) to the name: `(1, 0)` for `b` in
            `a, (b, c) = value`. At a starred target, and behind one, a step is -1: which elements is not known.
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

    @property
    def part(self) -> cst.BaseExpression | None:
        """What an assignment gives the name, through tuples that are written out: `2` for `b` in `a, b = 1, 2`."""
        value = self.value if self.binding is Binding.ASSIGNED else None
        for step in self.path:
            if not isinstance(value, (cst.Tuple, cst.List)) or not 0 <= step < len(value.elements):
                return None
            if any(isinstance(element, cst.StarredElement) for element in value.elements[: step + 1]):
                return None
            value = value.elements[step].value
        return value


Read = cst.Name | cst.Attribute
"""What reads a definition: a name, or `module.name` in another module."""

# Definitions that a name may see, each with the loops of which a new round has begun since it was bound.
_Seen = frozenset[tuple[Definition, frozenset[cst.CSTNode]]]
_Env = dict[str, _Seen]
# Calls that make context managers which end their block at an exception, and go on behind it.
_SUPPRESSING = frozenset({"suppress", "raises", "assertRaises"})


@define
class _Loop:
    """A loop that is being walked: environments at its `break`s and `continue`s, and what it binds."""

    breaks: list[_Env] = field(factory=list)
    continues: list[_Env] = field(factory=list)
    bound: set[Definition] = field(factory=set)


class Flow:
    """Reaching definitions of the modules of a tree."""

    def __init__(self, tree: Tree, links: Links) -> None:
        self._tree = tree
        self._links = links
        self._reaching: dict[cst.Name, set[tuple[Definition, frozenset[cst.CSTNode]]]] = {}
        self._by_node: dict[cst.CSTNode, list[Definition]] = {}
        # What scopes bind in scopes around them, and where the names that they declare live.
        self._from_within: dict[Scope, dict[str, list[Definition]]] = {}
        self._homes: dict[Scope, dict[str, Scope]] = {}
        self._comprehended: dict[cst.BaseComp, dict[str, list[Definition]]] = {}
        self._bound: dict[Scope, dict[str, list[Definition]]] = {}
        self._seen: dict[cst.Name, tuple[Definition, ...]] = {}
        self._definitions: dict[Read, tuple[Definition, ...]] = {}
        self._imported: dict[Definition, tuple[Definition, ...]] = {}
        self._uses: dict[Definition, list[Read]] | None = None
        self._places: dict[cst.CSTNode, Place | None] = {}
        self._count = itertools.count()
        # Modules that are walked or have been, those that have been, and those that may bind names that nobody sees.
        self._begun: set[cst.Module] = set()
        self._done: set[cst.Module] = set()
        self._opaque: set[cst.Module] = set()
        for module in tree.modules:
            self._walk(module)
        if self._is_linked:
            self._bind_from_outside()
            self._places.clear()  # what was asked before all was bound

    def _walk(self, module: cst.Module) -> None:
        if module in self._begun:
            return
        self._begun.add(module)
        for node in find_any(module, cst.Module, cst.ClassDef, cst.FunctionDef, cst.Lambda):
            if isinstance(node, (cst.Module, cst.ClassDef, cst.FunctionDef, cst.Lambda)):
                _ScopeWalk(self, self._tree, node, module).run()
        self._done.add(module)

    @property
    def _is_linked(self) -> bool:
        return len(self._tree.modules) > 1

    def has_star_import(self, node: cst.CSTNode) -> bool:
        """Whether the module of `node` imports `*` from a module that is not in sight."""
        return bool(self._opaque) and self._tree.module_of(node) in self._opaque

    def definitions(self, node: Read) -> tuple[Definition, ...]:
        """Every definition that a read may see, in order of the files; empty for builtins.

        What is imported from a module of the world is seen through. An attribute has definitions where it is
        `module.name` of such a module.
        """
        known = self._definitions.get(node)
        if known is None:
            known = self._definitions[node] = self._find_linked(node)
        return known

    def of_name(self, node: cst.CSTNode) -> tuple[Definition, ...]:
        """The definitions of a plain name; none of any other expression."""
        return self.definitions(node) if isinstance(node, cst.Name) else ()

    def _find_linked(self, node: Read) -> tuple[Definition, ...]:
        if not self._is_linked:
            return self.seen(node) if isinstance(node, cst.Name) else ()
        found = dict.fromkeys(each for seen in self._unlinked(node) for each in self._through(seen))
        return tuple(sorted(found, key=lambda definition: definition.order))

    def _unlinked(self, node: Read) -> Sequence[Definition]:
        if isinstance(node, cst.Name):
            return self.seen(node)
        place = self.place(node.value)
        return self._exported(place, node.attr.value) if isinstance(place, cst.Module) else ()

    def is_variable(self, node: cst.CSTNode) -> TypeGuard[Read]:
        """Whether an expression is a name, or the `module.name` of a module of the world."""
        return isinstance(node, cst.Name) or (isinstance(node, cst.Attribute) and bool(self.definitions(node)))

    def seen(self, name: cst.Name) -> tuple[Definition, ...]:
        """Like `definitions`, with imports as they stand in the module of `name`."""
        known = self._seen.get(name)
        if known is None:
            known = self._seen[name] = self._find_definitions(name)
        return known

    def _find_definitions(self, name: cst.Name) -> tuple[Definition, ...]:
        scope = self._tree.scope(name)
        local = self._reaching.get(name)
        if local is not None:
            found = {*(definition for definition, _ in local), *self._from_within.get(scope, {}).get(name.value, ())}
            return tuple(sorted(found, key=lambda definition: definition.order))
        comprehended = self._from_comprehension(name, scope)
        if comprehended:
            return comprehended
        home = self._homes.get(scope, {}).get(name.value)
        if home is not None:
            return tuple(self._bound[home].get(name.value, ()))
        while not isinstance(scope, cst.Module):
            scope = self._enclosing(scope)
            found_there = self._bound[scope].get(name.value)
            if found_there:
                return tuple(found_there)
        return tuple(self._bound[scope].get(name.value, ()))

    def _from_comprehension(self, name: cst.Name, scope: Scope) -> tuple[Definition, ...]:
        """What a lambda inside of a comprehension sees of the comprehension's variables."""
        if not isinstance(scope, cst.Lambda):
            return ()
        for ancestor in self._tree.ancestors(name):
            if isinstance(ancestor, cst.BaseComp) and self._tree.scope(ancestor) is not scope:
                return tuple(self._comprehended.get(ancestor, {}).get(name.value, ()))
            if isinstance(ancestor, cst.BaseStatement):
                break
        return ()

    def _enclosing(self, scope: Scope) -> Scope:
        """The next scope around a function or class whose names its code sees."""
        around = self._tree.scope(scope)
        while isinstance(around, cst.ClassDef):
            around = self._tree.scope(around)
        return around

    def from_earlier_rounds(self, name: cst.Name) -> frozenset[Definition]:
        """Those definitions that a read of `name` may see as an earlier round of a loop in the same scope left them."""
        return frozenset(definition for definition, loops in self._reaching.get(name, ()) if loops)

    def moment(self, name: cst.Name) -> Hashable | None:
        """Equal for two reads of a name between which nothing in its scope binds it; `None` for other scopes."""
        seen = self._reaching.get(name)
        if seen is None:
            return None
        around = {loop for loop in self._tree.loops(name) if any(self._tree.is_within(d.node, loop) for d, _ in seen)}
        return frozenset(seen), frozenset(around)

    def defined(self, node: cst.CSTNode) -> Sequence[Definition]:
        """What a node binds: the `Name` of a target, a `Param`, `FunctionDef`, `ClassDef` or `ImportAlias`."""
        return self._by_node.get(node, ())

    def bound(self, scope: Scope, name: str) -> Sequence[Definition]:
        """Every definition of `name` in `scope`, in order of the file."""
        return self._bound[scope].get(name, ())

    def names(self, scope: Scope) -> list[str]:
        """Every name that `scope` binds, in order of the file."""
        return list(self._bound[scope])

    def uses(self, definition: Definition) -> Sequence[Read]:
        """Every read that may see `definition`, in order of the files."""
        if self._uses is None:
            self._uses = {}
            for node in self._tree.all_of(cst.Name, cst.Attribute) if self._is_linked else self._tree.all(cst.Name):
                found: Iterable[Definition] = ()
                if isinstance(node, cst.Name) and self.is_read(node):
                    found = dict.fromkeys((*self.definitions(node), *self.seen(node)))
                elif isinstance(node, cst.Attribute) and not self._tree.is_target(node):
                    found = self.definitions(node)
                for seen in found:
                    self._uses.setdefault(seen, []).append(node)  # type: ignore[arg-type]
        return self._uses.get(definition, ())

    # Other modules

    def place(self, node: cst.CSTNode) -> Place | None:
        """The module (or package) of the world that an expression is; `None` for everything else."""
        if not self._is_linked or type(node) not in (cst.Attribute, cst.Name):
            return None
        if node in self._places:
            return self._places[node]
        found: Place | None = None
        if isinstance(node, cst.Name):
            found = _only({self._imported_place(definition) for definition in self.seen(node)})
        elif isinstance(node, cst.Attribute) and (around := self.place(node.value)) is not None:
            found = self._member_place(around, node.attr.value)
        self._places[node] = found
        return found

    def imported(self, node: cst.CSTNode) -> set[cst.Module]:
        """The modules of the world that an `ImportAlias` or `ImportStar` runs, packages on the way not counted."""
        statement = self._tree.parent(node)
        names: list[str] = []
        if isinstance(statement, cst.Import) and isinstance(node, cst.ImportAlias):
            found: set[Place | None] = {self._links.place(self._tree.module_of(node), dotted(node.name))}
        elif isinstance(statement, cst.ImportFrom):
            importer, package = self._tree.module_of(node), import_source(statement)
            names = [dotted(node.name)] if isinstance(node, cst.ImportAlias) else []
            found = {self._links.place(importer, package)}
            found |= {self._links.within(importer, package, name) for name in names}
        else:
            return set()
        return {place for place in found if isinstance(place, cst.Module)}

    def is_exported(self, definition: Definition) -> bool:
        """Whether another file in sight imports a name of a module by this name, even if it never reads it."""
        if not self._is_linked:
            return False
        return any(
            isinstance(alias, cst.ImportAlias)
            and dotted(alias.name) == definition.name
            and isinstance(statement := self._tree.parent(alias), cst.ImportFrom)
            and self._links.place(self._tree.module_of(alias), import_source(statement)) is definition.scope
            for alias in self._tree.all(cst.ImportAlias)
        )

    def is_open(self, node: cst.CSTNode) -> bool:
        """Whether files that are not in sight import the module of `node`, and so may call or read what it defines."""
        return self._links.is_open(self._tree.module_of(node))

    def _imported_place(self, definition: Definition) -> Place | None:
        """The module that a name is bound to by an import."""
        return _only({self._direct_place(imported) for imported in self._through(definition)})

    def _direct_place(self, definition: Definition) -> Place | None:
        """The module that an import names itself, not by way of a name in another module."""
        alias = definition.node
        if definition.binding is not Binding.IMPORTED:
            return None
        if definition.module is None:
            assert isinstance(alias, cst.ImportAlias)
            name = dotted(alias.name) if alias.asname is not None else definition.name
            return self._links.place(self._tree.module_of(alias), name)
        importer, name = self._tree.module_of(alias), _imported(definition)
        around = self._links.place(importer, definition.module)
        if around is None or (isinstance(around, cst.Module) and name in self._bound[around]):
            return None
        return self._links.within(importer, definition.module, name)

    def _member_place(self, around: Place, name: str) -> Place | None:
        bound = self._bound[around].get(name, ()) if isinstance(around, cst.Module) else ()
        if not bound:
            return self._links.below(around, name)
        return _only({self._imported_place(definition) for definition in bound})

    def _through(self, definition: Definition) -> tuple[Definition, ...]:
        """What an import from a module of the world imports, by way of others too; other definitions as they are."""
        known = self._imported.get(definition)
        if known is None:
            found: dict[Definition, None] = {}
            seen: set[Definition] = set()
            stack = [definition]
            while stack:
                current = stack.pop()
                if current not in seen:
                    seen.add(current)
                    exported = self._taken(current)
                    stack += exported
                    found.update({} if exported else {current: None})
            # Imports in a circle bind nothing.
            known = self._imported[definition] = tuple(found) or (definition,)
        return known

    def _taken(self, definition: Definition) -> Sequence[Definition]:
        """What the module that a `from` import names binds to the name."""
        if definition.binding is not Binding.IMPORTED or definition.module is None:
            return ()
        origin = self._links.place(self._tree.module_of(definition.node), definition.module)
        return self._exported(origin, _imported(definition)) if isinstance(origin, cst.Module) else ()

    def _exported(self, module: cst.Module, name: str) -> Sequence[Definition]:
        """What a module binds to a name for others; nothing where a submodule of that name may take its place."""
        bound = self._bound[module].get(name, ())
        below = self._links.below(module, name)
        if below is None or all(
            definition.module is not None and self._links.place(module, definition.module) is below
            for definition in bound
        ):
            return bound
        return ()

    def starred(self, importer: cst.Module, text: str) -> list[str]:
        """The names that `from text import *` binds as far as they are in sight."""
        origin = self._links.place(importer, text)
        if not isinstance(origin, cst.Module):
            self._opaque.add(importer)
            return []
        self._walk(origin)
        bound = self._bound[origin]
        listed = _listed(bound.get("__all__", ()))
        # Modules that import each other have bound only some of their names by now.
        is_whole = listed is not None or ("__all__" not in bound and origin not in self._opaque)
        if origin not in self._done or not is_whole:
            self._opaque.add(importer)
        return [name for name in bound if (name in listed if listed is not None else not name.startswith("_"))]

    def _bind_from_outside(self) -> None:
        """Assignments to `module.name` bind that name in the module, at any time."""
        for node in self._tree.all_of(cst.AssignTarget, cst.AnnAssign, cst.AugAssign):
            target = getattr(node, "target", None)
            place = self.place(target.value) if isinstance(target, cst.Attribute) else None
            if isinstance(place, cst.Module) and isinstance(target, cst.Attribute):
                statement = self._tree.parent(node) if isinstance(node, cst.AssignTarget) else node
                binding = Binding.AUGMENTED if isinstance(node, cst.AugAssign) else Binding.ASSIGNED
                value: cst.BaseExpression | None = getattr(statement, "value", None)
                name = target.attr.value
                definition = self.define(name, target, binding, value, (), place, None)
                self._bound[place].setdefault(name, []).append(definition)
                self._from_within.setdefault(place, {}).setdefault(name, []).append(definition)
        self._seen.clear()
        self._imported.clear()

    def define(
        self,
        name: str,
        node: cst.CSTNode,
        binding: Binding,
        value: cst.BaseExpression | None,
        path: tuple[int, ...],
        scope: Scope,
        module: str | None,
    ) -> Definition:
        """A new definition; of which scope it is known is for the caller to say."""
        definition = Definition(name, node, binding, value, path, scope, module, next(self._count))
        self._by_node.setdefault(node, []).append(definition)
        return definition

    def is_read(self, name: cst.Name) -> bool:
        """Whether `name` reads a variable: no attribute, keyword, parameter, import or plain assignment target."""
        parent = self._tree.parent(name)
        if isinstance(parent, cst.Attribute):
            if parent.value is not name:
                return False
            around = next(each for each in self._tree.ancestors(name) if not isinstance(each, cst.Attribute))
            return not isinstance(around, _IMPORTS)
        if isinstance(parent, cst.Arg):
            return parent.value is name
        if isinstance(parent, (*_IMPORTS, cst.Param, cst.FunctionDef, cst.ClassDef, cst.AsName, cst.NameItem)):
            return isinstance(parent, cst.Param) and parent.default is name
        if isinstance(parent, cst.MatchPattern):
            return isinstance(parent, (cst.MatchValue, cst.MatchClass))
        return name in self._reaching or not self._tree.is_target(name)


_IMPORTS = (cst.ImportFrom, cst.ImportAlias)
"""What holds names of modules."""


_STATEMENT = 20
"""What a statement costs each time that it is walked, in units of work."""
_OUT_OF_ORDER = frozenset(
    {
        *(cst.NamedExpr, cst.Lambda, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp),
        *(cst.IfExp, cst.BooleanOperation, cst.Comparison),
    }
)
"""Expressions whose parts are not simply evaluated one after the other; most are not asked for each of their types."""


class _ScopeWalk:
    """Walks one scope in the order of execution. `env is None` means that this point is never reached."""

    def __init__(self, flow: Flow, tree: Tree, scope: Scope, module: cst.Module) -> None:
        self.flow = flow
        self.tree = tree
        self.scope = scope
        self.module = module
        self.env: _Env | None = {}
        self.loops: list[_Loop] = []
        self.guards: list[_Env] = []
        self.definitions: dict[tuple[cst.CSTNode, str], Definition] = {}
        self.homes: dict[str, Scope] = {}
        self.comprehended: list[tuple[cst.BaseComp, set[str]]] = []
        flow._bound.setdefault(scope, {})

    def run(self) -> None:
        scope = self.scope
        if isinstance(scope, (cst.FunctionDef, cst.ClassDef)):
            for node in find_in_scope(scope.body, cst.Global, cst.Nonlocal):
                if isinstance(node, cst.Global):
                    self.homes.update((item.name.value, self.module) for item in node.names)
                elif isinstance(node, cst.Nonlocal):
                    self.homes.update((item.name.value, self.home(item.name.value)) for item in node.names)
            self.flow._homes[scope] = self.homes
        if isinstance(scope, (cst.FunctionDef, cst.Lambda)):
            for param in parameters(scope):
                self.bind(param.name.value, param, Binding.PARAMETER, param.default)
        if isinstance(scope, cst.Lambda):
            self.expression(scope.body)
        elif isinstance(scope, cst.Module):
            self.statements(scope.body)
        else:
            self.suite(scope.body)

    def home(self, name: str) -> Scope:
        """The function around this scope in which a nonlocal name lives; functions are walked from the outside in."""
        scope = self.flow._enclosing(self.scope)
        while not isinstance(scope, cst.Module):
            if name in self.flow._homes.get(scope, {}):
                return self.flow._homes[scope][name]
            if self.flow.bound(scope, name):
                break
            scope = self.flow._enclosing(scope)
        return scope

    # Statements

    def suite(self, body: cst.BaseSuite) -> None:
        self.statements(body.body)

    def statements(self, body: Iterable[cst.CSTNode]) -> None:
        for statement in body:
            if isinstance(statement, cst.SimpleStatementLine):
                self.statements(statement.body)
            else:
                self.statement(statement)

    def statement(self, node: cst.CSTNode) -> None:
        spend(_STATEMENT)
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
            if any(_suppresses(item.item) for item in node.items):
                interrupted = self.guard(node.body)
                self.env = merge([self.env, interrupted])
            else:
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
            loop = _Loop()
            self.loops.append(loop)
            self.env = dict(entry) if entry is not None else None
            if isinstance(node, cst.For):
                self.target(node.target, Binding.LOOPED, node.iter)
            else:
                self.expression(node.test)
            self.suite(node.body)
            self.loops.pop()
            again = merge([before, *(_carried(env, node, loop.bound) for env in (self.env, *loop.continues))])
            if again == entry:
                break
            entry = again
        self.env = dict(entry) if entry is not None else None
        if isinstance(node, cst.While):
            self.expression(node.test)
        if node.orelse is not None:
            self.suite(node.orelse.body)
        self.env = merge([self.env, *loop.breaks])

    def guard(self, body: cst.BaseSuite) -> _Env | None:
        """Walk what an exception may end at any place; what is seen behind such an exception."""
        interrupted = self.copy()
        if interrupted is None:
            return None
        self.guards.append(interrupted)
        self.suite(body)
        self.guards.pop()
        return interrupted

    def guarded(self, node: cst.Try | cst.TryStar) -> None:
        interrupted = self.copy()
        if node.finalbody is None or interrupted is None:
            self.handled(node)
            return
        left = [ends for loop in self.loops for ends in (loop.breaks, loop.continues)]
        before = [len(ends) for ends in left]
        self.guards.append(interrupted)
        self.handled(node)
        self.guards.pop()
        # Once as an exception, `return`, `break` or `continue` comes by, once as it is reached in order.
        reached, self.env = self.env, dict(interrupted)
        self.suite(node.finalbody.body)
        for ends, count in zip(left, before, strict=True):
            if len(ends) > count and self.env is not None:
                ends.append(self.env)
        self.env = reached
        self.suite(node.finalbody.body)

    def handled(self, node: cst.Try | cst.TryStar) -> None:
        interrupted = self.guard(node.body)
        if node.orelse is not None:
            self.suite(node.orelse.body)
        ends = [self.env]
        for handler in node.handlers:
            self.env = dict(interrupted) if interrupted is not None else None
            if handler.type is not None:
                self.expression(handler.type)
            if handler.name is not None:
                self.target(handler.name.name, Binding.OTHER, None)
            self.suite(handler.body)
            ends.append(self.env)
        self.env = merge(ends)

    def match(self, node: cst.Match) -> None:
        self.expression(node.subject)
        before = self.copy()
        ends: list[_Env | None] = []
        for case in node.cases:
            self.env = dict(before) if before is not None else None
            for part in walk(case.pattern):
                if isinstance(part, (cst.MatchAs, cst.MatchStar)) and part.name is not None:
                    self.target(part.name, Binding.OTHER, None)
                elif isinstance(part, cst.MatchMapping) and part.rest is not None:
                    self.target(part.rest, Binding.OTHER, None)
                elif isinstance(part, cst.MatchValue):
                    self.expression(part.value)
                elif isinstance(part, cst.MatchClass):
                    self.expression(part.cls)
                elif isinstance(part, cst.MatchMappingElement):
                    self.expression(part.key)
            if case.guard is not None:
                self.expression(case.guard)
            before = merge([before, self.env])
            self.suite(case.body)
            ends.append(self.env)
        self.env = merge([before, *ends])

    def imports(self, node: cst.Import | cst.ImportFrom) -> None:
        module = import_source(node) if isinstance(node, cst.ImportFrom) else None
        if isinstance(node.names, cst.ImportStar):
            for name in self.flow.starred(self.module, module or ""):
                self.bind(name, node.names, Binding.IMPORTED, None, module=module)
            return
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
        elif type(node) not in _OUT_OF_ORDER:
            for child in children(node):
                self.expression(child)
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
            before = self.copy()
            self.expression(node.body)
            after_body, self.env = self.env, before
            self.expression(node.orelse)
            self.env = merge([after_body, self.env])
        elif isinstance(node, cst.BooleanOperation):
            self.expression(node.left)
            self.perhaps(node.right)
        elif isinstance(node, cst.Comparison) and len(node.comparisons) > 1:
            self.expression(node.left)
            self.expression(node.comparisons[0].comparator)
            for target in node.comparisons[1:]:
                self.perhaps(target.comparator)
        else:
            for child in children(node):
                self.expression(child)

    def perhaps(self, node: cst.CSTNode) -> None:
        """Walk an expression that need not be evaluated."""
        before = self.copy()
        self.expression(node)
        self.env = merge([before, self.env])

    def comprehension(self, node: cst.BaseComp) -> None:
        before = self.copy()
        names = {part.value for loop in _loops_of(node) for part in target_names(loop.target)}
        self.flow._comprehended.setdefault(node, {})
        self.comprehended.append((node, names))
        # Twice, so that reads see what a walrus of an earlier round bound.
        for _ in range(2):
            for loop in _loops_of(node):
                self.expression(loop.iter)
                self.target(loop.target, Binding.LOOPED, loop.iter)
                for condition in loop.ifs:
                    self.expression(condition.test)
            if isinstance(node, cst.DictComp):
                self.expression(node.key)
                self.expression(node.value)
            elif isinstance(node, (cst.ListComp, cst.SetComp, cst.GeneratorExp)):
                self.expression(node.elt)
            self.env = merge([before, self.env])
            self.restore(before, names)
        self.comprehended.pop()

    def restore(self, before: _Env | None, names: set[str]) -> None:
        """Forget what a comprehension bound to its own variables."""
        if before is None or self.env is None:
            return
        for name in names:
            if name in before:
                self.env[name] = before[name]
            else:
                self.env.pop(name, None)

    def read(self, name: cst.Name) -> None:
        if self.env is None or name.value in self.homes:
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
            is_known = True
            for index, element in enumerate(node.elements):
                is_known = is_known and not isinstance(element, cst.StarredElement)
                step = index if is_known else -1
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
        comprehension = next((comp for comp, names in reversed(self.comprehended) if name in names), None)
        is_away = comprehension is None and name in self.homes
        definition = self.definitions.get((node, name))
        if definition is None:
            scope = self.homes[name] if is_away else self.scope
            definition = self.flow.define(name, node, binding, value, path, scope, module)
            self.definitions[(node, name)] = definition
            if comprehension is not None:
                self.flow._comprehended[comprehension].setdefault(name, []).append(definition)
            else:
                self.flow._bound.setdefault(scope, {}).setdefault(name, []).append(definition)
            if is_away:
                self.flow._from_within.setdefault(scope, {}).setdefault(name, []).append(definition)
        if self.env is None or is_away:
            return
        seen: _Seen = frozenset({(definition, frozenset())})
        self.env[name] = seen
        if comprehension is None:
            for interrupted in self.guards:
                interrupted[name] = interrupted.get(name, frozenset()) | seen
            for loop in self.loops:
                loop.bound.add(definition)

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


def _carried(env: _Env | None, loop: cst.CSTNode, bound: set[Definition]) -> _Env | None:
    """An environment at the end of a loop's round as the next round sees it."""
    if env is None:
        return None
    return {
        name: frozenset((definition, loops | {loop} if definition in bound else loops) for definition, loops in seen)
        for name, seen in env.items()
    }


def _loops_of(comprehension: cst.BaseComp) -> Iterator[cst.CompFor]:
    loop: cst.CompFor | None = comprehension.for_in
    while loop is not None:
        yield loop
        loop = loop.inner_for_in


def _suppresses(manager: cst.BaseExpression) -> bool:
    return isinstance(manager, cst.Call) and dotted(manager.func).rpartition(".")[2] in _SUPPRESSING


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


def import_source(statement: cst.ImportFrom) -> str:
    """The module that a `from` import takes from, with its leading dots."""
    return "." * len(statement.relative) + (dotted(statement.module) if statement.module is not None else "")


def _imported(definition: Definition) -> str:
    """The name that a `from` import takes out of its module."""
    alias = definition.node
    return dotted(alias.name) if isinstance(alias, cst.ImportAlias) else definition.name


def _only(places: set[Place | None]) -> Place | None:
    return places.pop() if len(places) == 1 else None


def _listed(definitions: Sequence[Definition]) -> list[str] | None:
    """The names in `__all__`, where one list of strings is all that is assigned to it."""
    (definition,) = definitions if len(definitions) == 1 else (None,)
    value = definition.part if definition is not None else None
    if not isinstance(value, (cst.List, cst.Tuple)):
        return None
    texts = [element.value for element in value.elements]
    names = [text.evaluated_value for text in texts if isinstance(text, cst.SimpleString)]
    return [str(name) for name in names] if len(names) == len(texts) else None


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
