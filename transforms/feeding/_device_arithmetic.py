"""The arithmetic by which a device makes normalised floats of bytes: its constants, its order, its spelling."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.constants import Constant
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.feeding._constant_places import Copy
from perfmod.transforms.feeding._pipelines import Pipeline, Scaling, Unmovable
from perfmod.transforms.feeding._written_out import WrittenOut
from perfmod.transforms.source import Source

_SMALLEST = 2.0**-149
"""The smallest number of float32 above 0."""


@frozen
class Arithmetic:
    """What is done to the bytes of all images that move.

    Attributes:
        scaling: how they are scaled.
        mean, std: the values of the constants.
        written: the constants as written in the first pipeline; empty where they were tensors.
        in_place: whether every operation may write into its operand: not where broadcasting might enlarge it.
    """

    scaling: Scaling
    mean: Constant
    std: Constant
    written: tuple[cst.BaseExpression, ...]
    in_place: bool

    def operations(self, names: Sequence[str]) -> str:
        scale, mean, std = names
        end = "_" if self.in_place else ""
        return f".float().{self.scaling.method}({scale}).sub{end}({mean}).div{end}({std})"

    @property
    def channels_differ(self) -> bool:
        """Whether a constant has a value for each channel."""
        return isinstance(self.mean, tuple) or isinstance(self.std, tuple)

    def definitions(self, file: FileFacts, torch: str, names: Sequence[str], move: Copy) -> str:
        """The lines that make the constants next to the anchor of a copy."""
        codes = [self.scaling.constant]
        for index, value in enumerate((self.mean, self.std)):
            code = _spelled(file, self.written[index], move.anchor) if self.written else ""
            codes.append(code if code and isinstance(value, tuple) else _literal(value))
        device = f", device={move.to.device}" if move.to.device and move.optional is None else ""
        method = "" if device or move.optional is not None else move.to.method
        lines = [f"{name} = {torch}.tensor({code}{device}){method}" for name, code in zip(names, codes, strict=True)]
        for index, value in enumerate((self.mean, self.std), start=1):
            lines[index] += ".view(-1, 1, 1)" if isinstance(value, tuple) else ""
        if move.optional is not None:
            moved = ", ".join(f"{name}{move.to.method}" for name in names)
            indent = file.source_of(move.anchor).module.default_indent
            lines += [f"if {file.code(move.optional.statement.test)}:", f"{indent}{', '.join(names)} = {moved}"]
        return "\n".join(lines)


def common(file: FileFacts, movable: Sequence[Pipeline | WrittenOut]) -> Arithmetic:
    """The arithmetic of all pipelines. Raises `Unmovable` where they differ, or their constants are none."""
    found: list[tuple[Scaling, Constant, Constant]] = []
    for one in movable:
        if isinstance(one, WrittenOut):
            found.append((Scaling.DIVISION, _single(one.mean), _single(one.std)))
        else:
            mean, std = _value(file, one.mean), _value(file, one.std)
            if any(
                isinstance(v, (int, float)) and abs(v) < _SMALLEST for v in (std if isinstance(std, tuple) else (std,))
            ):
                raise Unmovable("its deviation is 0, for which Normalize raises an error")
            found.append((one.scaling, _single(mean), _single(std)))
    if any(other != found[0] for other in found):
        raise Unmovable("pipelines whose images come together normalise with different constants, or scale differently")
    first = movable[0]
    per_channel = any(isinstance(value, tuple) for value in found[0][1:])
    in_place = not per_channel or all(isinstance(one, Pipeline) for one in movable)
    written = (first.mean, first.std) if isinstance(first, Pipeline) else ()
    return Arithmetic(*found[0], written, in_place)


def _value(file: FileFacts, node: cst.BaseExpression) -> Constant:
    """What a constant evaluates to. Raises `Unmovable` where it is none."""
    value = file.constants.value(node)
    if value is None:
        raise Unmovable(f"`{file.code(node)}` is no constant that can be read where the images arrive")
    return value


def _single(value: Constant) -> Constant:
    """One number in a list is for all channels, however many: it broadcasts."""
    return value[0] if isinstance(value, tuple) and len(value) == 1 else value


def _spelled(file: FileFacts, node: cst.BaseExpression, anchor: cst.BaseStatement) -> str:
    """A constant as its author wrote it, where that means the same at `anchor`; else empty."""
    code = file.whole_code(node)
    if "\n" in code or "#" in code:
        return ""
    function = file.tree.function(anchor)
    for name in find_all(node, cst.Name):
        definitions = file.flow.definitions(name)
        if not file.flow.is_read(name) or any(d.binding is Binding.LOOPED for d in definitions):
            continue
        if not all(d.scope is file.tree.module_of(anchor) is file.tree.module_of(name) for d in definitions):
            return ""
        if function is None and any(file.comes_before(anchor, d.node) for d in definitions):
            return ""
        scope = function
        while scope is not None:
            if file.flow.bound(scope, name.value):
                return ""
            scope = file.tree.function(scope)
    return code


def _literal(value: Constant) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_literal, value))}{',' if len(value) == 1 else ''})"
    return repr(value)


def free_names(sources: Collection[Source], taken: Collection[str]) -> list[str]:
    """Names for scale, mean and deviation that none of some files uses yet, other than those that are taken already."""
    taken = {*taken, *(node.value for source in sources for node in find_all(source.module, cst.Name))}
    free: list[str] = []
    for name in ("scale", "mean", "std"):
        while name in taken:
            name = f"image_{name}"
        free.append(name)
    return free
