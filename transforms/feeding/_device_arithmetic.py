"""The module that makes normalised floats of a batch of bytes on the device: its constants, arithmetic and text."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.constants import Constant
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.feeding._pipelines import Pipeline, Scaling, Unmovable
from perfmod.transforms.finding import Change
from perfmod.transforms.source import Source
from perfmod.transforms.style import quoted

NAME = "NormalizeOnDevice"
_INSTANCES = ("normalize", "normalize_images", "normalize_on_device")
_SMALLEST = 2.0**-149
"""The smallest number of float32 above 0."""
_TEXT = '''\
class {name}({nn}.Module):
    """Normalizes a batch of uint8 images on the device."""

    def __init__(self, mean, std):
        super().__init__()
{scale}        self.register_buffer({mean}, {torch}.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer({std}, {torch}.tensor(std).view(-1, 1, 1), persistent=False)

    def forward(self, images):
        return images.float().{scaled}.sub_(self.mean).div_(self.std)
'''
_SCALE = "        # Dividing by the number 255 would round differently on CUDA than ToTensor does.\n"


@frozen
class Arithmetic:
    """What is done to the bytes of all images that move.

    Attributes:
        scaling: how they are scaled.
        mean, std: the values of the constants.
        written: the constants as written in the first pipeline.
    """

    scaling: Scaling
    mean: Constant
    std: Constant
    written: tuple[cst.BaseExpression, cst.BaseExpression]

    @property
    def channels(self) -> int:
        """For how many channels there are constants of their own."""
        return max(len(value) if isinstance(value, tuple) else 1 for value in (self.mean, self.std))

    def definition(self, file: FileFacts, pipeline: Pipeline) -> Change:
        """The class, at the top of the file of a pipeline."""
        source = file.source_of(pipeline.compose)
        at = file.entry.statement(pipeline.compose)
        torch, imports = file.names.spelled("torch", at)
        nn, more = file.names.spelled("torch.nn", at)
        scale, scaled = "", "mul_(1 / 255)"
        if self.scaling is Scaling.DIVISION:
            buffer = f"self.register_buffer({quoted(source, 'scale')}, {torch}.tensor(255.0), persistent=False)"
            scale, scaled = f"{_SCALE}        {buffer}\n", "div_(self.scale)"
        mean, std = quoted(source, "mean"), quoted(source, "std")
        text = _TEXT.format(name=NAME, nn=nn, torch=torch, scale=scale, mean=mean, std=std, scaled=scaled)
        text = text.replace("    ", source.module.default_indent)
        return Change(source.path, (), (*imports, *more), (text,))

    def arguments(self, file: FileFacts, anchor: cst.BaseStatement) -> list[str]:
        """The constants as code next to a statement."""
        values = zip(self.written, (self.mean, self.std), strict=True)
        return [_spelled(file, node, anchor) or _literal(value) for node, value in values]

    def exported(self, file: FileFacts) -> list[str]:
        """The constants as names that another file can import; empty where they are none."""
        names = [node.value for node in self.written if isinstance(node, cst.Name) and _is_module_level(file, node)]
        return names if len(names) == len(self.written) else []


def common(file: FileFacts, pipelines: Sequence[Pipeline]) -> Arithmetic:
    """The arithmetic of all pipelines. Raises `Unmovable` where they differ, or their constants are none."""
    found: list[tuple[Scaling, Constant, Constant]] = []
    for one in pipelines:
        mean, std = _value(file, one.mean), _value(file, one.std)
        deviations = std if isinstance(std, tuple) else (std,)
        if any(isinstance(value, (int, float)) and abs(value) < _SMALLEST for value in deviations):
            raise Unmovable("its std is 0, for which Normalize raises an error")
        found.append((one.scaling, _single(mean), _single(std)))
    if any(other != found[0] for other in found):
        raise Unmovable("pipelines that feed the same loop normalise with different constants, or scale differently")
    return Arithmetic(*found[0], (pipelines[0].mean, pipelines[0].std))


def _value(file: FileFacts, node: cst.BaseExpression) -> Constant:
    """What a constant evaluates to. Raises `Unmovable` where it is none."""
    value = file.constants.value(node)
    if value is None:
        raise Unmovable(f"`{file.code(node)}` is not a constant that the training code can use")
    return value


def _single(value: Constant) -> Constant:
    """One number in a list is for all channels, however many: it broadcasts."""
    return value[0] if isinstance(value, tuple) and len(value) == 1 else value


def _spelled(file: FileFacts, node: cst.BaseExpression, anchor: cst.BaseStatement) -> str:
    """A constant as its author wrote it, there or where its name is bound, if that means the same at `anchor`."""
    made = file.flow.of_name(node)
    is_seen = isinstance(node, cst.Name) and _is_seen(file, node, anchor)
    if (
        not is_seen
        and len(made) == 1
        and isinstance(made[0].scope, cst.FunctionDef)
        and made[0].value is not None
        and not made[0].path
    ):
        return _spelled(file, made[0].value, anchor)
    code = file.whole_code(node)
    names = [name for name in find_all(node, cst.Name) if file.flow.is_read(name)]
    return code if not any(mark in code for mark in "\n#") and all(_is_seen(file, n, anchor) for n in names) else ""


def _is_module_level(file: FileFacts, name: cst.Name) -> bool:
    return all(each.scope is file.tree.module_of(name) for each in file.flow.definitions(name))


def _is_seen(file: FileFacts, name: cst.Name, anchor: cst.BaseStatement) -> bool:
    """Whether a name means at a statement what it means where it stands."""
    definitions, module = file.flow.definitions(name), file.tree.module_of(anchor)
    if any(each.binding is Binding.LOOPED for each in definitions):
        return True
    around = file.tree.function(anchor)
    if around is not None and all(each.scope is around for each in definitions):
        return len(file.flow.bound(around, name.value)) == 1 and file.comes_before(definitions[0].node, anchor)
    if not all(each.scope is module is file.tree.module_of(name) for each in definitions):
        return False
    scope = file.tree.function(anchor)
    if scope is None and any(file.comes_before(anchor, each.node) for each in definitions):
        return False
    while scope is not None:
        if file.flow.bound(scope, name.value):
            return False
        scope = file.tree.function(scope)
    return True


def _literal(value: Constant) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_literal, value))}{',' if len(value) == 1 else ''})"
    return repr(value)


def free_name(sources: Collection[Source], taken: Collection[str]) -> str:
    """A name for the module that none of some files uses yet, other than those that are taken already.

    Raises:
        Unmovable: there is none.
    """
    taken = {*taken, *(node.value for source in sources for node in find_all(source.module, cst.Name))}
    for name in _INSTANCES:
        if name not in taken:
            return name
    raise Unmovable(f"the names {', '.join(_INSTANCES)} are already used in the file")
