"""Where a value goes: names, attributes, containers, parameters and returns followed forward to what finally uses it.

`Tracing` answers where a value came from; this is the other direction, and it errs to the other side: what cannot be
followed is a use, so that whoever asks sees every place where the value may end up.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from functools import cached_property

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import Calls
from perfmod.transforms.facts.classes import Classes, ClassFacts
from perfmod.transforms.facts.flow import Flow, parameters
from perfmod.transforms.facts.names import Names
from perfmod.transforms.facts.tracing import Step, literal
from perfmod.transforms.facts.tree import Tree

_SAME_PARTS = frozenset({"builtins.list", "builtins.tuple", "builtins.sorted", "builtins.reversed"})
_LONGEST_PATH = 6
# Methods that give back the module they belong to.
_GIVE_THEMSELVES = frozenset(
    {"to", "cuda", "cpu", "eval", "train", "half", "float", "double", "requires_grad_", "bfloat16"}
)


@frozen
class Held:
    """An expression that holds a value: itself where `path` is empty, else in the part of it where `path` leads."""

    node: cst.BaseExpression
    path: tuple[Step, ...] = ()


class Handing:
    """Follows values to their uses."""

    def __init__(self, tree: Tree, flow: Flow, names: Names, classes: Classes, calls: Calls) -> None:
        self._tree = tree
        self._flow = flow
        self._names = names
        self._classes = classes
        self._calls = calls

    def module_uses(self, made: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """Every use of a module, those of what `module.to(device)` gives back too."""
        stack = [made]
        seen: set[cst.CSTNode] = set()
        while stack:
            for held in self.uses(stack.pop()):
                parent = self._tree.parent(held.node)
                call = self._tree.parent(parent) if isinstance(parent, cst.Attribute) else None
                moves = isinstance(parent, cst.Attribute) and parent.attr.value in _GIVE_THEMSELVES
                if moves and isinstance(call, cst.Call) and call.func is parent:
                    if call not in seen and not isinstance(self._tree.parent(call), cst.Expr):
                        stack.append(call)
                    seen.add(call)
                else:
                    yield held.node

    def uses(self, node: cst.BaseExpression, path: tuple[Step, ...] = ()) -> Iterator[Held]:
        """Every expression that holds the value of `node` and is used for something else than to hand it on.

        A function that returns the value to callers that are not in sight counts as a use of what it returns.
        """
        seen: set[Held] = set()
        stack = [Held(node, path)]
        while stack:
            current = stack.pop()
            if current in seen:
                continue
            seen.add(current)
            further = self._handed_on(current) if len(current.path) <= _LONGEST_PATH else None
            if further is None:
                yield current
            else:
                stack.extend(further)

    def _handed_on(self, held: Held) -> list[Held] | None:
        """The expressions that hold the value next; `None` where it is used."""
        node, path = held.node, held.path
        parent = self._tree.parent(node)
        if isinstance(parent, cst.Assign):
            return self._stored_in_all([target.target for target in parent.targets], path)
        if isinstance(parent, cst.AnnAssign):
            return self._stored(parent.target, path)
        if isinstance(parent, cst.NamedExpr):
            stored = self._stored(parent.target, path)
            return [Held(parent, path), *stored] if stored is not None else None
        if isinstance(parent, cst.BooleanOperation) or (isinstance(parent, cst.IfExp) and parent.test is not node):
            return [Held(parent, path)]
        if isinstance(parent, cst.Element):
            return self._in_sequence(parent, path)
        if isinstance(parent, cst.DictElement) and parent.value is node:
            around = self._tree.parent(parent)
            assert isinstance(around, cst.Dict)
            return [Held(around, (literal(parent.key), *path))]
        if isinstance(parent, (cst.ListComp, cst.GeneratorExp)) and parent.elt is node:
            return [Held(parent, (None, *path))]
        if isinstance(parent, cst.DictComp) and parent.value is node:
            return [Held(parent, (None, *path))]
        if isinstance(parent, cst.Return):
            return self._returned(parent, path)
        if isinstance(parent, cst.Param):
            return self._reads_of_parameter(parent, path)
        if isinstance(parent, cst.Arg):
            return self._passed(parent, path)
        return self._taken_out(held, parent) if path else None

    # Into containers

    def _in_sequence(self, element: cst.Element, path: tuple[Step, ...]) -> list[Held] | None:
        around = self._tree.parent(element)
        if not isinstance(around, (cst.List, cst.Tuple)):
            return None
        starred = any(isinstance(other, cst.StarredElement) for other in around.elements)
        return [Held(around, (None if starred else list(around.elements).index(element), *path))]

    def _stored_in_all(
        self, targets: list[cst.BaseAssignTargetExpression], path: tuple[Step, ...]
    ) -> list[Held] | None:
        found: list[Held] = []
        for target in targets:
            more = self._stored(target, path)
            if more is None:
                return None
            found += more
        return found

    def _stored(self, target: cst.BaseExpression, path: tuple[Step, ...]) -> list[Held] | None:
        """Reads of what an assignment binds."""
        if isinstance(target, cst.Name):
            return self._reads(target, path)
        if isinstance(target, (cst.Tuple, cst.List)):
            return self._unpacked(target, path)
        if isinstance(target, cst.Subscript):
            return self._put(target.value, (_key(target), *path))
        own = self._classes.self_attribute(target)
        return [Held(read, path) for read in self.attribute_reads(*own)] if own is not None else None

    def _unpacked(self, target: cst.Tuple | cst.List, path: tuple[Step, ...]) -> list[Held] | None:
        starred = any(isinstance(element, cst.StarredElement) for element in target.elements)
        if not path or starred or isinstance(path[0], str):
            return None
        parts = [element.value for element in target.elements]
        if path[0] is not None:
            parts = parts[path[0] : path[0] + 1]
        found: list[Held] = []
        for part in parts:
            more = self._stored(part, path[1:])
            if more is None:
                return None
            found += more
        return found

    def _put(self, container: cst.BaseExpression, path: tuple[Step, ...]) -> list[Held] | None:
        """Everything that may hold the container in which a value is put later."""
        if isinstance(container, cst.Name):
            definitions = self._flow.definitions(container)
            made = all(
                isinstance(d.value, (cst.Dict, cst.DictComp, cst.List, cst.ListComp, cst.Call)) and not d.path
                for d in definitions
            )
            if definitions and made and container.value not in self.outer_names:
                return [Held(use, path) for definition in definitions for use in self._flow.uses(definition)]
        own = self._classes.self_attribute(container)
        return [Held(read, path) for read in self.attribute_reads(*own)] if own is not None else None

    # Out of containers

    def _taken_out(self, held: Held, parent: cst.CSTNode | None) -> list[Held] | None:
        node, (first, *rest) = held.node, held.path
        if isinstance(parent, cst.Subscript) and parent.value is node:
            if isinstance(self._tree.parent(parent), (cst.AssignTarget, cst.Del)):
                return []
            index = parent.slice[0].slice
            if len(parent.slice) > 1 or not isinstance(index, cst.Index):
                return [Held(parent, (None, *rest))]
            wanted = literal(index.value)
            return [Held(parent, tuple(rest))] if wanted is None or first is None or wanted == first else []
        if isinstance(parent, (cst.For, cst.CompFor)) and parent.iter is node:
            return [] if self._is_dictionary(node) else self._stored(parent.target, tuple(rest))
        if isinstance(parent, cst.Attribute) and parent.value is node:
            call = self._tree.parent(parent)
            if isinstance(call, cst.Call) and call.func is parent:
                return self._from_method(call, parent.attr.value, first, tuple(rest))
        return None

    def _from_method(self, call: cst.Call, method: str, first: Step, rest: tuple[Step, ...]) -> list[Held] | None:
        if method in ("append", "keys"):
            return []
        if method == "items":
            return [Held(call, (None, 1, *rest))]
        if method == "values":
            return [Held(call, (None, *rest))]
        if method in ("get", "pop") and call.args:
            wanted = literal(call.args[0].value)
            return [Held(call, rest)] if None in (wanted, first) or wanted == first else []
        return None

    def _is_dictionary(self, node: cst.BaseExpression) -> bool:
        """Whether a container is a dictionary for sure, so that iterating it gives its keys."""
        if isinstance(node, cst.Name):
            values = [d.value if not d.path else None for d in self._flow.definitions(node)]
            return bool(values) and all(isinstance(value, (cst.Dict, cst.DictComp)) for value in values)
        return isinstance(node, (cst.Dict, cst.DictComp))

    # Names and attributes

    def _reads(self, target: cst.Name, path: tuple[Step, ...]) -> list[Held] | None:
        """Reads of a name that `target` binds; `None` where others may read it that are not seen here."""
        scope = self._tree.scope(target)
        if target.value in self.outer_names or (isinstance(scope, cst.Module) and self._flow.is_open(target)):
            return None
        definitions = [d for d in self._flow.bound(scope, target.value) if d.node is target]
        found: list[cst.BaseExpression] = [use for d in definitions for use in self._flow.uses(d)]
        cls = self._classes.of(scope)
        if cls is not None:
            found += self.attribute_reads(cls, target.value)
        if not definitions:  # bound by a comprehension
            found += [
                name
                for name in self._tree.all(cst.Name)
                if name.value == target.value
                and self._flow.is_read(name)
                and any(d.node is target for d in self._flow.definitions(name))
            ]
        return [Held(read, path) for read in found]

    @cached_property
    def outer_names(self) -> frozenset[str]:
        """Names that some function binds for others, by `global` or `nonlocal`."""
        statements: Iterable[cst.Global | cst.Nonlocal] = itertools.chain(
            self._tree.all(cst.Global), self._tree.all(cst.Nonlocal)
        )
        return frozenset(item.name.value for statement in statements for item in statement.names)

    @cached_property
    def _attributes(self) -> dict[str, list[cst.Attribute]]:
        found: dict[str, list[cst.Attribute]] = {}
        for node in self._tree.all(cst.Attribute):
            found.setdefault(node.attr.value, []).append(node)
        return found

    def attribute_reads(self, cls: ClassFacts, name: str) -> list[cst.BaseExpression]:
        """Every read of an attribute of this name in sight, except through what is something else for sure."""
        return [
            node
            for node in self._attributes.get(name, ())
            if self._names.qualified(node) is None
            and self._names.member(node) is None
            and not self._tree.is_target(node, cst.AugAssign)
            and (
                (own := self._classes.self_attribute(node)) is None
                or cls in own[0].lineage()
                or own[0] in cls.lineage()
            )
        ]

    # Functions

    def _returned(self, statement: cst.Return, path: tuple[Step, ...]) -> list[Held] | None:
        function = self._tree.function(statement)
        callers = self._callers(function) if function is not None else None
        return [Held(caller, path) for caller in callers] if callers else None

    def _callers(self, function: cst.FunctionDef) -> list[cst.BaseExpression] | None:
        """Every expression that gives what a function in sight returns; `None` where they are not all in sight."""
        decorators = {self._names.qualified(d.decorator) for d in function.decorators}
        cls = self._classes.of(self._tree.scope(function))
        if not decorators <= {"builtins.property", "builtins.staticmethod", "builtins.classmethod"}:
            return None
        if self._flow.is_open(function) or self._tree.is_generator(function):
            return None
        if cls is None:
            return list(self._calls.callers(function)) if self._calls.is_only_called(function) else None
        reads = self.attribute_reads(cls, function.name.value)
        if "builtins.property" in decorators:
            return reads
        calls: list[cst.BaseExpression] = []
        for read in reads:
            call = self._tree.parent(read)
            if not isinstance(call, cst.Call) or call.func is not read:
                return None
            calls.append(call)
        return calls

    def _passed(self, arg: cst.Arg, path: tuple[Step, ...]) -> list[Held] | None:
        call = self._tree.parent(arg)
        if not isinstance(call, cst.Call) or arg.star:
            return None
        name = self._names.qualified(call.func)
        if name is not None:
            return self._passed_to_builtin(name, call, arg, path) if path else None
        if self._function(call) is not None:
            param, collected = self.parameter(arg), self._collected(arg)
            if param is not None:
                return self._reads_of_parameter(param, path)
            return self._reads_of_parameter(collected, (None, *path)) if collected is not None else None
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "append" and len(call.args) == 1:
            return self._put(call.func.value, (None, *path))
        return None

    def _passed_to_builtin(self, name: str, call: cst.Call, arg: cst.Arg, path: tuple[Step, ...]) -> list[Held] | None:
        first, *rest = path
        if name in _SAME_PARTS:
            return [Held(call, (first if name in ("builtins.list", "builtins.tuple") else None, *rest))]
        if name == "builtins.enumerate":
            return [Held(call, (None, 1, *rest))]
        if name == "builtins.zip":
            return [Held(call, (None, list(call.args).index(arg), *rest))]
        return [] if name == "builtins.len" else None

    def _reads_of_parameter(self, param: cst.Param, path: tuple[Step, ...]) -> list[Held] | None:
        for scope in (self._tree.scope(param), self._tree.scope(param.name)):
            for definition in self._flow.bound(scope, param.name.value):
                if definition.node is param:
                    return [Held(use, path) for use in self._flow.uses(definition)]
        return None

    def _function(self, call: cst.Call) -> cst.FunctionDef | None:
        """The function in sight that takes a call's arguments."""
        made = self._calls.constructed(call)
        return made.method("__init__") if made is not None else self._calls.resolve(call)

    def parameter(self, arg: cst.Arg) -> cst.Param | None:
        """The parameter of a function in sight that takes an argument; `None` where it is not a single known one."""
        call = self._tree.parent(arg)
        function = self._function(call) if isinstance(call, cst.Call) and not arg.star else None
        if function is None or not isinstance(call, cst.Call):
            return None
        params = [p for p in parameters(function) if p.star not in ("*", "**")]
        if arg.keyword is not None:
            return next((p for p in params if p.name.value == arg.keyword.value), None)
        position = list(call.args).index(arg)
        if any(other.star for other in call.args[:position]):
            return None
        is_static = any(self._names.qualified(d.decorator) == "builtins.staticmethod" for d in function.decorators)
        if isinstance(self._tree.scope(function), cst.ClassDef) and not is_static:
            position += 1
        positional = [p for p in params if p not in function.params.kwonly_params]
        return positional[position] if position < len(positional) else None

    def _collected(self, arg: cst.Arg) -> cst.Param | None:
        """The `*meters` of a function in sight that takes an argument which no other parameter takes."""
        call = self._tree.parent(arg)
        function = self._function(call) if isinstance(call, cst.Call) else None
        star = function.params.star_arg if function is not None else None
        if not isinstance(call, cst.Call) or arg.keyword is not None or any(other.star for other in call.args):
            return None
        return star if isinstance(star, cst.Param) and self.parameter(arg) is None else None


def _key(target: cst.Subscript) -> Step:
    index = target.slice[0].slice
    return literal(index.value) if len(target.slice) == 1 and isinstance(index, cst.Index) else None
