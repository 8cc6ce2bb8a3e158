"""Columns that meet rows: what looks as if it were made sample by sample, and pairs each of them with all others."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all

_SHAPES = frozenset({"squeeze", "unsqueeze", "view", "view_as", "reshape", "flatten"})


def may_be_pairs(file: FileFacts, left: cst.BaseExpression, right: cst.BaseExpression) -> bool:
    """Whether a column of one value for each sample may meet a row of them: every sample then meets all others.

    Columns are what layers with one feature and `keepdim=True` give. A change of shape that is written down says that
    it is not so.
    """
    names = [n for side in (left, right) for n in find_all(side, cst.Name) if file.flow.is_variable(n)]
    made = [each.value for name in names for each in file.flow.definitions(name) if each.value is not None]
    called = {method for each in (left, right, *made) for method in _chained(each)}
    if called & _SHAPES:
        return False
    is_narrow = any(
        len(layer.args) > 1 and file.code(layer.args[1].value) == "1"
        for layer in find_all(file.tree.module, cst.Call)
        if file.qualified(layer) in ("torch.nn.Linear", "torch.nn.LazyLinear")
    )
    return is_narrow or any("keepdim" in file.code(each) for each in (left, right, *made))


def _chained(node: cst.CSTNode) -> Iterator[str]:
    """The methods that are called one after the other for a value: `to` and `view` for `y.view(-1, 1).to(device)`."""
    if isinstance(node, cst.Tuple):
        for element in node.elements:
            yield from _chained(element.value)
    elif isinstance(node, cst.Call):
        yield from _chained(node.func)
    elif isinstance(node, cst.Attribute):
        yield node.attr.value
        yield from _chained(node.value)
