"""All facts of one file, each computed when it is first asked for."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from perfmod.transforms.facts.aliasing import Aliasing
from perfmod.transforms.facts.classes import Classes
from perfmod.transforms.facts.constants import Constants
from perfmod.transforms.facts.entry import Entry
from perfmod.transforms.facts.flow import Flow
from perfmod.transforms.facts.handing import Handing
from perfmod.transforms.facts.loaders import Loaders
from perfmod.transforms.facts.names import Names
from perfmod.transforms.facts.shapes import Shapes
from perfmod.transforms.facts.steps import Steps
from perfmod.transforms.facts.stores import Stores
from perfmod.transforms.facts.tracing import Tracing
from perfmod.transforms.facts.tree import Tree
from perfmod.transforms.facts.value import Value
from perfmod.transforms.facts.values import Values
from perfmod.transforms.source import Source


class FileFacts:
    """What a rule may ask about a file. One instance per file and round; nothing is shared between files."""

    def __init__(self, source: Source) -> None:
        self.source = source

    @cached_property
    def tree(self) -> Tree:
        """Parents, enclosing statements, functions and loops."""
        return Tree(self.source.module)

    @cached_property
    def flow(self) -> Flow:
        """Definitions that names may see, and their uses."""
        return Flow(self.tree)

    @cached_property
    def names(self) -> Names:
        """Qualified names of imported things."""
        return Names(self.tree, self.flow)

    @cached_property
    def classes(self) -> Classes:
        """Classes, their bases, methods and attributes."""
        return Classes(self.tree, self.flow, self.names)

    @cached_property
    def values(self) -> Values:
        """Kinds, devices and types of values; who calls whom."""
        return Values(self.tree, self.flow, self.names, self.classes)

    @cached_property
    def shapes(self) -> Shapes:
        """Which expressions provably have the same shape."""
        return Shapes(self.tree, self.flow, self.names, self.values, self.aliasing, self.stores)

    @cached_property
    def stores(self) -> Stores:
        """Assignments to attributes and items."""
        return Stores(self.tree, self.values)

    @cached_property
    def aliasing(self) -> Aliasing:
        """Fresh tensors, views, in-place writes."""
        return Aliasing(self.tree, self.flow, self.names, self.values)

    @cached_property
    def constants(self) -> Constants:
        """Numbers that are written down."""
        return Constants(self.flow, self.aliasing)

    @cached_property
    def steps(self) -> Steps:
        """Training steps and the code that they reach."""
        return Steps(self.tree, self.classes, self.values)

    @cached_property
    def tracing(self) -> Tracing:
        """Where values were made, one way at a time."""
        return Tracing(self.tree, self.flow, self.names, self.classes, self.values)

    @cached_property
    def handing(self) -> Handing:
        """Where values go."""
        return Handing(self.tree, self.flow, self.names, self.classes, self.values.calls)

    @cached_property
    def loaders(self) -> Loaders:
        """Data loaders, their settings, and the loops over them."""
        return Loaders(self.tree, self.flow, self.names, self.values, self.steps, self.tracing)

    @cached_property
    def entry(self) -> Entry:
        """The top level: what runs when the file is run or imported."""
        return Entry(self.tree, self.flow, self.names, self.classes, self.values)

    def qualified(self, node: cst.CSTNode) -> str | None:
        """The qualified name of a dotted expression; of a call, that of what is called."""
        return self.names.qualified(node.func if isinstance(node, cst.Call) else node)

    def value(self, node: cst.CSTNode) -> Value:
        """What is known of an expression's value."""
        return self.values.of(node)

    def scope_name(self, node: cst.CSTNode) -> str:
        """Dotted name of the functions and classes around `node`; empty at module level."""
        around = [n.name.value for n in self.tree.ancestors(node) if isinstance(n, (cst.FunctionDef, cst.ClassDef))]
        return ".".join(reversed(around))
