"""How many workers a loader gets: what its file says for loaders already, or as many as there are processors; and
whether such a number is never 0.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, parameters
from perfmod.transforms.facts.loaders import Loader, Setting
from perfmod.transforms.facts.tracing import literal
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.feeding._command_line import declarations, option_called, told_default
from perfmod.transforms.feeding._settings import Place, is_zero, written
from perfmod.transforms.finding import Edit
from perfmod.transforms.style import quoted

_RANKS = frozenset(
    {
        "torch.distributed.init_process_group", "torch.distributed.init_device_mesh", "torch.multiprocessing.spawn",
        "torch.utils.data.distributed.DistributedSampler", "torch.utils.data.DistributedSampler",
        "deepspeed.init_distributed", "horovod.torch.init",
    }
)  # fmt: skip
_ASKS_FOR_RANK = frozenset({"is_main_process", "is_local_main_process", "num_processes", "wait_for_everyone"})
"""What scripts read of an `Accelerator` that run in several processes."""
_FEWEST = 2
"""A single worker leaves the training waiting."""
_USUAL = 4
"""Workers that a plain number asks for, which is the same on every machine."""
_COUNTS = ("os.cpu_count", "multiprocessing.cpu_count", "os.sched_getaffinity")
_OPTIONS = (
    "num_workers", "workers", "n_workers", "nworkers", "n_cpu", "loader_workers", "data_workers",
    "n_threads", "nThreads",
)  # fmt: skip
"""What options are called that say how many workers loaders have."""


@frozen
class Number:
    """A number of workers, as code for the call of a loader.

    Attributes:
        code: that code.
        is_positive: whether it is never 0.
        is_counted: whether it is that of the processors.
        imports: what it needs.
        edits: what raises its default, if that is 0.
        escape: a place that prints that default with others, or hands it on; `None` where none does.
    """

    code: str
    is_positive: bool = True
    is_counted: bool = False
    imports: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    escape: cst.CSTNode | None = None


def count(file: FileFacts, at: cst.CSTNode) -> tuple[str, tuple[str, ...]]:
    """As many workers as there are processors, up to the most of the policy, as code; and the imports that it needs."""
    most = file.policy.workers
    if most == 1:
        return "1", ()
    os, imports = file.names.spelled("os", at)
    return f"min({most}, {os}.cpu_count() or 1)", imports


def instead(file: FileFacts, place: Place) -> tuple[str, tuple[str, ...]]:
    """What a written 0 becomes: a plain number where the user may change it and reads it as a default."""
    return (default_count(file), ()) if is_default(file, place) else count(file, place.value)


def default_count(file: FileFacts) -> str:
    """The number that becomes the default of a setting which users may change."""
    return str(min(_USUAL, file.policy.workers))


def is_default(file: FileFacts, place: Place) -> bool:
    """Whether what is written is only used where nobody says something else."""
    is_field = isinstance(file.tree.scope(place.value), cst.ClassDef)
    return place.option is not None or is_field or isinstance(file.tree.parent(place.value), cst.Param)


def shares_cpus(file: FileFacts) -> cst.CSTNode | None:
    """What shows that several processes train, of which each makes the loaders; `None` where nothing does."""
    for call in file.tree.all(cst.Call):
        if file.qualified(call) in _RANKS:
            return call
    uses_accelerate = any("accelerate" in source.text for source in file.world.files)
    asks = (node for node in file.tree.all(cst.Attribute) if node.attr.value in _ASKS_FOR_RANK)
    return next(asks, None) if uses_accelerate else None


def number(file: FileFacts, loader: Loader) -> Number:
    """How many workers a loader gets that says nothing of them: what another loader here has, what the user is asked
    for or has set, else as many as there are processors.
    """
    for other in file.loaders:
        setting = other.settings.get("num_workers")
        given = setting.arg.value if setting is not None and setting.arg is not None else None
        if not isinstance(given, (cst.Name, cst.Attribute, cst.Integer)):
            continue
        if all(map(_are_several, written(file, given))) and _is_readable(file, given, loader.call):
            return Number(file.code(given), is_positive=is_positive(file, other.settings["num_workers"]) == "True")
    for code, holder in _holders(file, loader.call):
        for name in _OPTIONS:
            found = _in_options(file, code, holder, name)
            if found is not None:
                return found
    for name in _OPTIONS:
        if _is_told(file, loader.call, name):
            return Number(name, is_positive=False)
    counted, imports = count(file, loader.call)
    return Number(counted, imports=imports, is_counted=True)


def _in_options(file: FileFacts, code: str, holder: cst.BaseExpression, name: str) -> Number | None:
    """The number that an object of options, or a dictionary, has under a name; a default of 0 that nothing reads is
    raised.
    """
    option = option_called(file, holder, name)
    default = option.default if option is not None else None
    if option is not None and default is not None:
        if not is_zero(default):
            return Number(f"{code}.{name}", is_positive=False)
        if option.reads:
            return None
        raised = default_count(file)
        edit = Edit(*file.source_of(default).span(default), raised, file.source_of(default).path)
        edits = (edit, *told_default(file, option, raised))
        return Number(f"{code}.{name}", is_positive=False, edits=edits, escape=option.escape)
    cls = file.value(holder).cls
    fields = [each.value for each in cls.assignments(name)] if cls is not None else []
    if fields and all(isinstance(each, cst.Integer) and not is_zero(each) for each in fields):
        return Number(f"{code}.{name}", is_positive=False)
    made = [end.node for end in file.tracing.ends(holder) if not end.path]
    items = [item for each in made if isinstance(each, cst.Dict) for item in each.elements]
    given = [item.value for item in items if isinstance(item, cst.DictElement) and literal(item.key) == name]
    if given and len(given) == len(made) and all(isinstance(each, cst.Integer) and not is_zero(each) for each in given):
        return Number(f"{code}[{quoted(file.source, name)}]", is_positive=False)
    return None


def _holders(file: FileFacts, call: cst.Call) -> Iterator[tuple[str, cst.BaseExpression]]:
    """The objects that may hold options and can be read at a call, with their code: those that it reads come first."""
    for read in find_all(call, cst.Attribute):
        yield file.code(read.value), read.value
    for item in find_all(call, cst.Subscript):
        yield file.code(item.value), item.value
    own = file.tree.scope(call)
    is_asked = not file.once(declarations).keys().isdisjoint(_OPTIONS)
    for scope in dict.fromkeys((own, file.tree.module_of(call))) if is_asked else ():
        for name in file.flow.names(scope):
            made = file.flow.bound(scope, name)
            use = next(iter(file.flow.uses(made[0])), made[0].value)
            is_seen = scope is own or not file.flow.bound(own, name)
            if len(made) == 1 and use is not None and is_seen and file.comes_before(made[0].node, call):
                yield name, use


def _is_told(file: FileFacts, call: cst.Call, name: str) -> bool:
    """Whether the function around a call has a parameter of a name, with workers by default: its own, or that of a
    decorator, `@click.option("--workers", default=4)`.
    """
    function = file.tree.function(call)
    if function is None or file.tree.scope(call) is not function:
        return False
    defaults = [param.default for param in parameters(function) if param.name.value == name]
    for made in (decorator.decorator for decorator in function.decorators):
        flags = [literal(arg.value) for arg in made.args] if isinstance(made, cst.Call) else []
        if defaults == [None] and isinstance(made, cst.Call) and f"--{name}" in flags:
            defaults = [argument(made, "default")]
    return bool(defaults) and isinstance(defaults[0], cst.Integer) and defaults[0].evaluated_value > 0


def is_positive(file: FileFacts, workers: Setting) -> str | None:
    """The code that says whether a loader has workers; empty where that could not be said, `None` without."""
    numbers = [number for value in workers.values for number in written(file, value)]
    known = [_count(file, number) for number in numbers]
    if all(count == 0 for count in known):
        return None
    fixed = all(count for count in known) and not any(_may_be_told(file, value) for value in workers.values)
    if fixed and (workers.always or workers.arg is not None):
        return "True"
    value = workers.arg.value if workers.arg is not None else None
    return f"{file.code(value)} > 0" if isinstance(value, (cst.Name, cst.Attribute)) else ""


def _may_be_told(file: FileFacts, value: cst.BaseExpression) -> bool:
    """Whether a number is only the default of the command line, of a class of settings, or of a function."""
    seen: set[cst.CSTNode] = set()
    stack = [value]
    while stack:
        current = stack.pop()
        if current in seen or isinstance(current, cst.Integer):
            continue
        seen.add(current)
        if not isinstance(current, cst.Name):
            return not isinstance(current, cst.Call)
        for definition in file.flow.definitions(current):
            if definition.binding is not Binding.ASSIGNED or definition.path or definition.value is None:
                return True
            stack.append(definition.value)
    return False


def _count(file: FileFacts, number: cst.CSTNode) -> int | None:
    """A number of workers, as far as it is positive for sure: `None` where it is not known."""
    if isinstance(number, cst.Integer):
        return number.evaluated_value
    if isinstance(number, cst.BooleanOperation) and isinstance(number.operator, cst.Or):
        return _count(file, number.right)  # `os.cpu_count() or 1`
    if not isinstance(number, cst.Call):
        return None
    name = file.qualified(number)
    if name in ("builtins.min", "builtins.max") and number.args:
        counts = [_count(file, arg.value) for arg in number.args]
        if name == "builtins.max":
            return next((count for count in counts if count), None)
        return 1 if all(counts) else None
    # `len(os.sched_getaffinity(0))`, `os.cpu_count()`: a process has at least one.
    inner = number.args[0].value if name == "builtins.len" and number.args else None
    asks = (name, file.qualified(inner) if isinstance(inner, cst.Call) else None)
    return 1 if any(each in _COUNTS for each in asks) else None


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
