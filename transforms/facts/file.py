"""The facts of files that are read together, each computed when it is first asked for, and what a file sees of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from pathlib import PurePath
from typing import TypeVar

import libcst as cst
from attrs import frozen

from perfmod.transforms.beside import Beside
from perfmod.transforms.facts.aliasing import Aliasing
from perfmod.transforms.facts.callees import Callees
from perfmod.transforms.facts.classes import Classes
from perfmod.transforms.facts.constants import Constants
from perfmod.transforms.facts.entry import Entry
from perfmod.transforms.facts.escapes import Escapes
from perfmod.transforms.facts.flow import Flow
from perfmod.transforms.facts.handing import Handing
from perfmod.transforms.facts.links import Links
from perfmod.transforms.facts.loaders import Loaders
from perfmod.transforms.facts.names import Names
from perfmod.transforms.facts.shapes import Shapes
from perfmod.transforms.facts.steps import Steps
from perfmod.transforms.facts.stores import Stores
from perfmod.transforms.facts.tracing import Tracing
from perfmod.transforms.facts.tree import FileTree, Tree
from perfmod.transforms.facts.value import Value
from perfmod.transforms.facts.values import Values
from perfmod.transforms.outside import OutsideSetting
from perfmod.transforms.policy import Policy
from perfmod.transforms.source import Source

Result = TypeVar("Result")


@frozen
class Linkage:
    """How a file is imported and what it imports.

    Attributes:
        modules: the dotted names by which other files may import it, such as `("engine", "src.engine")`.
        imports: the paths of what it imports, by dotted name as it is written there; None where `modules` tell.
        imported_elsewhere: whether files that are not in sight import it, too.
        is_beside_training: whether other files of its project train, and none of them imports it.
        forks_by_default: whether its project asks for a Python that forks processes by default on Linux, below 3.14.
        outside: what files of its project that are no Python set to 0.
        beside: the file beside it in which rules may put code; None where none may be written.
    """

    modules: Collection[str] = ()
    imports: Mapping[str, str] | None = None
    imported_elsewhere: bool = False
    is_beside_training: bool = False
    forks_by_default: bool = False
    outside: tuple[OutsideSetting, ...] = ()
    beside: Beside | None = None


class World:
    """The facts of all files that are read together; nodes of one lead to nodes of others through imports.

    Files are told apart by their paths. A file called `__init__.py` is its package.
    """

    def __init__(self, sources: Mapping[Source, Linkage], policy: Policy = Policy()) -> None:
        self.policy = policy
        self._linkages = dict(sorted(sources.items(), key=lambda item: item[0].path))
        self._computed: dict[Callable[[FileFacts], object], object] = {}
        self.files: dict[Source, FileFacts] = {source: FileFacts(source, self) for source in self._linkages}

    @property
    def is_linked(self) -> bool:
        """Whether there is more than one file."""
        return len(self._linkages) > 1

    @cached_property
    def tree(self) -> Tree:
        return Tree(*self._linkages)

    @cached_property
    def flow(self) -> Flow:
        links = Links()
        for source, linkage in self._linkages.items():
            imports = linkage.imports
            links.add(
                source.module,
                linkage.modules,
                {name: self._by_path[path].module for name, path in imports.items() if path in self._by_path}
                if imports is not None
                else None,
                is_package=PurePath(source.path).name == "__init__.py",
                is_open=linkage.imported_elsewhere,
            )
        return Flow(self.tree, links)

    @cached_property
    def names(self) -> Names:
        return Names(self.tree, self.flow)

    @cached_property
    def classes(self) -> Classes:
        return Classes(self.tree, self.flow, self.names)

    @cached_property
    def values(self) -> Values:
        return Values(self.tree, self.flow, self.names, self.classes)

    @cached_property
    def shapes(self) -> Shapes:
        return Shapes(self.tree, self.flow, self.names, self.values, self.aliasing, self.stores)

    @cached_property
    def stores(self) -> Stores:
        return Stores(self.tree, self.values)

    @cached_property
    def aliasing(self) -> Aliasing:
        return Aliasing(self.tree, self.flow, self.names, self.values)

    @cached_property
    def constants(self) -> Constants:
        return Constants(self.flow, self.aliasing)

    @cached_property
    def steps(self) -> Steps:
        return Steps(self.tree, self.classes, self.values)

    @cached_property
    def tracing(self) -> Tracing:
        return Tracing(self.tree, self.flow, self.names, self.classes, self.values)

    @cached_property
    def handing(self) -> Handing:
        return Handing(self.tree, self.flow, self.names, self.classes, self.values.calls)

    @cached_property
    def escapes(self) -> Escapes:
        return Escapes(self.tree, self.flow, self.names, self.classes, self.values, self.values.calls, self.handing)

    @cached_property
    def loaders(self) -> Loaders:
        return Loaders(self.tree, self.flow, self.names, self.classes, self.values, self.steps, self.tracing)

    @cached_property
    def _by_module(self) -> dict[cst.Module, Source]:
        return {source.module: source for source in self._linkages}

    @cached_property
    def _by_path(self) -> dict[str, Source]:
        return {source.path: source for source in self._linkages}

    def source_of(self, node: cst.CSTNode) -> Source:
        """The file in which a node stands."""
        if not self.is_linked:
            (source,) = self._linkages
            return source
        return self._by_module[self.tree.module_of(node)]

    def is_beside_training(self, source: Source) -> bool:
        """Whether other files of a file's project train, and none of them imports it."""
        return self._linkages[source].is_beside_training

    def forks_by_default(self, source: Source) -> bool:
        """Whether a file's project asks for a Python that forks processes by default on Linux."""
        return self._linkages[source].forks_by_default

    def outside(self, source: Source) -> tuple[OutsideSetting, ...]:
        """What files that are no Python set to 0 in a file's project."""
        return self._linkages[source].outside

    def beside(self, source: Source) -> Beside | None:
        """The file beside a file in which rules may put code."""
        return self._linkages[source].beside

    def source_at(self, path: str) -> Source:
        """The file of this path."""
        return self._by_path[path]

    @cached_property
    def labels(self) -> dict[Source, str]:
        """What messages call the files."""
        named = labels(list(self._by_path))
        return {source: named[source.path] for source in self._linkages}

    def once(self, compute: Callable[[FileFacts], Result], file: FileFacts) -> Result:
        """What `compute` says of the files together; asked from whichever of them, it is computed only once."""
        if compute not in self._computed:
            self._computed[compute] = compute(file)
        return self._computed[compute]  # type: ignore[return-value]


class FileFacts:
    """What a rule may ask about a file: its own source, and facts that it shares with the files read together with it.

    `source` and `tree.module` are the file's own. A node that a fact leads to may stand in another file: `line`,
    `code` and `source_of` ask the file that it stands in.
    """

    def __init__(self, source: Source, world: World | None = None) -> None:
        self.source = source
        self._given = world

    @cached_property
    def world(self) -> World:
        """The facts of all files."""
        return self._given or World({self.source: Linkage()})

    @cached_property
    def tree(self) -> FileTree:
        """Parents, enclosing statements, functions and loops."""
        return FileTree(self.world.tree, self.source.module)

    @property
    def forks_by_default(self) -> bool:
        """Whether the project asks for a Python that forks processes by default on Linux, below 3.14."""
        return self.world.forks_by_default(self.source)

    @property
    def outside(self) -> tuple[OutsideSetting, ...]:
        """What files of the project that are no Python set to 0."""
        return self.world.outside(self.source)

    @property
    def beside(self) -> Beside | None:
        """The file beside this one in which rules may put code; None where none may be written."""
        return self.world.beside(self.source)

    @property
    def policy(self) -> Policy:
        """What the project decided for all rules."""
        return self.world.policy

    @property
    def flow(self) -> Flow:
        """Definitions that names may see, and their uses."""
        return self.world.flow

    @property
    def names(self) -> Names:
        """Qualified names of imported things."""
        return self.world.names

    @property
    def classes(self) -> Classes:
        """Classes of all files, their bases, methods and attributes."""
        return self.world.classes

    @property
    def values(self) -> Values:
        """Kinds, devices and types of values; who calls whom."""
        return self.world.values

    @property
    def shapes(self) -> Shapes:
        """Which expressions provably have the same shape."""
        return self.world.shapes

    @property
    def stores(self) -> Stores:
        """Assignments to attributes and items."""
        return self.world.stores

    @property
    def aliasing(self) -> Aliasing:
        """Fresh tensors, views, in-place writes."""
        return self.world.aliasing

    @property
    def callees(self) -> Callees:
        """What calls run, and what is not in sight of it."""
        return self.world.aliasing.callees

    @property
    def constants(self) -> Constants:
        """Numbers that are written down."""
        return self.world.constants

    @property
    def steps(self) -> Steps:
        """Training steps of all files and the code that they reach."""
        return self.world.steps

    @property
    def tracing(self) -> Tracing:
        """Where values were made, one way at a time."""
        return self.world.tracing

    @property
    def handing(self) -> Handing:
        """Where values go."""
        return self.world.handing

    @property
    def escapes(self) -> Escapes:
        """Where tensors with a graph are noticed."""
        return self.world.escapes

    @cached_property
    def loaders(self) -> Loaders:
        """Data loaders, their settings, and the loops over them. Iterating gives those that this file constructs."""
        return self.world.loaders.seen_from(self.source.module)

    @cached_property
    def entry(self) -> Entry:
        """The top level: what runs when the file is run or imported."""
        return Entry(self.tree, self.flow, self.classes, self.values)

    def qualified(self, node: cst.CSTNode) -> str | None:
        """The qualified name of a dotted expression; of a call, that of what is called.

        What stands in a module in sight has its dotted name, `engine.train`: it is no method of an object.
        """
        named = node.func if isinstance(node, cst.Call) else node
        return self.names.qualified(named) or self.names.member(named)

    def value(self, node: cst.CSTNode) -> Value:
        """What is known of an expression's value."""
        return self.values.of(node)

    def scope_name(self, node: cst.CSTNode) -> str:
        """Dotted name of the functions and classes around `node`; empty at module level."""
        around = [n.name.value for n in self.tree.ancestors(node) if isinstance(n, (cst.FunctionDef, cst.ClassDef))]
        return ".".join(reversed(around))

    # Nodes of any file

    def source_of(self, node: cst.CSTNode) -> Source:
        """The file in which a node stands."""
        return self.world.source_of(node)

    def is_own(self, node: cst.CSTNode) -> bool:
        """Whether a node stands in this very file."""
        return self.source_of(node) is self.source

    def code(self, node: cst.CSTNode) -> str:
        """The characters of a node, exactly as they stand in its file."""
        return self.source_of(node).code(node)

    def whole_code(self, node: cst.BaseExpression) -> str:
        """The characters of an expression with the parentheses around it."""
        return self.source_of(node).whole_code(node)

    def line(self, node: cst.CSTNode) -> str:
        """Where a node starts, for messages: `41`, or `41 of engine.py` for a line of another file."""
        source = self.source_of(node)
        return self.line_at(source, source.line(node))

    def line_at(self, source: Source, line: int) -> str:
        """A line of any file, for messages."""
        return f"{line}" if source is self.source else f"{line} of {self.world.labels[source]}"

    def lines(self, nodes: Collection[cst.CSTNode]) -> str:
        """Where several nodes start, each line once: `line 3`, `lines 3, 7`, `lines 3, 7 and line 41 of engine.py`."""
        found: dict[Source, set[int]] = {}
        for node in nodes:
            source = self.source_of(node)
            found.setdefault(source, set()).add(source.line(node))
        ordered = sorted(found, key=lambda source: (source is not self.source, source.path))
        return " and ".join(self._some_lines(source, sorted(found[source])) for source in ordered)

    def _some_lines(self, source: Source, lines: list[int]) -> str:
        where = "" if source is self.source else f" of {self.world.labels[source]}"
        return f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}{where}"

    def comes_before(self, first: cst.CSTNode, second: cst.CSTNode) -> bool:
        """Whether one node stands above another in the same file."""
        source = self.source_of(first)
        return source is self.source_of(second) and source.span(first)[0] < source.span(second)[0]

    def once(self, compute: Callable[[FileFacts], Result]) -> Result:
        """What `compute` says of all files, whichever of them it is given; computed once."""
        return self.world.once(compute, self)


def labels(paths: Collection[str]) -> dict[str, str]:
    """What messages call files: the shortest ends of their paths by which they are told apart."""
    ends = {path: PurePath(path).parts for path in paths}
    return {path: _label(own, [other for other in ends.values() if other != own]) for path, own in ends.items()}


def _label(own: tuple[str, ...], others: list[tuple[str, ...]]) -> str:
    for length in range(1, len(own)):
        if all(other[-length:] != own[-length:] for other in others):
            return "/".join(own[-length:])
    return PurePath(*own).as_posix() if own else ""
