"""Values in Python that a recorded step reads: whatever changes them behind its back, a replay does not see it.

A step is recorded in front of its `place`: a loop, or the function around it. What runs from there on may change what
the step reads in three ways: it binds a name or an attribute anew, it changes a container, or it sets what a layer of a
library does, `model.dropout.p = 0.2`. Modes (`train`, `eval`) and the settings of optimizers are no such values: the
recorder looks at them in every round.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from perfmod.transforms.compute._kept_containers import fills
from perfmod.transforms.compute._reached import OF_TENSORS, reached, targets_of
from perfmod.transforms.compute._recordable import Round
from perfmod.transforms.compute._step_calls import ASKED, STILL, NotRecorded
from perfmod.transforms.compute._step_names import Parts
from perfmod.transforms.compute._switched_layers import LOOKED_AT, require_no_switch
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition, dotted
from perfmod.transforms.facts.scalers import scalers
from perfmod.transforms.facts.tree import find_all, find_any, find_in_scope, walk, walk_scope
from perfmod.transforms.facts.value import Kind

_RUN_BY_LOADERS = ("__getitem__", "__iter__", "__next__", "__call__")
"""Methods of data sets, samplers and transforms, which no line of a loop calls by name."""
_ANY = "*"
"""Stands for the attribute that is changed where its name is not written out."""
_LIBRARIES = ("torch.", "numpy.", "math.", "builtins.")
_ONLY_READING = ("json.", "yaml.", "pickle.", "pprint.", "copy.", "wandb.", "torch.save", "numpy.")
"""Functions that look at the objects they are given, and change none."""
_LOOKS = OF_TENSORS | {"to", "cuda", "type", "items", "keys", "values", "get", "copy"}
"""Methods that look at an object and do not change it."""
_COUNTING = ("torch.optim.lr_scheduler.", "itertools.")
"""What makes objects whose attributes change with each call."""
_DEFINED = (cst.FunctionDef, cst.ClassDef, cst.ImportAlias, cst.ImportStar)


def require_still(file: FileFacts, found: Parts, place: Round) -> None:
    """Raises `NotRecorded` where code that runs between two rounds of a step changes in Python what the step does."""
    own = _step_code(file, found)
    inside = {id(node) for part in own for node in walk(part)}
    moved = {id(node) for line in found.moved for node in walk(line)}
    around = _code_from(file, place)
    later = {id(node) for part in around for node in walk(part)}
    for definition, read in _read_names(file, found, own, inside).items():
        _require_name_still(file, definition, read, later - moved)
    _require_attributes_still(file, own, around, moved)
    _require_not_handed_on(file, own, around, moved)
    for part in around:
        for node in walk_scope(part):
            if id(node) not in inside:
                require_no_switch(file, node)


def _step_code(file: FileFacts, found: Parts) -> list[cst.CSTNode]:
    functions = dict.fromkeys(function for line in found.moved for function in reached(file, line))
    return [*found.moved, *functions]


def _code_from(file: FileFacts, place: Round) -> list[cst.CSTNode]:
    """What may run between rounds: the body of a loop, or all lines behind a function, and what they call."""
    body: list[cst.CSTNode] = [place]
    if isinstance(place, cst.FunctionDef):
        body = [line for line in file.tree.module.body if file.comes_before(place, line)]
    found = _with_what_runs(file, body)
    if any(_is_open(file, call) for part in found for call in find_all(part, cst.Call)):
        handed = [each.body for each in file.values.calls.handed_out if isinstance(each, cst.FunctionDef)]
        found += [each for each in handed if each not in found]
    methods = (cls.methods.get(name) for cls in file.classes if not cls.is_module for name in _RUN_BY_LOADERS)
    found += [each.body for each in methods if each is not None and each.body not in found]
    if any(file.qualified(call.func) == "builtins.getattr" for part in found for call in find_all(part, cst.Call)):
        bodies = [each.body for cls in file.classes if not cls.is_module for each in cls.methods.values()]
        found += [each for each in bodies if each not in found]
    return found


def _with_what_runs(file: FileFacts, body: Iterable[cst.CSTNode]) -> list[cst.CSTNode]:
    """Code with that of all functions in sight which it calls or mentions: whoever is handed one may call it."""
    found: dict[cst.CSTNode, None] = dict.fromkeys(body)
    waiting = list(found)
    while waiting:
        part = waiting.pop()
        new = [*(function.body for function in reached(file, part)), *_mentioned(file, part)]
        waiting += [each for each in new if each not in found]
        found.update(dict.fromkeys(new))
    return list(found)


def _mentioned(file: FileFacts, part: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The bodies of lambdas in code, and of the functions, lambdas and methods that it names without calling them."""
    yield from (each.body for each in find_all(part, cst.Lambda))
    for name in (each for each in find_in_scope(part, cst.Name) if isinstance(each, cst.Name)):
        if not file.flow.is_read(name):
            continue
        for made in file.flow.of_name(name):
            is_called = isinstance(parent := file.tree.parent(name), cst.Call) and parent.func is name
            if isinstance(made.node, cst.FunctionDef) and not is_called:
                yield made.node.body
            elif isinstance(made.value, cst.Lambda):
                yield made.value.body
            elif isinstance(made.value, cst.Call) and (file.qualified(made.value) or "").startswith("functools."):
                yield made.value
    for read in find_in_scope(part, cst.Attribute):
        parent = file.tree.parent(read)
        cls = file.value(cst.ensure_type(read, cst.Attribute).value).cls
        method = cls.method(cst.ensure_type(read, cst.Attribute).attr.value) if cls is not None else None
        if method is not None and not (isinstance(parent, cst.Call) and parent.func is read):
            yield method.body


def _is_open(file: FileFacts, call: cst.Call) -> bool:
    """Whether a call runs what code keeps in a container, as a list of callbacks: `for f in hooks: f()`."""
    if isinstance(call.func, cst.Name):
        looped = any(each.binding is Binding.LOOPED for each in file.flow.definitions(call.func))
        return looped and file.value(call.func).kind is Kind.UNKNOWN
    is_result = isinstance(call.func, cst.Call) and file.qualified(call.func) is None
    return (is_result or isinstance(call.func, cst.Subscript)) and file.value(call.func).kind is Kind.UNKNOWN


def _read_names(
    file: FileFacts, found: Parts, own: Iterable[cst.CSTNode], inside: set[int]
) -> dict[Definition, cst.Name]:
    """The definitions outside of a step by which its code, or a function that it calls, knows what it reads."""
    names: dict[Definition, cst.Name] = {}
    for part in own:
        for name in find_all(part, cst.Name):
            if not file.flow.is_read(name) or (part in found.moved and name.value in found.given):
                continue
            for definition in file.flow.definitions(name):
                if id(definition.node) not in inside and not isinstance(definition.node, _DEFINED):
                    names.setdefault(definition, name)
    return names


def _require_name_still(file: FileFacts, definition: Definition, read: cst.Name, later: set[int]) -> None:
    if id(definition.node) in later:
        raise NotRecorded(definition.node, f"`{definition.name}`, which the step reads, is changed in Python")
    if file.value(read).is_tensor or file.value(read).kind in STILL:
        return
    if (file.value(read).name or "").startswith(_COUNTING):
        raise NotRecorded(read, f"`{read.value}`, which the step reads, counts in Python")
    filled = [use for use in file.flow.uses(definition) if fills(file, use)]
    written = [
        use for use in file.aliasing.mutations(definition) if not isinstance(file.tree.parent(use), cst.Attribute)
    ]
    for use in (*written, *filled):  # attributes have names of their own
        if id(use) in later:
            raise NotRecorded(use, f"`{definition.name}`, which the step reads, is changed in Python")


def _require_attributes_still(
    file: FileFacts, own: Iterable[cst.CSTNode], around: Iterable[cst.CSTNode], moved: set[int]
) -> None:
    changed: dict[str, cst.CSTNode] = {}
    rebound: set[str] = set()
    for part in around:
        for node in walk_scope(part):
            for name, is_new in _changed_attributes(file, node) if id(node) not in moved else ():
                changed[name] = node
                rebound |= {name} if is_new else set()
    for part in own:
        for call, name in _asked_by_name(file, part):
            by = next(iter(changed.values()), None) if name == _ANY else changed.get(name) or changed.get(_ANY)
            if by is not None:
                raise NotRecorded(by, f"`{file.code(call)}`, which the step reads, is changed in Python")
        for read in find_all(part, cst.Attribute):
            name = read.attr.value
            of_library = (file.qualified(read) or "").startswith(_LIBRARIES) and not _is_set(
                file, read, changed.get(name)
            )
            by = changed.get(name) or (changed.get(_ANY) if name not in ASKED else None)
            if by is None or of_library or file.value(read.value).is_tensor:
                continue
            value = file.value(read)
            is_called = isinstance(parent := file.tree.parent(read), cst.Call) and parent.func is read
            if (is_called and value.kind is not Kind.MODULE) or file.tree.is_target(read):
                continue
            if not (name not in rebound and (value.is_tensor or value.kind in STILL)):
                raise NotRecorded(by, f"`{file.code(read)}`, which the step reads, is changed in Python")
        for item in find_all(part, cst.Subscript):
            for name in _also_held_as(file, item.value) if not file.tree.is_target(item) else ():
                if name in changed and name not in rebound:
                    why = f"`{file.code(item.value)}`, which the step reads, is changed in Python"
                    raise NotRecorded(changed[name], why)


def _require_not_handed_on(
    file: FileFacts, own: Iterable[cst.CSTNode], around: Iterable[cst.CSTNode], moved: set[int]
) -> None:
    """No object of which the step reads something is given to code out of sight, which may change what it holds."""
    holders: dict[str, list[cst.BaseExpression]] = {}
    for read in (node for part in own for node in find_any(part, cst.Attribute, cst.Subscript)):
        assert isinstance(read, (cst.Attribute, cst.Subscript))
        holder = read.value
        value = file.value(holder).when_used
        if not _is_of_before(file, holder, own) or scalers(file, holder):
            continue
        if not (value.is_tensor or value.kind in STILL or file.qualified(holder) or file.tree.is_target(read)):
            holders.setdefault(file.code(holder), []).append(holder)
    for call in (node for part in around for node in find_in_scope(part, cst.Call) if id(node) not in moved):
        assert isinstance(call, cst.Call)
        is_known = (file.qualified(call) or "").startswith(_ONLY_READING)
        for given in _given(call) if file.callees.of(call).is_unseen and not is_known else ():
            for holder in holders.get(file.code(given), ()):
                if not isinstance(holder, cst.Name) or set(file.flow.of_name(holder)) & set(file.flow.of_name(given)):
                    subject = f"`{file.code(holder)}`, which the step reads"
                    raise NotRecorded(call, f"what `{file.code(call)}` does with {subject}, is not in sight")


def _is_of_before(file: FileFacts, holder: cst.BaseExpression, own: Iterable[cst.CSTNode]) -> bool:
    """Whether code reads an object by a name that it has not bound itself: `args`, `self.config`."""
    root = holder
    while isinstance(root, cst.Attribute):
        root = root.value
    if not isinstance(root, cst.Name):
        return False
    return not any(file.tree.is_within(each.node, part) for each in file.flow.definitions(root) for part in own) or (
        any(isinstance(each.node, cst.Param) for each in file.flow.definitions(root))
    )


def _given(call: cst.Call) -> Iterator[cst.BaseExpression]:
    """The objects that a call may change: its arguments, and that of which it is a method, other than `self`."""
    yield from (arg.value for arg in call.args)
    is_method = isinstance(call.func, cst.Attribute) and dotted(call.func.value) != "self"
    if is_method and isinstance(call.func, cst.Attribute) and call.func.attr.value not in _LOOKS:
        yield call.func.value


def _asked_by_name(file: FileFacts, part: cst.CSTNode) -> Iterator[tuple[cst.Call, str]]:
    """The attributes for which code asks in text: `hasattr(args, "clip")`, `getattr(self, name)`."""
    for call in find_all(part, cst.Call):
        is_asked = file.qualified(call) in ("builtins.hasattr", "builtins.getattr") and len(call.args) > 1
        if is_asked and not file.value(call.args[0].value).is_tensor:
            yield call, _written_name(call.args[1].value)


def _is_set(file: FileFacts, read: cst.Attribute, by: cst.CSTNode | None) -> bool:
    """Whether code sets that very attribute of a library: `torch.backends.cudnn.benchmark = True`."""
    return by is not None and any(file.qualified(target) == file.qualified(read) for target in targets_of(by))


def _written_name(node: cst.BaseExpression) -> str:
    return str(node.evaluated_value) if isinstance(node, cst.SimpleString) else _ANY


def _also_held_as(file: FileFacts, container: cst.BaseExpression) -> set[str]:
    """The attributes of objects in sight that were given a container: `Schedule(settings)` keeps it as its own."""
    if not isinstance(container, cst.Name) or file.value(container).is_tensor:
        return set()
    found: set[str] = set()
    for use in (use for each in file.flow.definitions(container) for use in file.flow.uses(each)):
        call = file.tree.parent(arg) if isinstance(arg := file.tree.parent(use), cst.Arg) else None
        cls = file.values.calls.constructed(call) if isinstance(call, cst.Call) else None
        nodes = walk(cls.node) if cls is not None else ()
        found |= {t.attr.value for node in nodes for t in targets_of(node) if isinstance(t, cst.Attribute)}
    return found


def _changed_attributes(file: FileFacts, node: cst.CSTNode) -> Iterator[tuple[str, bool]]:
    """The attributes that a node changes, and whether it binds them anew; not those that `__init__` makes."""
    function = file.tree.function(node)
    is_init = isinstance(function, cst.FunctionDef) and function.name.value == "__init__"
    for target in targets_of(node):
        root = target
        while isinstance(root, cst.Subscript):
            root = root.value
        if root is not target and _is_namespace(file, root):
            yield _ANY, False
        elif isinstance(root, cst.Attribute) and root.attr.value == "__class__":
            yield _ANY, True
        elif isinstance(root, cst.Attribute) and root.attr.value not in LOOKED_AT and not is_init:
            yield root.attr.value, root is target and not isinstance(node, cst.AugAssign)
    if not isinstance(node, cst.Call):
        return
    by_name = _set_by_name(file, node)
    if by_name is not None:
        name = _written_name(by_name)
        yield name, name != _ANY
        return
    container = node.func.value if isinstance(node.func, cst.Attribute) else None
    if container is not None and _is_namespace(file, container) and fills(file, container):
        yield _ANY, False
    elif isinstance(container, cst.Attribute) and fills(file, container) and not is_init:
        yield container.attr.value, False


def _set_by_name(file: FileFacts, call: cst.Call) -> cst.BaseExpression | None:
    """The name of the attribute that a call sets or deletes: `setattr(a, "clip", 1)`, `a.__setattr__("clip", 1)`."""
    if file.qualified(call) in ("builtins.setattr", "builtins.delattr") and len(call.args) > 1:
        return call.args[1].value
    behind = {"__setattr__": 2, "__delattr__": 1}.get(dotted(call.func).rpartition(".")[2])
    return call.args[-behind].value if behind is not None and len(call.args) >= behind else None


def _is_namespace(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether something holds all attributes of an object: `vars(settings)`, `settings.__dict__`."""
    if isinstance(node, cst.Attribute):
        return node.attr.value == "__dict__"
    return isinstance(node, cst.Call) and file.qualified(node) == "builtins.vars"
