"""Where a value was made: names, parameters, attributes, containers and loops followed back to expressions
that make values.

`Values` joins all ways by which a value may come into one statement about it; `Tracing` keeps them apart, so
that a loop shared by two loaders, or a helper called with batches and with other things, is seen as what it
is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts import torch_api
from perfmod.transforms.facts.calls import argument, has_star, is_decorated, passed
from perfmod.transforms.facts.classes import Classes
from perfmod.transforms.facts.flow import Binding, Definition, Flow, Read, dotted, parameters
from perfmod.transforms.facts.launches import Launches
from perfmod.transforms.facts.names import Names
from perfmod.transforms.facts.tree import Tree
from perfmod.transforms.facts.values import Values

Step = int | str | None
"""From a container to a part of it: a position, a key, or `None` for any element (what a loop binds)."""

_LONGEST_PATH = 8
_MOST_PLACES = 5_000
"""What is made of more than these, by wrappers of wrappers, is taken to be made where the search has come to."""
HANDS_ON = (
    torch_api.PASSES_ITEMS
    | torch_api.WRAPPERS
    | {"builtins.iter", "builtins.list", "builtins.tuple", "builtins.sorted", "builtins.reversed"}
)
"""Functions whose result has the items of what they are given first, or is it."""
# Methods that give the same storage, or the same object.
_VIEWS = frozenset(
    {
        "view", "reshape", "flatten", "squeeze", "unsqueeze", "permute", "transpose", "t", "contiguous",
        "detach", "expand", "expand_as", "view_as", "narrow", "requires_grad_", "pin_memory",
    }
)  # fmt: skip


@frozen
class End:
    """Where a trail ends: `path` leads from the value of `node` to the value that was asked for.

    `node` is an expression (a call, a literal, a lambda, an imported name), the `FunctionDef` or `ClassDef`
    that a name stands for, or the `Param` whose callers are not (all) in sight.
    """

    node: cst.CSTNode
    path: tuple[Step, ...]


class Tracing:
    """Follows values back to where they were made."""

    def __init__(self, tree: Tree, flow: Flow, names: Names, classes: Classes, values: Values) -> None:
        self._tree = tree
        self._flow = flow
        self._names = names
        self._classes = classes
        self._values = values
        self._launches = Launches(tree, flow, names)
        self._known: dict[tuple[cst.CSTNode, tuple[Step, ...]], tuple[End, ...]] = {}
        self._steps: dict[tuple[cst.CSTNode, tuple[Step, ...]], list[tuple[cst.CSTNode, tuple[Step, ...]] | End]] = {}

    def ends(self, node: cst.BaseExpression, path: tuple[Step, ...] = ()) -> tuple[End, ...]:
        """Every place where the value of `node` (or the part of it at `path`) may have been made.

        A part of a batch ends at the call that makes its loader, with a path that begins with `None`; the
        loader itself ends there with an empty path.
        """
        key = (node, path)
        if key not in self._known:
            self._known[key] = tuple(dict.fromkeys(self._follow(node, path)))
        return self._known[key]

    def ends_behind(
        self, node: cst.BaseExpression, stops: Collection[cst.CSTNode], path: tuple[Step, ...] = ()
    ) -> tuple[End, ...]:
        """As `ends`, but trails also end where they come by one of `stops`."""
        if not stops:
            return self.ends(node, path)
        return tuple(dict.fromkeys(self._follow(node, path, stops)))

    def _follow(self, node: cst.CSTNode, path: tuple[Step, ...], stops: Collection[cst.CSTNode] = ()) -> Iterator[End]:
        seen: set[tuple[cst.CSTNode, tuple[Step, ...]]] = set()
        stack: list[tuple[cst.CSTNode, tuple[Step, ...]] | End] = [(node, path)]
        while stack:
            current = stack.pop()
            if isinstance(current, End):
                yield current
            elif current not in seen and len(current[1]) <= _LONGEST_PATH:
                # Else it is a cycle, such as a helper that calls itself for the parts of what it was given.
                seen.add(current)
                is_end = current[0] in stops or len(seen) > _MOST_PLACES
                stack += [End(*current)] if is_end else self._back(current)

    def _back(self, place: tuple[cst.CSTNode, tuple[Step, ...]]) -> list[tuple[cst.CSTNode, tuple[Step, ...]] | End]:
        """What one step back leads to, the last first; asked only once, for many values come by the same places."""
        if place not in self._steps:
            ways = self._ways(*place)
            self._steps[place] = [End(*place)] if ways is None else ways[::-1]
        return self._steps[place]

    def _ways(
        self, node: cst.CSTNode, path: tuple[Step, ...]
    ) -> list[tuple[cst.CSTNode, tuple[Step, ...]] | End] | None:
        """One step back: the expressions that the value comes from; `None` where it is made here."""
        if self._flow.is_variable(node):
            return self._from_name(node, path)
        if isinstance(node, cst.Attribute):
            return self._from_attribute(node, path)
        if isinstance(node, cst.Subscript):
            step = _step(node)
            if not step and path and isinstance(path[0], int):
                step, path = (None,), path[1:]  # positions are others in a slice
            return [(node.value, (*step, *path))]
        if isinstance(node, cst.Call):
            return self._from_call(node, path)
        if isinstance(node, cst.IfExp):
            return [(node.body, path), (node.orelse, path)]
        if isinstance(node, cst.BooleanOperation):
            return [(node.left, path), (node.right, path)]
        if isinstance(node, cst.NamedExpr):
            return [(node.value, path)]
        if not path:
            return None
        first, rest = path[0], path[1:]
        if isinstance(node, (cst.Tuple, cst.List)):
            parts = [element.value for element in node.elements]
            if any(isinstance(element, cst.StarredElement) for element in node.elements):
                return None
            if isinstance(first, int) and -len(parts) <= first < len(parts):
                return [(parts[first], rest)]
            return [(part, rest) for part in parts]
        if isinstance(node, (cst.ListComp, cst.GeneratorExp)):
            return [(node.elt, rest)]
        if isinstance(node, cst.DictComp):
            return [(node.value, rest)]
        if isinstance(node, cst.Dict):
            return self._from_dict(node, first, rest)
        return None

    def _from_dict(
        self, node: cst.Dict, first: Step, rest: tuple[Step, ...]
    ) -> list[tuple[cst.CSTNode, tuple[Step, ...]] | End] | None:
        entries = [element for element in node.elements if isinstance(element, cst.DictElement)]
        if len(entries) < len(node.elements):
            return None
        exact = [entry for entry in entries if first is not None and literal(entry.key) == first]
        return [(entry.value, rest) for entry in exact or entries]

    def _from_name(self, node: Read, path: tuple[Step, ...]) -> list[tuple[cst.CSTNode, tuple[Step, ...]] | End] | None:
        definitions = self._flow.definitions(node)
        if not definitions:
            return None
        ways: list[tuple[cst.CSTNode, tuple[Step, ...]] | End] = []
        for definition in definitions:
            ways += self._from_definition(node, definition, path)
        return ways

    def _from_definition(
        self, node: Read, definition: Definition, path: tuple[Step, ...]
    ) -> Iterator[tuple[cst.CSTNode, tuple[Step, ...]] | End]:
        steps = tuple(None if step == -1 else step for step in definition.path)
        if definition.binding is Binding.ASSIGNED and definition.value is not None:
            stored = list(self._stored(definition, path)) if path else []
            yield from stored
            if not (stored and _is_empty(definition.value)):
                yield definition.value, (*steps, *path)
        elif definition.binding is Binding.LOOPED and definition.value is not None:
            yield definition.value, (None, *steps, *path)
        elif definition.binding is Binding.MANAGED and self._is_progress_bar(definition.value):
            assert definition.value is not None
            yield definition.value, (*steps, *path)
        elif definition.binding is Binding.PARAMETER and isinstance(definition.node, cst.Param):
            yield from self._from_parameter(definition.node, definition.scope, path)
        elif definition.binding is Binding.DEFINED:
            yield End(definition.node, path)
        else:
            yield End(node, path)

    def _is_progress_bar(self, manager: cst.BaseExpression | None) -> bool:
        """Whether a context manager is a bar of tqdm, which enters itself: `with tqdm(loader) as bar`."""
        name = self._names.qualified(manager.func) if isinstance(manager, cst.Call) else None
        return name in torch_api.PASSES_ITEMS and name.startswith("tqdm.")

    def _stored(self, definition: Definition, path: tuple[Step, ...]) -> Iterator[tuple[cst.CSTNode, tuple[Step, ...]]]:
        """What is put into a container later: `loaders["train"] = ...`, `parts.append(...)`, `loaders.update(...)`."""
        for use in self._flow.uses(definition):
            parent = self._tree.parent(use)
            around = self._tree.parent(parent) if parent is not None else None
            if isinstance(parent, cst.Subscript) and parent.value is use and isinstance(around, cst.AssignTarget):
                statement = self._tree.parent(around)
                key = _step(parent)
                if isinstance(statement, cst.Assign) and key and (key[0] == path[0] or None in (key[0], path[0])):
                    yield statement.value, path[1:]
            elif isinstance(parent, cst.Attribute) and isinstance(around, cst.Call):
                yield from _put(parent.attr.value, around.args, path)

    def _from_parameter(
        self, param: cst.Param, function: cst.CSTNode, path: tuple[Step, ...]
    ) -> Iterator[tuple[cst.CSTNode, tuple[Step, ...]] | End]:
        if not isinstance(function, cst.FunctionDef) or param.star in ("*", "**"):
            yield End(param, path)
            return
        cls = self._classes.of(self._tree.scope(function))
        bound = cls is not None and not any(
            isinstance(d.decorator, cst.Name) and d.decorator.value == "staticmethod" for d in function.decorators
        )
        if bound and param is next(parameters(function), None):
            yield End(param, path)
            return
        callers = self._values.calls.callers(function)
        for call in callers:
            given = passed(call, function, param, bound=bound)
            if given is not None:
                yield given, path
            elif param.default is not None and not has_star(call):
                yield param.default, path
            else:
                yield End(param, path)
        starts = self._launches.of(function) if cls is None else ()
        for call in starts:
            given = self._launches.given(call, function, param)
            yield (given, path) if given is not None else End(param, path)
        is_known = self._launches.is_only_run(function) if cls is None else not self._flow.is_open(function)
        if not (callers or starts) or not is_known:
            yield End(param, path)

    def _from_attribute(
        self, node: cst.Attribute, path: tuple[Step, ...]
    ) -> list[tuple[cst.CSTNode, tuple[Step, ...]] | End] | None:
        if self._names.qualified(node) is not None:
            return None
        own = self._classes.self_attribute(node)
        cls = own[0] if own is not None else self._values.of(node.value).cls
        if cls is not None:
            assigned = [(a.value, a.path) for a in cls.assignments(node.attr.value) if a.value is not None]
            if assigned:
                is_empty = bool(path) and all(_is_empty(value) for value, _ in assigned)
                kept = self._appended.get(node.attr.value) if is_empty else None
                return (
                    [(value, path[1:]) for value in kept] if kept else [(v, (*steps, *path)) for v, steps in assigned]
                )
            method = cls.method(node.attr.value)
            if method is not None:
                is_property = any(
                    self._names.qualified(d.decorator) in ("builtins.property", "functools.cached_property")
                    for d in method.decorators
                )
                return self._from_function(method, path) if is_property else [End(method, path)]
            return None
        return [(node.value, (node.attr.value, *path))]

    @cached_property
    def _appended(self) -> dict[str, list[cst.BaseExpression]]:
        """What is appended to the list in an attribute, `self.parts.append(...)`, by the attribute's name."""
        found: dict[str, list[cst.BaseExpression]] = {}
        for call in self._tree.all(cst.Call):
            func = call.func
            if (
                isinstance(func, cst.Attribute)
                and func.attr.value == "append"
                and isinstance(func.value, cst.Attribute)
            ):
                found.setdefault(func.value.attr.value, []).extend(arg.value for arg in call.args)
        return found

    def _from_function(
        self, function: cst.FunctionDef, path: tuple[Step, ...]
    ) -> list[tuple[cst.CSTNode, tuple[Step, ...]] | End] | None:
        """What a call of `function` gives: the values of its `return`s, or what it yields."""
        ways: list[tuple[cst.CSTNode, tuple[Step, ...]] | End] = []
        for node in self._tree.results(function):
            if isinstance(node, cst.Yield) and node.value is not None:
                if isinstance(node.value, cst.From):
                    ways.append((node.value.item, path))
                elif path and not isinstance(path[0], str):
                    ways.append((node.value, path[1:]))
            elif isinstance(node, cst.Return) and node.value is not None:
                ways.append((node.value, path))
        return ways or None

    def _from_call(
        self, node: cst.Call, path: tuple[Step, ...]
    ) -> list[tuple[cst.CSTNode, tuple[Step, ...]] | End] | None:
        name = self._names.qualified(node.func)
        values = [arg.value for arg in node.args if arg.keyword is None and not arg.star]
        if name is not None:
            if name.startswith("torch.utils.data.") and "dataset" in path[:2] and node.args:
                # `loader.dataset`, `subset.dataset`, `random_split(dataset, sizes)[0].dataset`
                given = argument(node, "dataset", 0)
                return None if given is None else [(given, path[path.index("dataset") + 1 :])]
            if not values or name not in HANDS_ON | {"builtins.next", "builtins.enumerate", "builtins.zip"}:
                return None
            if name == "builtins.next":
                return [(values[0], (None, *path))]
            if path and isinstance(path[0], str):
                return None  # an attribute of the iterator
            if name == "builtins.enumerate" and path[:2] != (None, 0):
                return [(values[0], (None, *path[2:]))] if path else None
            if name == "builtins.zip" and path:
                index = path[1] if len(path) > 1 else None
                if isinstance(index, int) and -len(values) <= index < len(values):
                    return [(values[index], (None, *path[2:]))]
                return [(value, (None, *path[2:])) for value in values]
            return [(values[0], path)] if name in HANDS_ON else None
        if path and (fields := self.fields(node.func)) is not None:
            return _from_field(node, fields, path)
        if self._values.calls.constructed(node) is not None:
            return None
        function = self._values.calls.resolve(node)
        if function is not None and (repeated := self._repeated(node, function)) is not None:
            return [(repeated, path)]
        if function is not None:
            return self._from_function(function, path) if function.name.value != "forward" else None
        if isinstance(node.func, cst.Attribute) and self._flow.place(node.func.value) is None:
            return self._from_method(node.func.value, node.func.attr.value, values, path)
        return None

    def fields(self, func: cst.BaseExpression) -> tuple[str, ...] | None:
        """The fields of a named tuple, where `func` is the class of one that is in sight."""
        bound = self._flow.of_name(func)
        if len(bound) != 1 or bound[0].path:
            return None
        made = bound[0].value or bound[0].node
        if isinstance(made, cst.Call) and self._names.qualified(made.func) == "collections.namedtuple":
            given = argument(made, "field_names", 1)
            if isinstance(given, cst.SimpleString):
                return tuple(str(given.evaluated_value).replace(",", " ").split())
            entries = [literal(e.value) for e in given.elements] if isinstance(given, (cst.List, cst.Tuple)) else []
            return tuple(str(entry) for entry in entries) if entries and None not in entries else None
        cls = self._classes.of(made) if isinstance(made, cst.ClassDef) else None
        if cls is None or "typing.NamedTuple" not in cls.bases:
            return None
        lines = [line.body[0] for line in cls.node.body.body if isinstance(line, cst.SimpleStatementLine)]
        return tuple(dotted(line.target) for line in lines if isinstance(line, cst.AnnAssign))

    def _repeated(self, call: cst.Call, function: cst.FunctionDef) -> cst.BaseExpression | None:
        """What a generator is given, if it yields the items of that one by one, as loggers of progress do."""
        yields = [node for node in self._tree.results(function) if isinstance(node, cst.Yield)]
        item = yields[0].value if len(yields) == 1 else None
        looped = self._flow.definitions(item) if isinstance(item, cst.Name) else ()
        source = looped[0].value if len(looped) == 1 and not looped[0].path else None
        if not looped or looped[0].binding is not Binding.LOOPED or not isinstance(source, cst.Name):
            return None
        given = self._flow.definitions(source)
        if len(given) != 1 or not isinstance(given[0].node, cst.Param) or given[0].scope is not function:
            return None
        is_method = self._classes.of(self._tree.scope(function)) is not None
        is_bound = is_method and not is_decorated(function, "staticmethod")
        return passed(call, function, given[0].node, bound=is_bound)

    def _from_method(
        self,
        base: cst.BaseExpression,
        method: str,
        values: list[cst.BaseExpression],
        path: tuple[Step, ...],
    ) -> list[tuple[cst.CSTNode, tuple[Step, ...]] | End] | None:
        if method in _VIEWS:
            return [(base, path)]
        if method == "values" and path:
            return [(base, path)]
        if method == "items" and path[:2] == (None, 1):
            return [(base, (None, *path[2:]))]
        if method in ("get", "pop") and values and isinstance(literal(values[0]), str):
            return [(base, (literal(values[0]), *path))]
        if method == "log_every" and values:
            return [(values[0], path)]
        if method in ("next", "__next__") and not values:
            return [(base, (None, *path))]
        if method == "__iter__" and not values:
            return [(base, path)]
        if method in torch_api.PREPARES and values:
            # Accelerate and Fabric give back what they were given, in the same order.
            if len(values) == 1:
                return [(values[0], path)]
            if path and isinstance(path[0], int) and path[0] < len(values):
                return [(values[path[0]], path[1:])]
        return None


def _from_field(
    call: cst.Call, fields: tuple[str, ...], path: tuple[Step, ...]
) -> list[tuple[cst.CSTNode, tuple[Step, ...]] | End] | None:
    """What a named tuple is given for the field, or the position, that a path begins with."""
    first, rest = path[0], path[1:]
    index = fields.index(first) if isinstance(first, str) and first in fields else first
    if not isinstance(index, int) or not 0 <= index < len(fields):
        return None
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == fields[index]:
            return [(arg.value, rest)]
    if call.args and call.args[0].star == "*":
        return [(call.args[0].value, (index, *rest))]
    plain = index < len(call.args) and not any(arg.star or arg.keyword for arg in call.args[: index + 1])
    return [(call.args[index].value, rest)] if plain else None


def literal(node: cst.CSTNode) -> Step:
    """The value of a string or integer literal, else `None`."""
    if isinstance(node, cst.SimpleString) and isinstance(node.evaluated_value, str):
        return node.evaluated_value
    return node.evaluated_value if isinstance(node, cst.Integer) else None


def _put(
    method: str, args: Sequence[cst.Arg], path: tuple[Step, ...]
) -> Iterator[tuple[cst.CSTNode, tuple[Step, ...]]]:
    """What a method of a container puts where `path` leads."""
    given = [arg.value for arg in args if arg.keyword is None and not arg.star]
    if method == "append" and len(args) == 1:
        yield args[0].value, path[1:]
    elif len(given) == 2 and (method == "insert" or (method == "setdefault" and literal(given[0]) in (path[0], None))):
        yield given[1], path[1:]
    elif method == "extend" and len(given) == 1:
        yield given[0], (None, *path[1:])
    elif method == "update":
        yield from ((value, path) for value in given)
        yield from ((arg.value, path[1:]) for arg in args if arg.keyword and arg.keyword.value in (path[0], None))


def _step(node: cst.Subscript) -> tuple[Step, ...]:
    """What a subscript does to the path: a slice keeps the container's kind, an index goes into it."""
    index = node.slice[0].slice
    if len(node.slice) > 1:
        return (None,)
    return (literal(index.value),) if isinstance(index, cst.Index) else ()


def _is_empty(node: cst.BaseExpression) -> bool:
    """Whether a container is made empty, to be filled later."""
    if isinstance(node, (cst.Dict, cst.List)):
        return not node.elements
    return isinstance(node, cst.Call) and not node.args and isinstance(node.func, cst.Name)
