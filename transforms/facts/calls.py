"""Who calls whom in the files: functions, methods, constructors and modules called through `forward`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.classes import Classes, ClassFacts
from perfmod.transforms.facts.flow import Binding, Definition, Flow, parameters
from perfmod.transforms.facts.names import Names
from perfmod.transforms.facts.solver import Questions
from perfmod.transforms.facts.tree import Tree

if TYPE_CHECKING:
    from perfmod.transforms.facts.values import Values

_WRAPPERS = ("torch.compile", "GraphedStep")
"""What is made of a function, and called like it; the second is the class that PM314 writes."""
_NO_CALLS: Mapping[cst.FunctionDef, tuple[cst.Call, ...]] = {}


@frozen(eq=False)
class _Target:
    """The function that a call runs, or the expression whose value says it: what is called, or what has `method`."""

    function: cst.FunctionDef | None = None
    value: cst.BaseExpression | None = None
    method: str | None = None


class Calls:
    """Call targets and call sites."""

    def __init__(self, tree: Tree, flow: Flow, names: Names, classes: Classes, values: Values) -> None:
        self._tree = tree
        self._flow = flow
        self._names = names
        self._classes = classes
        self._values = values
        # Calls that may reach a function in sight: by the name that is called, and all of them for `forward`.
        self._own = [call for call in tree.all(cst.Call) if names.qualified(call.func) is None]
        self._by_name: dict[str, list[cst.Call]] = {}
        for call in self._own:
            self._by_name.setdefault(_last_name(call.func), []).append(call)
        self._targets: dict[cst.Call, _Target] = {}
        self._resolved = Questions(values.solver, self._resolve, None)
        self._callers = Questions[cst.FunctionDef, tuple[cst.Call, ...]](values.solver, self._find_callers, ())
        self._through_instances = Questions(values.solver, self._find_calls_through_instances, _NO_CALLS)

    def resolve(self, call: cst.Call) -> cst.FunctionDef | None:
        """The function in sight that `call` runs; for an instance of one of its classes `forward` or `__call__`."""
        return self._resolved(call)

    def reached(self, call: cst.Call) -> tuple[cst.FunctionDef, ...]:
        """The functions in sight that `call` may run: what `resolve` gives, and what derived classes have instead.

        A method that only asks to be overridden is left out where others are there. For a parameter, it is what the
        callers in sight pass.
        """
        found = self.resolve(call)
        if found is None:
            return tuple(dict.fromkeys(self._passed(call.func)))
        every = {found: None, **dict.fromkeys(self._overriding(call, found))}
        real = [function for function in every if not _is_abstract(function)]
        return tuple(real or every)

    def _passed(self, func: cst.BaseExpression) -> Iterator[cst.FunctionDef]:
        """The functions that callers pass for a parameter that is called."""
        for definition in self._flow.of_name(func):
            if definition.binding is Binding.PARAMETER:
                for given in self._values.given(definition):
                    yield from self._functions(given)

    def _functions(self, node: cst.BaseExpression | None) -> Iterator[cst.FunctionDef]:
        """The functions that a name, or an attribute of `self`, may stand for where it is handed on."""
        if node is not None and self._flow.is_variable(node):
            found = (definition.node for definition in self._flow.definitions(node))
            yield from (function for function in found if isinstance(function, cst.FunctionDef))
        own = self._classes.self_attribute(node) if node is not None else None
        method = own[0].method(own[1]) if own is not None else None
        if method is not None:
            yield method

    def _overriding(self, call: cst.Call, found: cst.FunctionDef) -> Iterator[cst.FunctionDef]:
        """What classes that derive from the one that a call names have in the place of a method."""
        func = call.func
        if isinstance(func, cst.Attribute) and self._is_super(func.value):
            return
        own = self._classes.self_attribute(func)
        cls = own[0] if own is not None and found.name.value == own[1] else None
        if cls is None and own is None:
            named = isinstance(func, cst.Attribute) and func.attr.value == found.name.value
            value = self._values.of(func.value if named and isinstance(func, cst.Attribute) else func)
            value = value.when_used
            cls = value.cls if value.call is None else None
        for derived in cls.descendants() if cls is not None else ():
            if found.name.value in derived.methods:
                yield derived.methods[found.name.value]

    def handed(self, call: cst.Call) -> list[cst.FunctionDef]:
        """Functions in sight that a call is given by position, and may run, as `opt.step(closure)` does."""
        return [found for arg in call.args if arg.keyword is None for found in self._functions(arg.value)]

    def constructed(self, call: cst.Call) -> ClassFacts | None:
        """The class in sight that `call` makes an instance of."""
        return self._class_named(call.func)

    def _class_named(self, node: cst.BaseExpression) -> ClassFacts | None:
        """The class in sight whose name an expression is, or that an attribute of `self` holds: `self.head = Head`."""
        if not self._flow.is_variable(node):
            own = self._classes.self_attribute(node)
            if own is None or self._classes.assigned_elsewhere(own[1]):
                return None
            held = [each.value for each in own[0].assignments(own[1])]
            named = {self._class_named(each) if isinstance(each, cst.Name) else None for each in held}
            return named.pop() if len(named) == 1 else None
        found = [self._classes.of(definition.node) for definition in self._flow.definitions(node)]
        return found[0] if len(found) == 1 else None

    def bound(self, call: cst.Call) -> cst.Call | None:
        """The `functools.partial(...)` that a call calls by its name."""
        found = self._flow.definitions(call.func) if isinstance(call.func, cst.Name) else ()
        made = (
            found[0].value if len(found) == 1 and found[0].binding is Binding.ASSIGNED and not found[0].path else None
        )
        is_partial = isinstance(made, cst.Call) and self._names.qualified(made.func) == "functools.partial"
        return made if isinstance(made, cst.Call) and is_partial and made.args else None

    def constructions(self, cls: ClassFacts) -> Sequence[cst.Call]:
        """Every call in sight that makes an instance of `cls`."""
        return self._constructions.get(cls, ())

    @cached_property
    def _constructions(self) -> dict[ClassFacts, list[cst.Call]]:
        found: dict[ClassFacts, list[cst.Call]] = {}
        for call in self._own:
            made = self.constructed(call)
            if made is not None:
                found.setdefault(made, []).append(call)
        return found

    def callers(self, function: cst.FunctionDef) -> Sequence[cst.Call]:
        """Every call in sight that runs `function`; for `__init__`, every construction."""
        return self._callers(function)

    def _find_callers(self, function: cst.FunctionDef) -> tuple[cst.Call, ...]:
        owner = self._classes.of(self._tree.scope(function))
        name = function.name.value
        if owner is not None and name == "__init__":
            makers = [made for cls, made in self._constructions.items() if cls.method("__init__") is function]
            return tuple(self._in_order(call for made in makers for call in made))
        if owner is not None and name in ("forward", "__call__"):
            return self._through_instances(None).get(function, ())
        return tuple(call for call in self._named(function) if self.resolve(call) is function)

    def _find_calls_through_instances(self, _: None) -> Mapping[cst.FunctionDef, tuple[cst.Call, ...]]:
        """The calls of every `forward` and `__call__` in sight; one question, for they share the candidates."""
        found: dict[cst.FunctionDef, list[cst.Call]] = {}
        for call in self._called_instances:
            function = self.resolve(call)
            if function is not None:
                found.setdefault(function, []).append(call)
        return {function: tuple(calls) for function, calls in found.items()}

    def _named(self, function: cst.FunctionDef) -> list[cst.Call]:
        """Calls of the function's name, and of the names under which other files import it."""
        found = dict.fromkeys(self._by_name.get(function.name.value, ()))
        for definition in self._flow.defined(function):
            for use in self._flow.uses(definition):
                call = self._tree.parent(use)
                if isinstance(call, cst.Call) and call.func is use:
                    found[call] = None
        return self._in_order(found)

    def _in_order(self, calls: Iterable[cst.Call]) -> list[cst.Call]:
        return sorted(calls, key=self._tree.place)

    @cached_property
    def _called_instances(self) -> list[cst.Call]:
        """Calls that may call an instance of a class in sight, or its `forward` by name."""
        attributes = self._classes.attributes | {"forward", "__call__"}
        found = []
        for call in self._own:
            func = call.func
            if self._flow.is_variable(func):
                if not all(definition.binding is Binding.DEFINED for definition in self._flow.definitions(func)):
                    found.append(call)
            elif not isinstance(func, cst.Attribute) or func.attr.value in attributes:
                found.append(call)
        return found

    def is_only_called(self, function: cst.FunctionDef) -> bool:
        """Whether all callers of the function are in sight: nobody hands it on, every use of its name is a call."""
        if self._flow.is_open(function):
            return False
        scope = self._tree.scope(function)
        for definition in self._flow.bound(scope, function.name.value):
            for use in self._flow.uses(definition):
                parent = self._tree.parent(use)
                if not (isinstance(parent, cst.Call) and parent.func is use):
                    return False
        return True

    @cached_property
    def handed_out(self) -> tuple[cst.FunctionDef | cst.Lambda, ...]:
        """The lambdas, functions and methods in sight that are used as values, so that others may call them at any
        time: a scheduler's `self.rate`, hooks, signal handlers. Methods of unknown objects are told by their names.
        """
        methods: dict[str, list[cst.FunctionDef]] = {}
        found: set[cst.FunctionDef] = set()
        for function in self._tree.all(cst.FunctionDef):
            if self._classes.of(self._tree.scope(function)) is not None:
                methods.setdefault(function.name.value, []).append(function)
                continue
            for definition in self._flow.defined(function):
                uses = (use for use in self._flow.uses(definition) if not self._is_called(use))
                found.update([function] if any(uses) else [])
        for node in self._tree.all(cst.Attribute):
            named = methods.get(node.attr.value, ())
            if named and not self._is_called(node) and not isinstance(self._tree.parent(node), cst.AssignTarget):
                own = self._classes.self_attribute(node)
                method = own[0].method(own[1]) if own is not None else None
                found.update(named if own is None else [method] if method is not None else [])
        properties = (each for each in found if is_decorated(each, "property", "cached_property"))
        found -= set(properties)
        functions = (function for function in self._tree.all(cst.FunctionDef) if function in found)
        return (*functions, *self._tree.all(cst.Lambda))

    def _is_called(self, node: cst.CSTNode) -> bool:
        parent = self._tree.parent(node)
        return isinstance(parent, cst.Call) and parent.func is node

    def _resolve(self, call: cst.Call) -> cst.FunctionDef | None:
        target = self._targets.get(call)
        if target is None:
            target = self._targets[call] = self._target(call)
        if target.value is None:
            return target.function
        if target.method is not None:
            base = self._values.of(target.value)
            # `None` has no methods: where the call does not raise, it is the object.
            base = base.when_used
            method = base.cls.method(target.method) if base.cls is not None else None
            if method is not None:
                return method
        return self._callable_of(call.func)

    def _target(self, call: cst.Call) -> _Target:
        """What names alone say of the function that a call runs."""
        func = call.func
        if self._flow.is_variable(func):
            definitions = self._flow.definitions(func)
            meant = {self._function_of(definition) for definition in definitions}
            if len(meant) == 1 and None not in meant:
                return _Target(meant.pop())
            is_known = any(definition.binding is Binding.DEFINED for definition in definitions)
            return _Target() if is_known or not definitions else _Target(value=func)
        if not isinstance(func, cst.Attribute):
            return _Target(value=func)
        name = func.attr.value
        if self._is_super(func.value):
            around = self._classes.around(call)
            above = [parent.method(name) for parent in around.parents] if around is not None else []
            return _Target(above[0] if above else None)
        if self._classes.replaced(name) is not None:
            return _Target()
        own = self._classes.self_attribute(func)
        if own is not None:
            method = own[0].method(name)
            return _Target(method) if method is not None else _Target(value=func)
        named = self._class_named(func.value)
        if named is not None:
            method = named.method(name)
            of_class = method is not None and is_decorated(method, "classmethod", "staticmethod")
            return _Target(method if of_class else None)
        return _Target(value=func.value, method=name)

    def _function_of(self, definition: Definition) -> cst.FunctionDef | None:
        """The function that a name is bound to: as it is, by another name (`criterion = smooth_loss`), or compiled or
        recorded (`step = GraphedStep(step, ...)`).
        """
        if definition.binding is Binding.DEFINED:
            return definition.node if isinstance(definition.node, cst.FunctionDef) else None
        func = definition.value if definition.binding is Binding.ASSIGNED and not definition.path else None
        if isinstance(func, cst.Call) and func.args:
            if self._names.qualified(func.func) not in _WRAPPERS and _last_name(func.func) not in _WRAPPERS:
                return None
            func = func.args[0].value
        elif not isinstance(func, cst.Name):
            return None
        of = self._flow.of_name(func)
        found = [each.node for each in of if each.binding is Binding.DEFINED]
        return found[0] if len(found) == 1 and isinstance(found[0], cst.FunctionDef) else None

    def _callable_of(self, func: cst.BaseExpression) -> cst.FunctionDef | None:
        value = self._values.of(func)
        if value.cls is None:
            return None
        return value.cls.method("forward") if value.cls.is_module else value.cls.method("__call__")

    def _is_super(self, node: cst.BaseExpression) -> bool:
        return isinstance(node, cst.Call) and self._names.qualified(node.func) == "builtins.super"


def is_decorated(function: cst.FunctionDef, *names: str) -> bool:
    """Whether a function has one of these decorators."""
    return any(isinstance(d.decorator, cst.Name) and d.decorator.value in names for d in function.decorators)


def _is_abstract(function: cst.FunctionDef) -> bool:
    """Whether a method does nothing but to raise, or nothing at all."""
    lines = function.body.body
    body = [small for line in lines if isinstance(line, cst.SimpleStatementLine) for small in line.body]
    return len(body) == len(lines) and all(
        isinstance(part, (cst.Raise, cst.Pass))
        or (isinstance(part, cst.Expr) and isinstance(part.value, (cst.SimpleString, cst.Ellipsis)))
        for part in body
    )


def _last_name(func: cst.BaseExpression) -> str:
    if isinstance(func, cst.Attribute):
        return func.attr.value
    return func.value if isinstance(func, cst.Name) else ""


def argument(call: cst.Call, name: str, position: int | None = None) -> cst.BaseExpression | None:
    """The expression passed as keyword `name`, or at `position` (from 0) without a keyword."""
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == name:
            return arg.value
    if position is not None:
        for index, arg in enumerate(call.args):
            if arg.star or arg.keyword is not None:
                return None
            if index == position:
                return arg.value
    return None


def has_star(call: cst.Call) -> bool:
    """Whether `call` passes arguments by `*` or `**`."""
    return any(arg.star for arg in call.args)


def passed(call: cst.Call, function: cst.FunctionDef, param: cst.Param, *, bound: bool) -> cst.BaseExpression | None:
    """What `call` passes for a parameter of `function`; `bound` says that `self` is not among the arguments."""
    params = [p for p in parameters(function) if p.star not in ("*", "**")]
    params = params[1:] if bound else params
    position = params.index(param) if param in params and param not in function.params.kwonly_params else None
    return argument(call, param.name.value, position)
