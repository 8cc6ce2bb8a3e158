"""Transform pipelines that end in `ToTensor, Normalize`, the datasets that run them, and the loaders that read those."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from attrs import define, field, frozen

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.classes import ClassFacts
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, dotted
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.tree import find_all, walk_scope

Path = tuple[int | str, ...]

_TORCHVISION = "torchvision.transforms."
# Datasets of torchvision whose images are pictures of eight bits a channel, at the first place of a sample.
_EIGHT_BIT = frozenset(
    f"torchvision.datasets.{name}"
    for name in (
        "MNIST", "FashionMNIST", "KMNIST", "QMNIST", "EMNIST", "CIFAR10", "CIFAR100", "SVHN", "STL10", "ImageFolder", "ImageNet",
        "CelebA", "Flowers102", "FakeData", "Food101", "OxfordIIITPet", "StanfordCars", "Places365", "GTSRB", "DTD", "FGVCAircraft",
        "Country211", "SUN397", "USPS", "Omniglot", "PCAM", "RenderedSST2", "SEMEION", "Imagenette",
    )
)  # fmt: skip
_TRANSFORM_POSITION = {
    "torchvision.datasets.ImageFolder": 1,
    "torchvision.datasets.FakeData": 3,
    **dict.fromkeys(
        (f"torchvision.datasets.{name}" for name in ("MNIST", "FashionMNIST", "KMNIST", "CIFAR10", "CIFAR100")),
        2,
    ),
}
_FROM_PICTURE = frozenset(
    {"Lambda", "ToPILImage", "PILToTensor", "ConvertImageDtype", "ToTensor", "Normalize", "RandomErasing"}
)


class Unmovable(Exception):
    """Why a normalisation has to stay where it is, in one line."""


@frozen
class Pipeline:
    """`Compose([..., ToTensor(), Normalize(mean, std)])`.

    Attributes:
        compose: the call of `Compose`.
        to_tensor: the list's element that is, or names, `ToTensor()`.
        normalize: the element that is, or names, `Normalize(...)`.
        mean, std: its constants as written.
    """

    compose: cst.Call
    to_tensor: cst.BaseElement
    normalize: cst.BaseElement
    mean: cst.BaseExpression
    std: cst.BaseExpression


@define(eq=False)
class Feed:
    """One loader of normalised images: `paths` lead from a batch to the images in it."""

    loader: Loader
    paths: set[Path] = field(factory=set)


def pipelines(file: FileFacts) -> Iterator[Pipeline | tuple[cst.BaseElement, str]]:
    """Every pipeline with a `Normalize` of torchvision; those of another form with the reason why they cannot be split."""
    for compose in find_all(file.source.module, cst.Call):
        if not (file.qualified(compose) or "").startswith(_TORCHVISION) or not compose.args:
            continue
        if not (file.qualified(compose) or "").endswith(".Compose"):
            continue
        steps = compose.args[0].value
        if not isinstance(steps, (cst.List, cst.Tuple)):
            continue
        made = [_made(file, element.value) for element in steps.elements]
        kinds = [(file.qualified(call) or "").rpartition(".")[2] if call is not None else "" for call in made]
        if "Normalize" not in kinds:
            continue
        at = kinds.index("Normalize")
        normalize, element = made[at], steps.elements[at]
        assert normalize is not None
        if at != len(kinds) - 1:
            yield element, f"{kinds[at + 1] or 'another step'} works on the normalised image"
        elif at == 0 or kinds[at - 1] != "ToTensor":
            yield element, "the step before it is not ToTensor"
        elif (file.qualified(compose) or "").startswith(f"{_TORCHVISION}v2."):
            yield element, "pipelines of torchvision.transforms.v2 are not moved yet"
        elif (
            any(not (file.qualified(call) or "").startswith(_TORCHVISION) for call in made if call is not None)
            or None in made
        ):
            yield (
                element,
                "a step of the pipeline is not torchvision's: what it gives to ToTensor is not known",
            )
        elif _FROM_PICTURE.intersection(kinds[: at - 1]):
            yield element, "ToTensor does not get the picture itself"
        else:
            mean, std = argument(normalize, "mean", 0), argument(normalize, "std", 1)
            if mean is None or std is None:
                yield element, "its mean and std could not be seen"
            else:
                yield Pipeline(compose, steps.elements[at - 1], element, mean, std)


def _made(file: FileFacts, node: cst.BaseExpression) -> cst.Call | None:
    """The constructor behind a step of a pipeline, also through a variable that is assigned once."""
    if isinstance(node, cst.Call):
        return node
    if isinstance(node, cst.Name):
        definitions = file.flow.definitions(node)
        if len(definitions) == 1 and definitions[0].binding is Binding.ASSIGNED and not definitions[0].path:
            value = definitions[0].value
            return value if isinstance(value, cst.Call) else None
    return None


def feeds(file: FileFacts, pipeline: Pipeline) -> list[Feed]:
    """The loaders whose images a pipeline normalises.

    Raises:
        Unmovable: somebody else sees the images, or they are not known to be pictures of eight bits.
    """
    found: dict[cst.Call, Feed] = {}
    for dataset, paths in _datasets(file, pipeline).items():
        for loader in _loaders(file, dataset):
            found.setdefault(loader.call, Feed(loader)).paths.update(paths)
    return list(found.values())


def _datasets(file: FileFacts, pipeline: Pipeline) -> dict[cst.Call, set[Path]]:
    """The constructions of datasets that run the pipeline, and where their samples hold its images."""
    found: dict[cst.Call, set[Path]] = {}
    classes: dict[ClassFacts, set[Path]] = {}
    for use in _pipeline_uses(file, pipeline.compose):
        parent = file.tree.parent(use)
        call = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
        if isinstance(parent, cst.Call) and parent.func is use:
            cls, path = _application(file, parent)
            classes.setdefault(cls, set()).add(path)
        elif isinstance(call, cst.Call) and isinstance(parent, cst.Arg):
            name = file.qualified(call) or ""
            is_transform = argument(call, "transform", _TRANSFORM_POSITION.get(name)) is use
            if name not in _EIGHT_BIT or not is_transform or argument(call, "loader") is not None:
                raise Unmovable(f"it is handed to {dotted(call.func) or 'a call'} on line {_line(file, use)}")
            found[call] = {(0,)}
        elif not _is_test(file, use):
            raise Unmovable(f"the pipeline is used on line {_line(file, use)} in a way that is not followed")
    for cls, paths in classes.items():
        made = file.values.calls.constructions(cls)
        if not made:
            raise Unmovable(f"{cls.name} is made elsewhere")
        for call in made:
            found.setdefault(call, set()).update(paths)
    return found


def _pipeline_uses(file: FileFacts, compose: cst.Call) -> Iterator[cst.BaseExpression]:
    """Uses of a pipeline, also those behind `super().__init__(transform=...)` of torchvision's dataset classes."""
    for use in file.handing.uses(compose):
        parent = file.tree.parent(use)
        call = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
        cls = file.classes.around(use)
        is_super = (
            isinstance(call, cst.Call) and dotted(call.func) == "" and file.source.code(call.func) == "super().__init__"
        )
        if is_super and cls is not None and cls.derives("torchvision.datasets."):
            if isinstance(parent, cst.Arg) and parent.keyword is not None and parent.keyword.value == "transform":
                for read in file.handing.attribute_reads(cls, "transform"):
                    if file.classes.around(read) is cls:
                        yield read
                continue
        yield use


def _application(file: FileFacts, call: cst.Call) -> tuple[ClassFacts, Path]:
    """The dataset class whose `__getitem__` applies a pipeline, and where its samples hold the result."""
    cls, function = file.classes.around(call), file.tree.function(call)
    if cls is None or function is None or function.name.value != "__getitem__" or not cls.is_dataset:
        raise Unmovable(f"it also prepares images outside of datasets, on line {_line(file, call)}")
    if len(call.args) != 1 or not _is_eight_bit(file, call.args[0].value):
        raise Unmovable(f"the image on line {_line(file, call)} is not known to be a picture of eight bits a channel")
    places: set[Path] = set()
    for node in walk_scope(function.body):
        if isinstance(node, cst.Return) and node.value is not None:
            for leaf, path in _leaves(node.value):
                if any(end.node is call for end in file.tracing.ends(leaf)):
                    places.add(path)
    if len(places) != 1 or not _is_only_returned(file, call):
        raise Unmovable(f"{cls.name} does more with the normalised image than to return it")
    return cls, places.pop()


def _is_only_returned(file: FileFacts, call: cst.Call) -> bool:
    """Whether nothing but a `return` (as itself or in a tuple or dictionary) reads the normalised image."""
    for use in file.handing.uses(call):
        parent = file.tree.parent(use)
        if isinstance(parent, (cst.Element, cst.DictElement)):
            parent = file.tree.parent(parent)
            parent = file.tree.parent(parent) if parent is not None else None
        if not isinstance(parent, cst.Return):
            return False
    return True


def _leaves(node: cst.BaseExpression) -> Iterator[tuple[cst.BaseExpression, Path]]:
    if isinstance(node, cst.Tuple):
        for index, element in enumerate(node.elements):
            yield element.value, (index,)
    elif isinstance(node, cst.Dict):
        for entry in node.elements:
            if isinstance(entry, cst.DictElement) and isinstance(entry.key, cst.SimpleString):
                yield entry.value, (str(entry.key.evaluated_value),)
    else:
        yield node, ()


def _is_eight_bit(file: FileFacts, image: cst.BaseExpression) -> bool:
    """Whether an expression is a PIL picture of eight bits a channel, over all its sources."""
    ends = file.tracing.ends(image)
    return bool(ends) and all(not end.path and _makes_eight_bit(file, end.node) for end in ends)


def _makes_eight_bit(file: FileFacts, node: cst.CSTNode) -> bool:
    if not isinstance(node, cst.Call):
        return False
    name = file.qualified(node) or ""
    if name == "PIL.Image.fromarray" and len(node.args) == 1:
        return _is_byte_array(file, node.args[0].value)
    if name in ("torchvision.datasets.folder.default_loader", "torchvision.datasets.folder.pil_loader"):
        return True
    if isinstance(node.func, cst.Attribute) and node.func.attr.value == "convert" and len(node.args) == 1:
        mode = node.args[0].value
        return isinstance(mode, cst.SimpleString) and mode.evaluated_value in ("RGB", "L", "RGBA", "CMYK")
    return False


def _is_byte_array(file: FileFacts, array: cst.BaseExpression) -> bool:
    return all(_is_bytes_end(file, end.node) for end in file.tracing.ends(array))


def _is_bytes_end(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether an array is made with the type `uint8`."""
    if not isinstance(node, cst.Call):
        return False
    given = argument(node, "dtype")
    if given is None and isinstance(node.func, cst.Attribute) and node.func.attr.value == "astype" and node.args:
        given = node.args[0].value
    if given is None:
        return False
    name = file.qualified(given) or ""
    return name == "numpy.uint8" or (isinstance(given, cst.SimpleString) and given.evaluated_value == "uint8")


def _loaders(file: FileFacts, dataset: cst.Call) -> Iterator[Loader]:
    """The loaders of a dataset, also through `random_split`, `Subset` and `ConcatDataset`.

    Raises:
        Unmovable: samples are read elsewhere.
    """
    stack: list[cst.BaseExpression] = [dataset]
    while stack:
        for use in file.handing.uses(stack.pop()):
            parent = file.tree.parent(use)
            call = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
            if _is_test(file, use) or (isinstance(parent, cst.Attribute) and not _is_called(file, parent)):
                continue
            if isinstance(call, cst.Call):
                loader = file.loaders.of(call)
                name = file.qualified(call) or ""
                if loader is not None:
                    _check_loader(file, loader)
                    yield loader
                    continue
                if name.startswith("torch.utils.data.") and name.endswith("Sampler"):
                    continue
                if name in ("builtins.len", "torch.utils.data.distributed.DistributedSampler"):
                    continue
                if name in (
                    "torch.utils.data.random_split",
                    "torch.utils.data.Subset",
                    "torch.utils.data.ConcatDataset",
                ):
                    stack.extend(_parts_of(file, call))
                    continue
            raise Unmovable(f"the dataset is read outside of loaders on line {_line(file, use)}")


def _parts_of(file: FileFacts, call: cst.Call) -> list[cst.BaseExpression]:
    """Reads of the names that `a, b = random_split(...)` binds, or the call itself where it is not unpacked."""
    statement = file.tree.parent(call)
    if not isinstance(statement, cst.Assign) or not isinstance(statement.targets[0].target, (cst.Tuple, cst.List)):
        return [call]
    reads: list[cst.BaseExpression] = []
    for name in find_all(statement.targets[0].target, cst.Name):
        for definition in file.flow.bound(file.tree.scope(name), name.value):
            if definition.node is name:
                reads.extend(file.flow.uses(definition))
    return reads


def _check_loader(file: FileFacts, loader: Loader) -> None:
    """Raises `Unmovable` unless every batch of a loader is drawn by a loop in sight."""
    if loader.values("collate_fn") or loader.unseen:
        raise Unmovable(
            "a collate function sees the normalised images" if loader.values("collate_fn") else loader.unseen
        )
    drawn = {iteration.iterable for iteration in loader.iterations}
    for use in file.handing.uses(loader.call):
        parent = file.tree.parent(use)
        if any(file.tree.is_within(use, iterable) for iterable in drawn):
            continue
        if isinstance(parent, cst.Arg):
            call = file.tree.parent(parent)
            name = file.qualified(call) if isinstance(call, cst.Call) else None
            if name == "builtins.len" or any(file.tree.is_within(iterable, use) for iterable in drawn):
                continue
            if isinstance(call, cst.Call) and _is_drawn(file, call, drawn):
                continue
        if isinstance(parent, cst.Attribute) and parent.attr.value in ("batch_size", "sampler", "drop_last"):
            continue
        if isinstance(parent, cst.Attribute) and parent.attr.value == "dataset":
            around = file.tree.parent(parent)
            length = file.tree.parent(around) if isinstance(around, cst.Arg) else None
            if isinstance(length, cst.Call) and file.qualified(length) == "builtins.len":
                continue
            if isinstance(around, cst.Attribute) and not _is_called(file, around):
                continue
        if _is_test(file, use):
            continue
        raise Unmovable(f"its loader goes where it cannot be followed on line {_line(file, use)}")
    if not drawn:
        raise Unmovable(f"no loop over the loader on line {_line(file, loader.call)} is in sight")


def _is_drawn(file: FileFacts, call: cst.Call, drawn: set[cst.BaseExpression]) -> bool:
    """Whether a wrapper such as `pbar = tqdm(loader)` is what a loop in sight iterates."""
    return any(
        isinstance(iterable, cst.Name)
        and any(d.value is not None and file.tree.is_within(call, d.value) for d in file.flow.definitions(iterable))
        for iterable in drawn
    )


def _is_called(file: FileFacts, attribute: cst.Attribute) -> bool:
    parent = file.tree.parent(attribute)
    return isinstance(parent, cst.Call) and parent.func is attribute


def _is_test(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether a value is only compared with `None` or tested for truth."""
    parent = file.tree.parent(node)
    if isinstance(parent, cst.Comparison):
        return all(isinstance(t.operator, (cst.Is, cst.IsNot)) for t in parent.comparisons)
    return isinstance(parent, (cst.If, cst.While, cst.Assert))


def _line(file: FileFacts, node: cst.CSTNode) -> int:
    return file.source.line(node)
