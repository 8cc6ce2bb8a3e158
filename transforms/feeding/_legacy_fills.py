"""Tensors that are made by an old constructor, filled with zeros or ones, and moved."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.calls import has_star
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.value import DType, Kind
from perfmod.transforms.feeding._births import Birth

_CONSTRUCTORS = {
    "torch.LongTensor": "long", "torch.IntTensor": "int", "torch.ShortTensor": "short", "torch.ByteTensor": "uint8",
    "torch.BoolTensor": "bool", "torch.FloatTensor": "float", "torch.DoubleTensor": "double",
}  # fmt: skip
_FACTORIES = {"0": "zeros", "1": "ones"}


def legacy_fill(file: FileFacts, move: cst.Call) -> Birth | None:
    """`torch.zeros(n, 1, dtype=torch.long)`, where `torch.LongTensor(n, 1).fill_(0)` is moved."""
    assert isinstance(move.func, cst.Attribute)
    fill = move.func.value
    if not isinstance(fill, cst.Call) or not isinstance(fill.func, cst.Attribute) or fill.lpar:
        return None
    given = [file.code(arg.value) for arg in fill.args if arg.keyword is None]
    value = "0" if fill.func.attr.value == "zero_" else given[0] if fill.func.attr.value == "fill_" and given else ""
    made = fill.func.value
    dtype = _CONSTRUCTORS.get(file.qualified(made) or "") if isinstance(made, cst.Call) and not made.lpar else None
    if value not in _FACTORIES or dtype is None or not isinstance(made, cst.Call) or not _takes_sizes(file, made):
        return None
    return Birth(made, _FACTORIES[value], is_random=False, legacy_dtype=dtype)


def _takes_sizes(file: FileFacts, made: cst.Call) -> bool:
    """Whether a constructor is given sizes: several arguments, or one number, and no data."""
    if has_star(made) or any(arg.keyword is not None for arg in made.args) or not isinstance(made.func, cst.Attribute):
        return False
    value = file.value(made.args[0].value) if len(made.args) == 1 else None
    is_size = value is not None and value.kind is Kind.NUMBER and value.dtype is DType.INTEGER
    return len(made.args) > 1 or is_size
