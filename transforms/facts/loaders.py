"""Data loaders of the files: how they are constructed, which dataset they read, which loops run over them, and
which train.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence

import libcst as cst
from attrs import define, evolve, field, frozen

from perfmod.transforms.facts import lightning, torch_api
from perfmod.transforms.facts.classes import Classes, ClassFacts
from perfmod.transforms.facts.flow import Binding, Definition, Flow, parameters
from perfmod.transforms.facts.names import Names
from perfmod.transforms.facts.steps import Steps
from perfmod.transforms.facts.tracing import End, Tracing, literal
from perfmod.transforms.facts.tree import Tree, find_all
from perfmod.transforms.facts.value import UNKNOWN, Kind
from perfmod.transforms.facts.values import Values

TORCH_LOADER = "torch.utils.data.DataLoader"
TORCH_LOADERS = frozenset({TORCH_LOADER, "torchdata.stateful_dataloader.StatefulDataLoader"})
LOADER_NAMES = frozenset(name.rpartition(".")[2] for name in {TORCH_LOADER} | torch_api.OTHER_LOADERS)
"""What the classes of all known loaders are called."""
"""PyTorch's own loaders, which take the same arguments."""

# Parameters of `torch.utils.data.DataLoader` in order; those behind `worker_init_fn` are keyword-only.
PARAMETERS = (
    "dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn",
    "pin_memory", "drop_last", "timeout", "worker_init_fn",
)  # fmt: skip

_READS_DICTIONARY = frozenset({"get", "keys", "items", "values", "copy"})
_GRAPH_JOINERS = ("DataLoader", "DenseDataLoader", "DataListLoader")


def parameters_of(name: str) -> tuple[str, ...]:
    """The parameters of a loader's class that can be passed by position, in order."""
    package, _, short = name.rpartition(".")
    if package.startswith("torch_geometric."):
        # The others cut batches out of one graph, and call their further parameters differently.
        return PARAMETERS[:3] if short in _GRAPH_JOINERS else ("data",)
    if package.startswith("dgl."):
        return ("dataset", "collate_fn") if short == "GraphDataLoader" else ("graph", "indices", "sampler", "device")
    return PARAMETERS


@frozen
class Setting:
    """What a construction passes for one parameter.

    Attributes:
        values: every expression that it may get; several where a dictionary of keywords depends on a
            condition.
        arg: the argument of the call itself; `None` where it comes out of `**kwargs`, or `functools.partial` binds it.
        always: whether it is passed whatever happens.
    """

    values: tuple[cst.BaseExpression, ...]
    arg: cst.Arg | None
    always: bool


@frozen
class _Taken:
    """An argument that a loader's class gets: its keyword or star, where it has one, and as `Setting` has it."""

    keyword: str
    star: str
    value: cst.BaseExpression
    arg: cst.Arg | None

    @classmethod
    def of(cls, given: cst.Arg, arg: cst.Arg | None) -> _Taken:
        return cls(given.keyword.value if given.keyword is not None else "", str(given.star), given.value, arg)


@frozen
class Iteration:
    """One place that draws batches from a loader.

    Attributes:
        node: the `For`, the `CompFor`, the call of `next`, or that of a framework's loop.
        iterable: what is iterated, such as `enumerate(loader)`.
        trains: whether the loop's body, or the step that calls `next`, runs `backward`.
        in_step: whether a training step begins it anew every time: an inner loop over the loader,
            `next(iter(loader))`.
        by_framework: whether the loop is Lightning's: `node` is the call of its Trainer, and it copies the batches.
    """

    node: cst.For | cst.CompFor | cst.Call
    iterable: cst.BaseExpression
    trains: bool
    in_step: bool
    by_framework: bool = False


@define(eq=False)
class Loader:
    """One construction of a loader.

    Attributes:
        call: the construction.
        name: qualified name of the class, the nearest library class for a subclass in sight.
        cls: the subclass in sight, if it is one.
        settings: what is passed, by parameter name, `**kwargs` resolved where the dictionary is in sight.
        unseen: why some of the keywords are not known; empty where all are.
        open_keywords: the code of a dictionary of keywords that is known as the default of a parameter only, for which
            whoever calls may pass another: `**self.options`; else empty.
        written: the call in which further arguments can be written: the construction, or where the `__init__` of a
            subclass passes on only what it names, that of its base.
        iterations: every place in sight that draws batches from it.
    """

    call: cst.Call
    name: str
    cls: ClassFacts | None
    settings: dict[str, Setting]
    unseen: str
    open_keywords: str
    written: cst.Call
    iterations: list[Iteration] = field(factory=list)

    @property
    def trains(self) -> bool:
        """Whether it feeds a training step in sight."""
        return any(iteration.trains for iteration in self.iterations)

    @property
    def is_copied_by_framework(self) -> bool:
        """Whether its batches go to a framework's loop, which copies them without waiting where they are pinned."""
        return any(iteration.by_framework for iteration in self.iterations)

    def values(self, parameter: str) -> tuple[cst.BaseExpression, ...]:
        """Every expression that `parameter` may get; empty where it keeps its default."""
        setting = self.settings.get(parameter)
        return setting.values if setting is not None else ()


class Loaders:
    """All loaders in sight."""

    def __init__(
        self, tree: Tree, flow: Flow, names: Names, classes: Classes, values: Values, steps: Steps, tracing: Tracing
    ) -> None:
        self._tree = tree
        self._flow = flow
        self._names = names
        self._classes = classes
        self._values = values
        self._steps = steps
        self._tracing = tracing
        self._module: cst.Module | None = None
        self._by_call: dict[cst.CSTNode, Loader] = {}
        for call in tree.all(cst.Call):
            value = values.of(call) if self._may_construct(call) else UNKNOWN
            if value.kind is Kind.LOADER and value.call is call:
                name = value.name or TORCH_LOADER
                settings, unseen, written = self._given(call, value.cls, parameters_of(name))
                keywords = self._open_keywords(call)
                self._by_call[call] = Loader(call, name, value.cls, settings, unseen, keywords, written)
        if self._by_call:
            self._collect_iterations()

    def __iter__(self) -> Iterator[Loader]:
        return (loader for loader in self.everywhere if self._module in (None, self._tree.module_of(loader.call)))

    @property
    def everywhere(self) -> Iterator[Loader]:
        """The loaders of all files."""
        return iter(self._by_call.values())

    def seen_from(self, module: cst.Module) -> Loaders:
        """The same loaders; iterating gives those that a module constructs."""
        seen = copy.copy(self)
        seen._module = module
        return seen

    def of(self, node: cst.CSTNode) -> Loader | None:
        """The loader that a call constructs."""
        return self._by_call.get(node)

    def behind(self, node: cst.BaseExpression) -> dict[Loader | None, tuple[End, ...]]:
        """The loaders whose batches, or parts of batches, `node` may be; `None` stands for values of other
        origin.
        """
        found: dict[Loader | None, tuple[End, ...]] = {}
        for end in self._tracing.ends(node):
            loader = self._by_call.get(end.node) if end.path[:1] == (None,) else None
            found[loader] = (*found.get(loader, ()), end)
        return found

    def of_one_batch(self, iterable: cst.BaseExpression) -> Loader | None:
        """The loader of an iterable, if each that it may be gives all in one batch: `batch_size=len(dataset)`."""
        found = [self._by_call.get(end.node) for end in self._tracing.ends(iterable, (None,))]
        return (
            found[0] if found and all(loader is not None and self._is_one_batch(loader) for loader in found) else None
        )

    def _is_one_batch(self, loader: Loader) -> bool:
        sizes, datasets = loader.values("batch_size"), {self._tree.code(each) for each in loader.values("dataset")}
        counted = [
            self._tree.code(size.args[0].value)
            for size in sizes
            if isinstance(size, cst.Call) and self._names.qualified(size.func) == "builtins.len" and size.args
        ]
        return len(datasets) == 1 and len(sizes) == len(counted) > 0 and set(counted) == datasets

    def _may_construct(self, call: cst.Call) -> bool:
        """Whether `call` names a loader's class (a `.to()` of one, or a helper that makes one, does not)."""
        calls = self._values.calls
        is_named = self._names.qualified(call.func) is not None
        return is_named or calls.constructed(call) is not None or calls.bound(call) is not None

    # Iterations

    def _collect_iterations(self) -> None:
        for node in self._tree.all_of(cst.For, cst.CompFor, cst.Call):
            if isinstance(node, cst.For):
                iterated = self._beside_range(node.iter)
                is_begun_anew = self._is_begun_in_step(node)
                trains = is_begun_anew or self._steps.trains(node.body)
                self._iterate(node, iterated, trains, is_begun_anew or self._steps.in_sight(node))
            elif isinstance(node, cst.CompFor):
                around = self._tree.parent(node)
                trains = around is not None and self._steps.trains(around)
                self._iterate(node, node.iter, trains, self._steps.in_sight(node))
            elif isinstance(node, cst.Call) and self._names.qualified(node.func) == "builtins.next" and node.args:
                self._draw(node, node.args[0].value)
            elif isinstance(node, cst.Call) and _draws_by_method(node):
                assert isinstance(node.func, cst.Attribute)
                self._draw(node, node.func.value)
        for call in lightning.runs(self._tree, self._names, self._values):
            given = (*lightning.loaders_handed(call), *lightning.loaders_returned(self._classes))
            for value, trains in given:
                self._iterate(call, value, trains, in_step=False, by_framework=True)

    def _is_begun_in_step(self, inside: cst.For | cst.Call) -> bool:
        """Whether a step takes one batch of a generator that it begins anew: `next(batches(loader))`."""
        function = self._tree.function(inside)
        if function is None or not self._tree.is_generator(function):
            return False
        for call in self._values.calls.callers(function):
            arg = self._tree.parent(call)
            taken = self._tree.parent(arg) if isinstance(arg, cst.Arg) else None
            is_next = isinstance(taken, cst.Call) and self._names.qualified(taken.func) == "builtins.next"
            if is_next and taken is not None and self._steps.in_sight(taken):
                return True
        return False

    def _is_made_beside(self, draw: cst.Call, iterator: cst.BaseExpression) -> bool:
        """Whether the function that draws from an iterator has made it: `batches = iter(loader)`."""
        made = self._flow.definitions(iterator) if isinstance(iterator, cst.Name) else ()
        return any(
            isinstance(each.value, cst.Call)
            and self._names.qualified(each.value.func) == "builtins.iter"
            and self._tree.function(each.value) is self._tree.function(draw)
            for each in made
        )

    def _beside_range(self, iterable: cst.BaseExpression) -> cst.BaseExpression:
        """The loader of `zip(range(3), loader)`; any other iterable itself."""
        if not isinstance(iterable, cst.Call) or self._names.qualified(iterable.func) != "builtins.zip":
            return iterable
        zipped = [arg.value for arg in iterable.args]
        others = [each for each in zipped if self._names.qualified(getattr(each, "func", each)) != "builtins.range"]
        return others[0] if len(others) == 1 else iterable

    def _draw(self, node: cst.Call, iterator: cst.BaseExpression) -> None:
        """Look at a call that draws one batch from an iterator."""
        inside = self._steps.in_sight(node)
        made = iterator if isinstance(iterator, cst.Call) else None
        function = self._values.calls.resolve(made) if made is not None else None
        restarts = (made is not None and self._names.qualified(made.func) == "builtins.iter") or (
            function is not None and self._tree.is_generator(function)
        )
        is_begun_anew = self._is_made_beside(node, iterator) and self._is_begun_in_step(node)
        self._iterate(node, iterator, inside or is_begun_anew, is_begun_anew or (inside and restarts))

    def _iterate(
        self,
        node: cst.For | cst.CompFor | cst.Call,
        iterable: cst.BaseExpression,
        trains: bool,
        in_step: bool,
        by_framework: bool = False,
    ) -> None:
        found = {
            self._by_call[end.node]
            for end in self._tracing.ends(iterable, (None,))
            if end.path == (None,) and end.node in self._by_call
        }
        for loader in found:
            loader.iterations.append(Iteration(node, iterable, trains, in_step, by_framework))

    # Arguments

    def _written(self, call: cst.Call) -> list[_Taken]:
        """The arguments of a call, those that `functools.partial` binds first."""
        bound = self._values.calls.bound(call)
        before = bound.args[1:] if bound is not None else ()
        given = sorted((*before, *call.args), key=_follows)
        return [_Taken.of(arg, None if arg in before else arg) for arg in given]

    def _given(
        self, call: cst.Call, cls: ClassFacts | None, positional: Sequence[str]
    ) -> tuple[dict[str, Setting], str, cst.Call]:
        """What a construction gives to `DataLoader` itself, by way of the `__init__` of subclasses; why some of it is
        not known; and the call in which more can be written.
        """
        taken: list[_Taken] | None = self._written(call)
        written, is_open = call, False
        for each in cls.lineage() if cls is not None else ():
            init = each.methods.get("__init__")
            further = _call_of_base(init) if init is not None and "__iter__" not in each.methods else None
            if init is None or taken is None:
                continue
            is_open = is_open or self._flow.is_open(init)
            taken = self._through(taken, init, further) if further is not None else None
            if further is not None and not any(arg.star == "**" for arg in further.args):
                written = further
        is_shared = is_open or (cls is not None and len(self._values.calls.constructions(cls)) > 1)
        if cls is not None and (taken is None or (written is not call and is_shared)):
            return {}, f"{cls.name} decides itself which arguments it passes on to DataLoader", call
        return *self._settings(taken or (), positional), written

    def _through(self, taken: Sequence[_Taken], init: cst.FunctionDef, further: cst.Call) -> list[_Taken] | None:
        """What a base's `__init__` gets where the class gets what is `taken`; `None` where that is not known."""
        own = {param.name.value: param for param in list(parameters(init))[1:]}
        named = {name: param for name, param in own.items() if param.star not in ("*", "**")}
        places = [name for name, param in named.items() if param not in init.params.kwonly_params]
        values: dict[str, _Taken] = {}
        rest: dict[str, list[_Taken]] = {"*": [], "**": []}
        for each in taken:
            if each.keyword in named or (not (each.keyword or each.star) and len(values) < len(places)):
                values[each.keyword or places[len(values)]] = each
            else:
                rest["**" if each.keyword or each.star == "**" else "*"].append(each)
        if any(each.star for given in rest.values() for each in given) and named.keys() - values.keys():
            return None
        found: list[_Taken] = []
        for arg in further.args[0 if isinstance(cst.ensure_type(further.func, cst.Attribute).value, cst.Call) else 1 :]:
            definitions = self._flow.definitions(arg.value) if isinstance(arg.value, cst.Name) else ()
            is_own = bool(definitions) and all(each.binding is Binding.PARAMETER for each in definitions)
            param = own.get(arg.value.value) if is_own and isinstance(arg.value, cst.Name) else None
            if arg.star and param is not None and param.star == arg.star:
                if any(use is not arg.value for each in definitions for use in self._flow.uses(each)):
                    return None
                found += rest[arg.star]
            elif param is None or arg.star:
                found.append(_Taken.of(arg, arg))
            else:
                given = values.get(param.name.value) or _Taken("", "", param.default or arg.value, arg)
                found.append(evolve(given, keyword=arg.keyword.value if arg.keyword is not None else ""))
        return sorted(found, key=lambda each: bool(each.keyword) or each.star == "**")

    def _settings(self, taken: Sequence[_Taken], positional: Sequence[str]) -> tuple[dict[str, Setting], str]:
        settings: dict[str, Setting] = {}
        unseen = ""
        for position, each in enumerate(taken):
            if each.star == "*":
                unseen = f"the arguments in *{self._tree.code(each.value)} could not be determined"
            elif each.star == "**":
                entries = self._entries(each.value)
                if entries is None:
                    unseen = f"the arguments in **{self._tree.code(each.value)} could not be determined"
                else:
                    settings.update(entries)
            elif each.keyword:
                settings[each.keyword] = Setting((each.value,), each.arg, always=True)
            elif position < len(positional):
                settings[positional[position]] = Setting((each.value,), each.arg, always=True)
        return settings, unseen

    def _open_keywords(self, call: cst.Call) -> str:
        """What stands behind `**` and is, as far as it shows, the default of a parameter."""
        for arg in call.args:
            if arg.star == "**" and any(
                isinstance(self._tree.parent(end.node), cst.Param) for end in self._tracing.ends(arg.value)
            ):
                return f"**{self._tree.code(arg.value)}"
        return ""

    def _entries(self, node: cst.BaseExpression) -> dict[str, Setting] | None:
        """The keywords of a dictionary, over all ways in which it may be made and filled; `None` if some are
        hidden.
        """
        ways: list[dict[str, cst.BaseExpression]] = []
        for end in self._tracing.ends(node):
            made = self._made(end)
            if made is None:
                return None
            ways += made
        added: list[dict[str, cst.BaseExpression]] = []
        if self._flow.is_variable(node):
            for definition in self._holding(node):
                more = self._filled(definition)
                if more is None:
                    return None
                added += more
        elif isinstance(node, cst.Attribute) and self._is_changed(node.attr.value):
            return None
        entries: dict[str, Setting] = {}
        for name in dict.fromkeys(key for way in (*ways, *added) for key in way):
            values = tuple(dict.fromkeys(way[name] for way in (*ways, *added) if name in way))
            entries[name] = Setting(values, None, always=bool(ways) and all(name in way for way in ways))
        return entries

    def _made(self, end: End) -> list[dict[str, cst.BaseExpression]] | None:
        """The dictionaries that are made at an end: one, or for `**kwargs` of a function what its callers pass."""
        if end.path:
            return None
        if isinstance(end.node, cst.Param) and end.node.star == "**":
            return self._passed_on(end.node)
        way = self._dictionary(end.node)
        return [way] if way is not None else None

    def _passed_on(self, param: cst.Param) -> list[dict[str, cst.BaseExpression]] | None:
        """What the callers of a function pass as further keywords; `None` where some are out of sight, or some pass
        others.
        """
        function = self._tree.parent(self._tree.parent(param) or param)
        if not isinstance(function, cst.FunctionDef) or not self._values.calls.is_only_called(function):
            return None
        named = {other.name.value for other in parameters(function)}
        ways: list[dict[str, cst.BaseExpression]] = []
        for call in self._values.calls.callers(function):
            given = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
            spread = self._spread(call)
            if spread is None:
                return None
            ways += [{name: value for name, value in (given | more).items() if name not in named} for more in spread]
        return ways if len({frozenset(way) for way in ways}) == 1 else None

    def _spread(self, call: cst.Call) -> list[dict[str, cst.BaseExpression]] | None:
        """What `**` gives to a call, on each of its ways; `None` where something is hidden."""
        stars = [arg for arg in call.args if arg.star]
        if not stars:
            return [{}]
        entries = self._entries(stars[0].value) if len(stars) == 1 and stars[0].star == "**" else None
        if entries is None:
            return None
        # What is only given on some ways is left out on one, so that the ways differ.
        kinds = [entries, {name: entry for name, entry in entries.items() if entry.always}]
        count = max((len(entry.values) for entry in entries.values()), default=1)
        return [
            {name: entry.values[min(number, len(entry.values) - 1)] for name, entry in kind.items()}
            for kind in kinds
            for number in range(count)
        ]

    def _is_changed(self, attribute: str) -> bool:
        """Whether a dictionary that an attribute holds may be changed after it was made."""
        for node in self._tree.all(cst.Attribute):
            if node.attr.value != attribute:
                continue
            parent = self._tree.parent(node)
            if isinstance(parent, cst.Subscript) and isinstance(self._tree.parent(parent), (cst.AssignTarget, cst.Del)):
                return True
            if isinstance(parent, cst.Attribute) and parent.attr.value not in _READS_DICTIONARY:
                return True
            if isinstance(parent, cst.Arg) and not parent.star and not self._only_reads(self._tree.parent(parent)):
                return True
        return False

    def _dictionary(self, node: cst.CSTNode) -> dict[str, cst.BaseExpression] | None:
        if isinstance(node, cst.Dict):
            found: dict[str, cst.BaseExpression] = {}
            for element in node.elements:
                key = literal(element.key) if isinstance(element, cst.DictElement) else None
                if not isinstance(key, str):
                    return None
                found[key] = element.value
            return found
        if isinstance(node, cst.Call) and self._names.qualified(node.func) == "builtins.dict":
            named = {arg.keyword.value: arg.value for arg in node.args if arg.keyword is not None}
            return named if len(named) == len(node.args) else None
        return None

    def _holding(self, node: cst.BaseExpression) -> dict[Definition, None]:
        """The variables through which a dictionary comes, functions that return it included, and other names of it."""
        found: dict[Definition, None] = {}
        seen: set[cst.CSTNode] = set()
        values: list[cst.CSTNode | None] = [node]
        while values:
            value = values.pop()
            if value is None or value in seen:
                continue
            seen.add(value)
            function = self._values.calls.resolve(value) if isinstance(value, cst.Call) else None
            values += [result.value for result in self._tree.results(function)] if function is not None else []
            for definition in self._flow.definitions(value) if self._flow.is_variable(value) else ():
                if definition in found or definition.path:
                    continue
                found[definition] = None
                values += [definition.value, *self._other_names(definition)]
        return found

    def _other_names(self, definition: Definition) -> Iterator[cst.CSTNode]:
        """The reads of other variables that hold what one does: `other = keywords`."""
        for use in self._flow.uses(definition):
            stored = self._tree.parent(use)
            for target in stored.targets if isinstance(stored, cst.Assign) else ():
                yield from (read for other in self._flow.defined(target.target) for read in self._flow.uses(other))

    def _filled(self, definition: Definition) -> list[dict[str, cst.BaseExpression]] | None:
        """What is put into a dictionary after it was made; `None` if it is handed on and may be changed."""
        is_rest = isinstance(definition.node, cst.Param) and definition.node.star == "**"
        if definition.binding is not Binding.ASSIGNED and not is_rest:
            return None
        added: list[dict[str, cst.BaseExpression]] = []
        for use in self._flow.uses(definition):
            parent = self._tree.parent(use)
            around = self._tree.parent(parent) if parent is not None else None
            if isinstance(parent, cst.Subscript) and parent.value is use:
                statement = self._tree.parent(around) if isinstance(around, cst.AssignTarget) else None
                index = parent.slice[0].slice
                key = literal(index.value) if isinstance(index, cst.Index) else None
                if isinstance(statement, cst.Assign) and isinstance(key, str):
                    added.append({key: statement.value})
                elif isinstance(around, (cst.AssignTarget, cst.AugAssign)):
                    return None
            elif isinstance(parent, cst.Attribute) and isinstance(around, cst.Call):
                if parent.attr.value == "update":
                    more = self._updated(around)
                    if more is None:
                        return None
                    added += more
                elif parent.attr.value not in ("get", "keys", "items", "values", "copy", "pop"):
                    return None
            elif isinstance(parent, cst.Arg) and parent.star != "**" and not self._only_reads(around):
                return None
        return added

    def _updated(self, call: cst.Call) -> list[dict[str, cst.BaseExpression]] | None:
        added = [{arg.keyword.value: arg.value} for arg in call.args if arg.keyword is not None]
        for arg in call.args:
            if arg.keyword is None:
                for end in self._tracing.ends(arg.value):
                    way = self._dictionary(end.node) if not end.path and not arg.star else None
                    if way is None:
                        return None
                    added.append(way)
        return added

    def _only_reads(self, call: cst.CSTNode | None) -> bool:
        """Whether a call leaves the dictionary that it is given as it is; `other.update(it)` does."""
        if not isinstance(call, cst.Call):
            return False
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "update":
            return True
        return self._names.qualified(call.func) in ("builtins.print", "builtins.len")


def _follows(arg: cst.Arg) -> bool:
    """Whether an argument comes behind those by position, wherever `functools.partial` binds it."""
    return arg.keyword is not None or arg.star == "**"


def _call_of_base(init: cst.FunctionDef) -> cst.Call | None:
    """The call of the base's `__init__` that stands in a method, and is run whenever that is; `None` for several."""
    calls = [
        call
        for call in find_all(init.body, cst.Call)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "__init__"
    ]
    lines = (line for line in init.body.body if isinstance(line, cst.SimpleStatementLine))
    plain = [small.value for line in lines for small in line.body if isinstance(small, cst.Expr)]
    return calls[0] if len(calls) == 1 and calls[0] in plain else None


def _draws_by_method(call: cst.Call) -> bool:
    """Whether a call is `iterator.next()` of old, or `iterator.__next__()`."""
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in ("next", "__next__") and not call.args
