"""Where a script makes the scaler of its gradients, by which name, and for which device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst
from attrs import evolve, frozen

from perfmod.transforms.facts.calls import has_star, passed
from perfmod.transforms.facts.entry import is_main_test
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition, dotted
from perfmod.transforms.facts.tree import Scope, find_all, find_any, is_none
from perfmod.transforms.facts.value import Kind, is_loader_name
from perfmod.transforms.finding import Edit
from perfmod.transforms.writing import insert_after_statement, insert_before_statement

_NAMES = ("scaler", "grad_scaler", "gradient_scaler")
_DEEPEST = 3


class NotScaled(Exception):
    """Gradients cannot be scaled; the message says why."""


@frozen
class Scaler:
    """A scaler that is to be made.

    Attributes:
        name: what steps call it, `scaler` or `self.scaler`.
        home: the function or module that makes it.
        edit: the statement that does.
        imports: what that needs.
        passing: what hands it on from there to the code that trains.
    """

    name: str
    home: Scope
    edit: Edit
    imports: tuple[str, ...]
    passing: tuple[Edit, ...] = ()


@frozen
class _Place:
    """A statement beside which the scaler is made: behind the optimizers, or else before the loop that trains."""

    line: cst.BaseStatement
    is_behind: bool
    prefix: str = ""
    passing: tuple[Edit, ...] = ()


def scaler_of(file: FileFacts, scope: Scope, optimizers: Sequence[cst.BaseExpression], first: cst.CSTNode) -> Scaler:
    """The scaler of some code that trains, by the first call in it that needs one.

    Raises:
        NotScaled: there is no place for it.
    """
    taken = {node.value for node in file.world.tree.all(cst.Name)}
    name = next((name for name in _NAMES if name not in taken), None)
    if name is None:
        raise NotScaled("no usual name for a scaler is free")
    places = list(_places(file, scope, optimizers, first, name))
    if not places:
        raise NotScaled(f"where `{file.code(optimizers[0])}` is made is not seen, and one scaler is for all steps")
    for place in places:
        device = _device(file, scope, place)
        if device:
            return _made(file, place, name, device)
    raise NotScaled("the device is not seen where the scaler would be made")


def _made(file: FileFacts, place: _Place, name: str, device: str) -> Scaler:
    torch, imports = file.names.spelled("torch", place.line)
    made = f"{place.prefix}{name} = {torch}.amp.GradScaler({device})"
    insert = insert_after_statement if place.is_behind else insert_before_statement
    edit = insert(file.source, place.line, made)
    return Scaler(place.prefix + name, file.tree.scope(place.line), edit, imports, place.passing)


def _places(
    file: FileFacts, scope: Scope, optimizers: Sequence[cst.BaseExpression], first: cst.CSTNode, name: str
) -> Iterator[_Place]:
    """Where a scaler may be made, the best place first."""
    beside = _beside_names(file, scope, optimizers, first) or _beside_attributes(file, optimizers)
    beside = beside or _in_callers(file, scope, optimizers, name, 0)
    if beside is not None:
        yield beside
    loops = file.tree.loops(first)
    if any(_is_long(file, loop) for loop in loops) and all(file.tree.is_within(each, loops[-1]) for each in optimizers):
        yield _Place(loops[-1], is_behind=False)


def _in_callers(
    file: FileFacts, scope: Scope, optimizers: Sequence[cst.BaseExpression], name: str, depth: int
) -> _Place | None:
    """Behind the optimizers in the function that hands them to the one that trains, and hands it the scaler as well."""
    if not isinstance(scope, cst.FunctionDef) or not _takes_more(file, scope) or depth > _DEEPEST:
        return None
    names = {dotted(each) for each in optimizers}
    params = [param for param in scope.params.params if param.name.value in names]
    bindings = [
        each.binding for node in optimizers if isinstance(node, cst.Name) for each in file.flow.definitions(node)
    ]
    if len(params) != len(names) or params[-1].default or any(each is not Binding.PARAMETER for each in bindings):
        return None
    end = file.source.span(params[-1])[1]
    edits = [Edit(end, end, f", {name}", file.source.path)]
    given: list[cst.BaseExpression] = []
    calls = file.values.calls.callers(scope)
    for call in calls:
        handed = [passed(call, scope, param, bound=False) for param in params]
        last = next((arg for arg in call.args if arg.value is handed[-1]), None)
        if has_star(call) or last is None or not all(isinstance(each, cst.Name) for each in handed):
            return None
        given += [each for each in handed if each is not None]
        end = file.source.span(last.value)[1]
        edits.append(Edit(end, end, f", {name}={name}" if last.keyword is not None else f", {name}", file.source.path))
    homes = {file.tree.scope(call) for call in calls}
    if len(homes) != 1 or not all(map(file.is_own, calls)):
        return None
    home = homes.pop()
    place = _beside_names(file, home, given, min(calls, key=file.tree.place))
    place = place or _in_callers(file, home, given, name, depth + 1)
    return evolve(place, passing=(*place.passing, *edits)) if place is not None else None


def _takes_more(file: FileFacts, function: cst.FunctionDef) -> bool:
    """Whether a function may get a further parameter: all who call it are in sight."""
    is_plain = file.tree.class_of(function) is None and not function.decorators
    return is_plain and file.values.calls.is_only_called(function)


def _is_long(file: FileFacts, loop: cst.For | cst.While) -> bool:
    """Whether a loop goes over a loader or over epochs: its rounds are enough for a scale to settle."""
    if not isinstance(loop, cst.For):
        return "epoch" in file.code(loop.test)
    if "epoch" in f"{file.code(loop.target)} {file.code(loop.iter)}".lower():
        return True
    named = (dotted(each).rpartition(".")[2] for each in find_any(loop.iter, cst.Name, cst.Attribute))
    return any(map(is_loader_name, named)) or file.value(loop.iter).kind is Kind.LOADER


def _beside_names(
    file: FileFacts, scope: Scope, optimizers: Sequence[cst.BaseExpression], first: cst.CSTNode
) -> _Place | None:
    """Behind the first assignments of some variables, in the function that trains or in its module."""
    firsts: dict[str, cst.BaseStatement] = {}
    for each in optimizers:
        found = file.flow.of_name(each)
        for definition in found:
            line = _line_of(file, definition, first)
            if definition.binding is not Binding.ASSIGNED or line is None:
                return None
            if definition.name not in firsts or file.comes_before(line, firsts[definition.name]):
                firsts[definition.name] = line
        if not found:
            return None
    line = max(firsts.values(), key=file.tree.place)
    again = file.tree.loops(line)
    rounds = [loop for loop in file.tree.loops(first) if loop not in again]
    is_once = not again or any(_is_long(file, loop) for loop in rounds)
    is_above = file.comes_before(line, first) or file.tree.scope(line) is not scope
    return _Place(line, is_behind=True) if is_once and is_above else None


def _line_of(file: FileFacts, definition: Definition, first: cst.CSTNode) -> cst.BaseStatement | None:
    """The statement behind which a variable of the function that trains, or of its module, is assigned in any case."""
    scope = file.tree.scope(first)
    if definition.scope not in (scope, file.tree.module):
        return None
    line = file.tree.line(file.tree.statement(definition.node))
    for around in file.tree.ancestors(line):
        is_program = definition.scope is not scope and isinstance(around, cst.If) and is_main_test(around.test)
        if is_program or file.tree.is_within(first, around):
            break
        line = around if isinstance(around, cst.BaseStatement) and file.tree.block(around) else line
    return None if scope in reached(file, line) else line


def _beside_attributes(file: FileFacts, optimizers: Sequence[cst.BaseExpression]) -> _Place | None:
    """Behind the last assignment of `self.optimizer`, where one method makes all of them."""
    found = []
    for each in optimizers:
        own = file.classes.self_attribute(each)
        if own is None or file.classes.assigned_elsewhere(own[1]):
            return None
        found += [made for made in own[0].assignments(own[1]) if not is_none(made.value)]
    methods = {each.method for each in found}
    method = next(iter(methods), None)
    if len(methods) != 1 or method is None or not file.is_own(method):
        return None
    body = [each for each in method.body.body if isinstance(each, cst.BaseStatement)]
    holding = [each for each in body if any(file.tree.is_within(made.node, each) for made in found)]
    if not holding or isinstance(holding[-1], (cst.For, cst.While)):
        return None
    first = next((param.name.value for param in method.params.params), "self")
    return _Place(holding[-1], is_behind=True, prefix=f"{first}.")


def _device(file: FileFacts, scope: Scope, place: _Place) -> str:
    """Code for the type of the device at a place; empty where nothing there has it."""
    torch, _ = file.names.spelled("torch", place.line)
    known: list[str] = []
    others: list[str] = []
    for where in _destinations(file, scope, place):
        if isinstance(where, cst.SimpleString):
            others.append(f'"{str(where.evaluated_value).partition(":")[0]}"')
        elif _is_visible(file, where, place):
            is_device = file.value(where).kind is Kind.DEVICE
            code = file.code(where)
            (known if is_device else others).append(f"{code}.type" if is_device else f"{torch}.device({code}).type")
    if known or others:
        return (known or others)[0]
    return '"cuda"' if any(_is_cuda(call) for call in find_all(file.tree.module, cst.Call)) else ""


def _destinations(file: FileFacts, scope: Scope, place: _Place) -> Iterator[cst.BaseExpression]:
    """What models and batches are moved to, in the functions that train and that make the scaler, then elsewhere."""
    moves = []
    for call in find_all(file.tree.module, cst.Call):
        func = call.func
        if isinstance(func, cst.Attribute) and func.attr.value == "to":
            where = file.values.placement.destination(call)
            is_far = file.tree.scope(call) not in (scope, file.tree.scope(place.line))
            named = (where, *_given(file, where)) if where is not None else ()
            found = (each for each in named if isinstance(each, (cst.Name, cst.Attribute, cst.SimpleString)))
            moves += [(is_far, each) for each in found]
    return (where for _, where in sorted(moves, key=lambda each: each[0]))


def _given(file: FileFacts, where: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What callers in sight hand to a function as the device."""
    for definition in file.flow.definitions(where) if isinstance(where, cst.Name) else ():
        if definition.binding is Binding.PARAMETER:
            yield from (each for each in file.values.given(definition) if each is not None)


def reached(file: FileFacts, code: cst.CSTNode) -> list[cst.FunctionDef]:
    """The functions in sight that some code runs."""
    found: dict[cst.FunctionDef, None] = {}
    waiting = list(file.steps.called_by(code))
    while waiting:
        function = waiting.pop()
        if function not in found:
            found[function] = None
            waiting.extend(file.steps.called_by(function.body))
    return list(found)


def _is_cuda(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "cuda"


def _is_visible(file: FileFacts, where: cst.BaseExpression, place: _Place) -> bool:
    """Whether a name means the same at a place, and is bound there already."""
    own = file.classes.self_attribute(where)
    here = file.tree.scope(place.line)
    if own is not None:
        made = own[0].assignments(own[1])
        return bool(made) and all(_is_bound(file, each.node, each.method, place) for each in made)
    root: cst.BaseExpression = where
    while isinstance(root, cst.Attribute):
        root = root.value
    if not isinstance(root, cst.Name):
        return False
    bound = list(file.flow.bound(here, root.value)) if not isinstance(here, cst.Module) else []
    found = bound or list(file.flow.bound(file.tree.module, root.value))
    same = set(file.flow.definitions(root)) <= set(found)
    return (
        bool(found)
        and same
        and all(each.binding is Binding.PARAMETER or _is_bound(file, each.node, each.scope, place) for each in found)
    )


def _is_bound(file: FileFacts, node: cst.CSTNode, scope: cst.CSTNode | None, place: _Place) -> bool:
    """Whether a node that binds something has run where the scaler is made."""
    here = file.tree.scope(place.line)
    if scope is not here:
        return isinstance(scope, cst.Module) or (isinstance(scope, cst.FunctionDef) and scope.name.value == "__init__")
    is_before = file.comes_before(node, place.line) or (place.is_behind and file.tree.is_within(node, place.line))
    return is_before and not any(loop for loop in file.tree.loops(node) if not file.tree.is_within(place.line, loop))
