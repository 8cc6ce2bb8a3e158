"""The datasets that run a pipeline, the loaders that read them, and whether anything else sees the images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst
from attrs import define, field

from perfmod.transforms.facts import data_api, torch_api
from perfmod.transforms.facts.calls import argument, has_star
from perfmod.transforms.facts.classes import ClassFacts
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Read, parameters
from perfmod.transforms.facts.handing import Held
from perfmod.transforms.facts.loaders import TORCH_LOADER, Loader
from perfmod.transforms.facts.tracing import HANDS_ON, Step
from perfmod.transforms.facts.tree import find_all, is_none, walk_scope
from perfmod.transforms.feeding._pictures import is_picture, is_pillow
from perfmod.transforms.feeding._pipelines import Pipeline, Unmovable
from perfmod.transforms.feeding._stacking import stacked_at

Path = tuple[int | str, ...]

_IMAGE_FOLDER_LOADER = 3

# What may be asked of a dataset or a loader: none of it shows an image.
_PLAIN_ATTRIBUTES = frozenset(
    {
        "classes", "class_to_idx", "targets", "labels", "samples", "imgs", "indices", "root", "train", "split", "data",
        "batch_size", "sampler", "batch_sampler", "drop_last", "num_workers", "cumulative_sizes",
    }
)  # fmt: skip
_OF_DATASETS = data_api.DATASETS_OF_DATASETS - {"torch.utils.data.StackDataset"}
# What may be put in their place as well, as it is no image and no reader of images.
_REPLACEABLE = frozenset({"classes", "class_to_idx", "targets", "labels", "samples", "imgs"})
_OF_PROGRESS_BARS = frozenset(
    {"desc", "n", "total", "set_description", "set_description_str", "set_postfix", "set_postfix_str", "refresh"}
)
"""What is asked of a loader that a progress bar may have been put around; of none itself it would show an image."""
_KEEPS_BATCHES = frozenset(
    {"itertools.cycle", *(f"builtins.{name}" for name in ("list", "tuple", "sorted", "reversed"))}
)
_STATIC = "builtins.staticmethod"
_REPLACED = frozenset({"transform", "transforms", "loader"})


@define(eq=False)
class Feed:
    """One loader of normalised images: `paths` lead from a batch to the images in it.

    `kept` is what gives the same batches several times, such as `list(loader)`.
    """

    loader: Loader
    paths: set[Path] = field(factory=set)
    kept: cst.CSTNode | None = None


def feeds(file: FileFacts, pipelines: Iterable[Pipeline]) -> list[Feed]:
    """The loaders whose images are normalised, each once.

    Raises:
        Unmovable: somebody else sees the images, other data comes the same way, or the images are not known to be
            pictures of eight bits.
    """
    return _Search(file, pipelines).run()


class _Search:
    def __init__(self, file: FileFacts, pipelines: Iterable[Pipeline]) -> None:
        self.file = file
        self.composes = {pipeline.compose for pipeline in pipelines}
        self.inherited: set[cst.CSTNode] = set()
        """Reads of `self.transform` where a base class of torchvision sets it."""
        self.applications: dict[cst.Call, ClassFacts] = {}
        self.datasets: dict[cst.Call, set[Path]] = {}
        self.found: dict[cst.Call, Feed] = {}

    def run(self) -> list[Feed]:
        for compose in self.composes:
            for use in self._uses_of_pipeline(compose):
                self._use_of_pipeline(use)
        for call, cls in self.applications.items():
            path = self._place(call, cls)
            for construction in self._constructions(cls):
                self.datasets.setdefault(construction, set()).add(path)
        self._check_replaced()
        for dataset, paths in self.datasets.items():
            for loader in self._loaders(dataset):
                feed = self.found.setdefault(loader.call, Feed(loader))
                feed.paths.update(self._collated(loader, path) for path in paths)
        for feed in self.found.values():
            self._check_loader(feed)
        return list(self.found.values())

    # From pipelines to datasets

    def _uses_of_pipeline(self, compose: cst.Call) -> Iterator[Held]:
        """Uses of a pipeline, also those behind `super().__init__(transform=...)` of torchvision's `VisionDataset`."""
        for use in self.file.handing.uses(compose):
            parent = self.file.tree.parent(use.node)
            cls = self.file.classes.around(use.node)
            if (
                isinstance(parent, cst.Arg)
                and not use.path
                and parent.keyword is not None
                and parent.keyword.value == "transform"
                and cls is not None
                and cls.derives("torchvision.datasets.VisionDataset", "torchvision.datasets.vision.VisionDataset")
                and self._is_only_super_init(self.file.tree.parent(parent), cls)
            ):
                self._check_ends(use.node, f"{cls.name} on line {self._line(cls.node)}")
                for read in self.file.handing.attribute_reads(cls, "transform"):
                    self.inherited.add(read)
                    yield from self.file.handing.uses(read)
            else:
                yield use

    def _is_only_super_init(self, call: cst.CSTNode | None, cls: ClassFacts) -> bool:
        """Whether a call is the one `super().__init__(...)` of a class."""
        calls = [
            node
            for node in find_all(cls.node, cst.Call)
            if isinstance(node.func, cst.Attribute)
            and node.func.attr.value == "__init__"
            and isinstance(node.func.value, cst.Call)
            and self.file.qualified(node.func.value) == "builtins.super"
        ]
        return len(calls) == 1 and calls[0] is call and not cls.parents

    def _use_of_pipeline(self, use: Held) -> None:
        parent = self.file.tree.parent(use.node)
        call = self.file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
        if use.path:
            if isinstance(call, cst.Call) and (self.file.qualified(call) or "").endswith(".Compose"):
                raise Unmovable(f"it is part of another pipeline on line {self._line(call)}")
            raise Unmovable(f"the pipeline is passed on in a container on line {self._line(use.node)}")
        if isinstance(parent, cst.Call) and parent.func is use.node:
            self.applications[parent] = self._application(parent)
        elif isinstance(call, cst.Call):
            self._given_to_dataset(call, use.node)
        elif not _is_test(self.file, use.node):
            raise Unmovable(f"perfmod cannot follow how line {self._line(use.node)} uses the pipeline")

    def _given_to_dataset(self, call: cst.Call, pipeline: cst.BaseExpression) -> None:
        name = self.file.names.qualified(call.func) or self._base_of(call)
        place = f"on line {self._line(call)}"
        if name not in data_api.EIGHT_BIT or argument(call, "transform", data_api.EIGHT_BIT[name]) is not pipeline:
            raise Unmovable(f"it is passed to {self.file.code(call.func)} {place}")
        loader = argument(call, "loader", _IMAGE_FOLDER_LOADER if name.endswith(".ImageFolder") else None)
        if loader is not None:
            raise Unmovable(f"the dataset {place} reads its images with its own loader function")
        if has_star(call) or argument(call, "transforms") is not None:
            raise Unmovable(f"some arguments of the dataset {place} are passed by `*` or `**`")
        self._check_ends(pipeline, f"the dataset {place}")
        self.datasets[call] = {(0,)}

    def _check_ends(self, transform: cst.BaseExpression, whose: str) -> None:
        """Raises `Unmovable` unless a transform is one of those that move; without any, nothing could be collated."""
        for end in self.file.tracing.ends(transform):
            if end.node not in self.composes | self.inherited and not is_none(end.node):
                raise Unmovable(f"{whose} may also get another transform", end.node)

    def _base_of(self, call: cst.Call) -> str:
        """The dataset of torchvision that a class of the file inherits everything from that makes samples."""
        cls = self.file.values.calls.constructed(call)
        if cls is None or len(cls.bases) != 1 or cls.parents or {"__init__", "__getitem__"} & cls.methods.keys():
            return ""
        return cls.bases[0]

    def _application(self, call: cst.Call) -> ClassFacts:
        """The dataset class whose `__getitem__` applies a pipeline."""
        file, place = self.file, f"on line {self._line(call)}"
        cls, function = file.classes.around(call), file.tree.function(call)
        if cls is None or function is None or function.name.value != "__getitem__" or not cls.is_dataset:
            raise Unmovable(f"it also prepares images outside of datasets, {place}")
        if len(call.args) != 1 or not is_picture(file, call.args[0].value):
            raise Unmovable(f"the image {place} is not known to have 8 bits per channel")
        self._check_ends(call.func, f"{cls.name} {place}")
        return cls

    def _place(self, call: cst.Call, cls: ClassFacts) -> Path:
        """Where the samples of a class hold what the pipeline makes."""
        places: set[tuple[Step, ...]] = set()
        for use in self.file.handing.uses(call):
            if not isinstance(self.file.tree.parent(use.node), cst.Return):
                raise Unmovable(f"{cls.name} does more with the normalised image than return it")
            places.add(use.path)
        path = tuple(step for step in next(iter(places), (None,)) if step is not None)
        if places != {path}:
            raise Unmovable(f"{cls.name} does not always return the normalised image at the same position")
        function = self.file.tree.function(call)
        assert function is not None
        self._check_returns(function, cls, path)
        return path

    def _check_returns(self, function: cst.FunctionDef, cls: ClassFacts, path: Path) -> None:
        for node in walk_scope(function.body):
            if isinstance(node, cst.Return) and node.value is not None:
                for end in self.file.tracing.ends(node.value, path):
                    made = end.node in self.applications and not end.path
                    # A picture that no pipeline made a tensor of cannot be collated.
                    if not made and not is_pillow(self.file, end.node):
                        line = self._line(node)
                        raise Unmovable(f"{cls.name} may return another image than the normalised one on line {line}")

    def _constructions(self, cls: ClassFacts) -> list[cst.Call]:
        """Every construction of a dataset class or of a subclass that makes its samples in the same way."""
        file = self.file
        made: list[cst.Call] = []
        for other in file.classes:
            if cls not in other.lineage():
                continue
            if other.method("__getitem__") is not cls.method("__getitem__") or (other is not cls and other.assigned):
                raise Unmovable(f"{other.name} on line {self._line(other.node)} changes what {cls.name} does")
            for definition in file.flow.bound(file.tree.scope(other.node), other.name):
                for use in file.flow.uses(definition):
                    self._check_use_of_class(use, other)
            self._check_self(other)
            made += file.values.calls.constructions(other)
        if not made or any(file.flow.is_open(other.node) for other in file.classes if cls in other.lineage()):
            raise Unmovable(f"perfmod did not find where {cls.name} is created")
        return made

    def _check_use_of_class(self, use: Read, cls: ClassFacts) -> None:
        parent = self.file.tree.parent(use)
        if isinstance(parent, cst.Call) and parent.func is use:
            return
        around = self.file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
        if isinstance(around, cst.ClassDef):
            return
        if isinstance(around, cst.Call) and self.file.qualified(around) in ("builtins.super", "builtins.isinstance"):
            return
        raise Unmovable(f"the class {cls.name} itself is passed on on line {self._line(use)}")

    def _check_self(self, cls: ClassFacts) -> None:
        """Raises `Unmovable` where a dataset reads its own samples or hands itself on."""
        for method in (method for each in cls.lineage() for method in each.methods.values()):
            first = next(parameters(method), None)
            if first is None or any(self.file.qualified(d.decorator) == _STATIC for d in method.decorators):
                continue
            definitions = self.file.flow.bound(method, first.name.value)
            for use in (use for definition in definitions for use in self.file.flow.uses(definition)):
                parent = self.file.tree.parent(use)
                around = self.file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
                is_super = isinstance(around, cst.Call) and self.file.qualified(around) == "builtins.super"
                if isinstance(parent, cst.Attribute) and parent.attr.value != "__getitem__":
                    continue
                if not is_super and not (
                    isinstance(around, cst.Call) and self.file.qualified(around) == "builtins.len"
                ):
                    raise Unmovable(f"{cls.name} uses its own samples on line {self._line(use)}")

    def _check_replaced(self) -> None:
        names = set(_REPLACED)
        for call in self.applications:
            if isinstance(call.func, cst.Attribute):
                names.add(call.func.attr.value)
        for target in self.file.tree.all(cst.AssignTarget):
            node = target.target
            is_outside = isinstance(node, cst.Attribute) and self.file.classes.self_attribute(node) is None
            if isinstance(node, cst.Attribute) and is_outside and node.attr.value in names:
                raise Unmovable(f"`{self.file.code(node)}` is replaced on line {self._line(node)}")

    # From datasets to loaders

    def _loaders(self, dataset: cst.BaseExpression) -> Iterator[Loader]:
        """The loaders of a dataset, also through `random_split`, `Subset` and `ConcatDataset`."""
        file = self.file
        stack = [dataset]
        while stack:
            for use in file.handing.uses(stack.pop()):
                parent = file.tree.parent(use.node)
                call = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
                if isinstance(call, cst.Call):
                    name = file.qualified(call) or ""
                    loader = file.loaders.of(call)
                    if loader is not None and not use.path and use.node in loader.values("dataset"):
                        yield loader
                        continue
                    if name in _OF_DATASETS and bool(use.path) == (name in data_api.LISTS_OF_DATASETS):
                        splits = name.endswith(".random_split")
                        stack.extend([part.node for part in self._parts(call)] if splits else [call])
                        continue
                    if not use.path and _only_measures(name):
                        continue
                if not use.path and (_is_test(file, use.node) or self._is_plain_attribute(parent)):
                    continue
                raise Unmovable(f"the dataset is read outside of loaders on line {self._line(use.node)}")

    def _parts(self, split: cst.Call) -> Iterator[Held]:
        """What holds one of the parts of `random_split(...)`."""
        for use in self.file.handing.uses(split, (None,)):
            if use.path:
                raise Unmovable(f"the subsets of the dataset are used together on line {self._line(use.node)}")
            yield use

    def _is_plain_attribute(self, parent: cst.CSTNode | None) -> bool:
        """Whether an attribute of a dataset is one that shows no image, or belongs to a class of the file."""
        if not isinstance(parent, cst.Attribute):
            return False
        if isinstance(self.file.tree.parent(parent), cst.AssignTarget):
            return parent.attr.value in _REPLACEABLE
        if parent.attr.value in _PLAIN_ATTRIBUTES:
            return True
        return self.file.value(parent.value).cls is not None and parent.attr.value != "__getitem__"

    # From loaders to loops

    def _check_loader(self, feed: Feed) -> None:
        """Raises `Unmovable` unless every batch of a loader is of these datasets and drawn by a loop in sight."""
        loader = feed.loader
        if loader.unseen:
            raise Unmovable(loader.unseen)
        line = self._line(loader.call)
        if loader.cls is not None or loader.name != TORCH_LOADER:
            raise Unmovable(f"the loader on line {line} is not a torch.utils.data.DataLoader")
        if any(is_none(size) for size in loader.values("batch_size")):
            raise Unmovable(f"the loader on line {line} has batch_size=None")
        for dataset in loader.values("dataset"):
            self._check_sources(dataset, (), line)
        if any(iteration.by_framework for iteration in loader.iterations):
            raise Unmovable(f"Lightning copies the batches of the loader on line {line} before a step sees them")
        feed.kept = self._check_drawn(loader)
        if not loader.iterations:
            raise Unmovable(f"perfmod found no loop over the loader on line {line}")

    def _collated(self, loader: Loader, path: Path) -> Path:
        """Where a loader's batches hold the images that the samples of its dataset hold at `path`."""
        given = loader.values("collate_fn")
        places = {path} if not given else set[Path]()
        for end in (end for collate in given for end in self.file.tracing.ends(collate)):
            is_default = is_none(end.node) or (self.file.qualified(end.node) or "").endswith(".default_collate")
            place = path if is_default else stacked_at(self.file, end.node, path)
            if place is None or end.path:
                raise Unmovable(f"the collate function on line {self._line(end.node)} does more than stack the images")
            places.add(place)
        if len(places) != 1:
            raise Unmovable(f"the loader on line {self._line(loader.call)} may get one of several collate functions")
        return places.pop()

    def _check_sources(self, dataset: cst.BaseExpression, path: tuple[Step, ...], line: str) -> None:
        for end in self.file.tracing.ends(dataset, path):
            if end.node in self.datasets and not end.path:
                continue
            name = self.file.qualified(end.node) or ""
            if isinstance(end.node, cst.Call) and name in _OF_DATASETS and end.node.args:
                inner: tuple[Step, ...] = (None,) if name in data_api.LISTS_OF_DATASETS else ()
                self._check_sources(end.node.args[0].value, inner, line)
                continue
            if is_none(end.node):
                continue  # a loader of `None` fails
            raise Unmovable(
                f"the loader on line {line} may also read the dataset of line {self._line(end.node)}, which this "
                f"pipeline does not prepare",
                end.node,
            )

    def _check_drawn(self, loader: Loader) -> cst.CSTNode | None:
        """Raises `Unmovable` where a loader, or an iterator over it, goes to other places than the loops in sight.

        Returns what keeps its batches.
        """
        file, kept = self.file, None
        drawing = {iteration.node for iteration in loader.iterations}
        stack: list[cst.BaseExpression] = [loader.call]
        while stack:
            current = stack.pop()
            for use in file.handing.uses(current):
                parent = file.tree.parent(use.node)
                around = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
                if not use.path:
                    if parent in drawing or around in drawing or _is_test(file, use.node):
                        continue
                    if isinstance(around, cst.Call):
                        name = file.qualified(around) or ""
                        if name == "builtins.len":
                            continue
                        if name in HANDS_ON | torch_api.NUMBERS_ITEMS | {"builtins.zip"} or _is_log_every(around):
                            stack.append(around)
                            kept = around if name in _KEEPS_BATCHES else kept
                            continue
                    if isinstance(parent, cst.Attribute):
                        if parent.attr.value == "dataset":
                            self._check_dataset_of_loader(parent)
                            continue
                        of_bar = current is not loader.call or parent.attr.value in _OF_PROGRESS_BARS
                        if of_bar or self._is_plain_attribute(parent):
                            continue
                raise Unmovable(f"perfmod cannot follow how line {self._line(use.node)} uses its loader")
        return kept

    def _check_dataset_of_loader(self, dataset: cst.Attribute) -> None:
        for _ in self._loaders(dataset):
            raise Unmovable(f"another loader is created for the dataset of a loader on line {self._line(dataset)}")

    def _line(self, node: cst.CSTNode) -> str:
        return self.file.line(node)


def _only_measures(name: str) -> bool:
    """Whether a function only asks a dataset for its length, or does not look at it at all."""
    if name in ("builtins.len", "builtins.isinstance", "builtins.type", "builtins.id"):
        return True
    return name.startswith("torch.utils.data.") and name.endswith("Sampler")


def _is_log_every(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "log_every"


def _is_test(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether a value is only compared with `None` or tested for truth."""
    parent = file.tree.parent(node)
    if isinstance(parent, cst.Comparison):
        return all(isinstance(target.operator, (cst.Is, cst.IsNot)) for target in parent.comparisons)
    if isinstance(parent, (cst.BooleanOperation, cst.UnaryOperation)):
        return _is_test(file, parent)
    if isinstance(parent, cst.IfExp):
        return parent.test is node
    return isinstance(parent, (cst.If, cst.While, cst.Assert)) and parent.test is node
