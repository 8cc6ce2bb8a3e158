"""What modules make otherwise each time they are imported, so that every worker has its own.

`random.shuffle(order)` without a seed, the time, and the order of a set of strings, whose hashes differ from one
process to the next.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts import data_api
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition
from perfmod.transforms.facts.tree import walk_scope
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.facts.worker_code import WorkerCode
from perfmod.transforms.feeding._loader_runs import executed
from perfmod.transforms.feeding._worker_reads import Reads

_SEEDS = {"random.": "random.seed", "numpy.random.": "numpy.random.seed", "torch.": "torch.manual_seed"}
"""What seeds the draws of a library."""
_KEEP_STATE = frozenset({*_SEEDS.values(), "random.setstate", "numpy.random.set_state", "torch.set_rng_state"})
_ANEW = (
    "time.time", "time.perf_counter", "time.monotonic", "datetime.datetime.now", "datetime.datetime.today",
    "datetime.datetime.utcnow", "datetime.date.today", "tempfile.", "os.getpid", "os.getppid",
)  # fmt: skip
"""Functions that answer otherwise every time."""
_SPLITS = ("train_test_split", "ShuffleSplit", "StratifiedShuffleSplit", "GroupShuffleSplit", "shuffle", "resample")
_WEIGHTS = ("Linear", "Bilinear", "Conv", "Embedding", "LSTM", "GRU", "RNN", "Transformer", "MultiheadAttention")
_MAKES_TRANSFORMS = ("torchvision.", "torch.distributions.", "scipy.stats.", *data_api.RANDOM_LIBRARIES)
"""What draws when it is called, and not where it is made."""
_NEVER_SEEDED = ("secrets.", "uuid.", "os.urandom")
_SEEDED_BY = ("generator", "random_state", "seed")
_SETS = frozenset({"builtins.set", "builtins.frozenset"})
_INTO_ORDER = frozenset(
    {f"builtins.{name}" for name in ("list", "tuple", "enumerate", "iter", "zip", "map", "filter", "next")}
    | {"numpy.array", "numpy.asarray", "itertools.chain", "collections.OrderedDict", "builtins.dict.fromkeys"}
)
_WITHOUT_ORDER = frozenset(
    f"builtins.{name}" for name in ("sorted", "set", "frozenset", "len", "min", "max", "sum", "any", "all")
)


@frozen
class Drawn:
    """What differs: what is read, where workers read it, and how it comes about (`{line}` stands for `place`)."""

    name: str
    use: cst.CSTNode
    place: cst.CSTNode
    why: str


def drawn(file: FileFacts, work: WorkerCode, reads: Reads) -> Iterator[Drawn]:
    """What workers read, and would find otherwise than the training."""
    for definition, use in reads.found.items():
        for part, is_sorted in _making(file, definition):
            for place, why in _differs(file, part):
                if not (is_sorted and why is _SET_ORDER):
                    yield Drawn(definition.name, use, place, why)
    for cls in (base for each in work.classes for base in each.lineage()):
        for line in cls.node.body.body:
            if not isinstance(line, (cst.FunctionDef, cst.ClassDef)):
                for place, why in _differs(file, line):
                    yield Drawn(cls.name, cls.node, place, why)
    for node in reads.nodes():
        if _hashes_text(file, node):
            yield Drawn("", node, node, "hash() of a string (line {line}) gives another number in every spawned worker")
        ordered = _ordered(file, node)
        if ordered is not None and _is_of_module(file, ordered):
            yield Drawn(file.code(ordered), node, node, _SET_ORDER)


_SET_ORDER = "has the order of a set (line {line}), and strings hash differently in every spawned worker"


def _making(file: FileFacts, definition: Definition) -> Iterator[tuple[cst.CSTNode, bool]]:
    """The statements of top levels, and the loops around them, that make what a definition gives its name; and whether
    it is sorted in the end.
    """
    seen = {definition}
    stack = [definition]
    while stack:
        current = stack.pop()
        if current.binding in (Binding.DEFINED, Binding.IMPORTED):
            continue
        uses = file.flow.uses(current)
        is_sorted = any(_is_sorted(file, use) for use in uses)
        for place in (current.node, *(use for use in uses if file.aliasing.mutates(use))):
            if file.tree.function(place) is not None:
                continue
            for part in dict.fromkeys((file.tree.statement(place), *file.tree.loops(place))):
                yield part, is_sorted
                for node in walk_scope(part.iter if isinstance(part, cst.For) else part):
                    if isinstance(node, cst.Name) and file.flow.is_read(node):
                        made = [each for each in file.flow.definitions(node) if isinstance(each.scope, cst.Module)]
                        stack += [each for each in made if each not in seen]
                        seen.update(made)


def _is_sorted(file: FileFacts, use: cst.CSTNode) -> bool:
    """`names.sort()` at a top level."""
    parent = file.tree.parent(use)
    return isinstance(parent, cst.Attribute) and parent.attr.value == "sort" and file.tree.function(use) is None


def _differs(file: FileFacts, part: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, str]]:
    """What comes out otherwise in some code of a top level; in a loop's head, where the code is a loop."""
    if isinstance(part, cst.While):
        return
    if _ordered(file, part) is not None:
        yield part, _SET_ORDER
    for node in executed(file, [part.iter if isinstance(part, cst.For) else part]):
        if isinstance(node, cst.Call):
            name = file.names.qualified(node.func)
            if name is not None and name.startswith(_ANEW) and file.tree.is_within(node, part):
                yield node, "is created again in every spawned worker (line {line})"
            elif _draws(file, node, name) and not _is_seeded(file, name or "", part):
                yield node, "is drawn again in every spawned worker (line {line})"
        if _hashes_text(file, node):
            yield node, "depends on hash() (line {line}), which differs for strings in every spawned worker"
        if _ordered(file, node) is not None:
            yield node, _SET_ORDER


# Draws


def _draws(file: FileFacts, call: cst.Call, name: str | None) -> bool:
    if any(arg.keyword is not None and arg.keyword.value in _SEEDED_BY for arg in call.args):
        return False
    if name is None:
        is_method = isinstance(call.func, cst.Attribute) and call.func.attr.value == "sample"
        return is_method and file.values.calls.resolve(call) is None
    short = name.rpartition(".")[2]
    if name.startswith("torch.nn.") and short.startswith(_WEIGHTS):
        return True
    if name.startswith("sklearn.") and short in _SPLITS:
        return True
    if name == "torch.utils.data.random_split":
        return True
    if name in _KEEP_STATE or name.startswith(_MAKES_TRANSFORMS):
        return False
    return data_api.draws(name, seeded=bool(call.args))


def _is_seeded(file: FileFacts, name: str, part: cst.CSTNode) -> bool:
    """Whether the module itself sets a written seed above: whoever imports it draws the same."""
    if name in data_api.GENERATORS or name.startswith(_NEVER_SEEDED):
        return False
    library = next((library for library in _SEEDS if name.startswith(library)), "numpy.random.")
    module = file.tree.module_of(part)
    seeds = [
        each
        for each in file.tree.all(cst.Call)
        if file.names.qualified(each.func) == _SEEDS[library]
        and file.tree.module_of(each) is module
        and file.tree.function(each) is None
        and file.tree.places[each] < file.tree.places[part]
    ]
    return bool(seeds) and all(
        file.entry.statement(each) is file.tree.line(file.tree.statement(each))
        and each.args
        and file.constants.value(each.args[0].value) is not None
        for each in seeds
    )


# Hashes


def _hashes_text(file: FileFacts, node: cst.CSTNode) -> bool:
    if not (isinstance(node, cst.Call) and file.names.qualified(node.func) == "builtins.hash" and node.args):
        return False
    return file.value(node.args[0].value).kind is not Kind.NUMBER


def _ordered(file: FileFacts, node: cst.CSTNode) -> cst.BaseExpression | None:
    """The set through which something goes in the order of its hashes, if it may hold texts."""
    taken: list[cst.BaseExpression] = []
    if isinstance(node, cst.For) or (
        isinstance(node, cst.CompFor) and not _forgets_order(file, file.tree.parent(node))
    ):
        taken = [node.iter]
    elif isinstance(node, cst.StarredElement):
        taken = [node.value]
    elif isinstance(node, cst.Call) and not _forgets_order(file, node):
        name = file.names.qualified(node.func)
        method = node.func.attr.value if isinstance(node.func, cst.Attribute) and name is None else ""
        if method == "pop" and not node.args and isinstance(node.func, cst.Attribute):
            taken = [node.func.value]
        elif name in _INTO_ORDER or method in ("join", "extend"):
            taken = [arg.value for arg in node.args]
    return next((each for each in taken if _is_set_of_texts(file, each)), None)


def _forgets_order(file: FileFacts, node: cst.CSTNode | None) -> bool:
    """Whether the order of what an expression gives is lost at once: `sorted(list(names))`."""
    arg = file.tree.parent(node) if node is not None else None
    call = file.tree.parent(arg) if isinstance(arg, cst.Arg) else None
    is_call = isinstance(call, cst.Call) and file.names.qualified(call.func) in _WITHOUT_ORDER
    return is_call or isinstance(node, cst.SetComp)


def _is_set_of_texts(file: FileFacts, node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.Set):
        return any(file.value(element.value).kind is not Kind.NUMBER for element in node.elements)
    if isinstance(node, cst.SetComp):
        return file.value(node.elt).kind is not Kind.NUMBER
    if isinstance(node, cst.BinaryOperation):
        return _is_set_of_texts(file, node.left) or _is_set_of_texts(file, node.right)
    if isinstance(node, cst.Call) and file.names.qualified(node.func) in _SETS and node.args:
        return not _is_of_numbers(file, node.args[0].value)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        method = node.func.attr.value
        return method in ("union", "intersection", "difference", "copy") and _is_set_of_texts(file, node.func.value)
    if isinstance(node, (cst.Name, cst.Attribute)) and file.flow.is_variable(node):
        made = [definition.part for definition in file.flow.definitions(node)]
        return any(
            part is not None and not isinstance(part, cst.Name) and _is_set_of_texts(file, part) for part in made
        )
    return False


def _is_of_numbers(file: FileFacts, node: cst.BaseExpression) -> bool:
    if isinstance(node, (cst.List, cst.Tuple)):
        return all(file.value(element.value).kind is Kind.NUMBER for element in node.elements)
    if isinstance(node, (cst.ListComp, cst.GeneratorExp)):
        return file.value(node.elt).kind is Kind.NUMBER
    return isinstance(node, cst.Call) and file.names.qualified(node.func) == "builtins.range"


def _is_of_module(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether a set that worker code goes through is one of a module, rather than one that the sample makes."""
    names = [each for each in walk_scope(node) if isinstance(each, cst.Name) and file.flow.is_read(each)]
    made = [(each, definition) for each in names for definition in file.flow.definitions(each)]
    return any(isinstance(definition.scope, cst.Module) and _is_set_of_texts(file, each) for each, definition in made)
