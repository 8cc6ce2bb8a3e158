"""What the worker processes of a loader would run: the dataset, its transforms, the collate function, and
what they do.

Workers get a pickled (or forked) copy of the dataset. Code that only reads gives the same samples there;
code that draws random numbers, changes the dataset or uses the device does not, what cannot be pickled needs a fork,
and every such place is a `Remark`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import libcst as cst
from attrs import define, field, frozen

from perfmod.transforms.facts import data_api
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.classes import ClassFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.kept import is_around, is_instance, is_kept, is_lazy, is_switch, was_made_before
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.on_device import made_on_device
from perfmod.transforms.facts.pickling import is_handle, kept, owner, parts, put_in, unpicklable
from perfmod.transforms.facts.tracing import End
from perfmod.transforms.facts.tree import find_all, is_none, walk
from perfmod.transforms.facts.value import Device, Kind

if TYPE_CHECKING:
    from perfmod.transforms.facts.file import FileFacts


class Trait(enum.Enum):
    """What worker-side code does that code in the main process may do, and a copy of it may not."""

    RANDOM = "draws random numbers"
    PROCESS = "asks in which process it runs"
    OWN_GENERATOR = "draws from a generator that every worker would copy"
    STATE = "changes what it holds"
    MAY_WRITE = "may write into what it holds"
    DEVICE = "uses the device"
    UNPICKLABLE = "cannot be pickled, and reaches workers only by fork"
    HANDLE = "is opened before the workers start"
    LAZY_HANDLE = "opens a handle when it is first used"
    ITERABLE = "is iterated, not indexed, and does not shard by get_worker_info"
    SHARDED = "is iterated, and shards by get_worker_info"
    PRINTS = "prints"
    UNSEEN = "is not in sight"
    ROUNDS = "computes what rounds differently with another number of threads"


@frozen
class Remark:
    """One place in worker-side code: `text` names it, such as `lambda` or `random.random()`."""

    trait: Trait
    node: cst.CSTNode
    text: str


@define(eq=False)
class WorkerCode:
    """Everything that a worker of one loader runs, as far as it is in sight.

    Attributes:
        remarks: what was noticed, in the order in which it was found.
        functions: functions and lambdas that run in a worker.
        classes: classes whose instances are sent to a worker.
        datasets: the expressions that make the dataset (several where a condition or a caller chooses).
        in_memory: whether every dataset only picks samples out of memory, and the batches only pad and stack them.
        converted: the same, but `ToTensor` converts every sample, which costs little where they are small.
    """

    remarks: list[Remark] = field(factory=list)
    functions: dict[cst.FunctionDef | cst.Lambda, None] = field(factory=dict)
    classes: dict[ClassFacts, None] = field(factory=dict)
    datasets: list[cst.CSTNode] = field(factory=list)
    in_memory: bool = False
    converted: bool = False

    def first(self, *traits: Trait) -> Remark | None:
        """The first remark of the first of these traits that has one."""
        for trait in traits:
            for remark in self.remarks:
                if remark.trait is trait:
                    return remark
        return None

    @classmethod
    def of(cls, file: FileFacts, loader: Loader) -> WorkerCode:
        """Look at the dataset, `collate_fn` and `worker_init_fn` of a loader."""
        known = file.once(_known)
        if loader not in known:
            known[loader] = _Survey(file, loader).found
        return known[loader]


def _known(_: FileFacts) -> dict[Loader, WorkerCode]:
    """What rules have asked for already; several ask about the same loaders."""
    return {}


class _Survey:
    def __init__(self, file: FileFacts, loader: Loader) -> None:
        self.file = file
        self.found = WorkerCode()
        self._in_memory: dict[End, bool] = {}
        self._held_seen: set[cst.CSTNode] = set()
        self._born: set[cst.FunctionDef | None] = set()  # what makes new objects, and stores in them
        self._written: list[tuple[cst.BaseExpression, cst.CSTNode]] = []
        self._read: list[cst.BaseExpression] = []  # variables from outside and attributes, as workers read them
        self._default_device()
        datasets = loader.values("dataset")
        in_memory = self._datasets([end for value in datasets for end in file.tracing.ends(value)])
        for value in datasets:
            ends = [end.node for end in file.tracing.ends(value)]
            if any(
                not isinstance(end, cst.Call) or (self._qualified(end) or "").startswith("builtins") for end in ends
            ):
                self._on_device(value)
        if not datasets:
            self._remark(Trait.UNSEEN, loader.call, "the dataset")
        for value in loader.values("collate_fn"):
            in_memory = self._collate(value) and in_memory
        if in_memory and all(self._only_picks(function) for function in self.found.functions):
            self.found.converted = any(
                self._converts(call) for function in self.found.functions for call in find_all(function, cst.Call)
            )
            self.found.in_memory = not self.found.converted
        for value in loader.values("worker_init_fn"):
            self._held(value)
            self._callee(value, held=True)
        for target, node in self._written:
            if was_made_before(self.file, target, self.found.functions):
                self._remark(Trait.MAY_WRITE, node, self._code(target))
        for read in self._read:
            for made in kept(file, read):
                # What the workers' own code opens, each of them opens for itself.
                is_open = isinstance(made, cst.Call) and is_handle(file, made)
                if is_open and file.tree.function(made) not in self.found.functions:
                    self._remark(Trait.HANDLE, made, self._code(made))

    def _collate(self, value: cst.BaseExpression) -> bool:
        """Look at a collate function. Whether its code is in sight, or that of PyTorch."""
        before = len(self.found.functions)
        self._held(value)
        self._callee(value, held=True)
        is_default = self._code(value) == "None" or self._qualified(value) in data_api.CHEAP
        return is_default or len(self.found.functions) > before

    def _only_picks(self, function: cst.FunctionDef | cst.Lambda) -> bool:
        """Whether a function that workers run only takes what is in memory, converts, pads and stacks it."""
        if self._parses(function):
            return False
        for node in walk(function.body):
            if isinstance(node, cst.BinaryOperation) and self._computes(node):
                return False
            if isinstance(node, cst.Call) and not (self._is_cheap(node) or self._is_raised(node)):
                return False
            if isinstance(node, cst.Subscript) and not (self._gives_index(node) or self._holds_in_memory(node.value)):
                return False
        return True

    def _parses(self, function: cst.FunctionDef | cst.Lambda) -> bool:
        """Whether a function splits a text and makes numbers of its parts, which takes time; words are only picked."""
        calls = [*find_all(function.body, cst.Call)]
        splits = any(isinstance(call.func, cst.Attribute) and call.func.attr.value == "split" for call in calls)
        return splits and any(self._makes_numbers(call) for call in calls)

    def _makes_numbers(self, call: cst.Call) -> bool:
        name = self._qualified(call) or ""
        around = self.file.tree.ancestors(call) if name in ("builtins.int", "builtins.float") else ()
        return name.startswith("numpy.") or any(isinstance(each, (cst.BaseComp, cst.For)) for each in around)

    def _gives_index(self, node: cst.Subscript) -> bool:
        """Whether what is looked up is itself an index, `self.rows[self.order[i]]`: then it is a list of numbers."""
        return isinstance(self.file.tree.parent(node), cst.Index)

    def _computes(self, node: cst.BinaryOperation) -> bool:
        """Whether an operation computes with tensors or arrays; indices and lengths are numbers."""
        kinds = {self.file.value(side).kind for side in (node.left, node.right)}
        return isinstance(node.operator, cst.MatrixMultiply) or not kinds.isdisjoint({Kind.TENSOR, Kind.ARRAY})

    def _is_cheap(self, call: cst.Call) -> bool:
        name = self._qualified(call)
        if name == "builtins.map" and call.args:
            mapped = call.args[0].value  # a lambda's body is looked at with the function that it stands in
            return isinstance(mapped, cst.Lambda) or self._qualified(mapped) in data_api.CHEAP
        if name is not None:
            return name in data_api.CHEAP
        if self.file.values.calls.resolve(call) in self.found.functions:
            return True
        is_method = isinstance(call.func, cst.Attribute) and call.func.attr.value in data_api.CHEAP_METHODS
        return is_method or self._converts(call)

    def _converts(self, call: cst.Call) -> bool:
        """Whether what is called is `ToTensor` and nothing else, alone or in a `Compose`."""
        ends = self.file.tracing.ends(call.func)
        return bool(ends) and all(not end.path and self._is_conversion(end.node) for end in ends)

    def _is_conversion(self, node: cst.CSTNode) -> bool:
        name = self._qualified(node) if isinstance(node, cst.Call) else None
        if not isinstance(node, cst.Call) or name is None or not name.startswith("torchvision.transforms."):
            return False
        short = name.rpartition(".")[2]
        steps = node.args[0].value if short == "Compose" and node.args else None
        if isinstance(steps, (cst.List, cst.Tuple)):
            return all(self._is_conversion(element.value) for element in steps.elements)
        return short == "ToTensor"

    def _is_raised(self, call: cst.Call) -> bool:
        return isinstance(self.file.tree.parent(call), cst.Raise)

    def _holds_in_memory(self, node: cst.BaseExpression) -> bool:
        """Whether indexing a value only looks up what lies in memory; in some libraries it reads a file."""
        for end in self.file.tracing.ends(node):
            name = self._qualified(end.node) if isinstance(end.node, cst.Call) else None
            if name is not None and not data_api.is_in_memory(name):
                return False
            if (
                isinstance(end.node, cst.Call)
                and name == "numpy.load"
                and argument(end.node, "mmap_mode", 1) is not None
            ):
                return False
            if isinstance(end.node, cst.Param) and "dataset" in end.node.name.value.lower():
                return False
        return True

    def _qualified(self, node: cst.CSTNode) -> str | None:
        """The name of a library's thing; of a call, that of what is called."""
        return self.file.names.qualified(node.func if isinstance(node, cst.Call) else node)

    def _remark(self, trait: Trait, node: cst.CSTNode, text: str) -> None:
        remark = Remark(trait, node, text)
        if remark not in self.found.remarks:
            self.found.remarks.append(remark)

    def _code(self, node: cst.CSTNode) -> str:
        text = " ".join(self.file.code(node).split())
        return text if len(text) <= 40 else text[:37] + "..."

    # The dataset

    def _datasets(self, ends: Iterable[End]) -> bool:
        """Look at every possible dataset. Whether all of them lie in memory."""
        in_memory = [self._known_dataset(end) for end in ends]
        return bool(in_memory) and all(in_memory)

    def _known_dataset(self, end: End) -> bool:
        if end not in self._in_memory:
            self._in_memory[end] = True  # what is made of itself lies where the others that it is made of lie
            self._in_memory[end] = self._dataset(end)
        return self._in_memory[end]

    def _dataset(self, end: End) -> bool:
        """Look at one possible dataset. Whether its samples lie in memory ready-made."""
        node = end.node
        if isinstance(node, cst.BinaryOperation) and not end.path:
            return self._datasets([e for side in (node.left, node.right) for e in self.file.tracing.ends(side)])
        if not isinstance(node, cst.Call):
            return self._other_dataset(node)
        name = self._qualified(node)
        if name in data_api.DATASETS_OF_DATASETS and node.args:
            inner = node.args[0].value
            return self._datasets(self.file.tracing.ends(inner, (None,) if name in data_api.LISTS_OF_DATASETS else ()))
        self.found.datasets.append(node)
        made = self.file.values.calls.constructed(node)
        if made is not None and not end.path:
            for arg in node.args:
                self._held(arg.value)
            return self._class_of_dataset(made)
        if name is None:
            self._remark(Trait.UNSEEN, node, f"the dataset {self._code(node)}")
            return False
        if name in ("torch.utils.data.TensorDataset", "builtins.range"):
            for arg in node.args:
                self._held(arg.value)
            return True
        if name.startswith("torchvision.datasets.") and not end.path:
            self._library_dataset(node)
        elif self.file.value(node).kind in (Kind.TENSOR, Kind.ARRAY, Kind.SEQUENCE):
            self._held(node)
            return True
        else:
            self._remark(Trait.UNSEEN, node, f"the dataset {name}")
        return False

    def _other_dataset(self, node: cst.CSTNode) -> bool:
        self.found.datasets.append(node)
        if isinstance(node, (cst.List, cst.Tuple, cst.ListComp)):
            self._held(node)
            return True
        if isinstance(node, cst.BaseExpression) and self.file.value(node).kind in (Kind.TENSOR, Kind.ARRAY):
            return True
        text = node.name.value if isinstance(node, cst.Param) else self._code(node)
        self._remark(Trait.UNSEEN, node, f"the dataset {text}")
        return False

    def _library_dataset(self, call: cst.Call) -> None:
        """A dataset of torchvision: it draws nothing itself, and calls what it is given."""
        for arg in call.args:
            self._held(arg.value)
            if arg.keyword is None or arg.keyword.value in data_api.CALLABLE_PARAMETERS:
                if arg.star:
                    self._remark(Trait.UNSEEN, arg.value, f"{arg.star}{self._code(arg.value)}")
                elif arg.keyword is not None or self._is_callable(arg.value):
                    self._callee(arg.value, held=True)

    def _is_callable(self, node: cst.BaseExpression) -> bool:
        return self.file.value(node).kind not in (Kind.TEXT, Kind.NUMBER, Kind.NONE) and any(
            isinstance(end.node, (cst.Call, cst.Lambda, cst.FunctionDef)) and not self._is_path(end.node)
            for end in self.file.tracing.ends(node)
        )

    def _is_path(self, node: cst.CSTNode) -> bool:
        name = self._qualified(node) or "" if isinstance(node, cst.Call) else ""
        return name.startswith(("os.", "pathlib.", "builtins."))

    def _class_of_dataset(self, cls: ClassFacts) -> bool:
        self._instance(cls)
        if cls.derives("torch.utils.data.IterableDataset"):
            shards = any(
                isinstance(n, (cst.Name, cst.Attribute)) and dotted(n).endswith("get_worker_info")
                for c in cls.lineage()
                for n in walk(c.node)
            )
            self._remark(Trait.SHARDED if shards else Trait.ITERABLE, cls.node, f"{cls.name} is an IterableDataset")
        roots = [cls.method(name) for name in ("__getitem__", "__getitems__", "__iter__", "__next__")]
        if cls.method("__getitem__") is None:
            for base in cls.lineage():
                for call in self._super_inits(base):
                    self._library_dataset(call)
            if cls.derives("torchvision.datasets."):
                for call in self.file.values.calls.constructions(cls):
                    self._library_dataset(call)
        for root in roots:
            if root is not None:
                self._runs(root)
        return any(root is not None for root in roots)

    def _instance(self, cls: ClassFacts) -> None:
        """An instance of a class of this file is sent to the workers."""
        if cls in self.found.classes:
            return
        self.found.classes[cls] = None
        if not isinstance(self.file.tree.scope(cls.node), cst.Module):
            self._remark(Trait.UNPICKLABLE, cls.node, cls.name)
        for base in cls.lineage():
            for arg in base.node.bases:
                name = self._qualified(arg.value)
                known = name.startswith(data_api.KNOWN_BASES) if name else self._is_own_class(arg.value)
                if not known:
                    self._remark(Trait.UNSEEN, arg.value, f"its base class {self._code(arg.value)}")
            pickles_itself = any(base.method(name) for name in ("__getstate__", "__reduce__", "__reduce_ex__"))
            for assignments in base.assigned.values():
                for assignment in assignments:
                    if assignment.value is not None and assignment.method is not None and not pickles_itself:
                        self._held(assignment.value)
                        self._moves_on(assignment.value)
            for value in () if pickles_itself else put_in(self.file, base):
                self._held(value)
            for method in base.methods.values():
                self._device_use(method)
                for node in walk(method.body):
                    if isinstance(node, cst.Attribute) and self.file.classes.self_attribute(node) is not None:
                        self._set_from_outside(cls, node)

    def _set_from_outside(self, cls: ClassFacts, read: cst.Attribute) -> None:
        """What others assign to an attribute that an instance reads: `dataset.transform = crop`."""
        call = self.file.tree.parent(read)
        for instance, assignment in self.file.classes.assigned_elsewhere(read.attr.value):
            value = assignment.value
            if value is None or not self._may_be_instance(instance, cls):
                continue
            self._held(value)
            self._moves_on(value)
            if isinstance(call, cst.Call) and call.func is read:
                self._callee(value, held=True)

    def _may_be_instance(self, owner: cst.BaseExpression, cls: ClassFacts) -> bool:
        """Whether an object may be an instance of a class in sight, as far as it shows."""
        for end in self.file.tracing.ends(owner):
            made = self.file.values.calls.constructed(end.node) if isinstance(end.node, cst.Call) else None
            if made is not None and not end.path:
                if cls in made.lineage() or made in cls.lineage():
                    return True
            elif made is None and not (isinstance(end.node, cst.Call) and not end.path and self._qualified(end.node)):
                return True
        return False

    def _moves_on(self, value: cst.BaseExpression) -> None:
        """Look whether what an object keeps is an iterator, of which every worker would have a copy."""
        for made in kept(self.file, value):
            if isinstance(made, cst.Call) and self._qualified(made) in data_api.ITERATORS:
                self._remark(Trait.STATE, made, f"the iterator {self._code(made)}")

    def _is_own_class(self, node: cst.BaseExpression) -> bool:
        ends = self.file.tracing.ends(node)
        return bool(ends) and all(isinstance(end.node, cst.ClassDef) for end in ends)

    def _super_inits(self, cls: ClassFacts) -> Iterator[cst.Call]:
        """The calls `super().__init__(...)` of a class."""
        for method in cls.methods.values():
            for node in walk(method.body):
                if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
                    inner = node.func.value
                    if (
                        node.func.attr.value == "__init__"
                        and isinstance(inner, cst.Call)
                        and self._qualified(inner) == "builtins.super"
                    ):
                        yield node

    # What is sent to a worker

    def _on_device(self, node: cst.BaseExpression) -> None:
        """Look whether tensors that a dataset keeps have been made on the device."""
        made = made_on_device(self.file, node)
        if made is not None:
            self._remark(Trait.DEVICE, made, self._code(made))

    def _held(self, node: cst.BaseExpression) -> None:
        """Look whether a value that the dataset keeps can be pickled, is open, and stays off the device."""
        self._on_device(node)
        for made in kept(self.file, node):
            if made in self._held_seen:
                continue
            self._held_seen.add(made)
            text = unpicklable(self.file, made)
            if isinstance(made, cst.Call) and is_handle(self.file, made):
                self._remark(Trait.HANDLE, made, self._code(made))
            elif text:
                self._remark(Trait.UNPICKLABLE, made, text)
            elif isinstance(made, cst.Call):
                self._held_call(made)
            elif isinstance(made, cst.FunctionDef):
                self._bound_to(made)
            else:
                for part in parts(self.file, made):
                    self._held(part)

    def _bound_to(self, method: cst.FunctionDef) -> None:
        """A method is sent with its object, of which nobody knows that it can be; unless that is (in) the dataset."""
        cls = owner(self.file, method)
        if cls is not None and not any(cls in sent.lineage() for sent in self.found.classes):
            self._remark(Trait.UNPICKLABLE, method, f"the method {method.name.value}")

    def _held_call(self, call: cst.Call) -> None:
        cls = self.file.values.calls.constructed(call)
        if self._copies_to_device(call):
            self._remark(Trait.DEVICE, call, self._code(call))
        elif cls is not None:
            self._instance(cls)
            for arg in call.args:
                self._held(arg.value)
        else:
            for part in parts(self.file, call):
                self._held(part)

    # What runs in a worker

    def _runs(self, function: cst.FunctionDef | cst.Lambda) -> None:
        if function in self.found.functions:
            return
        self.found.functions[function] = None
        self._writes(function)
        self._device_use(function)
        for node in walk(function.body):
            if isinstance(node, cst.Call):
                self._call(node)
                self._rounding(node)
            elif isinstance(node, cst.Attribute):
                self._property(node)
                self._read += [node] if self.file.classes.self_attribute(node) is not None else []
            elif isinstance(node, cst.Subscript):
                self._picks(node)
            elif isinstance(node, cst.Name):
                self._global(node)
            elif isinstance(node, (cst.For, cst.CompFor)):
                self._goes_through(node.iter)
            elif isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.MatrixMultiply):
                self._remark(Trait.ROUNDS, node, self._code(node))

    def _rounding(self, call: cst.Call) -> None:
        """Look whether the last bits of a tensor depend on how many threads compute it."""
        name = self._qualified(call)
        if name is not None:
            rounds = name.startswith("torch.") and name.rpartition(".")[2] in data_api.ROUNDS_BY_THREADS
        else:
            func = call.func
            rounds = (
                isinstance(func, cst.Attribute)
                and func.attr.value in data_api.ROUNDS_BY_THREADS
                and self.file.classes.self_attribute(func) is None
                and self.file.value(func.value).kind in (Kind.TENSOR, Kind.UNKNOWN)
            )
        if rounds:
            self._remark(Trait.ROUNDS, call, self._code(call))

    def _global(self, name: cst.Name) -> None:
        """Look whether a variable of a module, or of a function around this one, lies on the device."""
        if not self.file.flow.is_read(name) or not all(
            made.value is not None and (isinstance(made.scope, cst.Module) or is_around(self.file, name, made.scope))
            for made in self.file.flow.definitions(name)
        ):
            return
        self._read.append(name)
        value = self.file.value(name)
        if value.kind in (Kind.TENSOR, Kind.MODULE) and value.device is Device.ACCELERATOR:
            self._remark(Trait.DEVICE, name, name.value)

    def _goes_through(self, iterated: cst.BaseExpression) -> None:
        """Look whether a loop goes on in a handle that is kept, `for line in self.lines`."""
        ends = self.file.tracing.ends(iterated)
        opened = any(isinstance(end.node, cst.Call) and not end.path and is_handle(self.file, end.node) for end in ends)
        if opened and is_kept(self.file, iterated, through_names=True):
            self._remark(Trait.STATE, iterated, self._code(iterated))

    def _picks(self, node: cst.Subscript) -> None:
        """Look at what indexing runs where a dataset wraps another: `self.photos[index]`."""
        for end in self.file.tracing.ends(node.value):
            if end.path or not isinstance(end.node, cst.Call):
                continue
            made = self.file.values.calls.constructed(end.node)
            method = made.method("__getitem__") if made is not None else None
            if method is not None:
                self._runs(method)
            elif (self._qualified(end.node) or "").startswith("torchvision.datasets."):
                self._library_dataset(end.node)

    def _property(self, node: cst.Attribute) -> None:
        own = self.file.classes.self_attribute(node)
        method = own[0].method(node.attr.value) if own is not None else None
        if method is not None:
            self._runs(method)

    def _call(self, call: cst.Call) -> None:
        name = self._qualified(call)
        if name is not None:
            self._library_call(call, name)
            return
        made = self.file.values.calls.constructed(call)
        target = made.method("__init__") if made is not None else self.file.values.calls.resolve(call)
        if made is not None and target is not None:
            self._born.add(target)
        if target is not None:
            self._runs(target)
        elif made is None and isinstance(call.func, cst.Attribute) and not self.file.flow.is_variable(call.func):
            self._method(call, call.func)
        elif made is None:
            self._callee(call.func, held=False)

    def _library_call(self, call: cst.Call, name: str) -> None:
        if data_api.draws(name, seeded=bool(call.args)):
            trait: Trait | None = Trait.RANDOM
            for arg in call.args:
                if arg.keyword is not None and arg.keyword.value == "generator":
                    trait = self._generator(arg.value)
            if trait is not None:
                self._remark(trait, call, f"{name}()")
        elif name in data_api.PRINTS:
            self._remark(Trait.PRINTS, call, data_api.PRINTS[name])
        elif name == "builtins.open" and _appends(call):
            self._remark(Trait.PRINTS, call, "appends to a file")
        elif name == "builtins.next" and call.args and is_kept(self.file, call.args[0].value, through_names=True):
            self._remark(Trait.STATE, call, self._code(call.args[0].value))
        elif name in data_api.ASKS_FOR_PROCESS:
            self._remark(Trait.PROCESS, call, f"{name}()")
        elif name == "builtins.super" or name.partition(".")[0] in data_api.TRUSTED:
            return
        else:
            self._remark(Trait.UNSEEN, call, f"{name}()")

    def _generator(self, node: cst.BaseExpression) -> Trait | None:
        """How drawing from a generator object behaves: `None` where it is made and seeded for each sample."""
        for end in self.file.tracing.ends(node):
            name = self._qualified(end.node) if isinstance(end.node, cst.Call) else None
            if name not in data_api.GENERATORS and not self._is_seeding(end.node):
                return Trait.OWN_GENERATOR
            function = self.file.tree.function(end.node)
            if function not in self.found.functions or (function is not None and function.name.value == "__init__"):
                return Trait.OWN_GENERATOR
            if name in data_api.GENERATORS and isinstance(end.node, cst.Call) and not end.node.args:
                return Trait.RANDOM
        return None

    def _is_seeding(self, node: cst.CSTNode) -> bool:
        """`torch.Generator().manual_seed(index)`."""
        return (
            isinstance(node, cst.Call)
            and isinstance(node.func, cst.Attribute)
            and node.func.attr.value == "manual_seed"
        )

    def _method(self, call: cst.Call, func: cst.Attribute) -> None:
        method = func.attr.value
        if method in data_api.RANDOM_FILLS:
            self._remark(Trait.RANDOM, call, f".{method}()")
            return
        own = self.file.classes.self_attribute(func)
        if own is not None:
            self._callee(func, held=True)
            return
        ends = self.file.tracing.ends(func.value)
        made = {self._qualified(end.node) for end in ends if isinstance(end.node, cst.Call) and not end.path}
        if method in data_api.LOGS and "logging.getLogger" in made:
            self._remark(Trait.PRINTS, call, "logs")
        elif is_kept(self.file, func.value, through_names=True) and any(
            isinstance(end.node, cst.Call) and is_handle(self.file, end.node) for end in ends
        ):
            if method in data_api.WRITES_LINES:
                self._remark(Trait.PRINTS, call, "writes")
            elif method in data_api.READS_ON:
                self._remark(Trait.STATE, call, self._code(func.value))
        if any(isinstance(e.node, cst.Call) and self._qualified(e.node) in data_api.GENERATORS for e in ends):
            trait = self._generator(func.value)
            if trait is not None and method not in ("seed", "manual_seed"):
                self._remark(trait, call, self._code(call))
            return
        if method in data_api.COMMON_METHODS:
            return
        for end in ends:
            name = self._qualified(end.node) if isinstance(end.node, cst.Call) else None
            if (isinstance(end.node, cst.Param) and not self._is_sample(end.node)) or (
                name is not None and name.partition(".")[0] not in data_api.TRUSTED
            ):
                self._remark(Trait.UNSEEN, call, f"{self._code(call.func)}()")

    def _is_sample(self, param: cst.Param) -> bool:
        """Whether a parameter belongs to a function that runs in the worker: what it gets are indices and
        samples.
        """
        function = next(n for n in self.file.tree.ancestors(param) if isinstance(n, (cst.FunctionDef, cst.Lambda)))
        is_init = isinstance(function, cst.FunctionDef) and function.name.value == "__init__"
        return function in self.found.functions and not is_init

    def _callee(self, node: cst.BaseExpression, *, held: bool) -> None:
        """Look at what is called: something that the dataset holds, or was handed."""
        for end in self.file.tracing.ends(node):
            made = end.node
            if end.path:
                self._remark(Trait.UNSEEN, node, self._code(node))
            elif isinstance(made, (cst.FunctionDef, cst.Lambda)):
                self._runs(made)
            elif isinstance(made, cst.ClassDef):
                continue
            elif isinstance(made, cst.Call):
                self._called_object(made)
            elif isinstance(made, cst.Attribute) and self.file.classes.self_attribute(made) is not None:
                self._inherited(made)
            elif is_none(made):
                continue
            elif isinstance(made, (cst.Name, cst.Attribute)) and self._qualified(made) is not None:
                self._imported(made)
            else:
                text = made.name.value if isinstance(made, cst.Param) else self._code(made)
                self._remark(Trait.UNSEEN, made, text)

    def _imported(self, node: cst.BaseExpression) -> None:
        name = self._qualified(node) or ""
        if data_api.draws(name, seeded=False):
            self._remark(Trait.RANDOM, node, f"{name}()")
        elif name.partition(".")[0] not in data_api.TRUSTED:
            self._remark(Trait.UNSEEN, node, name)

    def _called_object(self, call: cst.Call) -> None:
        """An object that is made by `call` is called: a transform, a partial function, an instance of a
        class.
        """
        made = self.file.values.calls.constructed(call)
        if made is not None:
            self._instance(made)
            method = made.method("forward" if made.is_module else "__call__")
            if method is not None:
                self._runs(method)
            return
        name = self._qualified(call)
        if name is None:
            self._remark(Trait.UNSEEN, call, self._code(call))
        elif name.startswith("torchvision.transforms.") or name == "functools.partial":
            if data_api.is_random_transform(name):
                self._remark(Trait.RANDOM, call, name.rpartition(".")[2])
            # The arguments of other transforms are numbers.
            takes = name in data_api.CALLS_ARGUMENTS
            for arg in call.args[:1] if takes else ():
                for end in self.file.tracing.ends(arg.value):
                    self._part(arg.value, end)
        elif name.startswith(data_api.RANDOM_LIBRARIES):
            self._remark(Trait.RANDOM, call, name)
        elif name.partition(".")[0] not in data_api.TRUSTED:
            self._remark(Trait.UNSEEN, call, name)

    def _part(self, argument: cst.BaseExpression, end: End) -> None:
        """One argument of a transform: transforms in a list, a function, or plain numbers."""
        if isinstance(end.node, (cst.List, cst.Tuple)) and not end.path:
            for element in end.node.elements:
                for inner in self.file.tracing.ends(element.value):
                    self._part(element.value, inner)
        elif isinstance(end.node, (cst.Call, cst.Lambda, cst.FunctionDef)):
            self._callee(argument, held=True)
        elif isinstance(end.node, cst.Param):
            self._remark(Trait.UNSEEN, end.node, end.node.name.value)

    def _inherited(self, node: cst.Attribute) -> None:
        """`self.transform(...)` where a base class keeps what its constructor is given under that name."""
        own = self.file.classes.self_attribute(node)
        assert own is not None
        given = [
            arg.value
            for cls in own[0].lineage()
            for call in (*self._super_inits(cls), *self.file.values.calls.constructions(cls))
            for arg in call.args
            if arg.keyword is not None and arg.keyword.value == own[1]
        ]
        for value in given:
            self._callee(value, held=True)
        if not given:
            self._remark(Trait.UNSEEN, node, self._code(node))

    # What it changes

    def _writes(self, function: cst.FunctionDef | cst.Lambda) -> None:
        for node in walk(function.body):
            if isinstance(node, (cst.Global, cst.Nonlocal)):
                names = ", ".join(item.name.value for item in node.names)
                self._remark(Trait.STATE, node, f"{names} ({'global' if isinstance(node, cst.Global) else 'nonlocal'})")
            elif isinstance(node, cst.AssignTarget):
                self._store(node.target, node)
            elif isinstance(node, cst.AugAssign):
                if isinstance(node.target, cst.Name):
                    if is_kept(self.file, node.target, through_names=True):
                        self._remark(Trait.MAY_WRITE, node, self._code(node))
                    elif self.file.value(node.target).is_tensor:
                        self._written.append((node.target, node))
                else:
                    self._store(node.target, node)
            elif isinstance(node, cst.Del):
                self._store(node.target, node)
            elif isinstance(node, cst.Call):
                self._written_by(node)

    def _written_by(self, call: cst.Call) -> None:
        """Look whether a call writes into what is kept."""
        name, method = self._qualified(call), call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        in_place = method.endswith("_") and not method.startswith("_") and method != "requires_grad_"
        target = argument(call, "out")
        if target is None and name in data_api.STORES and call.args:
            target = call.args[0].value
        elif target is None and name is None and isinstance(call.func, cst.Attribute):
            target = call.func.value if method in data_api.MUTATORS or in_place else None
        if target is None:
            return
        if is_kept(self.file, target, through_names=True) or is_instance(self.file, target):
            self._remark(Trait.STATE, call, self._code(target))
        elif in_place:
            self._written.append((target, call))

    def _store(self, target: cst.BaseExpression, node: cst.CSTNode) -> None:
        if isinstance(target, (cst.Tuple, cst.List)):
            for element in target.elements:
                self._store(element.value, node)
        elif isinstance(target, cst.Subscript) and is_kept(self.file, target.value, through_names=True):
            self._remark(Trait.STATE, target, self._code(target.value))
        elif isinstance(target, cst.Subscript) and self.file.value(target.value).is_tensor:
            self._written.append((target.value, node))
        elif isinstance(target, cst.Attribute) and is_kept(self.file, target, through_names=False):
            of_new = (
                self.file.tree.function(target) in self._born and self.file.classes.self_attribute(target) is not None
            )
            if of_new or is_switch(self.file, target):
                return
            if is_lazy(self.file, target):
                self._remark(Trait.LAZY_HANDLE, target, self._code(target))
            else:
                self._remark(Trait.STATE, target, self._code(target))

    # The device

    def _default_device(self) -> None:
        """`torch.set_default_device("cuda")` puts on the device whatever a sample is made of."""
        for call in self.file.values.placement.defaults:
            self._remark(Trait.DEVICE, call, self._code(call))

    def _device_use(self, function: cst.FunctionDef | cst.Lambda) -> None:
        for node in walk(function.body):
            if not isinstance(node, cst.Call):
                continue
            name = self._qualified(node) or ""
            if (
                name.startswith("torch.cuda.")
                and name
                not in (
                    "torch.cuda.is_available",
                    "torch.cuda.device_count",
                )
            ) or self._copies_to_device(node):
                self._remark(Trait.DEVICE, node, self._code(node))
            elif name.startswith("torch."):
                for arg in node.args:
                    if arg.keyword is not None and arg.keyword.value == "device" and self._is_accelerator(arg.value):
                        self._remark(Trait.DEVICE, node, self._code(node))

    def _copies_to_device(self, call: cst.Call) -> bool:
        if not isinstance(call.func, cst.Attribute) or self._qualified(call) is not None:
            return False
        if call.func.attr.value == "cuda":
            return True
        if call.func.attr.value != "to":
            return False
        where = self.file.values.placement.destination(call)
        return where is not None and self._is_accelerator(where)

    def _is_accelerator(self, node: cst.BaseExpression) -> bool:
        return any(
            not isinstance(end.node, cst.BaseExpression)
            or not (is_none(end.node) or self.file.values.placement.device_of(end.node) is Device.CPU)
            for end in self.file.tracing.ends(node)
        )


def _appends(call: cst.Call) -> bool:
    """Whether a file is opened at its end, to write behind what others have written."""
    mode = argument(call, "mode", 1)
    return isinstance(mode, cst.SimpleString) and "a" in str(mode.evaluated_value)
