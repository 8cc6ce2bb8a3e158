"""Where a value goes: names, attributes, containers, parameters and returns followed to what finally uses it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.calls import Calls
from perfmod.transforms.facts.classes import Classes, ClassFacts
from perfmod.transforms.facts.flow import Definition, Flow, parameters
from perfmod.transforms.facts.names import Names
from perfmod.transforms.facts.tree import Tree, find_all


class Handing:
    """Follows values of one file to their uses."""

    def __init__(self, tree: Tree, flow: Flow, names: Names, classes: Classes, calls: Calls) -> None:
        self._tree = tree
        self._flow = flow
        self._names = names
        self._classes = classes
        self._calls = calls

    def uses(self, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """Every expression that holds the value of `node` and is used for something else than to hand it on.

        A function that returns the value to callers outside of the file counts as a use of what it returns.
        """
        seen: set[cst.CSTNode] = set()
        stack: list[cst.BaseExpression] = [node]
        while stack:
            current = stack.pop()
            if current in seen:
                continue
            seen.add(current)
            further = self._handed_on(current)
            if further is None:
                yield current
            else:
                stack.extend(further)

    def _handed_on(self, node: cst.BaseExpression) -> list[cst.BaseExpression] | None:
        """The expressions that hold the value next; `None` where it is used."""
        parent = self._tree.parent(node)
        if isinstance(parent, cst.Assign):
            found: list[cst.BaseExpression] = []
            for target in parent.targets:
                more = self._stored(target.target)
                if more is None:
                    return None
                found += more
            return found
        if isinstance(parent, (cst.AnnAssign, cst.NamedExpr)) and parent.value is node:
            return self._stored(parent.target)
        if isinstance(parent, cst.IfExp) and parent.test is not node:
            return [parent]
        if isinstance(parent, cst.BooleanOperation):
            return [parent]
        if isinstance(parent, (cst.Element, cst.DictElement)):
            container = self._tree.parent(parent)
            if isinstance(container, (cst.List, cst.Dict, cst.Tuple)):
                around = self._tree.parent(container)
                return [container] if isinstance(around, (cst.Assign, cst.Return, cst.DictElement)) else None
        if isinstance(parent, cst.Subscript) and parent.value is node and self._is_container(node):
            return [parent]
        if isinstance(parent, cst.Return):
            function = self._tree.function(parent)
            callers = self._calls.callers(function) if function is not None else ()
            return list(callers) if callers else None
        if isinstance(parent, cst.Arg):
            return self._passed(parent)
        return None

    def _stored(self, target: cst.BaseExpression) -> list[cst.BaseExpression] | None:
        if isinstance(target, cst.Name):
            definitions = [d for d in self._flow.bound(self._tree.scope(target), target.value) if d.node is target]
            return [use for definition in definitions for use in self._flow.uses(definition)]
        own = self._classes.self_attribute(target)
        return self.attribute_reads(*own) if own is not None else None

    def attribute_reads(self, cls: ClassFacts, name: str) -> list[cst.BaseExpression]:
        """Every read of an attribute of this name, except through names that are something else for sure."""
        return [
            node
            for node in find_all(self._tree.module, cst.Attribute)
            if node.attr.value == name
            and self._names.qualified(node) is None
            and not isinstance(self._tree.parent(node), (cst.AssignTarget, cst.AnnAssign, cst.AugAssign))
            and (
                (own := self._classes.self_attribute(node)) is None
                or cls in own[0].lineage()
                or own[0] in cls.lineage()
            )
        ]

    def _passed(self, arg: cst.Arg) -> list[cst.BaseExpression] | None:
        call = self._tree.parent(arg)
        if not isinstance(call, cst.Call) or arg.star:
            return None
        made = self._calls.constructed(call)
        function = made.method("__init__") if made is not None else self._calls.resolve(call)
        if function is None:
            return None
        param = self._parameter(call, arg, function)
        if param is None:
            return None
        definitions: list[Definition] = [d for d in self._flow.bound(function, param.name.value) if d.node is param]
        return [use for definition in definitions for use in self._flow.uses(definition)]

    def _parameter(self, call: cst.Call, arg: cst.Arg, function: cst.FunctionDef) -> cst.Param | None:
        params = [p for p in parameters(function) if p.star not in ("*", "**")]
        if arg.keyword is not None:
            return next((p for p in params if p.name.value == arg.keyword.value), None)
        is_method = isinstance(self._tree.scope(function), cst.ClassDef)
        position = list(call.args).index(arg) + (1 if is_method else 0)
        return params[position] if position < len(params) else None

    def _is_container(self, node: cst.BaseExpression) -> bool:
        """Whether a name stands for a container that is written down in the file."""
        if not isinstance(node, cst.Name):
            return isinstance(node, (cst.Dict, cst.List, cst.Tuple))
        definitions = self._flow.definitions(node)
        return bool(definitions) and all(isinstance(d.value, (cst.Dict, cst.List, cst.Tuple)) for d in definitions)
