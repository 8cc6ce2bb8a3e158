"""How many workers a loader gets: what its file says for loaders already, or as many as there are processors."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.feeding._command_line import declarations, option_called
from perfmod.transforms.feeding._settings import Place, written

_FEWEST = 2
"""A single worker leaves the training waiting."""
_OPTIONS = ("num_workers", "workers", "n_workers", "nworkers", "n_cpu", "loader_workers", "data_workers", "nThreads")
"""What options are called that say how many workers loaders have."""


def count(file: FileFacts, at: cst.CSTNode) -> tuple[str, tuple[str, ...]]:
    """As many workers as there are processors, up to eight, as code; and the imports that it needs."""
    os, imports = file.names.spelled("os", at)
    return f"min(8, {os}.cpu_count() or 1)", imports


def instead(file: FileFacts, place: Place) -> tuple[str, tuple[str, ...]]:
    """What a written 0 becomes: a plain number where the user may change it and reads it as a default."""
    is_field = isinstance(file.tree.scope(place.value), cst.ClassDef)
    is_default = place.option is not None or is_field or isinstance(file.tree.parent(place.value), cst.Param)
    return ("4", ()) if is_default else count(file, place.value)


def suggested(file: FileFacts, loader: Loader) -> str:
    """The number that another loader has here, or that the user is asked for; empty where there is none."""
    for other in file.loaders:
        setting = other.settings.get("num_workers")
        given = setting.arg.value if setting is not None and setting.arg is not None else None
        if not isinstance(given, (cst.Name, cst.Attribute, cst.Integer)):
            continue
        if all(map(_are_several, written(file, given))) and _is_readable(file, given, loader.call):
            return file.code(given)
    for read in find_all(loader.call, cst.Attribute):
        for name in _OPTIONS:
            option = option_called(file, read.value, name)
            if option is not None and option.default is not None and _are_several(option.default):
                return f"{file.code(read.value)}.{name}"
    return ""


def why_asked(file: FileFacts, loader: Loader) -> str:
    """Which option of its file's command line is for the workers of a loader, though nothing reads it; empty where none
    is.
    """
    module = file.tree.module_of(loader.call)
    read = {node.attr.value for node in find_all(module, cst.Attribute)}
    for name in _OPTIONS:
        declared = (call for call in file.once(declarations).get(name, ()) if file.tree.module_of(call) is module)
        for call in declared if name not in read else ():
            return f"the command line has an option for it that nothing reads (line {file.line(call)}): pass that"
    return ""


def _is_readable(file: FileFacts, given: cst.BaseExpression, at: cst.CSTNode) -> bool:
    """Whether an expression gives at another place what it gives where it stands."""
    scope = file.tree.scope(at)
    for name in filter(file.flow.is_read, find_all(given, cst.Name)):
        made = file.flow.definitions(name)
        is_seen = len(made) == 1 and file.comes_before(made[0].node, at)
        if not is_seen or made[0].scope not in (scope, file.tree.module_of(at)):
            return False
        if len(file.flow.bound(made[0].scope, name.value)) > 1:
            return False
        if made[0].scope is not scope and file.flow.bound(scope, name.value):
            return False
    return True


def _are_several(number: cst.CSTNode) -> bool:
    """Whether a number of workers is not too small for sure."""
    return not isinstance(number, cst.Integer) or number.evaluated_value >= _FEWEST
