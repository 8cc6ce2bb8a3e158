"""The models that steps train, and the statement behind which each of them is complete and on its device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts import torch_api
from perfmod.transforms.facts.classes import ClassFacts
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition, dotted
from perfmod.transforms.facts.gradients import runs_without_graph
from perfmod.transforms.facts.programs import run_with
from perfmod.transforms.facts.tree import Statement, find_any, is_none
from perfmod.transforms.facts.value import Kind

_PARAMETERS = frozenset({"parameters", "named_parameters"})
_MOVES = frozenset({"to", "cuda"})
_DISTRIBUTED = "torch.nn.parallel.DistributedDataParallel"
_REPLACED = {
    "torch.nn.DataParallel": "copies the model, with its compiled call, in every step",
    "torch.nn.parallel.DataParallel": "copies the model, with its compiled call, in every step",
    "torch.jit.script": "gives a scripted model, which cannot be compiled",
    "torch.jit.trace": "gives a traced model, which cannot be compiled",
    "torch.jit.load": "gives a scripted model, which cannot be compiled",
    "torch.distributed.fsdp.FullyShardedDataParallel": "shards the parameters, which has to be decided together",
}
_DEEPEST = 8


class NoPlace(Exception):
    """There is no statement behind which the model is complete; the message says why."""


@frozen(eq=False)
class Place:
    """Where a model is complete.

    Attributes:
        model: the variable or attribute that holds it there.
        statement: the statement behind which it is complete and on its device.
    """

    model: cst.BaseExpression
    statement: Statement


@frozen(eq=False)
class TrainedModel:
    """A model whose parameters an optimizer or the step itself updates.

    Attributes:
        node: the model where its parameters are asked for.
        place: where it is complete; None where there is no such place, and `refusal` says why.
        made: the call that makes it, where it is the only one.
        classes: its class, or those of the models that it may be; empty where they are not in sight.
        library: the qualified name of what makes it, if that is a library's.
    """

    node: cst.BaseExpression
    place: Place | None
    refusal: str
    made: cst.Call | None
    classes: tuple[ClassFacts, ...]
    library: str | None

    def is_in(self, file: FileFacts, node: cst.BaseExpression) -> bool:
        """Whether an expression is this very model."""
        value = file.value(node)
        if self.made is not None:
            return value.kind is Kind.MODULE and value.call is self.made
        names = {dotted(self.node).rpartition(".")[2]}
        names |= {dotted(self.place.model).rpartition(".")[2]} if self.place is not None else set()
        return value.kind in (Kind.MODULE, Kind.UNKNOWN) and dotted(node).rpartition(".")[2] in names - {""}

    def calls(self, file: FileFacts) -> list[cst.Call]:
        """The calls of it that a step in sight differentiates."""
        return [
            call
            for call in calls_of_program(file)
            if file.steps.in_sight(call) and self.is_in(file, call.func) and not runs_without_graph(file, call)
        ]

    def methods(self, file: FileFacts) -> list[cst.Call]:
        """The calls of methods that its own class defines, `model.encode(x)`, in steps in sight."""
        return [
            call
            for call in calls_of_program(file)
            if isinstance(call.func, cst.Attribute)
            and file.steps.in_sight(call)
            and self.is_in(file, call.func.value)
            and (call.func.attr.value == "forward" or any(cls.method(call.func.attr.value) for cls in self.classes))
        ]


def nodes_of_program(file: FileFacts, *kinds: type[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    """The nodes of some types in the files of the programs that a file belongs to."""
    modules = run_with(file)
    return (node for module in file.world.tree.modules if module in modules for node in find_any(module, *kinds))


def calls_of_program(file: FileFacts) -> Iterator[cst.Call]:
    """The calls in those files."""
    return (node for node in nodes_of_program(file, cst.Call) if isinstance(node, cst.Call))


def trained_models(file: FileFacts) -> Sequence[TrainedModel]:
    """The models that steps in any file train, each once."""
    return file.once(_find)


def _find(file: FileFacts) -> Sequence[TrainedModel]:
    found: dict[tuple[object, str], TrainedModel] = {}
    for node in _holders(file):
        value = file.value(node)
        value = value.when_used
        if value.kind not in (Kind.MODULE, Kind.UNKNOWN) or value.name in torch_api.LOSS_MODULES:
            continue
        classes = _classes(file, node)
        try:
            places = list(_places(file, node, node, 0))
        except NoPlace as reason:
            unplaced: tuple[object, str] = (value.call or file.code(node), "")
            found.setdefault(unplaced, TrainedModel(node, None, str(reason), value.call, classes, value.name))
            continue
        for place in places:
            own = file.value(place.model)
            made = value.call or own.call
            key = (place.statement, file.code(place.model))
            model = TrainedModel(node, place, "", made, classes or _classes(file, place.model), value.name or own.name)
            found.setdefault(key, model)
    placed = [model for model in found.values() if model.place is not None]
    known = {model.made for model in placed if model.made is not None}
    return [*placed, *(each for each in found.values() if each.place is None and each.made not in known)]


def _classes(file: FileFacts, node: cst.BaseExpression) -> tuple[ClassFacts, ...]:
    """The classes in sight of the models that an expression may be; empty where one of them is of another."""
    value = file.value(node)
    cls = value.when_used.cls
    if cls is not None:
        return (cls,)
    found = [_class_made(file, end.node) if not end.path else None for end in file.tracing.ends(node)]
    return tuple(dict.fromkeys(each for each in found if each is not None)) if None not in found else ()


def _class_made(file: FileFacts, node: cst.CSTNode) -> ClassFacts | None:
    """The class of the model that a call makes, and perhaps moves."""
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _MOVES:
        node = node.func.value
    made = file.values.calls.constructed(node) if isinstance(node, cst.Call) else None
    return made if made is not None and made.is_module else None


def _holders(file: FileFacts) -> Iterator[cst.BaseExpression]:
    """The variables and attributes whose parameters an optimizer is given, or a step updates or clips."""
    updated: list[cst.BaseExpression] = []
    for call in file.world.tree.all(cst.Call):
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in _PARAMETERS:
            continue
        model = call.func.value
        while isinstance(model, cst.Attribute) and file.value(model.value).kind is Kind.MODULE:
            model = model.value
        if not isinstance(model, (cst.Name, cst.Attribute, cst.Subscript)) or _is_self(file, model):
            continue
        if _is_optimized(file, call):
            yield model
        elif file.steps.in_sight(call) and not runs_without_graph(file, call):
            updated.append(model)
    yield from updated


def _is_self(file: FileFacts, node: cst.BaseExpression) -> bool:
    definitions = file.flow.of_name(node)
    cls = file.classes.around(node)
    return cls is not None and any(
        each.binding is Binding.PARAMETER and each.name == "self" and cls.is_module for each in definitions
    )


def _is_optimized(file: FileFacts, call: cst.Call) -> bool:
    """Whether parameters go to an optimizer, directly or through one variable."""
    for ancestor in file.tree.ancestors(call):
        if isinstance(ancestor, cst.Call) and file.value(ancestor).kind is Kind.OPTIMIZER:
            return True
        if isinstance(ancestor, cst.Assign):
            names = (target.target for target in ancestor.targets if isinstance(target.target, cst.Name))
            uses = (use for name in names for each in file.flow.defined(name) for use in file.flow.uses(each))
            return any(
                isinstance(around, cst.Call) and file.value(around).kind is Kind.OPTIMIZER
                for use in uses
                for around in file.tree.ancestors(use)
            )
        if isinstance(ancestor, cst.BaseCompoundStatement):
            return False
    return False


def _places(file: FileFacts, node: cst.BaseExpression, before: cst.CSTNode, depth: int) -> Iterator[Place]:
    """Where the model is complete that a variable or attribute holds at `before`."""
    if depth > _DEEPEST:
        raise NoPlace("where the model comes from could not be determined")
    if isinstance(node, cst.Call):
        inner = _wrapped(file, node)
        if inner is None:
            raise NoPlace(f"the model on line {file.line(node)} is held by no variable")
        yield from _places(file, inner, node, depth + 1)
    elif isinstance(node, cst.Attribute) and not file.flow.is_variable(node):
        yield from _of_attribute(file, node, depth)
    elif isinstance(node, cst.Name):
        yield from _of_name(file, node, before, depth)
    else:
        raise NoPlace(f"the model is an item of a container on line {file.line(node)}")


def _of_name(file: FileFacts, node: cst.Name, before: cst.CSTNode, depth: int) -> Iterator[Place]:
    definitions = _undistributed(file, node)
    moves = [move for move in _changes(file, node) if file.comes_before(move, before)]
    if not definitions:
        raise NoPlace(f"where `{node.value}` is made could not be seen")
    if len(definitions) == 1 and not moves:
        part = definitions[0].part
        if isinstance(part, (cst.Name, cst.Attribute)) or (isinstance(part, cst.Call) and _wrapped(file, part)):
            yield from _places(file, part, definitions[0].node, depth + 1)
            return
        if definitions[0].binding is Binding.PARAMETER:
            yield from _of_parameter(file, definitions[0], depth)
            return
    made = [file.tree.statement(each.node) for each in definitions if each.binding is Binding.ASSIGNED]
    if not (made or moves):
        raise NoPlace(f"where `{node.value}` is made could not be seen")
    for each in definitions:
        if isinstance(each.value, cst.Call) and _makes_another(file, each.value, node.value):
            what = f"`{file.code(each.value.func)}` on line {file.line(each.value)}"
            raise NoPlace(f"what {what} makes of the model is not in sight")
    yield Place(node, _last(file, [*made, *moves]))


def _makes_another(file: FileFacts, call: cst.Call, name: str) -> bool:
    """Whether code out of sight makes another model of that of a name: `model = DDP(model)` of some library."""
    is_given = any(isinstance(arg.value, cst.Name) and arg.value.value == name for arg in call.args)
    is_of_torch = (file.qualified(call) or "").startswith("torch.")
    return is_given and not is_of_torch and file.callees.of(call).is_unseen and file.value(call).kind is Kind.UNKNOWN


def _undistributed(file: FileFacts, node: cst.Name) -> list[Definition]:
    """The definitions of a model, without `if distributed: model = DistributedDataParallel(model)`."""
    found: dict[Definition, None] = {}
    for each in file.flow.definitions(node):
        inner = _wrapped(file, each.part) if isinstance(each.part, cst.Call) else None
        is_same = isinstance(inner, cst.Name) and inner.value == node.value
        found.update(dict.fromkeys(file.flow.definitions(inner) if is_same and isinstance(inner, cst.Name) else [each]))
    return list(found)


def _of_parameter(file: FileFacts, definition: Definition, depth: int) -> Iterator[Place]:
    given = [value for value in file.values.given(definition) if value is not None]
    if not given:
        raise NoPlace(f"`{definition.name}` is made by code that perfmod cannot see")
    for value in given:
        yield from _places(file, value, value, depth + 1)


def _of_attribute(file: FileFacts, node: cst.Attribute, depth: int) -> Iterator[Place]:
    own = file.classes.self_attribute(node)
    cls = own[0] if own is not None else file.value(node.value).cls
    assigned = [each for each in cls.assignments(node.attr.value) if not is_none(each.value)] if cls else []
    targets = [each for each in assigned if each.value is not None and isinstance(each.node, cst.Attribute)]
    if not targets or len({each.method for each in targets}) > 1 or targets[0].method is None:
        raise NoPlace(f"where `{file.code(node)}` is made could not be seen")
    target = cst.ensure_type(targets[-1].node, cst.Attribute)
    moves = [move for move in _changes(file, target) if file.tree.function(move) is targets[0].method]
    value = targets[-1].value
    if not moves and len(targets) == 1 and not targets[0].path and value is not None:
        is_wrapper = isinstance(value, cst.Call) and _wrapped(file, value) is not None
        if isinstance(value, (cst.Name, cst.Attribute)) or is_wrapper:
            yield from _places(file, value, value, depth + 1)
            return
    yield Place(target, _last(file, [*(file.tree.statement(each.node) for each in targets), *moves]))


def _wrapped(file: FileFacts, call: cst.Call) -> cst.BaseExpression | None:
    """The model that is distributed by a call, or None where it is no such call.

    Raises:
        NoPlace: the call makes something of a model that cannot be compiled.
    """
    name = file.qualified(call) or ""
    if name in _REPLACED:
        raise NoPlace(f"`{name}` on line {file.line(call)} {_REPLACED[name]}")
    return call.args[0].value if name == _DISTRIBUTED and call.args else None


def _changes(file: FileFacts, node: cst.BaseExpression) -> list[Statement]:
    """The statements of the same function that move a model or put another layer into it: `model.fc = ...`."""
    code, scope = file.code(node), file.tree.scope(node)
    found: list[Statement] = []
    for call in file.world.tree.all(cst.Call):
        is_move = isinstance(call.func, cst.Attribute) and call.func.attr.value in _MOVES
        if is_move and file.code(cst.ensure_type(call.func, cst.Attribute).value) == code:
            statement = file.tree.statement(call)
            if isinstance(statement, cst.Expr) and file.tree.scope(call) is scope:
                found.append(statement)
    for target in file.world.tree.all(cst.AssignTarget):
        inner = target.target
        is_layer = isinstance(inner, cst.Attribute) and file.code(inner).startswith(f"{code}.")
        if is_layer and file.tree.scope(target) is scope and file.value(inner).kind is Kind.MODULE:
            found.append(file.tree.statement(target))
    return found


def _last(file: FileFacts, statements: Sequence[Statement]) -> Statement:
    """The last of several statements; the `if` around it where another branch holds one of them as well."""
    last = max(statements, key=file.world.tree.place)
    found: Statement = last
    child: cst.CSTNode = last
    for ancestor in file.tree.ancestors(last):
        if isinstance(ancestor, (cst.FunctionDef, cst.ClassDef)):
            break
        if isinstance(ancestor, cst.If):
            inside = ancestor.body if child is ancestor.body else ancestor.orelse
            others = [each for each in statements if file.tree.is_within(each, ancestor)]
            if inside is not None and not all(file.tree.is_within(each, inside) for each in others):
                found = ancestor
        child = ancestor
    while isinstance(found, cst.If) and isinstance(parent := file.tree.parent(found), cst.If):
        if parent.orelse is not found:
            break
        found = parent
    return found
