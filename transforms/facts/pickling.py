"""What no process can send to another: values that `pickle` refuses, and containers that hold one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from perfmod.transforms.facts import data_api
from perfmod.transforms.facts.calls import argument, is_decorated
from perfmod.transforms.facts.classes import ClassFacts
from perfmod.transforms.facts.flow import dotted, parameters
from perfmod.transforms.facts.tracing import End, literal
from perfmod.transforms.facts.tree import walk
from perfmod.transforms.facts.value import Kind

if TYPE_CHECKING:
    from perfmod.transforms.facts.file import FileFacts

_COPIES = frozenset({"builtins.list", "builtins.tuple", "builtins.sorted", "builtins.set", "builtins.frozenset"})
"""Functions that copy the items of what they are given, and keep nothing of it."""
_FILLED = ("builtins.dict", "collections.")
"""Containers that copy the items of what they are given, and keep its further arguments."""
_VIEWS = frozenset({"keys", "values", "items"})
_NAMED = frozenset({"collections.namedtuple", "typing.NamedTuple", "dataclasses.make_dataclass"})
"""Functions that make a class, which is found again by the name that they are given."""
_GO_THROUGH = frozenset({"builtins.map", "builtins.filter", "builtins.zip", "builtins.enumerate"})
"""Iterators that can be pickled with what they are given."""


def kept(file: FileFacts, node: cst.BaseExpression) -> Iterator[cst.CSTNode]:
    """Where a value was made, and the items that are put into it later; a copy of a list is not that list."""
    copies = file.once(_copies)
    ends = (end for path in ((), (None,)) for end in file.tracing.ends_behind(node, copies, path))
    yield from dict.fromkeys(end.node for end in ends if not end.path)


def unpicklable(file: FileFacts, made: cst.CSTNode) -> str:
    """What is made at `made`, if that itself cannot be pickled; else empty."""
    if isinstance(made, cst.Lambda):
        return "a lambda"
    if isinstance(made, cst.GeneratorExp):
        return "a generator"
    if isinstance(made, (cst.FunctionDef, cst.ClassDef)):
        is_local = isinstance(file.tree.scope(made), (cst.FunctionDef, cst.Lambda))
        return f"{made.name.value}, which is defined inside a function," if is_local else ""
    if isinstance(made, cst.Call):
        return _unpicklable_call(file, made)
    if isinstance(made, (cst.Name, cst.Attribute)) and _name(file, made) in data_api.MODULES:
        return f"the module {_code(file, made)}"
    return ""


def parts(file: FileFacts, made: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """What a container in the code holds; a call of a class keeps what it is given, see `KEEPS_ARGUMENTS`."""
    if isinstance(made, (cst.List, cst.Tuple, cst.Set)):
        yield from (element.value for element in made.elements if isinstance(element, cst.Element))
    elif isinstance(made, cst.Dict):
        yield from (entry.value for entry in made.elements if isinstance(entry, cst.DictElement))
    elif isinstance(made, (cst.ListComp, cst.SetComp)):
        yield made.elt
    elif isinstance(made, cst.DictComp):
        yield made.value
    elif isinstance(made, cst.Call):
        name = _name(file, made) or ""
        copies = name in _COPIES or name.startswith(_FILLED)
        passes = name in _GO_THROUGH or name.startswith((*_FILLED, *data_api.KEEPS_ARGUMENTS))
        for arg in made.args:
            if not copies or arg.keyword is not None or name == "collections.defaultdict":
                yield from [arg.value] if passes else ()
            elif isinstance(arg.value, (cst.List, cst.Tuple, cst.ListComp, cst.Dict, cst.DictComp)):
                yield arg.value
            elif isinstance(arg.value, cst.GeneratorExp):
                yield arg.value.elt
            elif isinstance(arg.value, cst.Call) and _name(file, arg.value) == "builtins.zip":
                yield from (inner.value for inner in arg.value.args if inner.star)


def put_in(file: FileFacts, cls: ClassFacts) -> Iterator[cst.BaseExpression]:
    """What methods put into the containers that an object keeps: `self.files.append(...)`, `self.files[i] = ...`."""
    for node in (node for method in cls.methods.values() for node in walk(method.body)):
        if isinstance(node, cst.Assign):
            owners = (item.target.value for item in node.targets if isinstance(item.target, cst.Subscript))
            if any(file.classes.self_attribute(owner) is not None for owner in owners):
                yield node.value
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.args:
            grows = node.func.attr.value in ("append", "add", "setdefault")
            if grows and file.classes.self_attribute(node.func.value) is not None:
                yield node.args[-1].value


def is_handle(file: FileFacts, call: cst.Call) -> bool:
    """Whether a call opens what one process alone can use: `open(path)`, `list(map(open, paths))`, `Lock()`."""
    name, method = _name(file, call), call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    if name in _COPIES | {"builtins.map"} and call.args:
        first = call.args[0].value
        if name == "builtins.map":
            return _name(file, first) in data_api.OPENS
        return isinstance(first, cst.Call) and _name(file, first) == "builtins.map" and is_handle(file, first)
    if name in data_api.OPENS | data_api.UNPICKLED:
        return True
    if method == "open" and (name is None or name.startswith("pathlib.")):
        return True
    if method not in data_api.HANDLES_OF_HANDLES or not isinstance(call.func, cst.Attribute) or name is not None:
        return False
    ends = file.tracing.ends(call.func.value)
    return any(isinstance(end.node, cst.Call) and is_handle(file, end.node) for end in ends)


def is_generator(file: FileFacts, call: cst.Call) -> bool:
    """Whether a call makes a generator: that of a function in sight that yields."""
    function = file.values.calls.resolve(call) if _name(file, call) is None else None
    plain = function is not None and (not function.decorators or is_decorated(function, "staticmethod"))
    return function is not None and plain and file.tree.is_generator(function)


def owner(file: FileFacts, method: cst.CSTNode) -> ClassFacts | None:
    """The class whose instance a method is sent with; `None` for functions, and for methods without an instance."""
    around = file.tree.class_of(method) if isinstance(method, cst.FunctionDef) else None
    if not isinstance(method, cst.FunctionDef) or around is None:
        return None
    alone = is_decorated(method, "staticmethod", "classmethod") or len(list(parameters(method))) < 2
    return None if alone else file.classes.of(around)


def _unpicklable_call(file: FileFacts, call: cst.Call) -> str:
    name, text = _name(file, call), _code(file, call)
    if is_handle(file, call):
        return text
    if _is_view(file, call):
        return f"the view {text} of a dictionary"
    if is_generator(file, call):
        return f"the generator {text}"
    cls = file.values.calls.constructed(call)
    if cls is not None:
        return unpicklable(file, cls.node)
    return _lost_class(file, call) if name is None or name in _NAMED else ""


def _is_view(file: FileFacts, call: cst.Call) -> bool:
    """Whether a call gives a view of a dictionary; a table of pandas, and a sparse tensor, give others."""
    func = call.func
    if not isinstance(func, cst.Attribute) or func.attr.value not in _VIEWS or call.args:
        return False
    if _name(file, call) is not None or file.values.calls.resolve(call) is not None:
        return False
    owner = func.value
    is_sparse = isinstance(owner, cst.Call) and dotted(owner.func).endswith("coalesce")
    if is_sparse or file.value(owner).kind is Kind.TENSOR:
        return False
    return func.attr.value != "keys" or not any(_is_table(file, end) for end in file.tracing.ends(owner))


def _is_table(file: FileFacts, end: End) -> bool:
    return isinstance(end.node, cst.Call) and (_name(file, end.node) or "").startswith("pandas.")


def _lost_class(file: FileFacts, call: cst.Call) -> str:
    """An instance of a named tuple that is not found by its own name: `Batch = namedtuple("TrainBatch", ...)`."""
    func = call.func
    if isinstance(func, cst.Attribute) and func.attr.value in ("_make", "_replace"):
        func = func.value
    for end in file.tracing.ends(func):
        made = end.node
        if not isinstance(made, cst.Call) or end.path or _name(file, made) not in _NAMED:
            continue
        given = argument(made, "typename", 0) or argument(made, "cls_name", 0)
        name = literal(given) if given is not None else None
        statement = file.tree.statement(made)
        targets = statement.targets if isinstance(statement, cst.Assign) and statement.value is made else ()
        stands = any(isinstance(target.target, cst.Name) and target.target.value == name for target in targets)
        if not stands or not isinstance(file.tree.scope(made), cst.Module):
            return f"an instance of {name or 'a class'}, which cannot be found in its module under that name,"
    return ""


def _copies(file: FileFacts) -> frozenset[cst.CSTNode]:
    """Every call in sight that copies a list."""
    return frozenset(call for call in file.tree.all(cst.Call) if _name(file, call) in _COPIES)


def _name(file: FileFacts, node: cst.CSTNode) -> str | None:
    """The name of a library's thing; of a call, that of what is called."""
    return file.names.qualified(node.func if isinstance(node, cst.Call) else node)


def _code(file: FileFacts, node: cst.CSTNode) -> str:
    text = " ".join(file.code(node).split())
    return text if len(text) <= 40 else text[:37] + "..."
