"""Transform pipelines of torchvision whose last steps scale the bytes of a picture and normalise them."""

from __future__ import annotations

import enum
from collections.abc import Iterator

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.data_api import KEEPS_BYTES, transform_named
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, dotted
from perfmod.transforms.facts.tree import find_all, is_true, walk_scope

_V2 = "torchvision.transforms.v2."
_AROUND_OTHERS = frozenset({"Compose", "RandomApply", "RandomChoice", "RandomOrder"})


class Unmovable(Exception):
    """Why a normalisation has to stay where it is, in one line.

    `others` are what makes the other images that come the same way: if those could move too, all might.
    """

    def __init__(self, reason: str, *others: cst.CSTNode) -> None:
        super().__init__(reason)
        self.others = others


class Scaling(enum.Enum):
    """How bytes come to lie between 0 and 1. Both round, and not to the same numbers."""

    DIVISION = enum.auto()
    """`ToTensor`: a division by 255."""
    PRODUCT = enum.auto()
    """`ToDtype(scale=True)` of torchvision.transforms.v2: a multiplication by the rounded reciprocal."""


@frozen
class Pipeline:
    """`Compose([..., ToTensor(), Normalize(mean, std)])`, or its like of torchvision.transforms.v2.

    Attributes:
        node: where the finding is shown.
        compose: the call that makes the pipeline.
        last: the element of its list behind which all go.
        dropped: the last of those.
        renamed: the call of `ToTensor` that becomes one of `PILToTensor`; `None` where the steps already end in bytes.
        scaling: how the steps that go scale.
        mean, std: the constants as written.
    """

    node: cst.BaseExpression
    compose: cst.Call
    last: cst.BaseElement
    dropped: cst.BaseElement
    renamed: cst.Call | None
    scaling: Scaling
    mean: cst.BaseExpression
    std: cst.BaseExpression


Refusal = tuple[cst.BaseExpression, str]


def pipelines(file: FileFacts) -> Iterator[Pipeline | Refusal]:
    """Every pipeline with a `Normalize`; those that cannot be split with the reason why."""
    calls = [(call, file.qualified(call) or "") for call in find_all(file.source.module, cst.Call)]
    seen: set[cst.Call | None] = set()
    for call, name in calls:
        steps = argument(call, "transforms", 0)
        if transform_named(name) == "Compose" and isinstance(steps, (cst.List, cst.Tuple)):
            found = _split(file, call, list(steps.elements))
            if found is not None:
                yield found
            seen.update(_made(file, element.value) for element in steps.elements)
    for call, name in calls:
        if name == "albumentations.Normalize":
            yield call, "Albumentations' Normalize also scales, with NumPy's rounding"
        elif transform_named(name) == "Normalize" and call not in seen and _is_for_samples(file, call):
            yield call, "the transforms of its pipeline are not written in one list"
        elif not transform_named(name) and _follows_to_tensor(file, call):
            cls = file.values.calls.constructed(call)
            where = f"the project's own class (line {file.line(cls.node)})" if cls is not None else "not torchvision's"
            yield call, f"its Normalize is {where}"


def by_hand(file: FileFacts) -> Iterator[Refusal]:
    """Every place where a dataset of a file normalises its samples itself."""
    functions = [cls.methods.get("__getitem__") for cls in file.classes if cls.is_dataset and file.is_own(cls.node)]
    for function in functions:
        nodes = list(walk_scope(function.body)) if function is not None else []
        for node in nodes:
            name = file.qualified(node) or "" if isinstance(node, cst.Call) else ""
            if name.startswith("torchvision.transforms.") and name.endswith(".functional.normalize"):
                assert isinstance(node, cst.Call)
                yield node, "it is a torchvision function that the dataset calls itself"
        divided = [operand for node in nodes if (operand := _operand(node, cst.Divide, "div")) is not None]
        subtracted = any(_operand(node, cst.Subtract, "sub") is not None for node in nodes)
        if subtracted and len(divided) > 1 and any(_is_255(operand) for operand in divided):
            yield (
                divided[0],
                "the dataset normalises by hand: return uint8 images, and normalise after the copy to the device",
            )


def _operand(node: cst.CSTNode, operator: type[cst.BaseBinaryOp], method: str) -> cst.BaseExpression | None:
    """What an operation, as an operator or as a method, takes on its right."""
    if isinstance(node, cst.BinaryOperation):
        return node.right if isinstance(node.operator, operator) else None
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute) or len(node.args) != 1:
        return None
    return node.args[0].value if node.func.attr.value.removesuffix("_") == method else None


def _is_255(node: cst.BaseExpression) -> bool:
    return isinstance(node, (cst.Integer, cst.Float)) and node.evaluated_value == 255


def _split(file: FileFacts, compose: cst.Call, elements: list[cst.BaseElement]) -> Pipeline | Refusal | None:
    """The pipeline of a `Compose` of these steps; `None` where it does not normalise."""
    made = [_made(file, element.value) for element in elements]
    names = [file.qualified(call) or "" if call is not None else "" for call in made]
    kinds = [transform_named(name) for name in names]
    if "Normalize" not in kinds:
        return None
    at = kinds.index("Normalize")
    node, normalize = elements[at].value, made[at]
    assert normalize is not None
    if at != len(kinds) - 1:
        return node, f"{kinds[at + 1] or 'another transform'} is applied to the normalised image"
    if any(isinstance(element, cst.StarredElement) for element in elements):
        return node, "some transforms of its pipeline are not written out"
    before = made[at - 1] if at else None
    if before is None or kinds[at - 1] not in ("ToTensor", "ToDtype", "ConvertImageDtype"):
        return node, "the transform before it is not ToTensor"
    renamed = before if kinds[at - 1] == "ToTensor" else None
    if renamed is None:
        reason = _not_scaled(file, before, names[at - 1])
        if reason:
            return node, reason
    reason = _not_bytes(file, made[: at - 1], is_picture=renamed is not None)
    if reason:
        return node, reason
    mean, std = argument(normalize, "mean", 0), argument(normalize, "std", 1)
    if mean is None or std is None:
        return node, "its mean and std could not be determined"
    scaling = Scaling.DIVISION if renamed is not None else Scaling.PRODUCT
    last = elements[at - 1] if renamed is not None else elements[at - 2]
    return Pipeline(node, compose, last, elements[at], renamed, scaling, mean, std)


def _not_scaled(file: FileFacts, call: cst.Call, name: str) -> str:
    """Why a conversion of bytes to floats is not the one that scales to float32; empty where it is."""
    is_v2 = name.startswith(_V2)
    if not is_v2:
        return "ConvertImageDtype of torchvision.transforms (v1) is not supported"
    dtype = argument(call, "dtype", 0)
    scale = argument(call, "scale", 1)
    default = dtype is None and name.endswith(".ConvertImageDtype")
    if not default and (dtype is None or file.qualified(dtype) not in ("torch.float32", "torch.float")):
        return "the transform before it does not convert to torch.float32"
    if name.endswith(".ToDtype") and not is_true(scale):
        return "the transform before it does not scale"
    return ""


def _not_bytes(file: FileFacts, steps: list[cst.Call | None], *, is_picture: bool) -> str:
    """Why the steps before the scaling may not give bytes; empty where they do.

    `is_picture` says that they work on pictures to their end; else one of them makes a tensor of the picture.
    """
    for call in steps:
        name = file.qualified(call) or "" if call is not None else ""
        kind = transform_named(name)
        if kind in ("ToImage", "PILToTensor") and not is_picture:
            is_picture = True
        elif kind == "ToDtype" and call is not None:
            dtype = argument(call, "dtype", 0)
            if dtype is None or file.qualified(dtype) != "torch.uint8":
                return "the image is converted more than once"
        elif kind in _AROUND_OTHERS and call is not None:
            inner = argument(call, "transforms", 0)
            if not isinstance(inner, (cst.List, cst.Tuple)):
                return f"the transforms inside {kind} are not written out"
            reason = _not_bytes(file, [_made(file, element.value) for element in inner.elements], is_picture=True)
            if reason:
                return reason
        elif kind not in KEEPS_BYTES:
            what = f"{kind} before it" if kind else "a transform before it that is not torchvision's"
            return f"{what} may return something else than images with 8 bits per channel"
    return "" if is_picture else "the image is not converted to a uint8 tensor before it is scaled"


def _follows_to_tensor(file: FileFacts, call: cst.Call) -> bool:
    """Whether `Normalize(...)` stands behind `ToTensor()` in a list of steps, whoever wrote those classes."""
    element = file.tree.parent(call)
    if not isinstance(element, cst.Element):
        return False
    steps = file.tree.parent(element)
    if dotted(call.func).rpartition(".")[2] != "Normalize" or not isinstance(steps, (cst.List, cst.Tuple)):
        return False
    at = list(steps.elements).index(element)
    before = _made(file, steps.elements[at - 1].value) if at else None
    return before is not None and dotted(before.func).rpartition(".")[2] == "ToTensor"


def _made(file: FileFacts, node: cst.BaseExpression) -> cst.Call | None:
    """The constructor behind a step of a pipeline, also through a variable that is assigned once."""
    if isinstance(node, cst.Call):
        return node
    if file.flow.is_variable(node):
        definitions = file.flow.definitions(node)
        if len(definitions) == 1 and definitions[0].binding is Binding.ASSIGNED and not definitions[0].path:
            value = definitions[0].value
            return value if isinstance(value, cst.Call) else None
    return None


def _is_for_samples(file: FileFacts, normalize: cst.Call) -> bool:
    """Whether a `Normalize` outside of a pipeline is put into one, or applied by a dataset, rather than by a step."""
    for use in file.handing.uses(normalize):
        parent = file.tree.parent(use.node)
        if isinstance(parent, cst.Arg) or use.path:
            return True
        cls = file.classes.around(use.node)
        if isinstance(parent, cst.Call) and parent.func is use.node and cls is not None and cls.is_dataset:
            return True
    return False
