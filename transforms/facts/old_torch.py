"""What code says itself of the torch that it runs with."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import find_all

LAST_WITH_VECTOR_LOSSES = (0, 3)
"""`loss.data[0]` was the way to read a loss until 0.3. It has no dimension since 0.4, and then this fails or warns."""


def loss_read_as_vector(file: FileFacts) -> cst.Subscript | None:
    """The first `loss.data[0]` of a file, where `loss.backward()` stands in it as well."""
    if ".data[0]" not in file.source.text:
        return None
    trained = {
        dotted(call.func.value)
        for call in find_all(file.source.module, cst.Call)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward"
    }
    for node in find_all(file.source.module, cst.Subscript):
        owner = node.value
        if isinstance(owner, cst.Attribute) and owner.attr.value == "data" and dotted(owner.value) in trained - {""}:
            (element, *others) = node.slice
            index = element.slice.value if isinstance(element.slice, cst.Index) else None
            if isinstance(index, cst.Integer) and index.evaluated_value == 0 and not others:
                return node
    return None
