"""What the training does to the things that a loader reads: its dataset, its samplers, and what these hold."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import libcst as cst
from attrs import define, field

from perfmod.transforms.facts import data_api
from perfmod.transforms.facts.calls import argument, is_decorated
from perfmod.transforms.facts.classes import ClassFacts
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition, parameters
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.pickling import owner
from perfmod.transforms.facts.tracing import End, Step
from perfmod.transforms.facts.tree import walk
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.facts.worker_code import WorkerCode
from perfmod.transforms.feeding._loader_runs import executed, registered

SENT = ("dataset", "collate_fn", "worker_init_fn")
"""The parameters of a loader of which its workers get a copy."""
READ = (*SENT, "sampler", "batch_sampler")
"""The parameters of a loader that it reads from while it runs."""

_HOLDS = frozenset(
    {"torch.from_numpy", "torch.as_tensor", "torch.asarray", "numpy.asarray", "builtins.zip", "builtins.enumerate"}
)
"""Functions whose result shares memory with what they are given."""
_READS = data_api.COMMON_METHODS - data_api.MUTATORS - {"resize_", "seek", "read", "readline", "close"}
_CHANGING = (
    "set",
    "add",
    "fit",
    "reset",
    "load_state",
    "update",
    "shuffle",
    "seed",
    "manual_seed",
    "train",
    "eval",
    "step",
)
"""How the methods of libraries' objects begin that change them, besides those that end in an underscore."""
_ENVIRONMENT = ("os.environ", "os.getenv")
_SETTINGS = frozenset({"argparse.Namespace", "types.SimpleNamespace"})
"""Classes of libraries whose attributes nobody reads but who asks for them."""
_DEEPEST = 4


@define(eq=False)
class Held:
    """What a loader holds for some of its parameters: where each thing was made, and the paths to it from there."""

    loader: Loader
    parameters: Collection[str]
    file: FileFacts
    paths: dict[cst.CSTNode, set[tuple[Step, ...]]] = field(factory=dict)
    given: set[cst.CSTNode] = field(factory=set)
    """What it is given itself, rather than what that was made of."""
    asks_environment: bool = False
    """Whether its workers read variables of the environment, of which each has a copy."""
    words: set[str] = field(factory=set)
    """The names of all attributes, and all texts, that the code of its workers mentions."""
    variables: set[Definition] = field(factory=set)
    """What that code reads of modules, and of functions around it."""
    objects: set[ClassFacts] = field(factory=set)
    """Classes with an object that this code reads, such as a trainer: of it counts what the code mentions."""

    def holds(self, end: End, read: str | None = None) -> bool:
        """Whether a value is something that the loader holds, or a part of it; its batches are not.

        `read` is the attribute of it that is asked for, if any.
        """
        if end.node is self.loader.call:
            return bool(end.path) and end.path[0] in self.parameters
        first = end.path[0] if end.path else read
        if first is not None and first not in self.words and self._is_settings(end.node):
            return False
        if any(_leads_into(path, end.path) for path in self.paths.get(end.node, ())):
            return True
        return first in self.words and self.made(end.node) in self.objects

    def made(self, node: cst.CSTNode) -> ClassFacts | None:
        """The class of what a call makes, or of the `self` of a method."""
        if isinstance(node, cst.Call):
            return self.file.values.calls.constructed(node)
        method = self.file.tree.function(node) if isinstance(node, cst.Param) else None
        is_self = isinstance(method, cst.FunctionDef) and next(parameters(method), None) is node
        static = isinstance(method, cst.FunctionDef) and is_decorated(method, "staticmethod", "classmethod")
        around = self.file.tree.class_of(method) if isinstance(method, cst.FunctionDef) and is_self else None
        return None if static or around is None else self.file.classes.of(around)

    def _is_settings(self, node: cst.CSTNode) -> bool:
        """Whether an object is only settings, `args = parser.parse_args()`."""
        if not isinstance(node, cst.Call):
            return False
        parses = isinstance(node.func, cst.Attribute) and node.func.attr.value == "parse_args"
        return parses or self.file.qualified(node) in _SETTINGS


def _leads_into(path: tuple[Step, ...], longer: tuple[Step, ...]) -> bool:
    """Whether a path leads to what another path leads to a part of."""
    steps = zip(path, longer, strict=False)
    return len(path) <= len(longer) and all(a is None or b is None or a == b for a, b in steps)


def held(file: FileFacts, loader: Loader, parameters: Collection[str]) -> Held:
    """What a loader is given for these parameters, and what that was made of: other datasets, transforms, lists; and
    what else the code of its workers reads: variables around it, objects that are handed or attached to them.
    """
    found = Held(loader, parameters, file)
    ends = [end for name in parameters for value in loader.values(name) for end in file.tracing.ends(value)]
    found.given.update(end.node for end in ends)
    if "dataset" in parameters:
        ends += _read(file, WorkerCode.of(file, loader), found)
    seen: set[End] = set()
    while ends:
        end = ends.pop()
        if end in seen or isinstance(end.node, (cst.BaseNumber, cst.BaseString)):
            continue  # a number is handed over as it is now
        seen.add(end)
        cls = found.made(end.node) if isinstance(end.node, cst.Param) else None
        if cls is not None:
            found.objects.update((*cls.lineage(), *cls.descendants()))
        if cls is None or end.node in found.given:
            found.paths.setdefault(end.node, set()).add(end.path)
        values = _parts(file, end.node) if cls is None else _mentioned(found, cls)
        ends += [inner for value in values for inner in file.tracing.ends(value)]
    return found


def _read(file: FileFacts, work: WorkerCode, found: Held) -> Iterator[End]:
    """What the code of workers reads of what was made elsewhere."""
    own = {base for cls in work.classes for base in cls.lineage()}
    yield from (End(cls.node, ()) for cls in own)
    for node in (node for function in work.functions for node in walk(function.body)):
        if isinstance(node, cst.Attribute):
            found.words.add(node.attr.value)
        elif isinstance(node, cst.SimpleString):
            found.words.add(str(node.evaluated_value))
        name = file.qualified(node)
        found.asks_environment |= name is not None and name.startswith(_ENVIRONMENT)
        if file.flow.is_variable(node) and (isinstance(node, cst.Attribute) or file.flow.is_read(node)):
            outer = [each for each in file.flow.definitions(node) if _is_outer(file, work, each)]
            found.variables.update(outer)
            yield from file.tracing.ends(node) if outer else ()
    for function in work.functions:
        cls = owner(file, function)  # of `collate_fn=self.collate`
        first = next(parameters(function), None) if cls is not None and cls not in own else None
        yield from [End(first, ())] if first is not None else ()


def _is_outer(file: FileFacts, work: WorkerCode, definition: Definition) -> bool:
    """Whether a worker's code reads a variable that lives outside of it."""
    scope = definition.scope
    if definition.binding is Binding.IMPORTED or not isinstance(scope, (cst.Module, cst.FunctionDef)):
        return False
    return not any(file.tree.is_within(scope, function) for function in work.functions)


def _mentioned(found: Held, cls: ClassFacts) -> Iterator[cst.BaseExpression]:
    """What an object has in those of its attributes that the code of workers mentions."""
    for assignment in (each for word in sorted(found.words) for each in cls.assignments(word)):
        if assignment.value is not None and not assignment.path:
            yield assignment.value


def _attached(file: FileFacts) -> dict[cst.CSTNode, list[cst.BaseExpression]]:
    """What is assigned to attributes of objects from outside, `dataset.level = level`, by where the object was made."""
    pairs = [
        (instance, assignment.value)
        for name in sorted(file.classes.attributes)
        for instance, assignment in file.classes.assigned_elsewhere(name)
    ]
    calls = (call for call in file.tree.all(cst.Call) if file.qualified(call) == "builtins.setattr")
    pairs += [(call.args[0].value, call.args[2].value) for call in calls if len(call.args) == 3]
    found: dict[cst.CSTNode, list[cst.BaseExpression]] = {}
    for instance, value in pairs:
        for end in file.tracing.ends(instance) if value is not None else ():
            if value is not None and not end.path:
                found.setdefault(end.node, []).append(value)
    return found


def first_change(
    file: FileFacts, loader: Loader, code: Iterable[cst.CSTNode], parameters: Collection[str]
) -> cst.CSTNode | None:
    """The first place that may change what a loader holds for these parameters, in some code or in what it runs."""
    things, code = held(file, loader, parameters), list(code)
    runs = executed(file, [*code, *(registered(file, loader) if code else ())])
    return next((node for node in runs if _changes(file, node, things)), None)


def first_written_file(file: FileFacts, loader: Loader, code: Iterable[cst.CSTNode]) -> cst.CSTNode | None:
    """The first place in some code, or in what it runs, that writes a file which samples read."""
    functions = WorkerCode.of(file, loader).functions if "dataset" in loader.settings else ()
    calls = [node for function in functions for node in walk(function.body) if isinstance(node, cst.Call)]
    read = {path for call in calls if _reads_file(file, call) for path in _paths(file, call.args[0].value)}
    writes = (node for node in executed(file, code) if isinstance(node, cst.Call)) if read else ()
    return next((call for call in writes if _writes_file(file, call) and read & _all_paths(file, call)), None)


def _reads_file(file: FileFacts, call: cst.Call) -> bool:
    name = (file.qualified(call) or "").rpartition(".")[2]
    return bool(call.args) and name.startswith(("load", "open", "imread", "read_")) and not _writes_file(file, call)


def _writes_file(file: FileFacts, call: cst.Call) -> bool:
    name = (file.qualified(call) or "").rpartition(".")[2]
    mode = argument(call, "mode", 1) if name == "open" else None
    opens = isinstance(mode, cst.SimpleString) and not {"w", "a", "x", "+"}.isdisjoint(str(mode.evaluated_value))
    return opens or name.startswith(("save", "imsave", "imwrite", "replace", "rename", "copy", "move"))


def _all_paths(file: FileFacts, call: cst.Call) -> set[str | End]:
    return {path for arg in call.args for path in _paths(file, arg.value)}


def _paths(file: FileFacts, node: cst.BaseExpression) -> set[str | End]:
    """The paths of files that a value may be, with a star for each computed part; where it is made if all is."""
    return {_text(file, end, 0) if not end.path else end for end in file.tracing.ends(node)} - {""}


def _text(file: FileFacts, end: End, depth: int) -> str | End:
    """A path that is written out, in parts at least."""
    parts: list[cst.CSTNode] = []
    joint, node = "", end.node
    if isinstance(node, cst.SimpleString):
        return str(node.evaluated_value)
    if isinstance(node, cst.FormattedString):
        texts = (part.value if isinstance(part, cst.FormattedStringText) else "*" for part in node.parts)
        return "".join(texts)
    if isinstance(node, cst.BinaryOperation):
        parts, joint = [node.left, node.right], "/" if isinstance(node.operator, cst.Divide) else ""
    elif isinstance(node, cst.Call) and (file.qualified(node) or "").startswith(
        ("os.path.", "pathlib.", "builtins.str")
    ):
        parts, joint = [arg.value for arg in node.args], "/"
    known: list[str] = []
    for part in parts:
        made = file.tracing.ends(part) if isinstance(part, cst.BaseExpression) and depth < _DEEPEST else ()
        text = _text(file, made[0], depth + 1) if len(made) == 1 and not made[0].path else "*"
        known.append(text if isinstance(text, str) else "*")
    return joint.join(known) if any(text.strip("*/.") for text in known) else end


def first_training(file: FileFacts, loader: Loader) -> cst.CSTNode | None:
    """Where a module is trained that makes the samples of a loader: `model.parameters()` for an optimizer."""
    modules = {node for node in held(file, loader, SENT).paths if file.value(node).kind is Kind.MODULE}
    for call in file.tree.all(cst.Call) if modules else ():
        if (
            isinstance(call.func, cst.Attribute)
            and call.func.attr.value in ("parameters", "named_parameters")
            and any(end.node in modules for end in file.tracing.ends(call.func.value))
        ):
            return call
    return None


def _parts(file: FileFacts, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """What an object keeps of what it was made of, and what is attached to it."""
    yield from file.once(_attached).get(node, ())
    if isinstance(node, (cst.List, cst.Tuple, cst.Set, cst.Dict)):
        yield from (element.value for element in node.elements)
    elif isinstance(node, cst.BinaryOperation):
        yield from (node.left, node.right)  # two datasets
    elif isinstance(node, cst.Call):
        name = file.qualified(node) or ""
        keeps = name.startswith((*data_api.KEEPS_ARGUMENTS, "torch.utils.data.", "torch.nn.")) or name in _HOLDS
        cls = file.values.calls.constructed(node)
        if keeps or cls is not None:
            yield from (arg.value for arg in node.args)
        assigned = (each for base in cls.lineage() for each in base.assigned.values()) if cls is not None else ()
        yield from (each.value for values in assigned for each in values if each.value is not None and not each.path)


def _changes(file: FileFacts, node: cst.CSTNode, things: Held) -> bool:
    """Whether a statement or a call may write into something that is held."""

    def is_held(expression: cst.BaseExpression, read: str | None = None) -> bool:
        ends = file.tracing.ends(expression)
        if isinstance(expression, cst.Attribute) and expression.attr.value in things.parameters:
            # `trainer.loader.dataset`, where whoever calls is not in sight
            return any(things.holds(end) or isinstance(end.node, cst.Param) for end in ends)
        if things.asks_environment and file.qualified(expression) == _ENVIRONMENT[0]:
            return True
        return any(things.holds(end, read) for end in ends)

    if isinstance(node, (cst.AssignTarget, cst.AugAssign, cst.AnnAssign, cst.Del, cst.For, cst.CompFor, cst.AsName)):
        target = node.name if isinstance(node, cst.AsName) else node.target
        parts = list(_targets(target))
        is_rebound = any(made in things.variables for part in parts for made in file.flow.defined(part))
        return is_rebound or any(is_held(owner, name) for part in parts for owner, name in _owners(part))
    if not isinstance(node, cst.Call):
        is_read = isinstance(node, (cst.Name, cst.Attribute)) and file.flow.is_variable(node)
        return is_read and isinstance(node, (cst.Name, cst.Attribute)) and file.aliasing.mutates(node) and is_held(node)
    name = file.qualified(node)
    if name in ("builtins.setattr", "builtins.delattr", "builtins.vars") and node.args:
        asks = name == "builtins.vars" and not _is_stored_into(file, node)
        text = node.args[1].value if len(node.args) > 1 else None
        word = str(text.evaluated_value) if isinstance(text, cst.SimpleString) else None
        return not asks and is_held(node.args[0].value, word)
    is_method = name is None and isinstance(node.func, cst.Attribute) and not file.flow.is_variable(node.func)
    # What a method of an object in sight changes is looked at where it does.
    owners = ((of, part if index else None) for index, (of, part) in enumerate(_owners(node.func)))
    if is_method and any(is_held(*owner) for owner in owners) and _may_change(file, node):
        return True
    if name is None and file.flow.is_variable(node.func) and _changes_when_called(file, node.func, things):
        return True
    # Only the dataset itself is handed to be changed; its parts are handed on all the time.
    return _is_out_of_sight(file, node, name) and _is_handed(file, node, things)


def _changes_when_called(file: FileFacts, variable: cst.Name | cst.Attribute, things: Held) -> bool:
    """Whether a variable holds a method of something held, or a function that is bound to the dataset."""
    values = [definition.value for definition in file.flow.definitions(variable) if not definition.path]
    methods = [value for value in values if isinstance(value, cst.Attribute) and value.attr.value not in _READS]
    if any(things.holds(end) for method in methods for end in file.tracing.ends(method.value)):
        return True
    functions = [end.node for end in file.tracing.ends(variable)]
    own = (f for f in functions if isinstance(f, cst.FunctionDef) and file.tree.class_of(f) in things.paths)
    bound = (f for f in functions if isinstance(f, cst.Call) and file.qualified(f) == "functools.partial")
    stores = any(_stores(file, node, 0) for function in own for node in walk(function.body))
    return stores or any(_is_handed(file, call, things) for call in bound)


def _is_handed(file: FileFacts, call: cst.Call, things: Held) -> bool:
    """Whether a call is handed the dataset itself."""
    ends = (end for arg in call.args for end in file.tracing.ends(arg.value))
    return any(end.node in things.given and not end.path for end in ends)


def _targets(target: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from _targets(element.value)
    else:
        yield target


def _owners(node: cst.BaseExpression) -> Iterator[tuple[cst.BaseExpression, str | None]]:
    """The objects of which a target or a method is a part, `a.b` and `a` for `a.b.c`, with the attribute's name."""
    while isinstance(node, (cst.Attribute, cst.Subscript)):
        name = node.attr.value if isinstance(node, cst.Attribute) else None
        node = node.value
        yield node, name


def _is_stored_into(file: FileFacts, node: cst.CSTNode) -> bool:
    parent = file.tree.parent(node)
    return isinstance(parent, cst.Subscript) and isinstance(file.tree.parent(parent), cst.AssignTarget)


def _is_out_of_sight(file: FileFacts, call: cst.Call, name: str | None) -> bool:
    """Whether a call runs a function that is in no file in sight, or one that a variable holds."""
    if file.values.calls.resolve(call) is not None or file.values.calls.constructed(call) is not None:
        return False
    if name is None:
        return file.flow.is_variable(call.func) or isinstance(call.func, (cst.Subscript, cst.Call))
    return name.partition(".")[0] not in data_api.TRUSTED


def _may_change(file: FileFacts, call: cst.Call, depth: int = 0) -> bool:
    """Whether a method may change its object: not one that is known to read, nor one in sight that stores nothing."""
    method = file.values.calls.resolve(call)
    if method is None:
        assert isinstance(call.func, cst.Attribute)
        name, ends = call.func.attr.value, file.tracing.ends(call.func.value)
        if ends and all(not end.path and file.qualified(end.node) is not None for end in ends):
            return name in data_api.MUTATORS or name.startswith(_CHANGING) or name.endswith("_")
        return name not in _READS
    if depth > _DEEPEST:
        return True
    return any(_stores(file, node, depth) for node in walk(method.body))


def _stores(file: FileFacts, node: cst.CSTNode, depth: int) -> bool:
    """Whether a part of a method may write into an object: its own, or another."""
    if isinstance(node, (cst.AssignTarget, cst.AugAssign, cst.AnnAssign)):
        return any(isinstance(target, (cst.Attribute, cst.Subscript)) for target in _targets(node.target))
    is_method = isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and file.qualified(node) is None
    return isinstance(node, cst.Call) and is_method and _may_change(file, node, depth + 1)
