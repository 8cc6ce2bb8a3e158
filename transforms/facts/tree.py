"""Moving about in a LibCST tree: children without white space, parents, enclosing statements and functions."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import TypeVar

import libcst as cst

from perfmod.transforms.source import Source
from perfmod.transforms.work import spend

Node = TypeVar("Node", bound=cst.CSTNode)

Statement = cst.BaseSmallStatement | cst.BaseCompoundStatement
Function = cst.FunctionDef | cst.Lambda
Scope = cst.Module | cst.ClassDef | cst.FunctionDef | cst.Lambda

_NO_CODE = frozenset(
    {
        "comma",
        "equal",
        "operator",
        "dot",
        "semicolon",
        "lpar",
        "rpar",
        "lbracket",
        "rbracket",
        "lbrace",
        "rbrace",
        "leading_lines",
        "leading_whitespace",
        "lines_after_decorators",
        "header",
        "footer",
        "asynchronous",
        "annotation",
        "returns",
        "colon",
        "default_indent",
        "default_newline",
        "encoding",
        "has_trailing_newline",
        "indent",
        "posonly_ind",
        "first_colon",
        "second_colon",
    }
)
_fields_by_type: dict[type, tuple[str, ...]] = {}


def _code_fields(kind: type) -> tuple[str, ...]:
    fields = _fields_by_type.get(kind)
    if fields is None:
        names = [f.name for f in dataclasses.fields(kind)]
        # Assignments and comprehensions are written in another order than they are evaluated.
        names.sort(key=lambda name: 1 if name in ("targets", "target") and "value" in names else 0)
        if "elt" in names or ("for_in" in names and "key" in names):
            names.sort(key=lambda name: 0 if name == "for_in" else 1)
        fields = tuple(n for n in names if n not in _NO_CODE and not n.startswith("whitespace") and "trailing" not in n)
        _fields_by_type[kind] = fields
    return fields


# LibCST's node classes are abstract base classes, whose `isinstance` is slow; files are walked many times.
_is_node: dict[type, bool] = {}


# The parts of the nodes of the files that are looked at; every new `Tree` starts anew. Nodes are known by their ids,
# because hashing them calls Python code; each is kept here, so that no other can get its id.
_children: dict[int, tuple[cst.CSTNode, list[cst.CSTNode]]] = {}
# All nodes of those files, parents first, and where each node and what is below it stand among them.
_nodes: list[cst.CSTNode] = []
_ranges: dict[int, tuple[int, int]] = {}
# The places of the nodes of a type, and of those of one of several types as they were asked for.
_by_type: dict[type, list[int]] = {}
_of_kinds: dict[tuple[type, ...], list[int]] = {}
_ADDING = 5
"""What the parents, places and types of a node cost, in units of work."""
_SCOPES = (cst.FunctionDef, cst.Lambda, cst.ClassDef)
_WITH_BODIES = frozenset(_SCOPES)
_LOOPS = frozenset({cst.For, cst.While})


def children(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The parts of `node` that are code, in the order in which Python evaluates them; annotations are left out."""
    known = _children.get(id(node))
    if known is None:
        known = _children[id(node)] = (node, _find_children(node))
    return known[1]


def _find_children(node: cst.CSTNode) -> list[cst.CSTNode]:
    found: list[cst.CSTNode] = []
    for name in _code_fields(type(node)):
        value = getattr(node, name)
        kind = type(value)
        if kind is tuple or kind is list:
            found += value
        elif value is not None and _is_node_type(kind):
            found.append(value)
    return found


def _is_node_type(kind: type) -> bool:
    known = _is_node.get(kind)
    if known is None:
        known = _is_node[kind] = issubclass(kind, cst.CSTNode)
    return known


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """`node` and everything below it, parents first."""
    known = _ranges.get(id(node))
    if known is None:
        return _walk(node)
    first, end = known
    spend(end - first)
    return iter(_nodes[first:end])


def _walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(children(current)))


def walk_scope(node: cst.CSTNode, without: Collection[cst.CSTNode] = ()) -> Iterator[cst.CSTNode]:
    """Like `walk`, without the bodies of functions, lambdas and classes below `node`, nor what is below `without`."""
    known = _ranges.get(id(node))
    if known is None:
        stack = [node]
        while stack:
            current = stack.pop()
            yield current
            if current is node or (type(current) not in _SCOPES and current not in without):
                stack.extend(reversed(children(current)))
        return
    place, end = known
    spend(end - place)
    while place < end:
        current = _nodes[place]
        yield current
        if current is not node and (type(current) in _SCOPES or (without and current in without)):
            place = _ranges[id(current)][1]
        else:
            place += 1


def find_all(node: cst.CSTNode, kind: type[Node]) -> Iterator[Node]:
    """Every node of a type at or below `node`."""
    return find_any(node, kind)  # type: ignore[return-value]


def find_any(node: cst.CSTNode, *kinds: type[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    """Every node of one of several types at or below `node`; quicker than to ask each for its type."""
    known = _ranges.get(id(node))
    if known is None:
        return (found for found in _walk(node) if isinstance(found, kinds))
    places = _places(kinds, *known)
    spend(1 + len(places))
    return (_nodes[place] for place in places)


def find_in_scope(node: cst.CSTNode, *kinds: type[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    """Likewise, without what is in the bodies of functions, lambdas and classes below `node`: see `walk_scope`."""
    known = _ranges.get(id(node))
    if known is None:
        yield from (found for found in walk_scope(node) if isinstance(found, kinds))
        return
    first, end = known
    places, scopes = _places(kinds, first, end), _places(_SCOPES, first + 1, end)
    spend(1 + len(places) + len(scopes))
    inside = iter(scopes)
    scope, behind = next(inside, end), first
    for place in places:
        while scope < place:
            behind = max(behind, _ranges[id(_nodes[scope])][1])
            scope = next(inside, end)
        if place >= behind:
            yield _nodes[place]


def _places(kinds: tuple[type, ...], first: int, end: int) -> list[int]:
    """Where nodes of these types stand in a range of all nodes."""
    known = _of_kinds.get(kinds)
    if known is None:
        matching = [places for kind, places in _by_type.items() if issubclass(kind, kinds)]
        known = _of_kinds[kinds] = matching[0] if len(matching) == 1 else sorted(itertools.chain(*matching))
    return known[bisect.bisect_left(known, first) : bisect.bisect_left(known, end)]


def is_none(node: cst.CSTNode | None) -> bool:
    """Whether an expression is `None`, as it is written."""
    return isinstance(node, cst.Name) and node.value == "None"


def is_true(node: cst.CSTNode | None) -> bool:
    """Whether an expression is `True`, as it is written."""
    return isinstance(node, cst.Name) and node.value == "True"


def is_false(node: cst.CSTNode | None) -> bool:
    """Whether an expression is `False`, as it is written."""
    return isinstance(node, cst.Name) and node.value == "False"


class Tree:
    """Parents of every node of one file, or of several that are read together.

    Attributes:
        modules: their modules, in a fixed order.
    """

    def __init__(self, *sources: Source) -> None:
        _children.clear()
        _nodes.clear()
        _ranges.clear()
        _by_type.clear()
        _of_kinds.clear()
        self.modules = tuple(source.module for source in sources)
        self._sources = {id(source.module): source for source in sources}
        self._parents: dict[int, cst.CSTNode] = {}
        self._scopes: dict[int, Scope] = {}
        self._modules: dict[int, cst.Module] = {}
        self._found: dict[tuple[type, ...], list[cst.CSTNode]] = {}
        self._results: dict[int, tuple[cst.Return | cst.Yield, ...]] = {}
        for module in self.modules:
            self._add(module)

    def _add(self, module: cst.Module) -> None:
        first = len(_nodes)
        _nodes.extend(_walk(module))
        spend(_ADDING * (len(_nodes) - first))
        for place in range(len(_nodes) - 1, first - 1, -1):
            node = _nodes[place]
            parts = children(node)
            # The last part has been looked at; where it ends, so does the node.
            _ranges[id(node)] = place, _ranges[id(parts[-1])][1] if parts else place + 1
            for part in parts:
                self._parents[id(part)] = node
        for place in range(first, len(_nodes)):
            _by_type.setdefault(type(_nodes[place]), []).append(place)
        _of_kinds.clear()
        for owner in find_any(module, cst.Param, cst.AnnAssign, cst.FunctionDef):
            written = "returns" if isinstance(owner, cst.FunctionDef) else "annotation"
            self._place_annotation(owner, getattr(owner, written))

    def _place_annotation(self, owner: cst.CSTNode, annotation: cst.Annotation | None) -> None:
        """Say where an annotation stands. It is no code, but its names mean what they mean in its own file."""
        if annotation is None:
            return
        self._parents[id(annotation)] = owner
        self._parents[id(annotation.annotation)] = annotation
        for node in _walk(annotation.annotation):
            for part in children(node):
                self._parents[id(part)] = node

    def all(self, kind: type[Node]) -> Sequence[Node]:
        """Every node of a type in all modules, in order; parents come first."""
        return self.all_of(kind)  # type: ignore[return-value]

    def all_of(self, *kinds: type[cst.CSTNode]) -> Sequence[cst.CSTNode]:
        """Every node of one of several types in all modules, in order."""
        known = self._found.get(kinds)
        if known is None:
            known = self._found[kinds] = [_nodes[place] for place in _places(kinds, 0, len(_nodes))]
        return known

    def place(self, node: cst.CSTNode) -> int:
        """Where a node comes in the order of all nodes."""
        return _ranges[id(node)][0]

    def code(self, node: cst.CSTNode) -> str:
        """The characters of a node as they stand in its file; of an expression, with the parentheses around it."""
        source = self._sources[id(self.module_of(node))]
        return source.whole_code(node) if isinstance(node, cst.BaseExpression) else source.code(node)

    def module_of(self, node: cst.CSTNode) -> cst.Module:
        """The module in which a node stands."""
        if isinstance(node, cst.Module):
            return node
        scope = self.scope(node)
        known = self._modules.get(id(scope))
        if known is None:
            known = self._modules[id(scope)] = self.module_of(scope)
        return known

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The node that `node` is a part of; `None` for a module."""
        return self._parents.get(id(node))

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """From the parent of `node` up to the module."""
        parents = self._parents
        current = parents.get(id(node))
        while current is not None:
            yield current
            current = parents.get(id(current))

    def is_within(self, node: cst.CSTNode, outer: cst.CSTNode) -> bool:
        """Whether `node` is `outer` or stands below it."""
        inner, around = _ranges.get(id(node)), _ranges.get(id(outer))
        if inner is not None and around is not None:
            return around[0] <= inner[0] < around[1]
        return node is outer or any(ancestor is outer for ancestor in self.ancestors(node))

    def is_target(self, node: cst.CSTNode, *others: type[cst.CSTNode]) -> bool:
        """Whether an expression is bound, alone or in a tuple; with `others` also as the target of such statements."""
        child = node
        for parent in self.ancestors(node):
            if isinstance(parent, (cst.AssignTarget, cst.AnnAssign, cst.NamedExpr, cst.For, cst.CompFor, *others)):
                return getattr(parent, "target", None) is child
            if not isinstance(parent, (cst.Tuple, cst.List, cst.Element, cst.StarredElement)):
                return isinstance(parent, cst.AsName)
            child = parent
        return False

    def statement(self, node: cst.CSTNode) -> Statement:
        """The innermost statement that holds `node`: a small statement, or a compound one for code in its header."""
        current: cst.CSTNode | None = node
        while current is not None:
            if isinstance(current, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
                return current
            current = self._parents.get(id(current))
        raise ValueError(f"{type(node).__name__} stands in no statement")

    def line(self, statement: cst.CSTNode) -> cst.BaseStatement:
        """The statement as it stands in its block: the line of a small statement, or the compound statement."""
        for current in (statement, *self.ancestors(statement)):
            if isinstance(current, cst.BaseStatement):
                return current
        raise ValueError(f"{type(statement).__name__} stands in no block")

    def block(self, line: cst.BaseStatement) -> list[cst.BaseStatement]:
        """The statements among which `line` stands; none for an `elif`."""
        parent = self._parents[id(line)]
        body = parent.body if isinstance(parent, (cst.Module, cst.IndentedBlock)) else ()
        return [item for item in body if isinstance(item, cst.BaseStatement)]

    def scope(self, node: cst.CSTNode) -> Scope:
        """The function, lambda, class or module whose names `node` sees first."""
        known = self._scopes.get(id(node))
        if known is None:
            known = self._find_scope(node)
            if id(node) in self._parents:
                self._scopes[id(node)] = known
        return known

    def _find_scope(self, node: cst.CSTNode) -> Scope:
        parent = self._parents.get(id(node))
        if parent is None:
            return node if isinstance(node, cst.Module) else self.modules[0]
        if isinstance(parent, cst.Param) and parent.name is node:
            return self.scope(parent)
        if isinstance(node, cst.Param):
            function = self._parents[id(parent)]
            assert isinstance(function, (cst.FunctionDef, cst.Lambda))
            return function
        # Decorators, bases, defaults and annotations are evaluated outside.
        while type(parent) not in _WITH_BODIES or node is not getattr(parent, "body", None):
            if isinstance(parent, cst.Module):
                return parent
            node = parent
            known = self._scopes.get(id(node)) if type(node) is not cst.Param else None
            if known is not None:
                return known
            parent = self._parents[id(node)]
        assert isinstance(parent, (cst.FunctionDef, cst.Lambda, cst.ClassDef))
        return parent

    def function(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """The innermost `def` whose body holds `node`."""
        scope = self.scope(node)
        while isinstance(scope, cst.Lambda):
            scope = self.scope(scope)
        return scope if isinstance(scope, cst.FunctionDef) else None

    def results(self, function: cst.FunctionDef) -> tuple[cst.Return | cst.Yield, ...]:
        """The `return`s and `yield`s of a function, in order."""
        known = self._results.get(id(function))
        if known is None:
            ends = find_in_scope(function.body, cst.Return, cst.Yield)
            known = self._results[id(function)] = tuple(ends)  # type: ignore[arg-type]
        return known

    def is_generator(self, function: cst.FunctionDef) -> bool:
        """Whether a function yields."""
        return any(isinstance(end, cst.Yield) for end in self.results(function))

    def class_of(self, function: cst.FunctionDef) -> cst.ClassDef | None:
        """The class in which a method is defined."""
        scope = self.scope(function)
        return scope if isinstance(scope, cst.ClassDef) else None

    def loops(self, node: cst.CSTNode) -> list[cst.For | cst.While]:
        """The loops of the same function whose body holds `node`, innermost first."""
        found: list[cst.For | cst.While] = []
        child = node
        for ancestor in self.ancestors(node):
            if type(ancestor) in _SCOPES:
                break
            if type(ancestor) in _LOOPS and isinstance(ancestor, (cst.For, cst.While)) and child is ancestor.body:
                found.append(ancestor)
            child = ancestor
        return found


class FileTree(Tree):
    """The same tree as one of its modules sees it.

    Attributes:
        module: that module.
    """

    def __init__(self, tree: Tree, module: cst.Module) -> None:
        vars(self).update(vars(tree))
        self.module = module
