"""Which expressions are pictures and arrays of eight bits a channel, so that bytes stand for them."""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition

_MODES = ("RGB", "L", "RGBA", "CMYK", "YCbCr", "HSV", "LAB")
_KEEPS_MODE = frozenset({"resize", "crop", "rotate", "copy"})
_READERS = frozenset({"torchvision.datasets.folder.default_loader", "torchvision.datasets.folder.pil_loader"})


def is_picture(file: FileFacts, image: cst.BaseExpression) -> bool:
    """Whether an expression is a PIL picture of eight bits a channel, over all its sources."""
    ends = file.tracing.ends(image)
    if bool(ends) and all(not end.path and _makes_picture(file, end.node) for end in ends):
        return True
    return isinstance(image, cst.Name) and _is_checked(file, image)


def is_pillow(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether an expression is a PIL picture of any mode, which only a transform makes a tensor of."""
    return isinstance(node, cst.BaseExpression) and (file.qualified(node) == "PIL.Image.open" or is_picture(file, node))


def _is_checked(file: FileFacts, image: cst.Name) -> bool:
    """Whether a statement above makes sure that a variable holds a picture of eight bits a channel.

    That is `if image.mode != "RGB":` with a body that leaves, or that gives the variable a converted picture. It stands
    in a block around `image`, so that control comes to `image` only by way of it, and the variable is not bound anew in
    between. What has a mode is a picture.
    """
    definitions = set(file.flow.definitions(image))
    for line in (image, *file.tree.ancestors(image)):
        if not isinstance(line, cst.BaseStatement):
            continue
        block = file.tree.block(line)
        for test in block[: block.index(line)] if line in block else ():
            asked = _asked_for_mode(test) if isinstance(test, cst.If) and test.orelse is None else None
            if asked is None or asked.value != image.value or not isinstance(test, cst.If):
                continue
            converted = definitions.difference(file.flow.definitions(asked))
            within = all(file.tree.is_within(d.node, test) for d in converted)
            if (
                within
                and (_leaves(test) or _always_binds(file, test, converted))
                and all(d.value is not None and not d.path and is_picture(file, d.value) for d in converted)
            ):
                return True
    return False


def _asked_for_mode(test: cst.If) -> cst.Name | None:
    """The picture of which `if picture.mode != "RGB"` asks whether it is of another mode."""
    condition = test.test
    if not isinstance(condition, cst.Comparison) or len(condition.comparisons) != 1:
        return None
    (target,), mode = condition.comparisons, condition.left
    expected = target.comparator
    if not isinstance(target.operator, cst.NotEqual) or not isinstance(expected, cst.SimpleString):
        return None
    if not isinstance(mode, cst.Attribute) or mode.attr.value != "mode" or expected.evaluated_value not in _MODES:
        return None
    return mode.value if isinstance(mode.value, cst.Name) else None


def _leaves(test: cst.If) -> bool:
    """Whether nothing comes behind an `if` out of its body."""
    last = test.body.body[-1]
    small = last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last
    return isinstance(small, (cst.Raise, cst.Return, cst.Continue, cst.Break))


def _always_binds(file: FileFacts, test: cst.If, definitions: Collection[Definition]) -> bool:
    """Whether the body of an `if` makes one of these definitions in any case."""
    lines = [file.tree.line(file.tree.statement(d.node)) for d in definitions]
    return any(line is test or line in test.body.body for line in lines)


def _makes_picture(file: FileFacts, node: cst.CSTNode) -> bool:
    if not isinstance(node, cst.Call):
        return False
    name = file.qualified(node) or ""
    if name == "PIL.Image.fromarray" and len(node.args) == 1:
        return _is_byte_array(file, node.args[0].value)
    if name == "PIL.Image.fromarray" and (mode := argument(node, "mode", 1)) is not None:
        return isinstance(mode, cst.SimpleString) and mode.evaluated_value in _MODES
    if name in _READERS:
        return True
    if isinstance(node.func, cst.Attribute) and node.func.attr.value in _KEEPS_MODE and file.qualified(node) is None:
        return is_picture(file, node.func.value)
    if isinstance(node.func, cst.Attribute) and node.func.attr.value == "convert" and len(node.args) == 1:
        mode = node.args[0].value
        return isinstance(mode, cst.SimpleString) and mode.evaluated_value in _MODES
    return False


def _is_byte_array(file: FileFacts, array: cst.BaseExpression) -> bool:
    ends = file.tracing.ends(array)
    return bool(ends) and all(_makes_byte_array(file, end.node) for end in ends)


def _makes_byte_array(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether an array is made with the type `uint8`."""
    if not isinstance(node, cst.Call):
        return False
    if isinstance(node.func, cst.Attribute) and node.func.attr.value == "astype":
        return bool(node.args) and _is_uint8(file, node.args[0].value)
    dtype, name = argument(node, "dtype"), file.qualified(node) or ""
    if dtype is not None:
        return _is_uint8(file, dtype)
    given = [arg.value for arg in node.args]
    if name.startswith("numpy.") and any(file.qualified(value) == "numpy.uint8" for value in given):
        return True
    return name in ("numpy.array", "numpy.asarray") and len(given) == 1 and is_picture(file, given[0])


def _is_uint8(file: FileFacts, dtype: cst.BaseExpression) -> bool:
    if isinstance(dtype, cst.SimpleString):
        return dtype.evaluated_value == "uint8"
    return file.qualified(dtype) == "numpy.uint8"
