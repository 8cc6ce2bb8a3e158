"""Which expressions are pictures, arrays and tensors of eight bits a channel, so that bytes stand for them."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts

_MODES = ("RGB", "L", "RGBA", "CMYK", "YCbCr", "HSV", "LAB")
_READERS = frozenset({"torchvision.datasets.folder.default_loader", "torchvision.datasets.folder.pil_loader"})
_TENSORS_OF_ARRAYS = frozenset({"torch.from_numpy", "torch.as_tensor", "torch.tensor"})


def is_picture(file: FileFacts, image: cst.BaseExpression) -> bool:
    """Whether an expression is a PIL picture of eight bits a channel, over all its sources."""
    ends = file.tracing.ends(image)
    return bool(ends) and all(not end.path and _makes_picture(file, end.node) for end in ends)


def is_byte_tensor(file: FileFacts, tensor: cst.BaseExpression) -> bool:
    """Whether an expression is a tensor of the type `torch.uint8`, over all its sources."""
    ends = file.tracing.ends(tensor)
    return bool(ends) and all(_makes_byte_tensor(file, end.node) for end in ends)


def _makes_picture(file: FileFacts, node: cst.CSTNode) -> bool:
    if not isinstance(node, cst.Call):
        return False
    name = file.qualified(node) or ""
    if name == "PIL.Image.fromarray" and len(node.args) == 1:
        return _is_byte_array(file, node.args[0].value)
    if name in _READERS:
        return True
    if isinstance(node.func, cst.Attribute) and node.func.attr.value == "convert" and len(node.args) == 1:
        mode = node.args[0].value
        return isinstance(mode, cst.SimpleString) and mode.evaluated_value in _MODES
    return False


def _makes_byte_tensor(file: FileFacts, node: cst.CSTNode) -> bool:
    if not isinstance(node, cst.Call):
        return False
    dtype = argument(node, "dtype")
    if dtype is not None:
        return file.qualified(dtype) == "torch.uint8"
    return file.qualified(node) in _TENSORS_OF_ARRAYS and bool(node.args) and _is_byte_array(file, node.args[0].value)


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
